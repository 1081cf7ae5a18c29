"""The gRPC client, with a server that has TensorFlow Serving's PredictionService."""

import concurrent.futures
import threading

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from tf_transformer.errors import UserError
from tf_transformer.serving.client import GrpcClient, translate_lines
from tf_transformer.serving.loaded_model import LoadedModel


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Serves an exported model. The first `busy` requests get the status UNAVAILABLE."""

    def __init__(self, model, busy):
        self.model = model
        self.busy = busy
        self.requests = 0

    def Predict(self, request, context):
        self.requests += 1
        if self.requests <= self.busy:
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        name = request.model_spec.name
        if name != "anna":
            message = f"Servable not found for request: Latest({name})"
            context.abort(grpc.StatusCode.NOT_FOUND, message)
        signature = self.model.signatures[request.model_spec.signature_name or "serving_default"]
        inputs = {name: tf.make_ndarray(value).tolist() for name, value in request.inputs.items()}
        outputs = signature(inputs)
        return predict_pb2.PredictResponse(
            outputs={name: tf.make_tensor_proto(value) for name, value in outputs.items()}
        )


@pytest.fixture(scope="module")
def model(exported):
    return LoadedModel(exported)


@pytest.fixture
def start(model):
    """A function that starts a service, busy at first. Returns: the service, its address."""
    servers = []

    def start(busy=0):
        service = Service(model, busy)
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, server)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        servers.append(server)
        return service, address

    yield start
    for server in servers:
        server.stop(None)


def test_translations_equal_those_of_the_translator_in_order(start, translator):
    _, address = start()
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


def test_requests_to_a_busy_server_are_retried(start):
    service, address = start(busy=2)
    assert GrpcClient(address, "anna")(["Anna sleeps."])[0][0]
    assert service.requests == 3
    service.busy = 100
    with pytest.raises(UserError, match=f"{address} returned UNAVAILABLE: busy"):
        GrpcClient(address, "anna", retries=0)(["Anna sleeps."])
    assert service.requests == 4


def test_an_interrupt_does_not_wait_for_answers():
    answered = []
    gate = threading.Event()

    def client(texts):
        gate.wait(10)
        answered.append(texts)
        return [("", 0.0)]

    def lines():
        yield "Anna sleeps."
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(translate_lines(client, lines(), batch_size=1))
    assert answered == []
    gate.set()


def test_unknown_model_and_unreachable_server(start):
    _, address = start()
    with pytest.raises(UserError, match="returned NOT_FOUND: .*berta"):
        GrpcClient(address, "berta")(["Anna sleeps."])
    with pytest.raises(UserError, match="127.0.0.1:9 returned UNAVAILABLE"):
        GrpcClient("127.0.0.1:9", "anna", retries=1)(["Anna sleeps."])
