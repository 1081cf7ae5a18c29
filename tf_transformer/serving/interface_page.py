"""The interface of the server for its callers: `GET /openapi.json` and, as a page, `GET /docs`.

The packages that draw OpenAPI documents (Swagger UI, Redoc, Scalar) need inline styles, which the
Content-Security-Policy of the server does not allow. The page needs no script.
"""

import html
import http
import json
import shlex
import string
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tf_transformer.serving.api_keys import ENVIRONMENT_VARIABLE
from tf_transformer.serving.openapi import Described, openapi_document
from tf_transformer.serving.page import HEADERS, PAGE
from tf_transformer.serving.serve_config import ServeConfig

LOADING = "the model is being loaded"
INTRODUCTION = (
    "The server has the REST interface of TensorFlow Serving. The body of an error is JSON, "
    '{"error": "message"}.'
)
KEY_INTRODUCTION = (
    " Requests below /v1 need an API key: put it into the environment variable "
    f"{ENVIRONMENT_VARIABLE} to run the examples."
)


def interface_routes(
    models: Callable[[], Mapping[str, Described]],
    settings: ServeConfig,
    labels: Mapping[str, Collection[str]],
) -> list[Route]:
    """Returns the routes `GET /openapi.json` and `GET /docs`. They need no API key.

    Args:
      models: returns the models that are loaded, by name. Without one, the status is 503.
      settings: a `ServeConfig`.
      labels: of the versions of a model, by its name.
    """
    template = string.Template((PAGE / "docs.html").read_text("utf-8"))
    style = (PAGE / "docs.css").read_text("utf-8")

    def document(request: Request) -> dict[str, Any] | None:
        address = str(request.base_url).rstrip("/")
        loaded = models()
        return openapi_document(loaded, settings, address, labels) if loaded else None

    def get_document(request: Request) -> Response:
        content = document(request)
        if content is None:
            return _response(json.dumps({"error": LOADING}), "application/json", 503)
        return _response(json.dumps(content, ensure_ascii=False), "application/json")

    def get_page(request: Request) -> Response:
        content = document(request)
        if content is None:
            return _response(LOADING, "text/plain", 503)
        return _response(template.substitute(describe(content)), "text/html")

    def get_style(request: Request) -> Response:
        return _response(style, "text/css")

    return [
        Route("/openapi.json", get_document),
        Route("/docs", get_page),
        Route("/docs.css", get_style),
    ]


def describe(document: dict[str, Any]) -> dict[str, str]:
    """Returns the parts of the page, in HTML.

    Args:
      document: of `openapi_document`.
    """
    groups: dict[str, list[str]] = {}
    described: set[str] = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            article = _article(document, method, path, operation, described)
            groups.setdefault(operation["tags"][0], []).append(article)
    names = [name for name in groups if name != "server"]
    introduction = INTRODUCTION
    if "securitySchemes" in document["components"]:
        introduction += KEY_INTRODUCTION
    return {
        "names": html.escape(", ".join(names)),
        "introduction": html.escape(introduction),
        "content": "\n".join(
            f"<h2>{html.escape(title)}</h2>\n" + "\n".join(articles)
            for title, articles in groups.items()
        ),
    }


