"""The OpenAPI document, compared with the responses of a server, and its page."""

import dataclasses
import html
import re
import shlex
import shutil
import time

import jsonschema
import openapi_spec_validator
import pytest
from starlette.testclient import TestClient

from tf_transformer.serving.interface_page import curl, outline
from tf_transformer.serving.model_source import one_model
from tf_transformer.serving.openapi import openapi_document
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.server import Server

KEY = "k" * 16


@pytest.fixture(scope="module")
def web(cold_export, tmp_path_factory):
    """An HTTP client of a server with API keys."""
    folder = tmp_path_factory.mktemp("versions")
    shutil.copytree(cold_export, folder / "1")
    key_file = folder / "keys"
    key_file.write_text(f"alice {KEY}")
    key_file.chmod(0o600)
    settings = ServeConfig(max_rows=2, api_key_file=str(key_file), rate_limit=1e6, rate_burst=10**6)
    headers = {"Authorization": f"Bearer {KEY}"}
    (source,) = one_model(str(folder), "anna")
    sources = [dataclasses.replace(source, labels={"in use": 1})]
    app = Server(sources, settings).app
    with TestClient(app, "http://anna.example:8501", headers=headers) as client:
        while client.get("/healthz/ready").status_code != 200:
            time.sleep(0.05)
        yield client


@pytest.fixture(scope="module")
def document(web):
    response = web.get("/openapi.json")
    assert response.headers["content-type"] == "application/json"
    return response.json()


def resolve(document, schema):
    """Follows a reference in a document."""
    while "$ref" in schema:
        found = document
        for key in schema["$ref"].removeprefix("#/").split("/"):
            found = found[key]
        schema = found
    return schema


def check(document, schema, content):
    """Checks JSON against a schema of the document."""
    root = {"$ref": "#/schema", "schema": schema, "components": document["components"]}
    jsonschema.Draft202012Validator(root).validate(content)


def check_response(document, path, response):
    """Checks status, headers and body of a response; returns its status."""
    (operation,) = document["paths"][path].values()
    described = resolve(document, operation["responses"][str(response.status_code)])
    for name, header in described.get("headers", {}).items():
        value = response.headers[name]
        is_number = header["schema"].get("type") == "integer"
        jsonschema.validate(int(value) if is_number else value, header["schema"])
    ((media_type, content),) = described["content"].items()
    assert response.headers["content-type"].split(";")[0] == media_type
    check(document, content["schema"], response.json() if "json" in media_type else response.text)
    return response.status_code


def test_the_document_is_valid(document):
    openapi_spec_validator.validate(document)
    assert document["openapi"] == "3.1.0"
    assert document["servers"] == [{"url": "http://anna.example:8501"}]
    ids = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    ]
    assert len(set(ids)) == len(ids) == 12


