"""A client of TensorFlow Serving's gRPC interface."""

from typing import Any

from tf_transformer.errors import SERVING_API, UserError, explain_missing_package
from tf_transformer.serving.client import (
    KEY_ADVICE,
    InvalidRequestError,
    NotInTimeError,
    RequestTooLargeError,
    UnavailableError,
    other_model_error,
    read_ca,
)

OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    # A server that is back is found within seconds; gRPC's own limit is two minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5000),
]
MESSAGE_TOO_LARGE = "larger than max"  # in gRPC's details of RESOURCE_EXHAUSTED


class GrpcClient:
    """Translates over gRPC, one request for each call.

    Args:
      address: such as "127.0.0.1:8500".
      name, timeout, api_key: as for `RestClient`.
      tls_ca: path of a PEM file with the CA of the server; None for a server without TLS.
    Raises: UserError when tensorflow-serving-api is not installed, or the CA cannot be read.

    Attributes:
      address: as given.
    """

    def __init__(
        self,
        address: str,
        name: str,
        timeout: float = 60.0,
        api_key: str | None = None,
        tls_ca: str | None = None,
    ) -> None:
        with explain_missing_package(SERVING_API):
            import grpc
            from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
        self.address = address
        self._error = grpc.RpcError
        self._request = predict_pb2.PredictRequest
        if tls_ca:
            credentials = grpc.ssl_channel_credentials(read_ca(tls_ca))
            channel = grpc.secure_channel(address, credentials, OPTIONS)
        else:
            channel = grpc.insecure_channel(address, OPTIONS)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self._metadata = [("authorization", f"Bearer {api_key}")] if api_key else []
        self._name = name
        self._timeout = timeout

    def __call__(self, texts: list[str]) -> list[tuple[str, float]]:
        """Translates a list of strings, as `RestClient` does, with the same errors."""
        import tensorflow as tf

        request = self._request()
        request.model_spec.name = self._name
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(texts, tf.string, [len(texts)]))
        try:
            response = self._stub.Predict(request, timeout=self._timeout, metadata=self._metadata)
        except self._error as error:
            raise self._explain(error) from error
        if not {"translation", "score"} <= set(response.outputs):
            raise other_model_error(self.address)
        translations = tf.make_ndarray(response.outputs["translation"])
        scores = tf.make_ndarray(response.outputs["score"])
        if not translations.shape == scores.shape == (len(texts),) or translations.dtype != object:
            raise other_model_error(self.address)
        return [
            (text.decode("utf-8", "replace"), score)
            for text, score in zip(translations.tolist(), scores.tolist())
        ]

    def _explain(self, error: Any) -> UserError:
        """The error of this package for an error of gRPC."""
        status, details = error.code().name, " ".join((error.details() or "").split())
        kinds: dict[str, type[UserError]] = {
            "UNAVAILABLE": UnavailableError,
            "RESOURCE_EXHAUSTED": UnavailableError,
            "DEADLINE_EXCEEDED": NotInTimeError,
            "INVALID_ARGUMENT": InvalidRequestError,
        }
        kind = kinds.get(status, UserError)
        if status == "RESOURCE_EXHAUSTED" and MESSAGE_TOO_LARGE in details:
            kind = RequestTooLargeError
        hint = f": {KEY_ADVICE}" if status in ("UNAUTHENTICATED", "PERMISSION_DENIED") else ""
        return kind(f"{self.address} returned {status}: {details}{hint}")
