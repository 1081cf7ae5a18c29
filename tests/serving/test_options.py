"""Inputs of several types with defaults: REST, gRPC and the description of the interface."""

import concurrent.futures
import socket

import grpc
import jsonschema
import numpy as np
import openapi_spec_validator
import pytest
import tensorflow as tf
from starlette.testclient import TestClient
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serving.options_model import export_options_model
from serving.raw_http import wait_until
from tf_transformer.serving.model_source import one_model
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.server import Server

PREDICT = "/v1/models/anna:predict"


@pytest.fixture(scope="module")
def port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def web(port, tmp_path_factory):
    """An HTTP client of a server, whose gRPC port is `port`."""
    folder = tmp_path_factory.mktemp("options")
    export_options_model(folder)
    settings = ServeConfig(grpc_port=port, max_request_tokens=100)
    with TestClient(Server(one_model(str(folder), "anna"), settings).app) as client:
        wait_until(lambda: client.get("/healthz/ready").status_code == 200)
        yield client


def post(web, **request):
    return web.post(PREDICT, json={"signature_name": "options", **request})


def test_each_row_has_its_own_options(web):
    rows = [{"text": "a"}, {"text": "b", "n_best": 4, "length_penalty": 1, "seed": 2**40}]
    assert post(web, instances=rows).json()["predictions"] == [
        {"translations": ["a", "A"], "numbers": 9, "penalty": 0.6},
        {"translations": ["b", "B"], "numbers": 2**40 + 4, "penalty": 1.0},
    ]
    columns = {"text": ["a", "b"], "target_prefix": ["x ", {"b64": "w6k="}]}
    outputs = post(web, inputs=columns).json()["outputs"]
    assert outputs["translations"] == [["x a", "X A"], ["éb", "éB"]]
    assert outputs["numbers"] == [9, 9]


def test_a_wrong_option_is_an_error_of_its_request_alone(web):
    def send(n_best):
        return post(web, instances=[{"text": "a", "n_best": n_best}])

    with concurrent.futures.ThreadPoolExecutor(16) as executor:
        answers = list(executor.map(send, [1, 2, 9, 3, 4, 0, -1] * 8))
    assert [answer.status_code for answer in answers] == [200, 200, 400, 200, 200, 400, 400] * 8
    assert answers[2].json() == {"error": "n_best must be 1 to 4"}
    error = post(web, instances=[{"text": "a"}, {"text": "b", "n_best": 1.5}]).json()["error"]
    assert "element: 1 key: n_best" in error
    assert "JSON Value: 1.5" in error


def test_the_beginning_of_a_translation_counts(web):
    """The tokenizer of this model counts bytes."""
    assert post(web, instances=[{"text": "a" * 60, "target_prefix": "b" * 40}]).status_code == 200
    answer = post(web, instances=[{"text": "a" * 60, "target_prefix": "b" * 41}])
    assert answer.status_code == 413
    assert "101 sub-words" in answer.json()["error"]


def test_interface_description(web):
    metadata = web.get("/v1/models/anna/metadata").json()["metadata"]["signature_def"]
    defaults = metadata["signature_def"]["options"]["defaults"]
    assert defaults["n_best"]["int_val"] == [2]
    document = web.get("/openapi.json").json()
    openapi_spec_validator.validate(document)
    schemas = document["components"]["schemas"]
    rows = schemas["anna.options_rows.request"]
    (example,) = rows["examples"][0]["instances"]
    assert example == {
        "text": "Anna sleeps.",
        "n_best": 2,
        "length_penalty": 0.6,
        "seed": 7,
        "target_prefix": "",
    }
    for key in ("rows", "columns"):
        body = schemas[f"anna.options_{key}.request"]["examples"][0]
        assert web.post(PREDICT, json=body).status_code == 200
    root = {"$ref": "#/schema", "schema": rows, "components": document["components"]}
    validator = jsonschema.Draft202012Validator(root)
    for row in ({"text": "a"}, {"text": "a", "seed": -1, "length_penalty": 1}):
        assert validator.is_valid({"signature_name": "options", "instances": [row]})
        assert post(web, instances=[row]).status_code == 200
    for row in (
        {"n_best": 1},
        {"text": "a", "n_best": 1.5},
        {"text": "a", "seed": 2**63},
        {"text": "a", "length_penalty": "1"},
        {"text": "a", "length_penalty": None},
        {"text": "a", "bean_size": 1},
    ):
        assert not validator.is_valid({"signature_name": "options", "instances": [row]})
        assert post(web, instances=[row]).status_code == 400
    page = web.get("/docs").text
    assert "<li><code>n_best</code>: integer, default 2</li>" in page
    assert "<li><code>target_prefix</code>: string, default &quot;&quot;</li>" in page


