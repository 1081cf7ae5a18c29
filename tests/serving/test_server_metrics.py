"""The Prometheus metrics of the server."""

import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tf_transformer.serving.request_record import RequestRecord
from tf_transformer.serving.server_metrics import ServerMetrics
from tf_transformer.serving.timing import BatchReport

SIGNATURE = {"model": "anna", "signature": "nbest"}


@pytest.fixture
def metrics():
    return ServerMetrics(lambda: {"anna": 3, "otto": 0}, lambda: {"anna": 12})


def a_prediction(status=200, **fields):
    """The record of a prediction of 3 rows with 20 sub-words, which took half a second."""
    record = RequestRecord(
        api="predict", model="anna", signature="nbest", rows=3, status=status, seconds=0.5, **fields
    )
    record.timing.submit(tokens=20)
    record.timing.start_part(batch_rows=4)
    record.timing.end_part()
    record.timing.answer()
    return record


def values(metrics):
    """The exported samples: (name, labels) -> value; it fails for text that is not valid."""
    families = list(text_string_to_metric_families(metrics.export().decode()))
    names = [family.name for family in families]
    assert len(set(names)) == len(names)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def value(metrics, name, **labels):
    return values(metrics)[name, tuple(sorted(labels.items()))]


def test_a_prediction(metrics):
    record = a_prediction()
    with metrics.in_flight(record):
        assert value(metrics, "tf_transformer_in_flight", **SIGNATURE) == 1
    assert value(metrics, "tf_transformer_in_flight", **SIGNATURE) == 0
    metrics.observe_request(record)
    metrics.observe_request(a_prediction(status=504))
    for status in ("200", "504"):
        labels = {"method": "predict", "status": status, **SIGNATURE}
        assert value(metrics, "tf_transformer_requests_total", **labels) == 1
    assert value(metrics, "tf_transformer_rows_total", **SIGNATURE) == 3
    assert value(metrics, "tf_transformer_source_tokens_total", **SIGNATURE) == 20
    seconds = "tf_transformer_request_seconds"
    assert value(metrics, f"{seconds}_sum", **SIGNATURE) == 0.5
    assert value(metrics, f"{seconds}_bucket", le="0.25", **SIGNATURE) == 0
    assert value(metrics, f"{seconds}_bucket", le="0.5", **SIGNATURE) == 1
    for name in ("queue_seconds", "compute_seconds"):
        assert value(metrics, f"tf_transformer_{name}_count", **SIGNATURE) == 1


def test_a_batch(metrics):
    metrics.observe_batch("anna", "nbest", BatchReport("long", 5, 60, [0.001, 0.002]))
    assert value(metrics, "tf_transformer_batch_rows_sum", **SIGNATURE) == 5
    assert value(metrics, "tf_transformer_batch_tokens_sum", **SIGNATURE) == 60
    batching = ":tensorflow:serving:batching_session:"
    assert value(metrics, f"{batching}processed_batch_size_sum") == 5
    latency = f"{batching}queuing_latency"
    assert value(metrics, f"{latency}_count", thread_pool_name="long") == 2
    assert value(metrics, f"{latency}_sum", thread_pool_name="long") == pytest.approx(3000)


def test_loads_and_models(metrics):
    metrics.add_model("anna")
    assert value(metrics, "tf_transformer_failed_loads_total", model="anna") == 0
    metrics.observe_load("anna", "/models/anna/1", 1.5, True)
    metrics.observe_load("anna", "/models/anna/2", 0.5, False)
    assert value(metrics, "tf_transformer_failed_loads_total", model="anna") == 1
    assert value(metrics, "tf_transformer_load_seconds", model="anna") == 1.5
    assert value(metrics, "tf_transformer_version", model="anna") == 12
    assert value(metrics, "tf_transformer_waiting", model="anna") == 3
    assert value(metrics, "tf_transformer_waiting", model="otto") == 0
    loads = ":tensorflow:cc:saved_model:load"
    first, second = {"model_path": "/models/anna/1"}, {"model_path": "/models/anna/2"}
    assert value(metrics, f"{loads}_attempt_count", status="success", **first) == 1
    assert value(metrics, f"{loads}_attempt_count", status="fail", **second) == 1
    assert value(metrics, f"{loads}_latency", **first) == 1_500_000
    assert abs(value(metrics, "process_start_time_seconds") - time.time()) < 10**5


def test_the_metrics_of_tensorflow_serving(metrics):
    """Their names and labels as in its source; times in microseconds."""
    metrics.observe_request(a_prediction())
    metrics.observe_request(a_prediction(entrypoint="GRPC"))
    for status in (400, 503, 500):
        metrics.observe_request(a_prediction(status))
    metrics.observe_request(RequestRecord(api="status", model="anna", status=200))
    serving = ":tensorflow:serving:"
    statuses = {"OK": 2, "INVALID_ARGUMENT": 1, "UNAVAILABLE": 1, "INTERNAL": 1}
    for status, number in statuses.items():
        labels = {"model_name": "anna", "status": status}
        assert value(metrics, f"{serving}request_count", **labels) == number
    for api, entrypoint in (("predict", "REST"), ("Predict", "GRPC")):
        labels = {"model_name": "anna", "API": api, "entrypoint": entrypoint}
        assert value(metrics, f"{serving}request_latency_sum", **labels) == 500_000
        assert value(metrics, f"{serving}request_latency_bucket", le="393464.0", **labels) == 0
        assert value(metrics, f"{serving}request_latency_bucket", le="708235.0", **labels) == 1
    labels = {"model_name": "anna", "API": "Predict", "runtime": "TF1"}
    assert value(metrics, f"{serving}runtime_latency_count", **labels) == 2
    assert value(metrics, f"{serving}batching_session:input_batch_size_sum") == 6


def test_requests_without_a_known_model_have_empty_labels(metrics):
    for status in (404, 404, 400):
        metrics.observe_request(RequestRecord(api="predict", path="/v1/models/x", status=status))
    unknown = {"method": "predict", "model": "", "signature": ""}
    assert value(metrics, "tf_transformer_requests_total", status="404", **unknown) == 2
    assert not [name for name, _ in values(metrics) if name == ":tensorflow:serving:request_count"]


def test_counting_takes_much_less_time_than_a_request(metrics):
    record = a_prediction()
    report = BatchReport("short", 4, 40, [0.01])
    start = time.process_time()
    for _ in range(1000):
        metrics.observe_request(record)
        metrics.observe_batch("anna", "nbest", report)
    assert time.process_time() - start < 0.5  # half a millisecond for each; usually 0.03
