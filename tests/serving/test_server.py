"""The server with models that a test controls; `test_tensorflow_model.py` has a real one."""

import concurrent.futures
import contextlib
import gzip
import http.client
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import httpx2
import pytest

from serving.fake_models import SECONDS, FakeModel, add_version, running, wait_until
from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder

MODEL = "/v1/models/anna"
PREDICT = f"{MODEL}:predict"
SERVING = ":tensorflow:serving:"
LOADS = ":tensorflow:cc:saved_model:load_attempt_count"


@pytest.fixture
def folder(tmp_path):
    """A folder of versions with version 1."""
    add_version(tmp_path, 1)
    return tmp_path


@pytest.fixture
def web(folder):
    """A client of a server of this folder."""
    with running(folder) as web:
        yield web


@pytest.fixture(autouse=True)
def no_model_stays_in_memory():
    FakeModel.loaded.clear()
    yield
    wait_until(lambda: not FakeModel.loaded)


@pytest.fixture
def threads():
    """The threads of requests that have no answer yet."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def pend(threads):
    """A function that sends a first request, which is computed until the gate opens.

    Returns: the model, and the future of the response.
    """

    def send(web):
        (model,) = FakeModel.loaded
        model.gate.clear()
        future = threads.submit(predict, web, "a")
        assert model.started.acquire(timeout=SECONDS)
        return model, future

    return send


def predict(web, *texts, signature="", **options):
    rows = [{"text": text, **options} for text in texts]
    return web.post(PREDICT, json={"signature_name": signature, "instances": rows})


def translations_of(response):
    """The translations of a successful response."""
    assert response.status_code == 200, response.text
    return [row["translation"] for row in response.json()["predictions"]]


def error_of(response, status):
    """The error message of a response, which must have this status."""
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    return response.json()["error"]


def send(web, body, length):
    """Sends a request for predictions in one piece, so that it arrives in time or not at all.

    Returns: the connection.
    """
    connection = socket.create_connection((web.base_url.host, web.base_url.port), SECONDS)
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def sample(web, name):
    """The value of a metric; 0 where it has no sample yet."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", web.get("/metrics").text, re.M)
    return float(found[1]) if found else 0.0


def wait_for_sample(web, name, value):
    wait_until(lambda: sample(web, name) == value)


def version_of(web):
    return web.get("/healthz").json().get("version")


def states(web):
    """Version -> its state."""
    return {each["version"]: each for each in web.get(MODEL).json()["model_version_status"]}


def test_predictions_status_and_metadata(web):
    expected = [{"score": 1.0, "translation": "A"}, {"score": 1.0, "translation": "B"}]
    for path in (PREDICT, f"{MODEL}/versions/1:predict", f"{MODEL}/versions/01:predict"):
        response = web.post(path, content=b'{"instances": ["a", "b"]}')  # without a type
        assert response.json() == {"predictions": expected}
    columns = web.post(PREDICT, json={"inputs": {"text": ["a", "b"]}}).json()
    assert columns == {"outputs": {"translation": ["A", "B"], "score": [1.0, 1.0]}}
    ok = {"error_code": "OK", "error_message": ""}
    state = {"version": "1", "state": "AVAILABLE", "status": ok}
    for path in (MODEL, f"{MODEL}/versions/1"):
        assert web.get(path).json() == {"model_version_status": [state]}
        metadata = web.get(f"{path}/metadata").json()
        assert metadata["model_spec"] == {"name": "anna", "signature_name": "", "version": "1"}
        signatures = metadata["metadata"]["signature_def"]["signature_def"]
        assert signatures["serving_default"]["inputs"]["text"]["dtype"] == "DT_STRING"
    assert web.get("/healthz").json() == {"status": "ok", "version": 1}
    assert web.get("/healthz/live").json() == {"status": "ok"}


WRONG_PATHS = [
    ("POST", "/v1/models/none:predict", 404, "the model is at /v1/models/anna"),
    ("POST", f"{MODEL}/versions/7:predict", 404, "Servable not found for request: Specific"),
    ("GET", f"{MODEL}/versions/7/metadata", 404, "Servable not found for request: Specific"),
    ("GET", f"{MODEL}/versions/7", 404, "Could not find version 7 of model anna"),
    ("GET", f"{MODEL}/versions/x", 400, "version: "),
    ("GET", f"{MODEL}/versions/{2**63}", 400, "version: "),
    ("GET", PREDICT, 405, "Method Not Allowed"),
    ("GET", "/nothing%0a", 404, "nothing is here"),
    ("GET", "/page.js/../server.py", 404, "nothing is here"),
]


