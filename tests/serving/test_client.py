"""The gRPC client, against a server that speaks TensorFlow Serving's PredictionService over the exported model."""

import concurrent.futures

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from tf_transformer.errors import UserError
from tf_transformer.serving.client import GrpcClient, translate_lines
from tf_transformer.serving.loaded_model import ServedModel


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers from an exported model; the first `busy` requests are told to come again."""

    def __init__(self, served, busy):
        self.served, self.busy, self.asked = served, busy, 0

    def Predict(self, request, context):
        self.asked += 1
        if self.asked <= self.busy:
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        if request.model_spec.name != "anna":
            context.abort(
                grpc.StatusCode.NOT_FOUND,
                f"Servable not found for request: Latest({request.model_spec.name})",
            )
        inputs = {name: tf.make_ndarray(value).tolist() for name, value in request.inputs.items()}
        outputs = self.served.signatures[request.model_spec.signature_name or "serving_default"](
            inputs
        )
        return predict_pb2.PredictResponse(
            outputs={name: tf.make_tensor_proto(value) for name, value in outputs.items()}
        )


@pytest.fixture(scope="module")
def served(exported):
    return ServedModel(exported)


@pytest.fixture
def start(served):
    """A function that starts a service, busy at first -> the service, its address."""
    servers = []

    def start(busy=0):
        service, server = (
            Service(served, busy),
            grpc.server(concurrent.futures.ThreadPoolExecutor(4)),
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, server)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        servers.append(server)
        return service, address

    yield start
    for server in servers:
        server.stop(None)


def test_translations_are_the_translators_in_the_order_of_the_lines(start, translator):
    _, address = start()
    texts = [
        "Anna sleeps.",
        "",
        "Ein „Wort“ 😀 für sich.",
        "The old man reads a book.",
        "a " * 500,
    ] * 5
    found = list(translate_lines(GrpcClient(address, "anna"), texts, rows=3))
    assert [text for text, _ in found[:4]] == translator(texts[:4])
    assert found[4][0] == "" and found[4][1] <= -1e9
    assert [text for text, _ in found] == [text for text, _ in found[:5]] * 5


def test_a_busy_server_is_asked_again(start):
    service, address = start(busy=2)
    assert GrpcClient(address, "anna")(["Anna sleeps."])[0][0]
    assert service.asked == 3
    service.busy = 100
    with pytest.raises(UserError, match=f"{address} answers UNAVAILABLE: busy"):
        GrpcClient(address, "anna", retries=0)(["Anna sleeps."])
    assert service.asked == 4


def test_another_name_and_no_server(start):
    _, address = start()
    with pytest.raises(UserError, match="answers NOT_FOUND: .*berta"):
        GrpcClient(address, "berta")(["Anna sleeps."])
    with pytest.raises(UserError, match="127.0.0.1:9 answers UNAVAILABLE"):
        GrpcClient("127.0.0.1:9", "anna", retries=1)(["Anna sleeps."])
