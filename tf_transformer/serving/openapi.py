"""The OpenAPI 3.1 document of the server's interface, made from the signatures of its models."""

import http
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

import tf_transformer
from tf_transformer.export.versions import MAX_VERSION
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.signature_schemas import TEXT, Schema, column_exchange, row_exchange

Operation = dict[str, Any]


class Described(Protocol):
    """A loaded version of a model, as far as the document needs it.

    Attributes:
      version: a number.
      metadata: name of a signature -> its `SignatureDef` as a dict.
    """

    version: int
    metadata: dict[str, dict[str, Any]]


ERRORS = {
    400: "The request is malformed.",
    401: "The request has no valid API key.",
    404: "The server does not serve this model or this version.",
    408: "The request was not received in time.",
    413: "The request is too large.",
    415: "The content encoding is neither gzip nor identity.",
    429: "Too many requests: wait as long as the header Retry-After says.",
    500: "Internal error. The log of the server has it with the X-Request-Id of the response.",
    503: "The model is being loaded, or the server is overloaded or shutting down: try again.",
    504: "The response was not computed in time.",
}
READ_ERRORS = (400, 401, 404, 429, 500, 503)  # of requests without a body
WITH_RETRY_AFTER = (429, 503)
VERSION = {
    "name": "version",
    "in": "path",
    "required": True,
    "description": "Number of the version.",
    "schema": {"type": "integer", "minimum": 0, "maximum": MAX_VERSION},
}
LABEL = {
    "name": "label",
    "in": "path",
    "required": True,
    "description": "Label of a version.",
}
REQUEST_ID = {"schema": {"type": "string"}, "description": "That of the request, or a new one."}
RETRY_AFTER = {"schema": {"type": "integer", "minimum": 1}, "description": "Seconds to wait."}
STATUS_SCHEMA = {
    "type": "object",
    "required": ["model_version_status"],
    "properties": {
        "model_version_status": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["version", "state", "status"],
                "properties": {
                    "version": {"type": "string", "pattern": "^[0-9]+$"},
                    "state": {"enum": ["START", "LOADING", "AVAILABLE", "UNLOADING", "END"]},
                    "status": {
                        "type": "object",
                        "required": ["error_code", "error_message"],
                        "properties": {
                            "error_code": {"type": "string"},
                            "error_message": {"type": "string"},
                        },
                    },
                },
            },
        }
    },
}
METADATA_SCHEMA = {
    "type": "object",
    "required": ["model_spec", "metadata"],
    "properties": {
        "model_spec": {
            "type": "object",
            "required": ["name", "signature_name", "version"],
            "properties": {
                "name": {"type": "string"},
                "signature_name": {"type": "string"},
                "version": {"type": "string"},
            },
        },
        "metadata": {"type": "object", "required": ["signature_def"]},
    },
}
HEALTH_SCHEMA = {
    "type": "object",
    "required": ["status"],
    "properties": {"status": {"type": "string"}},
}


def openapi_document(
    models: Mapping[str, Described],
    settings: ServeConfig,
    address: str,
    labels: Mapping[str, Collection[str]],
) -> dict[str, Any]:
    """Returns the document, which JSON can hold.

    Args:
      models: the models that are loaded, by name.
      settings: a `ServeConfig`: API keys, and a rate limit.
      address: URL of the server.
      labels: of the versions of a model, by its name.
    """
    components = _components(settings)
    paths: dict[str, Any] = {}
    for name, model in models.items():
        exchanges = _add_schemas(name, model, components["schemas"])
        paths |= _model_paths(name, model.version, labels.get(name, ()), exchanges)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "tf-transformer server",
            "version": tf_transformer.__version__,
            "description": "The REST interface of TensorFlow Serving.",
        },
        "servers": [{"url": address}],
        "paths": paths | _server_paths(),
        "components": components,
    }
    unused = set()
    if settings.api_key_file:
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        for path in paths.values():
            for operation in path.values():
                operation["security"] = [{"bearer": []}, {"header": []}]
    else:
        unused.add(401)
    if not settings.rate_limit and not settings.rate_limit_tokens:
        unused.add(429)
    _remove_errors(document, unused)
    return document


def _remove_errors(document: dict[str, Any], statuses: Iterable[int]) -> None:
    """Removes responses that a server with these settings does not send."""
    for status in statuses:
        del document["components"]["responses"][_error_name(status)]
        for path in document["paths"].values():
            for operation in path.values():
                operation["responses"].pop(str(status), None)