def _article(
    document: dict[str, Any],
    method: str,
    path: str,
    operation: dict[str, Any],
    described: set[str],
) -> str:
    """Describes an operation.

    Args:
      described: the requests that the page has described already, by the names of their schemas.
    """
    parts = [
        f'<article id="{html.escape(operation["operationId"])}">',
        f'<h3><code><span class="method">{method.upper()}</span> {html.escape(path)}</code></h3>',
        f"<p>{html.escape(operation['summary'])}. "
        f"{html.escape(operation.get('description', ''))}</p>",
    ]
    for parameter in operation.get("parameters", []):
        name, meaning = html.escape(parameter["name"]), html.escape(parameter["description"])
        parts.append(f"<p><code>{name}</code>: {meaning}</p>")
    ((media_type, success),) = operation["responses"]["200"]["content"].items()
    if "requestBody" in operation:
        requests = operation["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
        for i, (request, response) in enumerate(zip(requests, success["schema"]["anyOf"])):
            if i and request["$ref"] in described:
                continue  # shown for the newest version
            described.add(request["$ref"])
            schema = _resolve(document, request)
            command = curl(document, method, path, operation, schema["examples"][0])
            parts += [
                f"<details{'' if i else ' open'}><summary>{html.escape(schema['title'])}</summary>",
                _pre(command, "command"),
                _optional_inputs(document, schema),
                _pre(outline(document, response)),
                "</details>",
            ]
    else:
        parts.append(_pre(curl(document, method, path, operation), "command"))
        if media_type == "application/json":
            parts.append(_pre(outline(document, success["schema"])))
    return "\n".join([*parts, _errors(document, operation), "</article>"])


def _optional_inputs(document: dict[str, Any], request: dict[str, Any]) -> str:
    """A list of the inputs that a request may leave out; "" where there are none."""
    (inputs,) = (value for key, value in request["properties"].items() if key != "signature_name")
    named = inputs.get("items", inputs)  # in rows, or in columns
    rows = []
    for name in named.get("properties", {}).keys() - named.get("required", []):
        value = named["properties"][name]
        value = value.get("items", value)
        default = html.escape(json.dumps(value["default"], ensure_ascii=False))
        kind = html.escape(outline(document, value))
        rows.append(f"<li><code>{html.escape(name)}</code>: {kind}, default {default}</li>")
    return f"<p>May be left out:</p><ul>{''.join(sorted(rows))}</ul>" if rows else ""


def curl(
    document: dict[str, Any],
    method: str,
    path: str,
    operation: dict[str, Any],
    body: dict[str, Any] | None = None,
) -> str:
    """Returns a command that sends a request, with the examples of its parameters."""
    for parameter in operation.get("parameters", []):
        example = quote(str(parameter["example"]), safe="")
        path = path.replace(f"{{{parameter['name']}}}", example)
    lines = [f"curl {shlex.quote(document['servers'][0]['url'] + path)}"]
    if operation.get("security"):
        lines.append(f'-H "Authorization: Bearer ${ENVIRONMENT_VARIABLE}"')
    if body is not None:
        lines.append(f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}")
    return " \\\n  ".join(lines)


def outline(document: dict[str, Any], schema: dict[str, Any], indent: str = "") -> str:
    """Returns a short form of a schema, such as `{"predictions": [string, ...]}`.

    Of several alternatives, it shows the first one.
    """
    schema = _resolve(document, schema)
    if "anyOf" in schema:
        return outline(document, schema["anyOf"][0], indent)
    if "enum" in schema:
        return " or ".join(json.dumps(value) for value in schema["enum"])
    kind = schema.get("type", "any value")
    if kind == "object" and "properties" in schema:
        inner = indent + "  "
        lines = [
            f"{inner}{json.dumps(name)}: {outline(document, value, inner)}"
            for name, value in schema["properties"].items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if kind == "array":
        item = outline(document, schema["items"], indent)
        return f"[{item} × {schema['maxItems']}]" if "maxItems" in schema else f"[{item}, ...]"
    return " or ".join(kind) if isinstance(kind, list) else kind


def _errors(document: dict[str, Any], operation: dict[str, Any]) -> str:
    """A table of the responses that are not a success; "" where there are none."""
    rows = []
    for status, response in operation["responses"].items():
        if status != "200":
            meaning = _resolve(document, response)["description"]
            phrase = html.escape(f"{status} {http.HTTPStatus(int(status)).phrase}")
            rows.append(f"<tr><th>{phrase}</th><td>{html.escape(meaning)}</td></tr>")
    if not rows:
        return ""
    table = f'<table class="errors">{"".join(rows)}</table>'
    return f"<details><summary>Errors</summary>{table}</details>"


def _resolve(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Follows a reference inside the document."""
    if "$ref" not in schema:
        return schema
    found: Any = document
    for key in schema["$ref"].removeprefix("#/").split("/"):
        found = found[key]
    return found


def _pre(text: str, style: str = "") -> str:
    attribute = f' class="{style}"' if style else ""
    return f"<pre{attribute}>{html.escape(text)}</pre>"


def _response(content: str, media_type: str, status: int = 200) -> Response:
    headers = {**HEADERS, "Retry-After": "1"} if status == 503 else HEADERS
    return Response(content, status, media_type=media_type, headers=headers)