def test_wrong_paths(web):
    for method, path, status, message in WRONG_PATHS:
        assert message in error_of(web.request(method, path), status), path
    wait_for_sample(web, f'{SERVING}request_count{{model_name="anna",status="UNIMPLEMENTED"}}', 1)


def test_limits_of_requests(folder):
    with running(folder, max_rows=4, max_request_tokens=9, max_request_bytes=999) as web:
        assert "takes at most 4" in error_of(predict(web, *"abcde"), 413)
        assert "at most 9" in error_of(predict(web, "a " * 4, "a " * 6), 413)
        # One is answered though the client still sends, one is without Content-Length.
        for body in (b"a" * 30_000_000, (b"a" * 100 for _ in range(20))):
            assert "more than 999 bytes" in error_of(web.post(PREDICT, content=body), 413)
        assert error_of(web.post(PREDICT, content=b"\xff"), 400).startswith("JSON Parse error")
        gzip_header = {"Content-Encoding": "gzip"}
        body = b'{"instances": ["a"]}'
        for content, status in (
            (gzip.compress(body), 200),
            (gzip.compress(body + b" " * 10_000), 413),  # unpacked
            (gzip.compress(body)[:20], 400),
            (body, 400),
        ):
            answer = web.post(PREDICT, content=content, headers=gzip_header)
            assert answer.status_code == status, answer.text
        assert translations_of(predict(web, "a")) == ["A"]


def test_a_long_body_is_parsed_in_a_thread_of_its_own(web):
    (model,) = FakeModel.loaded
    rows = b'{"instances": [%s1]}' % (b"1," * 400_000)
    for body, headers in ((rows, {}), (gzip.compress(rows), {"Content-Encoding": "gzip"})):
        answer = web.post(PREDICT, content=body, headers=headers)
        assert "takes at most 256" in error_of(answer, 413)
        assert not model.counted
    assert len(model.parsers) == 1
    predict(web, "a")
    assert len(model.parsers) == 2


def test_long_texts_do_not_delay_short_ones(folder, threads):
    with running(folder, max_request_tokens=2000) as web:
        (model,) = FakeModel.loaded
        model.gate.clear()
        slow = [threads.submit(predict, web, "slow " * 4000) for _ in range(4)]
        wait_until(lambda: model.counted)
        count = web.post(PREDICT, json={"signature_name": "count_tokens", "instances": ["a b"]})
        assert count.json() == {"predictions": [2]}
        # More than 16 bytes for each sub-word that a request may have.
        assert "32,002 bytes of text" in error_of(predict(web, "é" * 16_001), 413)
        model.gate.set()
        assert all("4,000 sub-words" in error_of(each.result(SECONDS), 413) for each in slow)
        assert {*model.counted} == {"slow " * 4000, "a b"}


def test_an_overloaded_server_refuses_requests_and_recovers(folder, threads, pend):
    with running(folder, max_queue=1) as web:
        model, first = pend(web)
        others = [threads.submit(predict, web, "b") for _ in range(2)]  # one waits
        refused = next(concurrent.futures.as_completed(others, SECONDS))
        assert "1 requests are waiting" in error_of(refused.result(), 503)
        assert refused.result().headers["retry-after"] == "1"
        model.gate.set()
        (waited,) = {*others} - {refused}
        answers = [translations_of(each.result(SECONDS)) for each in (first, waited)]
        assert answers == [["A"], ["B"]]
        assert translations_of(predict(web, "d")) == ["D"]


def test_requests_that_are_not_computed_in_time(folder, threads):
    """One is computed, the other waits."""

    def answer(body):
        with send(web, body, len(body)) as connection:
            response = http.client.HTTPResponse(connection)
            response.begin()
            return response.status, response.read()

    body = b'{"instances": ["a"]}'
    with running(folder, timeout=1.0) as web:
        (model,) = FakeModel.loaded
        model.gate.clear()
        expected = 504, b'{"error":"no answer within 1 s"}'
        assert [*threads.map(answer, [body] * 2)] == [expected] * 2
        model.gate.set()
        wait_until(lambda: answer(body)[0] == 200)


def test_a_client_that_disconnects_withdraws_its_request(pend, web):
    model, first = pend(web)
    body = b'{"instances": ["withdrawn"]}'
    with send(web, body, len(body)):
        wait_until(lambda: "withdrawn" in model.counted)
    wait_for_sample(web, f'{SERVING}request_count{{model_name="anna",status="CANCELLED"}}', 1)
    model.gate.set()
    assert translations_of(first.result(SECONDS)) == ["A"]
    assert [batch["text"] for batch in model.batches] == [["a"]]