def exchanges(document):
    """The requests and responses of all signatures."""
    operation = document["paths"]["/v1/models/anna:predict"]["post"]
    requests = operation["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    responses = operation["responses"]["200"]["content"]["application/json"]["schema"]["anyOf"]
    return [
        (resolve(document, request), resolve(document, response))
        for request, response in zip(requests, responses, strict=True)
    ]


def test_all_signatures(web, document):
    signatures = {"serving_default", "nbest", "score", "alignments", "count_tokens"}
    signatures |= {"translate_with_options", "sample", "alternatives"}
    formats = {f"{name}, {form}" for name in signatures for form in ("rows", "columns")}
    assert {request["title"] for request, _ in exchanges(document)} == formats
    for end in ("", "/versions/1", "/labels/in%20use"):
        path = f"/v1/models/anna{end}:predict"
        template = path.replace("/1", "/{version}").replace("in%20use", "{label}")
        for request, response in exchanges(document):
            assert request["title"] == response["title"]
            for body in request["examples"]:
                check(document, request, body)
                answer = web.post(path, json=body)
                assert check_response(document, template, answer) == 200
                check(document, response, answer.json())  # and not that of another signature


def test_requests_in_their_forms(web, document):
    """What a schema allows is computed, and what it does not allow is refused."""
    request = resolve(document, exchanges(document)[0][0])
    assert request["title"] == "serving_default, rows"
    encoded = {"b64": "QW5uYQ=="}
    for instances in (["a", encoded], [{"text": "a"}, {"text": encoded}], [""]):
        for body in ({"instances": instances}, {"signature_name": "", "instances": instances}):
            check(document, request, body)
            assert web.post("/v1/models/anna:predict", json=body).status_code == 200
    for instances in ([], "a", [7], [{"text": "a"}, "b"], [{"test": "a"}], [{"b64": 7}]):
        body = {"instances": instances}
        with pytest.raises(jsonschema.ValidationError):
            check(document, request, body)
        assert web.post("/v1/models/anna:predict", json=body).status_code == 400


def test_other_paths(web, document):
    for path in document["paths"]:
        if not path.endswith(":predict"):
            response = web.get(path.replace("{version}", "1").replace("{label}", "in%20use"))
            assert check_response(document, path, response) == 200


def test_errors(web, document):
    path = "/v1/models/anna:predict"
    other = "/v1/models/anna/versions/{version}:predict"
    body = {"instances": ["a"]}
    without_key = {"Authorization": ""}
    gzip = {"Content-Encoding": "br"}
    assert check_response(document, path, web.post(path, json={})) == 400
    assert check_response(document, path, web.post(path, json=body, headers=without_key)) == 401
    assert check_response(document, other, web.post(other.format(version=7), json=body)) == 404
    assert check_response(document, path, web.post(path, json={"instances": ["a"] * 3})) == 413
    assert check_response(document, path, web.post(path, json=body, headers=gzip)) == 415
    status = "/v1/models/anna/versions/{version}"
    assert check_response(document, status, web.get(status.format(version=7))) == 404
    assert check_response(document, status, web.get(status.format(version=2**64))) == 400


def test_a_server_that_does_not_compute(tmp_path, document):
    """Its model is not loaded, or its client sends too many requests."""
    settings = ServeConfig(rate_limit=0.1, rate_burst=1)
    web = TestClient(Server(one_model(str(tmp_path), "anna"), settings).app)
    path = "/v1/models/anna:predict"
    for status in (503, 429):
        assert check_response(document, path, web.post(path, json={"instances": ["a"]})) == status
    assert check_response(document, "/healthz/ready", web.get("/healthz/ready")) == 503
    for path in ("/openapi.json", "/docs"):
        response = web.get(path)
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert "the model is being loaded" in response.text


def test_labels():
    models = {name: Model(ids=("DT_INT32", -1)) for name in ("a", "b")}
    labels = {"a": {"stable": 1, "next version": 3}, "b": {}}
    document = openapi_document(models, ServeConfig(), "x", labels)
    openapi_spec_validator.validate(document)
    path = "/v1/models/a/labels/{label}"
    assert {path, f"{path}:predict", f"{path}/metadata"} <= set(document["paths"])
    assert not [path for path in document["paths"] if path.startswith("/v1/models/b/labels")]
    (operation,) = document["paths"][path].values()
    (parameter,) = operation["parameters"]
    assert parameter["schema"]["enum"] == ["next version", "stable"]
    command = curl(document, "get", path, operation)
    assert shlex.split(command)[-1] == "x/v1/models/a/labels/next%20version"


class Model:
    """A model with one signature, whose output has each kind of value."""

    version = 7

    def __init__(self, **outputs):
        described = {name: tensor(*output) for name, output in outputs.items()}
        inputs = {"text": tensor("DT_STRING", -1)}
        self.metadata = {"serving_default": {"inputs": inputs, "outputs": described}}


def tensor(dtype, *sizes):
    dims = [{"size": str(size), "name": ""} for size in sizes]
    return {"dtype": dtype, "tensor_shape": {"dim": dims, "unknown_rank": False}}


def test_types_and_shapes_of_outputs():
    model = Model(
        flags=("DT_BOOL", -1),
        ids=("DT_INT64", -1, -1),
        pair=("DT_FLOAT", -1, 2),
        raw_bytes=("DT_STRING", -1),
    )
    document = openapi_document(
        {"a": model, "b": Model(ids=("DT_INT32", -1))}, ServeConfig(), "x", {}
    )
    openapi_spec_validator.validate(document)
    schemas = document["components"]["schemas"]
    row = {"flags": True, "ids": [1, 2], "pair": [0.5, None], "raw_bytes": {"b64": ""}}
    rows, columns = (schemas[f"a.serving_default_{form}.response"] for form in ("rows", "columns"))
    check(document, rows, {"predictions": [row, row]})
    check(document, columns, {"outputs": {name: [value] for name, value in row.items()}})
    wrong = [("flags", 1), ("ids", [0.5]), ("pair", [0.5]), ("pair", [0.5] * 3), ("raw_bytes", "")]
    for name, value in wrong:
        with pytest.raises(jsonschema.ValidationError):
            check(document, rows, {"predictions": [{**row, name: value}]})
    # One output has no name.
    check(document, schemas["b.serving_default_rows.response"], {"predictions": [7]})
    check(document, schemas["b.serving_default_columns.response"], {"outputs": [7]})
    assert outline(document, rows) == (
        '{\n  "predictions": [{\n    "flags": boolean,\n    "ids": [integer, ...],\n'
        '    "pair": [number or null × 2],\n    "raw_bytes": {\n      "b64": string\n    }\n'
        "  }, ...]\n}"
    )
    # Without keys and limits, there are no errors of them.
    assert "securitySchemes" not in document["components"]
    for path in document["paths"].values():
        for operation in path.values():
            assert not {"401", "429"} & set(operation["responses"])
            assert "security" not in operation


def commands(page):
    """The examples of the page, as lists of words."""
    texts = re.findall(r'<pre class="command">(.*?)</pre>', page, re.S)
    return [shlex.split(html.unescape(text).replace("\\\n", "")) for text in texts]


def test_each_example_of_the_page_runs(web):
    response = web.get("/docs")
    assert response.status_code == 200
    found = commands(response.text)
    assert len(found) == 16 + 2 + 6 + 3  # signatures; by version, label; status, signatures; server
    for program, url, *options in found:
        assert program == "curl"
        options = dict(zip(options[::2], options[1::2], strict=True))
        headers = {"Authorization": ""}
        if "/v1/" in url:
            assert options["-H"] == "Authorization: Bearer $TF_TRANSFORMER_API_KEY"
            headers = {"Authorization": f"Bearer {KEY}"}
        body = options.get("-d")
        method = "POST" if body else "GET"
        assert web.request(method, url, content=body, headers=headers).status_code == 200, url


def test_the_page_obeys_the_content_security_policy(web):
    page = web.get("/docs")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert web.get("/openapi.json").headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=", page.text)
    for name in re.findall(r'(?:src|href)="([^"]*)"', page.text):
        assert name == "data:," or web.get(f"/{name.removeprefix('.')}").status_code == 200
    hostile = web.get("/docs", headers={"Host": '"><b>'})
    assert "<b>" not in hostile.text
