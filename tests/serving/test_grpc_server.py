"""The gRPC interface of the server, compared with TensorFlow Serving's."""

import contextlib
import json
import logging
import socket
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
import trustme
from starlette.testclient import TestClient
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serving.fake_models import FakeModel, add_versions, fake_source, waiting
from tf_transformer.errors import UserError
from tf_transformer.serving import grpc_server
from tf_transformer.serving.client import translate_lines
from tf_transformer.serving.connections import bind_address
from tf_transformer.serving.grpc_client import GrpcClient
from tf_transformer.serving.model_source import ModelSource, one_model
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.server import Server

STRING = tf.string


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Client:
    """A client of the services at an address, and of the REST interface of the same server."""

    def __init__(self, address, web, credentials=None):
        self.address = address
        self.web = web
        make = grpc.insecure_channel if credentials is None else grpc.secure_channel
        self.channel = make(address, *([] if credentials is None else [credentials]))
        self.predictions = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)

    def call(self, inputs=("a",), model="anna", timeout=20, metadata=None, **spec):
        """Starts a call of Predict; inputs are the values of "text", or tensors by name."""
        request = predict_pb2.PredictRequest()
        self.fill(request.model_spec, model, **spec)
        if not isinstance(inputs, dict):
            inputs = {"text": tf.make_tensor_proto(list(inputs), STRING, [len(inputs)])}
        for name, tensor in inputs.items():
            request.inputs[name].CopyFrom(tensor)
        request.output_filter.extend(spec.get("output_filter", ()))
        return self.predictions.Predict.future(request, timeout=timeout, metadata=metadata)

    def predict(self, *arguments, **options):
        """The outputs of a call as lists by name."""
        response = self.call(*arguments, **options).result()
        return {name: tf.make_ndarray(value).tolist() for name, value in response.outputs.items()}

    @staticmethod
    def fill(spec, model, version=None, label=None, signature="", **others):
        spec.name = model
        spec.signature_name = signature
        if version is not None:
            spec.version.value = version
        if label is not None:
            spec.version_label = label

    def metadata(self, *fields, model="anna", **spec):
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
        self.fill(request.model_spec, model, **spec)
        return self.predictions.GetModelMetadata(request)

    def states(self, model="anna", **spec):
        request = get_model_status_pb2.GetModelStatusRequest()
        self.fill(request.model_spec, model, **spec)
        response = self.models.GetModelStatus(request)
        return [
            (state.version, state.State.Name(state.state), state.status.error_message)
            for state in response.model_version_status
        ]


@contextlib.contextmanager
def serving(*sources, **settings):
    """A client of a server whose models are loaded."""
    config = ServeConfig(grpc_port=free_port(), **settings)
    server = Server(sources, config)
    with TestClient(server.app) as web:
        while web.get("/healthz/ready").status_code != 200:
            time.sleep(0.02)
        client = Client(f"127.0.0.1:{config.grpc_port}", web)
        client.server = server
        with client.channel:
            yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fakes")
    add_versions(folder, 1, 2)
    return folder


@pytest.fixture(scope="module")
def fake(folder):
    """A client of a server of two versions of a fake model."""
    source = fake_source(folder, latest=2, labels={"stable": 1})
    with serving(source, max_rows=4, max_request_bytes=4096, timeout=5.0) as client:
        yield client


def error_of(call):
    """The status code and the details of a call that fails."""
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value.code().name, error.value.details()


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_real_model(cold_export, translator):
    """Client and server translate; outputs have the types that TensorFlow Serving sends."""
    folder = cold_export.rpartition("/")[0]
    texts = ["Anna sleeps.", "", "The old man reads a book."]
    with serving(*one_model(folder, "anna"), max_rows=2) as client:
        grpc_client = GrpcClient(client.address, "anna")
        results = list(translate_lines(grpc_client, iter(texts), batch_size=3))
        assert [text for text, _ in results] == translator(texts)
        score = client.call(texts[:1]).result().outputs["score"]
        assert score.dtype == tf.float32.as_datatype_enum
        assert list(score.float_val) == pytest.approx([results[0][1]])
        assert not score.tensor_content
        nbest = client.predict(texts[:1], signature="nbest")
        assert nbest["translations"][0][0].decode() == results[0][0]
        response = client.metadata("signature_def")
        signatures = get_model_metadata_pb2.SignatureDefMap()
        assert response.metadata["signature_def"].Unpack(signatures)
        text = signatures.signature_def["score"].inputs["target"]
        assert text.dtype == tf.string.as_datatype_enum
        assert [dimension.size for dimension in text.tensor_shape.dim] == [-1]
        scored = {name: tf.make_tensor_proto(["a", "b"]) for name in ("source", "target")}
        outputs = client.predict(scored, signature="score")
        assert np.shape(outputs["log_probability"]) == (2,)
        tokens = client.predict(["a b", ""], signature="count_tokens")["tokens"]
        assert tokens[0] > tokens[1] == 0