def test_a_body_that_does_not_arrive(folder):
    with running(folder, timeout=0.2) as web, send(web, b"{", 9) as connection:
        response = connection.makefile("rb").read()  # until the server closes the connection
        assert response.startswith(b"HTTP/1.1 408")
        assert b"not complete within 0.2 s" in response


def test_errors_of_the_model_reach_only_their_request(folder, caplog):
    caplog.set_level(logging.INFO, logger="tf_transformer.serving")
    with running(folder) as web:
        headers = {"X-Request-Id": "mine"}
        response = web.post(PREDICT, json={"instances": ["bug"]}, headers=headers)
        assert "X-Request-Id" in error_of(response, 500)
        assert response.headers["x-request-id"] == "mine"
        assert error_of(predict(web, "bad"), 400) == "the text is bad"
        assert translations_of(predict(web, "good")) == ["GOOD"]
        for given in ("a b", "x" * 129, '"'):  # these could break the log
            response = web.get(MODEL, headers={"X-Request-Id": given})
            assert re.fullmatch("[0-9a-f]{32}", response.headers["x-request-id"])
    assert "request mine failed" in caplog.messages
    lines = [message for message in caplog.messages if f" POST {PREDICT} " in message]
    line = r"\S+ POST \S+ (\d+) \S+ s (\S+)"
    codes, ids = zip(*(re.fullmatch(line, each).groups() for each in lines))
    assert (codes, ids[0]) == (("500", "400", "200"), "mine")


def test_metrics(web, folder):
    """With the names of TensorFlow Serving."""
    predict(web, "a b", "c")
    predict(web, "bad")
    predict(web, "d", "e", "f")
    text = web.get("/metrics").text
    assert web.get("/monitoring/prometheus/metrics").status_code == 200
    lines = f"""\
{SERVING}request_count{{model_name="anna",status="OK"}} 2.0
{SERVING}request_count{{model_name="anna",status="INVALID_ARGUMENT"}} 1.0
{SERVING}request_latency_count{{API="predict",entrypoint="REST",model_name="anna"}} 2.0
{SERVING}runtime_latency_count{{API="Predict",model_name="anna",runtime="TF1"}} 2.0
{SERVING}batching_session:queuing_latency_count{{model_name="anna",thread_pool_name="short"}} 3.0
{SERVING}batching_session:input_batch_size_sum{{model_name="anna"}} 5.0
{SERVING}batching_session:processed_batch_size_sum{{model_name="anna"}} 6.0
{LOADS}{{model_path="anna/1",status="success"}} 1.0"""
    assert set(lines.splitlines()) <= set(text.splitlines())
    assert "process_resident_memory_bytes" in text
    assert str(folder) not in text


def test_a_newer_version_replaces_the_current_one_which_answers_its_requests(folder, pend, web):
    old, pending = pend(web)
    add_version(folder, "0012")  # with leading zeros, as in TensorFlow Serving
    wait_until(lambda: version_of(web) == 12)
    assert not old.is_closed
    assert "Specific(anna, 1)" in error_of(web.get(f"{MODEL}/versions/1/metadata"), 404)
    old.gate.set()
    assert pending.result(SECONDS).json()["predictions"] == [{"translation": "A", "score": 1.0}]
    wait_until(lambda: old.is_closed)
    os.rmdir(folder / "0012")  # an older one does not take its place
    add_version(folder, 3)
    add_version(folder, 20)
    wait_until(lambda: version_of(web) == 20)
    assert predict(web, "b").json()["predictions"] == [{"translation": "B", "score": 20.0}]


def test_a_version_that_cannot_be_loaded_is_tried_again(folder):
    add_version(folder, 2, "broken")
    with running(folder) as web:  # at the start, an older version stands in for it
        found = wait_until(lambda: (now := states(web)) and now["2"]["state"] == "END" and now)
        assert found["1"]["state"] == "AVAILABLE"
        assert found["2"]["status"] == {
            "error_code": "FAILED_PRECONDITION", "error_message": "2/broken is broken",
        }  # fmt: skip
        assert sample(web, f'{LOADS}{{model_path="anna/2",status="fail"}}') >= 1
        assert version_of(web) == 1
        add_version(folder, 3, "broken")
        wait_until(lambda: "3" in states(web))
        assert translations_of(predict(web, "a")) == ["A"]
        (folder / "3" / "broken").unlink()  # as when a slow copy ends
        wait_until(lambda: version_of(web) == 3)
        wait_until(lambda: list(states(web)) == ["3", "2"])


