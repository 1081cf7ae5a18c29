"""The gRPC client, with a server that has TensorFlow Serving's PredictionService."""

import concurrent.futures
import socket
import time

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from tf_transformer.errors import UserError
from tf_transformer.serving.client import translate_lines
from tf_transformer.serving.grpc_client import GrpcClient
from tf_transformer.serving.loaded_model import LoadedModel


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers requests to the model "anna".

    Args:
      answer: texts -> outputs by name, or the pair of a status code and a message.
    """

    def __init__(self, answer):
        self.answer = answer

    def Predict(self, request, context):
        name = request.model_spec.name
        if name != "anna":
            message = f"Servable not found for request: Latest({name})"
            context.abort(grpc.StatusCode.NOT_FOUND, message)
        outputs = self.answer(tf.make_ndarray(request.inputs["text"]).tolist())
        if isinstance(outputs, tuple):
            context.abort(*outputs)
        return predict_pb2.PredictResponse(
            outputs={name: tf.make_tensor_proto(value) for name, value in outputs.items()}
        )


@pytest.fixture
def start():
    """A function that starts a service and returns its address."""
    servers = []

    def start(answer, address="127.0.0.1:0"):
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(answer), server)
        port = server.add_insecure_port(address)
        server.start()
        servers.append(server)
        return f"127.0.0.1:{port}"

    yield start
    for server in servers:
        server.stop(None)


def translated(texts):
    """The outputs of a model that writes capital letters."""
    return {"translation": [text.upper() for text in texts], "score": [-0.5] * len(texts)}


def test_translations_equal_those_of_the_translator_in_order(start, cold_export, translator):
    signature = LoadedModel(cold_export).signatures["serving_default"]
    address = start(lambda texts: signature({"text": texts}))
    texts = [
        "Anna sleeps.",
        "",
        "Ein „Wort“ 😀 für sich.",
        "The old man reads a book.",
        "a " * 500,
    ] * 5
    results = list(translate_lines(GrpcClient(address, "anna"), texts, batch_size=3))
    assert [text for text, _ in results[:4]] == translator(texts[:4])
    assert results[4][0] == ""
    assert results[4][1] <= -1e9
    assert [text for text, _ in results] == [text for text, _ in results[:5]] * 5


@pytest.mark.parametrize("code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"])
def test_requests_to_a_busy_server_are_sent_again(start, code):
    errors = [(grpc.StatusCode[code], "busy")] * 3
    address = start(lambda texts: errors.pop() if errors else translated(texts))
    client = GrpcClient(address, "anna")
    assert list(translate_lines(client, ["a", "b"])) == [("A", -0.5), ("B", -0.5)]
    assert not errors
    errors.append((grpc.StatusCode[code], "busy"))
    with pytest.raises(UserError, match=f"{address} returned {code}: busy"):
        list(translate_lines(client, ["a"], max_wait=0))


def test_a_server_that_comes_back_is_found(start):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "127.0.0.1:{1}".format(*free.getsockname())
    client = GrpcClient(address, "anna")
    with pytest.raises(UserError, match=f"{address} returned UNAVAILABLE.*tried again for 0.3 s"):
        list(translate_lines(client, ["a"], max_wait=0.3))
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        results = executor.submit(list, translate_lines(client, ["a"], max_wait=20))
        time.sleep(0.5)
        assert not results.done()
        start(translated, address)
        assert results.result() == [("A", -0.5)]


def test_a_request_that_is_too_large_is_sent_in_halves(start):
    sizes = []

    def answer(texts):
        sizes.append(len(texts))
        if sum(map(len, texts)) > 2:
            message = "Received message larger than max (9 vs. 2)"
            return grpc.StatusCode.RESOURCE_EXHAUSTED, message
        return translated(texts)

    lines = ["a", "b", "long", "c"]
    results = list(translate_lines(GrpcClient(start(answer), "anna"), lines))
    assert results == [("A", -0.5), ("B", -0.5), ("", -1e9), ("C", -0.5)]
    assert sizes == [4, 2, 2, 1, 1]


def test_the_lines_of_an_invalid_request_are_named(start):
    def answer(texts):
        return (grpc.StatusCode.INVALID_ARGUMENT, "bad") if b"3" in texts else translated(texts)

    client = GrpcClient(start(answer), "anna")
    with pytest.raises(UserError, match="INVALID_ARGUMENT: bad .in the request of lines 3 to 4"):
        list(translate_lines(client, list("1234"), batch_size=2, concurrency=1))


@pytest.mark.parametrize(
    "outputs",
    [
        {"logits": [[1.0]]},
        {"translation": ["a", "b"], "score": [1.0, 1.0]},
        {"translation": [1.0], "score": [1.0]},
    ],
)
def test_a_foreign_model(start, outputs):
    address = start(lambda texts: outputs)
    message = f"the model at {address} is not one that tf-transformer exported"
    with pytest.raises(UserError, match=message):
        GrpcClient(address, "anna")(["Anna sleeps."])


def test_an_unknown_model(start):
    with pytest.raises(UserError, match="returned NOT_FOUND: .*berta"):
        list(translate_lines(GrpcClient(start(translated), "berta"), ["Anna sleeps."]))