def test_versions_and_labels(fake):
    response = fake.call(["a", "b"]).result()
    spec = response.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("anna", 2, "serving_default")
    assert fake.predict(["ä"]) == {"translation": ["ä".encode().upper()], "score": [2.0]}
    assert fake.predict(version=1)["score"] == fake.predict(label="stable")["score"] == [1.0]
    assert fake.predict([]) == {"translation": [], "score": []}
    assert fake.states() == [(2, "AVAILABLE", ""), (1, "AVAILABLE", "")]
    assert fake.states(label="stable") == fake.states(version=1) == [(1, "AVAILABLE", "")]
    metadata = fake.metadata("signature_def", label="stable")
    assert metadata.model_spec.version.value == 1


def test_an_output_filter(fake):
    assert fake.predict(output_filter=["score"]) == {"score": [2.0]}
    unknown = lambda: fake.predict(output_filter=["x"])  # noqa: E731
    assert error_of(unknown) == (
        "INVALID_ARGUMENT",
        "output tensor alias not found in signature: x Outputs expected to be in the set "
        "{score,translation}.",
    )
    twice = lambda: fake.predict(output_filter=["score", "score"])  # noqa: E731
    assert error_of(twice) == ("INVALID_ARGUMENT", "duplicate output tensor alias: score")


@pytest.mark.parametrize(
    "call, code, details",
    [
        ({"model": "none"}, "NOT_FOUND", "Servable not found for request: Latest(none)"),
        ({"version": 7}, "NOT_FOUND", "Servable not found for request: Specific(anna, 7)"),
        ({"label": "x"}, "INVALID_ARGUMENT", "Unrecognized servable version label: x"),
        ({"label": ""}, "INVALID_ARGUMENT", "Unrecognized servable version label: "),
        ({"model": ""}, "INVALID_ARGUMENT", "ModelSpec has no name specified."),
        ({"signature": "x"}, "INVALID_ARGUMENT", 'Serving signature key "x" not found.'),
        (
            {"inputs": {"x": tf.make_tensor_proto(["a"])}},
            "INVALID_ARGUMENT",
            "input size does not match signature: 1!=1 len({x}) != len({text}). "
            "Sent extra: {x}. Missing but required: {text}.",
        ),
        ({"inputs": {}}, "INVALID_ARGUMENT", "Sent extra: {}. Missing but required: {text}."),
        (
            {"inputs": {"text": tf.make_tensor_proto([1.0])}},
            "INVALID_ARGUMENT",
            "input text has type DT_FLOAT: send DT_STRING",
        ),
        (
            {"inputs": {"text": tensor_pb2.TensorProto(dtype=50)}},
            "INVALID_ARGUMENT",
            "input text has type 50: send DT_STRING",
        ),
        (
            {"inputs": {"text": tf.make_tensor_proto("a")}},
            "INVALID_ARGUMENT",
            "input text has shape [] and 1 strings: send a list",
        ),
        (
            # A tensor of gigabytes in a message of some bytes.
            {"inputs": {"text": tf.make_tensor_proto(["a"], shape=[2**40])}},
            "INVALID_ARGUMENT",
            f"input text has shape [{2**40}] and 1 strings",
        ),
        (
            {"inputs": ["a"] * 5},
            "RESOURCE_EXHAUSTED",
            "request larger than max: 5 rows in one request: serving_default takes at most 4",
        ),
        ({"inputs": ["a" * 5000]}, "RESOURCE_EXHAUSTED", "larger than max"),
    ],
)
def test_errors_of_requests(fake, call, code, details):
    found = error_of(lambda: fake.predict(**call))
    assert found[0] == code
    assert details in found[1]


def test_errors_of_the_other_methods(fake):
    assert error_of(lambda: fake.states("none")) == (
        "NOT_FOUND",
        "Could not find any versions of model none",
    )
    assert error_of(lambda: fake.states(version=7)) == (
        "NOT_FOUND",
        "Could not find version 7 of model anna",
    )
    assert error_of(lambda: fake.metadata())[0] == "INVALID_ARGUMENT"
    assert error_of(lambda: fake.metadata("x")) == (
        "INVALID_ARGUMENT",
        "Metadata field x is not supported",
    )
    classify = fake.channel.unary_unary("/tensorflow.serving.PredictionService/Classify")
    assert error_of(lambda: classify(b""))[0] == "UNIMPLEMENTED"
    predict = fake.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    assert error_of(lambda: predict(b"\xff\xff")) == (
        "INVALID_ARGUMENT",
        "the request is no tensorflow.serving.PredictRequest",
    )