def call(port, **inputs):
    """The outputs of a gRPC call; inputs are tensors by name."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "anna"
    request.model_spec.signature_name = "options"
    for name, tensor in inputs.items():
        request.inputs[name].CopyFrom(tensor)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        response = stub.Predict(request, timeout=20)
    return {name: tf.make_ndarray(value).tolist() for name, value in response.outputs.items()}


def test_grpc(web, port):
    texts = tf.make_tensor_proto(["a", "b"])
    outputs = call(port, text=texts)
    assert outputs["numbers"] == [9, 9]
    assert outputs["penalty"] == pytest.approx([0.6] * 2)
    content = tf.make_tensor_proto(np.int32([1, 3]))
    assert content.tensor_content  # and not int_val
    fields = tensor_pb2.TensorProto(dtype=types_pb2.DT_INT64, int64_val=[1, 2**40])
    fields.tensor_shape.dim.add(size=2)
    assert call(port, text=texts, n_best=content, seed=fields)["numbers"] == [2, 2**40 + 3]
    repeated = tf.make_tensor_proto(3, shape=[2])
    assert len(repeated.int_val) == 1
    assert call(port, text=texts, n_best=repeated, seed=fields)["numbers"] == [4, 2**40 + 3]


@pytest.mark.parametrize(
    "name, tensor, message",
    [
        ("n_best", tf.make_tensor_proto([1.0, 2.0]), "n_best has type DT_FLOAT: send DT_INT"),
        ("n_best", tf.make_tensor_proto(1), r"has shape \[\] and 1 numbers: send a list of num"),
        ("n_best", tf.make_tensor_proto([1]), "must have the same number of rows"),
        (
            "n_best",
            tf.make_tensor_proto(1, shape=[2**40]),
            r"has shape \[1099.* 1 numbers",
        ),
        ("n_best", tf.make_tensor_proto([9, 1]), "details = .n_best must be 1 to 4."),
        ("bean_size", tf.make_tensor_proto([1, 1]), "Sent extra: {bean_size}. Missing .* {}"),
        ("length_penalty", tf.make_tensor_proto([[0.5, 1]]), r"has shape \[1, 2\] and 2 numbers"),
        (
            "seed",
            tensor_pb2.TensorProto(dtype=types_pb2.DT_INT64, tensor_content=b"1234567"),
            r"has shape \[\] and 0 numbers",
        ),
    ],
)
def test_grpc_errors(web, port, name, tensor, message):
    with pytest.raises(grpc.RpcError, match=message) as error:
        call(port, text=tf.make_tensor_proto(["a", "b"]), **{name: tensor})
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_grpc_metadata(web, port):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "anna"
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        response = stub.GetModelMetadata(request, timeout=20)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    options = signatures.signature_def["options"]
    assert options.inputs["length_penalty"].dtype == types_pb2.DT_FLOAT
    assert tf.make_ndarray(options.defaults["length_penalty"]) == np.float32([0.6])
    assert set(options.defaults) == {"n_best", "length_penalty", "seed", "target_prefix"}
