"""The Prometheus metrics of the server.

The labels `model` and `signature` have values of the models that are served. They are "" for
requests that name no such model.

Metrics with a colon at the start have the names, labels, units and buckets of TensorFlow Serving
(`servables/tensorflow/util.cc`, `batching/batching_session.cc`, `batching/batching_util.h`; and
`cc/saved_model/loader.cc` of TensorFlow), so that its dashboards can be used.
"""

import collections
import contextlib
import threading
from collections.abc import Callable, Iterator

import prometheus_client
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.registry import Collector

from tf_transformer.serving.request_record import CLIENT_CLOSED_REQUEST, RequestRecord
from tf_transformer.serving.timing import BatchReport

PREFIX = "tf_transformer_"
CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST  # of `ServerMetrics.export`
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
ROWS = tuple(2**i for i in range(11))  # 1 to 1,024
TOKENS = tuple(2**i for i in range(4, 15))  # 16 to 16,384
SIGNATURE = ["model", "signature"]
MICROSECONDS = 1e6
OK = 200

# The names of the status codes of gRPC, which TensorFlow Serving counts, by status of HTTP.
STATUS_NAMES = {
    200: "OK",
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    405: "INVALID_ARGUMENT",
    408: "DEADLINE_EXCEEDED",
    413: "RESOURCE_EXHAUSTED",
    415: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    CLIENT_CLOSED_REQUEST: "CANCELLED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class ServerMetrics:
    """Counts requests, batches and loads.

    Args:
      waiting: returns the number of requests in the queues of each model.
      versions: returns the newest version of each model that is served.
    """

    def __init__(
        self, waiting: Callable[[], dict[str, int]], versions: Callable[[], dict[str, int]]
    ) -> None:
        self._registry = prometheus_client.CollectorRegistry()
        self._define_requests()
        self._define_loads()
        self._registry.register(_ModelGauge("waiting", "Requests in the queues", waiting))
        self._registry.register(_ModelGauge("version", "Newest version in memory", versions))
        prometheus_client.ProcessCollector(registry=self._registry)
        self._tf_serving = _TensorFlowServingMetrics(self._registry)

    def _define_requests(self) -> None:
        self._requests = Counter(
            f"{PREFIX}requests",
            "Requests by status",
            ["method", *SIGNATURE, "status"],
            registry=self._registry,
        )
        self._in_flight = Gauge(
            f"{PREFIX}in_flight",
            "Predictions without a response",
            SIGNATURE,
            registry=self._registry,
        )
        self._seconds = self._histogram("request_seconds", "Time of successful predictions")
        self._queue_seconds = self._histogram("queue_seconds", "Time in the queue")
        self._compute_seconds = self._histogram("compute_seconds", "Time in batches")
        self._batch_rows = self._histogram("batch_rows", "Rows of batches", ROWS)
        self._batch_tokens = self._histogram(
            "batch_tokens", "Rows of batches x sub-words of the longest row", TOKENS
        )
        self._rows = Counter(
            f"{PREFIX}rows", "Rows of successful predictions", SIGNATURE, registry=self._registry
        )
        self._source_tokens = Counter(
            f"{PREFIX}source_tokens",
            "Source sub-words of successful predictions",
            SIGNATURE,
            registry=self._registry,
        )

    def _define_loads(self) -> None:
        self._failed_loads = Counter(
            f"{PREFIX}failed_loads",
            "Versions that could not be loaded",
            ["model"],
            registry=self._registry,
        )
        self._load_seconds = Gauge(
            f"{PREFIX}load_seconds",
            "Load time of the version that was loaded last",
            ["model"],
            registry=self._registry,
        )

    def _histogram(
        self, name: str, meaning: str, buckets: tuple[float, ...] = SECONDS
    ) -> Histogram:
        return Histogram(
            f"{PREFIX}{name}", meaning, SIGNATURE, buckets=buckets, registry=self._registry
        )

    def add_model(self, name: str) -> None:
        """Adds a model, whose counter of failures begins at 0."""
        self._failed_loads.labels(name)

    @contextlib.contextmanager
    def in_flight(self, record: RequestRecord) -> Iterator[None]:
        """Counts a prediction while it is handled; its model and signature must be known."""
        with self._in_flight.labels(record.model, record.signature).track_inprogress():
            yield

    def observe_request(self, record: RequestRecord) -> None:
        """Counts a request whose response is ready."""
        signature = (record.model, record.signature)
        self._requests.labels(record.api, *signature, record.status).inc()
        if record.signature and record.status == OK:
            timing = record.timing
            self._seconds.labels(*signature).observe(record.seconds)
            self._queue_seconds.labels(*signature).observe(timing.queue_seconds)
            self._compute_seconds.labels(*signature).observe(timing.compute_seconds)
            self._rows.labels(*signature).inc(record.rows)
            self._source_tokens.labels(*signature).inc(timing.tokens)
        self._tf_serving.observe_request(record)

    def observe_batch(self, model: str, signature: str, report: BatchReport) -> None:
        """Counts a batch of a signature of a model."""
        self._batch_rows.labels(model, signature).observe(report.rows)
        self._batch_tokens.labels(model, signature).observe(report.tokens)
        self._tf_serving.observe_batch(report)

    def observe_load(self, model: str, path: str, seconds: float, is_loaded: bool) -> None:
        """Counts the load of a version.

        Args:
          model: the name.
          path: the folder of the version.
          seconds: that the load took.
          is_loaded: False for a load that failed.
        """
        if is_loaded:
            self._load_seconds.labels(model).set(seconds)
        else:
            self._failed_loads.labels(model).inc()
        self._tf_serving.observe_load(path, seconds, is_loaded)

    def export(self) -> bytes:
        """Returns the metrics in the text format of Prometheus, as bytes."""
        return prometheus_client.generate_latest(self._registry)


class _TensorFlowServingMetrics:
    """The metrics of TensorFlow Serving. Their unit of time is the microsecond."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        serving, batching = ":tensorflow:serving:", ":tensorflow:serving:batching_session:"
        microseconds, rows = _exponential(10, 1.8, 33), _exponential(1, 2, 14)
        self._requests = _PlainCounter(
            f"{serving}request_count", "Requests for predictions", ["model_name", "status"]
        )
        self._request_latency = Histogram(
            f"{serving}request_latency",
            "Microseconds of successful requests",
            ["model_name", "API", "entrypoint"],
            buckets=microseconds,
            registry=registry,
        )
        self._runtime_latency = Histogram(
            f"{serving}runtime_latency",
            "Microseconds of successful predictions, in the queue and in batches",
            ["model_name", "API", "runtime"],
            buckets=microseconds,
            registry=registry,
        )
        self._queuing_latency = Histogram(
            f"{batching}queuing_latency",
            "Microseconds in the queue, of each part of a request",
            ["thread_pool_name"],
            buckets=_exponential(100, 1.2, 52),
            registry=registry,
        )
        self._input_rows = Histogram(
            f"{batching}input_batch_size", "Rows of requests", buckets=rows, registry=registry
        )
        self._batch_rows = Histogram(
            f"{batching}processed_batch_size", "Rows of batches", buckets=rows, registry=registry
        )
        model = ":tensorflow:cc:saved_model:"
        self._loads = _PlainCounter(
            f"{model}load_attempt_count", "Loads of versions", ["model_path", "status"]
        )
        self._load_latency = _PlainCounter(
            f"{model}load_latency", "Microseconds of successful loads", ["model_path"]
        )
        for counter in (self._requests, self._loads, self._load_latency):
            registry.register(counter)

    def observe_request(self, record: RequestRecord) -> None:
        """Counts a request for a prediction of a model."""
        if not record.model or record.api in ("status", "metadata"):
            return
        self._requests.increment(record.model, STATUS_NAMES.get(record.status, "INTERNAL"))
        if record.status != OK:
            return
        api = "predict" if record.entrypoint == "REST" else "Predict"
        latency = self._request_latency.labels(record.model, api, record.entrypoint)
        latency.observe(MICROSECONDS * record.seconds)
        seconds = record.timing.queue_seconds + record.timing.compute_seconds
        runtime = self._runtime_latency.labels(record.model, "Predict", "TF1")
        runtime.observe(MICROSECONDS * seconds)
        self._input_rows.observe(record.rows)

    def observe_batch(self, report: BatchReport) -> None:
        """Counts a batch."""
        self._batch_rows.observe(report.rows)
        latency = self._queuing_latency.labels(report.lane)
        for seconds in report.queue_seconds:
            latency.observe(MICROSECONDS * seconds)

    def observe_load(self, path: str, seconds: float, is_loaded: bool) -> None:
        """Counts the load of a version."""
        self._loads.increment(path, "success" if is_loaded else "fail")
        if is_loaded:
            self._load_latency.increment(path, amount=round(MICROSECONDS * seconds))


class _PlainCounter(Collector):
    """A counter whose name does not end with `_total`, as `Counter` demands; its type is untyped.

    Args:
      name: of the metric.
      meaning: its description.
      labels: their names.
    """

    def __init__(self, name: str, meaning: str, labels: list[str]) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = labels
        self._lock = threading.Lock()
        self._values: collections.Counter[tuple[str, ...]] = collections.Counter()

    def increment(self, *values: str, amount: int = 1) -> None:
        """Adds to the counter with these values of the labels."""
        with self._lock:
            self._values[values] += amount

    def collect(self) -> Iterator[prometheus_client.Metric]:
        """Is called by the registry."""
        metric = prometheus_client.Metric(self._name, self._meaning, "unknown")
        with self._lock:
            for values, number in self._values.items():
                metric.add_sample(self._name, dict(zip(self._labels, values)), number)
        yield metric


class _ModelGauge(Collector):
    """A number of each model, which a function returns."""

    def __init__(self, name: str, meaning: str, read: Callable[[], dict[str, int]]) -> None:
        self._name = f"{PREFIX}{name}"
        self._meaning = meaning
        self._read = read

    def collect(self) -> Iterator[prometheus_client.Metric]:
        """Is called by the registry."""
        metric = prometheus_client.Metric(self._name, self._meaning, "gauge")
        for model, number in self._read().items():
            metric.add_sample(self._name, {"model": model}, number)
        yield metric


def _exponential(scale: float, growth: float, number: int) -> list[float]:
    """The limits of buckets, with the six digits that TensorFlow Serving writes."""
    return [float(f"{scale * growth**i:.6g}") for i in range(number)]