def test_a_bug_is_logged_and_not_shown(fake, caplog):
    call = fake.call(["bug"], metadata=(("x-request-id", "id-of-the-client"),))
    message = "internal error; the log of the server has it as id-of-the-client"
    assert error_of(call.result) == ("INTERNAL", message)
    assert ("x-request-id", "id-of-the-client") in [
        tuple(pair) for pair in call.trailing_metadata()
    ]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "request id-of-the-client failed"
    assert "out of order" in str(record.exc_info[1])
    assert len(dict(fake.call().trailing_metadata())["x-request-id"]) == 32


def test_deadlines_and_cancelled_calls(folder, fake):
    with waiting(folder) as models:
        computed = max(models, key=lambda model: model.version).batches
        start = time.monotonic()
        before = len(computed)
        assert error_of(lambda: fake.predict(timeout=0.3))[0] == "DEADLINE_EXCEEDED"
        assert time.monotonic() - start < 2
        # The computation has ended too: the next one can start.
        call = fake.call()
        wait_until(lambda: len(computed) == before + 2)
        waiting_call = fake.call()
        waiting_call.cancel()
        call.cancel()
        wait_until(lambda: _value(fake.web, "in_flight") == 0)
        assert 'status="499"' in fake.web.get("/metrics").text
    assert fake.predict(timeout=None)["score"] == [2.0]
    assert len(computed) == before + 3  # without the call that was waiting


def test_calls_that_never_send_their_request_end(tmp_path):
    add_versions(tmp_path, 1)
    gate = threading.Event()

    def never():
        gate.wait(20)
        yield b""

    with serving(fake_source(tmp_path), timeout=0.2, max_connections=1) as client:
        grpc.channel_ready_future(client.channel).result(10)
        method = "/tensorflow.serving.PredictionService/Predict"
        call = client.channel.stream_unary(method).future(never())
        time.sleep(0.3)
        limit = ("RESOURCE_EXHAUSTED", "Concurrent RPC limit exceeded!")
        assert error_of(client.predict) == limit
        start = time.monotonic()
        assert error_of(call.result)[0] == "UNAVAILABLE"
        assert time.monotonic() - start < 5
        assert client.predict()["score"] == [1.0]
        gate.set()
        with waiting(tmp_path):
            assert error_of(client.predict) == ("DEADLINE_EXCEEDED", "no answer within 0.2 s")


def test_connections_far_beyond_the_limit_are_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(grpc_server, "RESERVED_CONNECTIONS", 2)
    add_versions(tmp_path, 1)
    with serving(fake_source(tmp_path), max_connections=1) as client:
        port = int(client.address.rpartition(":")[2])
        with contextlib.ExitStack() as stack:
            sockets = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
                for _ in range(4)
            ]
            received = [connection.recv(99) for connection in sockets]
            assert [content != b"" for content in received] == [True] * 3 + [False]
        wait_until(lambda: client.call().exception() is None)


def test_a_full_queue_and_the_end_of_the_server(tmp_path):
    """At the end, computed calls get a grace period, and the others are UNAVAILABLE."""
    add_versions(tmp_path, 1)
    with serving(fake_source(tmp_path), max_queue=1, grace_seconds=0.5) as client:
        with waiting(tmp_path) as models:
            calls = [client.call()]
            wait_until(lambda: models[0].batches)
            calls.append(client.call())
            wait_until(lambda: _value(client.web, "waiting") == 1)
            full = ("UNAVAILABLE", "1 requests are waiting: try again later")
            assert error_of(client.predict) == full
            start = time.monotonic()
            client.web.portal.call(client.server.stop)
            for call in calls:
                assert error_of(call.result) == ("UNAVAILABLE", "the server is shutting down")
            assert 0.4 < time.monotonic() - start < 3
            assert error_of(client.predict)[0] == "UNAVAILABLE"
    with serving(fake_source(tmp_path), grace_seconds=10.0) as client:
        with waiting(tmp_path) as models:
            call = client.call()
            wait_until(lambda: models[0].batches)
            threading.Timer(0.3, models[0].gate.set).start()
            client.web.portal.call(client.server.stop)
        assert tf.make_ndarray(call.result().outputs["score"]) == [1.0]


