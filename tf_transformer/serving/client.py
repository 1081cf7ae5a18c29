"""Clients of a translation server.

`RestClient` uses the REST interface of TensorFlow Serving and of `tf-transformer serve`.
`GrpcClient` uses the gRPC interface of TensorFlow Serving.
"""

import concurrent.futures
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import urllib3

from tf_transformer.errors import UserError

Client = Callable[[list[str]], list[tuple[str, float]]]  # texts -> pairs (translation, score)

RETRY_STATUSES = [429, 502, 503, 504]  # HTTP statuses of a busy server
MAX_GRPC_ATTEMPTS = 5  # the limit of gRPC itself
MAX_SHOWN_CHARACTERS = 500  # of a server's error message


class RestClient:
    """Translates over REST.

    Args:
      address: such as "http://127.0.0.1:8501".
      name: of the model.
      retries: how often a request is sent again when the server is busy or cannot be reached; the
        pauses grow exponentially.
      timeout: seconds to wait for a response.
    Raises: UserError when the address is not an HTTP URL.
    """

    def __init__(self, address: str, name: str, retries: int = 5, timeout: float = 60.0) -> None:
        _check_url(address)
        policy = urllib3.Retry(
            total=retries,
            backoff_factor=0.2,
            backoff_jitter=0.1,
            status_forcelist=RETRY_STATUSES,
            allowed_methods=None,
            raise_on_status=False,
        )
        self._http = urllib3.PoolManager(
            maxsize=64, retries=policy, timeout=urllib3.Timeout(connect=5.0, read=timeout)
        )
        self._url = f"{address.rstrip('/')}/v1/models/{name}:predict"

    def __call__(self, texts: list[str]) -> list[tuple[str, float]]:
        """Translates a list of strings.

        Returns: a list of pairs (translation, score), one for each text.
        Raises: UserError when the server cannot be reached or refuses the request.
        """
        body = json.dumps({"inputs": {"text": texts}})
        try:
            response = self._http.request(
                "POST", self._url, body=body, headers={"Content-Type": "application/json"}
            )
        except urllib3.exceptions.HTTPError as error:
            reason = getattr(error, "reason", None) or error
            raise UserError(f"no answer from {self._url}: {reason}") from error
        return self._read_response(response, len(texts))

    def _read_response(
        self, response: urllib3.BaseHTTPResponse, number: int
    ) -> list[tuple[str, float]]:
        """Returns the pairs in a response to a request of `number` texts. Raises: UserError."""
        content = _read_json(response.data)
        match content:
            case {"outputs": {"translation": [*texts], "score": [*scores]}} if (
                len(texts) == len(scores) == number
            ):
                return list(zip(texts, scores))
            case {"error": str(error)}:
                message = " ".join(error.split())[:MAX_SHOWN_CHARACTERS]
                raise UserError(f"{self._url} returned status {response.status}: {message}")
            case {"outputs": _}:
                raise UserError(f"the model at {self._url} is not one that tf-transformer exported")
        raise UserError(
            f"{self._url} returned status {response.status}: this is not a TensorFlow Serving REST "
            "server; give another --server"
        )


def _check_url(address: str) -> None:
    """Raises: UserError when an address is not an HTTP URL."""
    try:
        url = urllib3.util.parse_url(address)
        if url.scheme in ("http", "https") and url.host:
            return
        missing = url.scheme is None or "://" not in address
    except urllib3.exceptions.LocationParseError:
        missing = False
    example = f"http://{address}" if missing else "http://127.0.0.1:8501"
    raise UserError(f"server {address!r} is not a URL: give one such as {example}")


def _read_json(data: bytes) -> Any:
    """Returns the JSON in `data`, or None if it is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


class GrpcClient:
    """Translates over gRPC.

    Args:
      address: such as "127.0.0.1:8500".
      name, retries, timeout: as for `RestClient`, but at most 4 retries.
    Raises: UserError when tensorflow-serving-api is not installed.
    """

    def __init__(self, address: str, name: str, retries: int = 5, timeout: float = 60.0) -> None:
        try:
            import grpc
            from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
        except ImportError:
            raise UserError(
                "the package tensorflow-serving-api is missing: "
                "pip install 'tf_transformer[serving]'"
            ) from None
        method: dict[str, Any] = {"name": [{"service": "tensorflow.serving.PredictionService"}]}
        if retries:
            method["retryPolicy"] = {
                "maxAttempts": min(MAX_GRPC_ATTEMPTS, retries + 1),
                "initialBackoff": "0.2s",
                "maxBackoff": "5s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
            }
        options = [
            ("grpc.service_config", json.dumps({"methodConfig": [method]})),
            ("grpc.max_receive_message_length", -1),
        ]
        self._error = grpc.RpcError
        self._request = predict_pb2.PredictRequest
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(
            grpc.insecure_channel(address, options)
        )
        self._address = address
        self._name = name
        self._timeout = timeout

    def __call__(self, texts: list[str]) -> list[tuple[str, float]]:
        """Translates a list of strings, as `RestClient` does."""
        import tensorflow as tf

        request = self._request()
        request.model_spec.name = self._name
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(texts, tf.string, [len(texts)]))
        try:
            response = self._stub.Predict(request, timeout=self._timeout)
        except self._error as error:
            raise UserError(
                f"{self._address} returned {error.code().name}: {error.details()}"
            ) from error
        translations = tf.make_ndarray(response.outputs["translation"]).tolist()
        scores = tf.make_ndarray(response.outputs["score"]).tolist()
        return [
            (text.decode("utf-8", "replace"), score) for text, score in zip(translations, scores)
        ]


def translate_lines(
    client: Client, lines: Iterable[str], batch_size: int = 32, concurrency: int = 4
) -> Iterator[tuple[str, float]]:
    """Translates lines with several concurrent requests.

    Args:
      client: a `RestClient` or a `GrpcClient`.
      lines: an iterable of strings, read lazily.
      batch_size: lines in a request.
      concurrency: requests in flight at the same time.
    Yields: (translation, score) in the order of the lines. A line that is too long for the model
      has an empty translation and the score -1e9.
    Raises: UserError when the server cannot be reached or refuses a request.
    """
    lines = iter(lines)
    pending: list[concurrent.futures.Future[list[tuple[str, float]]]] = []
    executor = concurrent.futures.ThreadPoolExecutor(concurrency)
    try:
        while batch := list(itertools.islice(lines, batch_size)):
            pending.append(executor.submit(client, batch))
            if len(pending) >= concurrency:
                yield from pending.pop(0).result()
        while pending:
            yield from pending.pop(0).result()
    finally:
        # After Ctrl-C or an error, the answers to the other requests are not needed.
        executor.shutdown(wait=False, cancel_futures=True)