def _components(settings: ServeConfig) -> dict[str, Any]:
    """The schemas that all models have, and the error responses."""
    error = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
    responses = {}
    for status, meaning in ERRORS.items():
        headers: dict[str, Any] = {"X-Request-Id": REQUEST_ID}
        if status in WITH_RETRY_AFTER:
            headers["Retry-After"] = RETRY_AFTER
        if status == 401:
            headers["WWW-Authenticate"] = {"schema": {"const": "Bearer"}}
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        responses[_error_name(status)] = {
            "description": meaning,
            "headers": headers,
            "content": content,
        }
    schemas = {
        "Error": error,
        "Health": HEALTH_SCHEMA,
        "Metadata": METADATA_SCHEMA,
        "Status": STATUS_SCHEMA,
        "Text": {**TEXT, "description": 'A string, or {"b64": ...} with its bytes in base64.'},
    }
    return {"schemas": schemas, "responses": responses}


def _add_schemas(
    name: str, model: Described, schemas: dict[str, Schema]
) -> tuple[list[Schema], list[Schema]]:
    """Adds the schemas of the signatures of a model.

    Returns: references to the schemas of the requests, and to those of their responses.
    """
    requests, responses = [], []
    for signature, description in sorted(model.metadata.items(), key=_default_first):
        for exchange in (row_exchange, column_exchange):
            title, request, response = exchange(signature, description)
            key = f"{name}.{re.sub(r'[^A-Za-z0-9]+', '_', title)}"
            schemas[f"{key}.request"] = {"title": title, **request}
            schemas[f"{key}.response"] = {"title": title, **response}
            requests.append(_reference(f"{key}.request"))
            responses.append(_reference(f"{key}.response"))
    return requests, responses


def _model_paths(
    name: str,
    version: int,
    labels: Collection[str],
    exchanges: tuple[list[Schema], list[Schema]],
) -> dict[str, dict[str, Operation]]:
    """The paths of a model, those of each of its versions, and those of its labels."""
    requests, responses = exchanges
    parameters: dict[str, dict[str, Any]] = {"version": {**VERSION, "example": version}}
    if labels:
        schema = {"type": "string", "enum": sorted(labels)}
        parameters["label"] = {**LABEL, "schema": schema, "example": min(labels)}
    paths = {}
    for part in ("", *parameters):
        path = f"/v1/models/{name}" + (f"/{part}s/{{{part}}}" if part else "")
        suffix = f"{name}_{part}" if part else name
        of = {"": "of", "version": "of a version of", "label": "of a labelled version of"}[part]
        of = f"{of} {name}"
        common = {"tags": [name], "parameters": [parameters[part]] if part else []}
        predict = {
            **common,
            "operationId": f"predict_{suffix}",
            "summary": f"Predictions {of}",
            "description": (
                "A request in rows has a response in rows; a request in columns has one in columns."
            ),
            "requestBody": {"required": True, "content": _json({"anyOf": requests})},
            "responses": _responses("Predictions.", {"anyOf": responses}, ERRORS),
        }
        status = {
            **common,
            "operationId": f"status_{suffix}",
            "summary": f"Status {of}",
            "responses": _responses("Status.", _reference("Status"), READ_ERRORS),
        }
        metadata = {
            **common,
            "operationId": f"metadata_{suffix}",
            "summary": f"Signatures {of}",
            "responses": _responses("Signatures.", _reference("Metadata"), READ_ERRORS),
        }
        paths[f"{path}:predict"] = {"post": predict}
        paths[path] = {"get": status}
        paths[f"{path}/metadata"] = {"get": metadata}
    return paths


def _server_paths() -> dict[str, dict[str, Operation]]:
    """The paths that do not belong to a model."""
    health = {"description": "The state.", "content": _json(_reference("Health"))}
    metrics = {"text/plain": {"schema": {"type": "string"}}}
    return {
        "/healthz/live": {
            "get": _server_operation("live", "Whether the process answers", {"200": health})
        },
        "/healthz/ready": {
            "get": _server_operation(
                "ready",
                "Whether requests can be computed",
                {"200": health, "503": {**health, "headers": {"Retry-After": RETRY_AFTER}}},
            )
        },
        "/metrics": {
            "get": _server_operation(
                "metrics",
                "Metrics for Prometheus",
                {"200": {"description": "Metrics.", "content": metrics}},
            )
        },
    }


def _server_operation(name: str, summary: str, responses: dict[str, Any]) -> Operation:
    return {"tags": ["server"], "operationId": name, "summary": summary, "responses": responses}


def _responses(meaning: str, schema: Schema, errors: Iterable[int]) -> dict[str, Any]:
    """The responses of an operation, by their status."""
    success = {
        "description": meaning,
        "headers": {"X-Request-Id": REQUEST_ID},
        "content": _json(schema),
    }
    references = {
        str(status): {"$ref": f"#/components/responses/{_error_name(status)}"} for status in errors
    }
    return {"200": success, **references}


def _default_first(item: tuple[str, Any]) -> tuple[bool, str]:
    return item[0] != "serving_default", item[0]


def _error_name(status: int) -> str:
    return http.HTTPStatus(status).phrase.replace(" ", "")


def _reference(schema: str) -> Schema:
    return {"$ref": f"#/components/schemas/{schema}"}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