def test_several_models(folder, tmp_path_factory, threads):
    """Each has its own path, versions, queue and metrics."""
    other = tmp_path_factory.mktemp("other")
    add_version(other, 5)
    with running(folder, others=[("anna2", other)]) as web:
        assert web.get("/healthz").json() == {"status": "ok", "version": [1, 5]}
        answers = [
            web.post(f"/v1/models/{name}:predict", json={"instances": ["a"]}).json()["predictions"]
            for name in ("anna", "anna2")
        ]
        assert [each["score"] for (each,) in answers] == [1.0, 5.0]
        for name in ("anna", "anna2"):
            assert sample(web, f'{SERVING}request_count{{model_name="{name}",status="OK"}}') == 1
        assert "/anna or /v1/models/anna2" in error_of(web.get("/v1/models/none"), 404)
        anna = next(model for model in FakeModel.loaded if model.version == 1)
        anna.gate.clear()
        pending = threads.submit(predict, web, "b")
        wait_until(lambda: len(anna.batches) == 2)
        answer = web.post("/v1/models/anna2:predict", json={"instances": ["c"]})
        assert translations_of(answer) == ["C"]
        anna.gate.set()
        assert translations_of(pending.result(SECONDS)) == ["B"]
        add_version(other, 6)
        wait_until(lambda: version_of(web) == [1, 6])


def test_requests_before_the_model_is_loaded(folder):
    gate = threading.Event()

    def load(path):
        assert gate.wait(SECONDS)
        return FakeModel(path)

    with running(folder, load=load, is_ready=False) as web:
        assert web.get("/healthz/live").status_code == 200
        ready = web.get("/healthz/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "the model is being loaded")
        refused = predict(web, "a")
        assert error_of(refused, 503) == "the model is being loaded"
        assert refused.headers["retry-after"] == "1"
        assert wait_until(lambda: states(web))["1"]["state"] == "LOADING"
        gate.set()
        wait_until(lambda: predict(web, "a").status_code == 200)
        (model,) = FakeModel.loaded
        assert {"beam_size": [4], "text": ["."]} in model.warmed  # each signature, before that
        assert len(model.warmed) == 3


@pytest.mark.parametrize("in_time", [True, False])
def test_requests_at_the_end_of_the_server(folder, pend, in_time):
    """One is answered, and one is computed longer than the server waits for it."""
    with running(folder, grace=SECONDS if in_time else 1) as web:
        model, pending = pend(web)
        web.server.should_exit = True
        wait_until(lambda: not web.server.servers[0].is_serving())
        if in_time:
            model.gate.set()
            assert translations_of(pending.result(SECONDS)) == ["A"]
        else:
            assert error_of(pending.result(SECONDS), 503) == "the server is shutting down"


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, engine", [(signal.SIGTERM, "tensorflow"), (signal.SIGINT, "ctranslate2")]
)
def test_a_signal_ends_the_command_in_order(cold_export, tmp_path, number, engine):
    export = os.path.dirname(cold_export)
    if engine == "ctranslate2":
        export = str(tmp_path / "1")
        write_ctranslate2_folder("pocket-en-de", export)
    command = [sys.executable, "-m", "tf_transformer", "serve", "--port=0", "--name=anna"]
    command += [f"--export_dir={export}", f"--engine={engine}"]
    log = tmp_path / "log"
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(log, "w"))
        process = stack.enter_context(subprocess.Popen(command, stderr=file))
        stack.callback(process.kill)
        address = wait_until(lambda: re.search("listening at (.*)\n", log.read_text()))[1]
        web = stack.enter_context(httpx2.Client(base_url=address, timeout=SECONDS))
        wait_until(lambda: web.get("/healthz/ready").status_code == 200)
        assert len(translations_of(predict(web, "a"))) == 1
        process.send_signal(number)
        assert process.wait(SECONDS) == 0, log.read_text()


def test_the_page_and_its_files(web, folder):
    """No text is parsed as HTML. `browser_page.py` tests them in a browser."""
    (folder / "1" / "assets.extra").mkdir()
    (folder / "1" / "assets.extra" / "model.json").write_text('{"source": "en"}')
    assert web.get("/models.json").json() == {"anna": {"source": "en"}}
    page = web.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(r"<style|\s(on\w+|style)=|https?://|\$\w", page.text)
    assert set(re.findall(r"<script[^>]*>(.*?)</script>", page.text, re.S)) == {""}
    names = re.findall(r'(?:src|href)="(.*?)"', page.text)
    for name in set(names) - {"data:,"}:
        file = web.get(f"/{name}")
        assert file.status_code == 200 and not re.search("HTML|document.write", file.text)
    assert 'data-names="anna"' in page.text
