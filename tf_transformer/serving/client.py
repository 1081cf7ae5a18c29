"""Translates lines by a server: over REST (TensorFlow Serving's, or `tf-transformer serve`), or over gRPC (TensorFlow Serving's)."""

import concurrent.futures
import itertools
import json

import urllib3

from tf_transformer.errors import UserError

TRY_AGAIN = [429, 502, 503, 504]  # HTTP statuses of a server that is busy


class RestClient:
    """Asks over REST.

    Args:
      address: such as "http://127.0.0.1:8501".
      name: of the model.
      retries: how often a request is sent again, after longer and longer pauses, when the server is busy or not to be reached.
      timeout: seconds to wait for an answer.
    """

    def __init__(self, address, name, retries=5, timeout=60.0):
        policy = urllib3.Retry(
            total=retries,
            backoff_factor=0.2,
            backoff_jitter=0.1,
            status_forcelist=TRY_AGAIN,
            allowed_methods=None,
            raise_on_status=False,
        )
        self._http = urllib3.PoolManager(
            maxsize=64, retries=policy, timeout=urllib3.Timeout(connect=5.0, read=timeout)
        )
        self._url = f"{address.rstrip('/')}/v1/models/{name}:predict"

    def __call__(self, texts):
        """Translates a list of strings.

        Returns: as many (translation, score). Raises: UserError for a server that refuses or is not there.
        """
        body = json.dumps({"inputs": {"text": texts}})
        try:
            response = self._http.request(
                "POST", self._url, body=body, headers={"Content-Type": "application/json"}
            )
        except urllib3.exceptions.HTTPError as error:
            raise UserError(
                f"no answer from {self._url}: {getattr(error, 'reason', None) or error}"
            ) from error
        answer = _read_json(response.data)
        if response.status == 200 and "outputs" in answer:
            return list(zip(answer["outputs"]["translation"], answer["outputs"]["score"]))
        raise UserError(
            f"{self._url} answers {response.status}: {answer.get('error') or response.data[:200].decode('utf-8', 'replace')}"
        )


def _read_json(data):
    """A JSON object, or an empty one where there is none."""
    try:
        content = json.loads(data)
    except ValueError:
        content = None
    return content if isinstance(content, dict) else {}


class GrpcClient:
    """Asks over gRPC; the arguments are those of `RestClient`, but for the address, such as "127.0.0.1:8500", and 4 retries at most.

    Raises: UserError when tensorflow-serving-api is missing.
    """

    def __init__(self, address, name, retries=5, timeout=60.0):
        try:
            import grpc
            from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
        except ImportError:
            raise UserError(
                "the package tensorflow-serving-api is missing: pip install 'tf_transformer[serving]'"
            ) from None
        policy = {
            "maxAttempts": min(5, retries + 1), "initialBackoff": "0.2s", "maxBackoff": "5s", "backoffMultiplier": 2,
            "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
        }  # fmt: skip
        method = {"name": [{"service": "tensorflow.serving.PredictionService"}]}
        method |= {"retryPolicy": policy} if retries else {}
        options = [
            ("grpc.service_config", json.dumps({"methodConfig": [method]})),
            ("grpc.max_receive_message_length", -1),
        ]
        self._error, self._request = grpc.RpcError, predict_pb2.PredictRequest
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(
            grpc.insecure_channel(address, options)
        )
        self._address, self._name, self._timeout = address, name, timeout

    def __call__(self, texts):
        """As `RestClient`."""
        import tensorflow as tf

        request = self._request()
        request.model_spec.name = self._name
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(texts, tf.string, [len(texts)]))
        try:
            answer = self._stub.Predict(request, timeout=self._timeout)
        except self._error as error:
            raise UserError(
                f"{self._address} answers {error.code().name}: {error.details()}"
            ) from error
        translations, scores = (
            tf.make_ndarray(answer.outputs[name]).tolist() for name in ("translation", "score")
        )
        return [
            (text.decode("utf-8", "replace"), score) for text, score in zip(translations, scores)
        ]


def translate_lines(ask, lines, rows=32, requests=4):
    """Translates lines, several requests at a time.

    Args:
      ask: a client.
      lines: an iterable of strings, read as it goes.
      rows: lines in a request.
      requests: how many are under way at a time.
    Yields: (translation, score) in the order of the lines; an empty one with -1e9 for a line that is too long for the model.
    Raises: UserError for a server that refuses or is not there.
    """
    lines, waiting = iter(lines), []
    with concurrent.futures.ThreadPoolExecutor(requests) as threads:
        try:
            while batch := list(itertools.islice(lines, rows)):
                waiting.append(threads.submit(ask, batch))
                if len(waiting) >= requests:
                    yield from waiting.pop(0).result()
            while waiting:
                yield from waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()
