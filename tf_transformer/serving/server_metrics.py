"""The Prometheus metrics of the server.

Those with a colon at the start have the names, labels, units and buckets of TensorFlow Serving
(`servables/tensorflow/util.cc`, `batching/batching_session.cc`, `batching/batching_util.h`; and
`cc/saved_model/loader.cc` of TensorFlow), so that its dashboards can be used.
"""

import functools

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector

CLIENT_CLOSED_REQUEST = 499  # the status of a request whose client did not wait for the answer
OK = 200
# The names of the status codes of gRPC, which TensorFlow Serving counts, by status of HTTP.
STATUS_NAMES = {
    OK: "OK",
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    413: "RESOURCE_EXHAUSTED",
    CLIENT_CLOSED_REQUEST: "CANCELLED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
MICROSECONDS = 1e6  # the unit of time of TensorFlow Serving
SERVING = ":tensorflow:serving:"
BATCHING = f"{SERVING}batching_session:"
LOADING = ":tensorflow:cc:saved_model:"


def _exponential(scale: float, growth: float, number: int) -> list[float]:
    """The limits of buckets, with the six digits that TensorFlow Serving writes."""
    return [float(f"{scale * growth**i:.6g}") for i in range(number)]


TIMES, QUEUE_TIMES = _exponential(10, 1.8, 33), _exponential(100, 1.2, 52)
ROWS = _exponential(1, 2, 14)


class ServerMetrics:
    """Counts requests, batches and loads. The argument `model` is the name of a model.

    Attributes:
      registry: has the metrics, with the present values.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        gauge = functools.partial(Gauge, registry=self.registry)
        histogram = functools.partial(Histogram, registry=self.registry)
        model, path = ["model_name"], ["model_path"]
        # fmt: off
        self._requests = gauge(  # not a `Counter`, whose name would end with "_total"
            f"{SERVING}request_count", "Requests for predictions", [*model, "status"])
        self._latency = histogram(
            f"{SERVING}request_latency", "Microseconds of successful predictions",
            [*model, "API", "entrypoint"], buckets=TIMES)
        self._runtime = histogram(
            f"{SERVING}runtime_latency", "Microseconds of them in the queue and in batches",
            [*model, "API", "runtime"], buckets=TIMES)
        self._input_rows = histogram(
            f"{BATCHING}input_batch_size", "Rows of them", model, buckets=ROWS)
        self._queuing = histogram(
            f"{BATCHING}queuing_latency", "Microseconds in the queue, of each part of a request",
            [*model, "thread_pool_name"], buckets=QUEUE_TIMES)
        self._batch_rows = histogram(
            f"{BATCHING}processed_batch_size", "Rows of batches", model, buckets=ROWS)
        self._loads = gauge(f"{LOADING}load_attempt_count", "Loads of versions", [*path, "status"])
        self._load_latency = gauge(
            f"{LOADING}load_latency", "Microseconds of successful loads", path)
        # fmt: on

    def observe_request(self, model: str, status: int, seconds: float) -> None:
        """Counts a request for predictions whose response is ready."""
        self._requests.labels(model, STATUS_NAMES.get(status, "INTERNAL")).inc()
        if status == OK:
            self._latency.labels(model, "predict", "REST").observe(MICROSECONDS * seconds)

    def observe_prediction(self, model: str, rows: int, seconds: float) -> None:
        """Counts a successful prediction, and its seconds in the queue and in batches."""
        self._input_rows.labels(model).observe(rows)
        self._runtime.labels(model, "Predict", "TF1").observe(MICROSECONDS * seconds)

    def observe_batch(self, model: str, lane: str, rows: int, queue_seconds: list[float]) -> None:
        """Counts a batch; see `Batcher`."""
        self._batch_rows.labels(model).observe(rows)
        for seconds in queue_seconds:
            self._queuing.labels(model, lane).observe(MICROSECONDS * seconds)

    def observe_load(self, model: str, version: int, seconds: float, is_loaded: bool) -> None:
        """Counts the load of a version. The path of its folder stays secret."""
        path = f"{model}/{version}"
        self._loads.labels(path, "success" if is_loaded else "fail").inc()
        if is_loaded:
            self._load_latency.labels(path).inc(round(MICROSECONDS * seconds))
