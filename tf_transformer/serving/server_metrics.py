"""The Prometheus metrics of the server."""

from collections.abc import Callable

import prometheus_client

PREFIX = "tf_transformer_"
CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST  # of `ServerMetrics.export`


class ServerMetrics:
    """Counts requests.

    Args:
      queue_length: a function that returns the number of requests in the queues.
      failed_loads: a function that returns how often a version could not be loaded.
    """

    def __init__(self, queue_length: Callable[[], int], failed_loads: Callable[[], int]) -> None:
        self._registry = prometheus_client.CollectorRegistry()
        registry = self._registry
        self._requests = prometheus_client.Counter(
            f"{PREFIX}requests", "Requests by status", ["method", "status"], registry=registry
        )
        self._seconds = prometheus_client.Histogram(
            f"{PREFIX}seconds", "Latency of successful requests", ["method"], registry=registry
        )
        self._texts = prometheus_client.Counter(
            f"{PREFIX}texts", "Rows of successful requests", ["method"], registry=registry
        )
        self._version = prometheus_client.Gauge(
            f"{PREFIX}version", "Served version of the model", registry=registry
        )
        waiting = prometheus_client.Gauge(
            f"{PREFIX}waiting", "Requests in the queues", registry=registry
        )
        waiting.set_function(queue_length)
        failed = prometheus_client.Gauge(
            f"{PREFIX}failed_loads", "Versions that could not be loaded", registry=registry
        )
        failed.set_function(failed_loads)
        prometheus_client.ProcessCollector(registry=registry)

    def set_version(self, version: int) -> None:
        """Sets the version that is served."""
        self._version.set(version)

    def count_response(self, method: str, status: int) -> None:
        """Counts a response by its HTTP status."""
        self._requests.labels(method, status).inc()

    def observe_success(self, method: str, rows: int, seconds: float) -> None:
        """Counts the rows of a successful request and records its latency."""
        self._texts.labels(method).inc(rows)
        self._seconds.labels(method).observe(seconds)

    def export(self) -> bytes:
        """Returns the metrics in the text format of Prometheus, as bytes."""
        return prometheus_client.generate_latest(self._registry)