def test_calls_are_answered_before_the_threads_end(tmp_path):
    """HTTP has no connection that would delay the end."""
    add_versions(tmp_path, 1)
    settings = ServeConfig(grpc_port=free_port(), grace_seconds=0.3, max_batch_size=1)
    server = Server([fake_source(tmp_path)], settings)
    client = Client(f"127.0.0.1:{settings.grpc_port}", None)
    with client.channel:
        with TestClient(server.app) as web:
            wait_until(lambda: web.get("/healthz/ready").status_code == 200)
            FakeModel.loaded[-1].gate.clear()
            calls = [client.call() for _ in range(3)]
            wait_until(lambda: _value(web, "waiting") == 2)
            web.portal.start_task_soon(server.stop)
        for call in calls:
            assert error_of(call.result) == ("UNAVAILABLE", "the server is shutting down")


def _value(web, name):
    """The sum of a metric over its labels."""
    return sum(
        float(line.rpartition(" ")[2])
        for line in web.get("/metrics").text.splitlines()
        if line.startswith(f"tf_transformer_{name}")
    )


def test_metrics_and_access_log(tmp_path):
    add_versions(tmp_path / "anna", 1)
    log = tmp_path / "log"
    with serving(fake_source(tmp_path / "anna"), access_log=str(log)) as client:
        client.predict(["a", "b"])
        error_of(lambda: client.predict(model="none"))
        client.states()
        error_of(lambda: client.predict(signature="secret"))
        error_of(lambda: client.predict(output_filter=["secret"]))
        error_of(lambda: client.predict({"secret": tf.make_tensor_proto(["secret"])}))
        error_of(lambda: client.metadata("secret"))
        metrics = client.web.get("/metrics").text
    labels = 'method="predict",model="anna",signature="serving_default"'
    assert f'tf_transformer_requests_total{{{labels},status="200"}} 1.0' in metrics
    assert _counts(metrics, 'entrypoint="GRPC"') >= 1
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines = [line for line in lines if line["entrypoint"] == "GRPC"]
    assert [line["status"] for line in lines] == [200, 404, 200, 400, 400, 400, 400]
    assert "secret" not in log.read_text()
    assert lines[0]["rows"] == 2
    assert lines[0]["remote"] == "127.0.0.1"


def _counts(metrics, label):
    return sum(label in line for line in metrics.splitlines())


def test_api_keys(tmp_path):
    add_versions(tmp_path / "anna", 1)
    (tmp_path / "keys").write_text(f"alice {'k' * 16}\n")
    (tmp_path / "keys").chmod(0o600)
    with serving(fake_source(tmp_path / "anna"), api_key_file=str(tmp_path / "keys")) as client:
        assert error_of(client.predict)[0] == "UNAUTHENTICATED"
        assert error_of(client.states)[0] == "UNAUTHENTICATED"
        key = (("authorization", f"Bearer {'k' * 16}"),)
        assert client.predict(metadata=key)["score"] == [1.0]


def test_tls(tmp_path):
    add_versions(tmp_path / "anna", 1)
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        str(tmp_path / "certificate")
    )
    settings = ServeConfig(grpc_port=free_port(), tls_certificate=str(tmp_path / "certificate"))
    server = Server([fake_source(tmp_path / "anna")], settings)
    credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    with TestClient(server.app) as web:
        wait_until(lambda: web.get("/healthz/ready").status_code == 200)
        client = Client(f"127.0.0.1:{settings.grpc_port}", web, credentials)
        with client.channel:
            assert client.predict()["score"] == [1.0]


def test_while_the_model_is_loaded(tmp_path):
    gate = threading.Event()

    def load_slowly(path, concurrency):
        assert gate.wait(20)
        return FakeModel(path, concurrency)

    add_versions(tmp_path, 1)
    settings = ServeConfig(grpc_port=free_port())
    with TestClient(Server([ModelSource("anna", str(tmp_path), load=load_slowly)], settings).app):
        client = Client(f"127.0.0.1:{settings.grpc_port}", None)
        with client.channel:
            assert error_of(client.predict) == ("UNAVAILABLE", "the model is being loaded")
            wait_until(lambda: client.states() == [(1, "LOADING", "")])
            gate.set()
            wait_until(lambda: client.states() == [(1, "AVAILABLE", "")])
            assert client.predict()["score"] == [1.0]


def test_a_port_in_use(tmp_path):
    add_versions(tmp_path, 1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings = ServeConfig(port=0, grpc_port=port)
        message = f"cannot listen at 127.0.0.1, port {port} .*give another --host or --grpc_port"
        with pytest.raises(UserError, match=message):
            bind_address(settings)
        # It is taken after the check.
        with (
            bind_address(ServeConfig(port=0)) as bound,
            pytest.raises(UserError, match="port .*--grpc_port"),
        ):
            Server([fake_source(tmp_path)], settings).run(bound)
    with pytest.raises(UserError, match="--port and --grpc_port are both 8501"):
        bind_address(ServeConfig(grpc_port=8501))
