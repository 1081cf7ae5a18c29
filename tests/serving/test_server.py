"""The server with models that a test controls; `test_tensorflow_model.py` has a real one."""

import contextlib
import gzip
import json
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
import uvicorn
from starlette.testclient import TestClient

from serving.fake_models import FakeModel, add_version, wait_until
from tf_transformer.config import ServeConfig
from tf_transformer.errors import UserError
from tf_transformer.serving.server import Server, bind_address

MODEL = "/v1/models/anna"
PREDICT = f"{MODEL}:predict"


def make_server(folder, **settings):
    """A server that looks for versions at once."""
    return Server("anna", str(folder), ServeConfig(reload_seconds=0.1, **settings), FakeModel)


@contextlib.contextmanager
def running(folder, **settings):
    """An HTTP client of a server whose model is loaded; the server runs in this process."""
    app = make_server(folder, **settings).app
    with TestClient(app, raise_server_exceptions=False) as web:
        wait_until(lambda: web.get("/healthz/ready").status_code == 200)
        yield web


@contextlib.contextmanager
def listening(folder, **settings):
    """The address of a server whose model is loaded, and the uvicorn server that runs it."""
    config = uvicorn.Config(
        make_server(folder, **settings).app, port=0, log_level="error",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        host, port = server.servers[0].sockets[0].getsockname()
        url = f"http://{host}:{port}"
        wait_until(lambda: httpx2.get(f"{url}/healthz/ready").status_code == 200)
        yield url, server
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def folder(tmp_path):
    """A folder of versions with version 1."""
    add_version(tmp_path, 1)
    return tmp_path


@pytest.fixture(autouse=True)
def no_model_stays_in_memory():
    FakeModel.loaded.clear()
    yield
    wait_until(lambda: not FakeModel.loaded)


def predict(web, *texts, signature="", **options):
    rows = [{"text": text, **options} for text in texts]
    return web.post(PREDICT, json={"signature_name": signature, "instances": rows})


def error_of(response, status):
    """The error message of a response, which must have this status."""
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    return response.json()["error"]


def connect(url):
    """A connection to a server."""
    return socket.create_connection(re.match("http://(.*):(.*)", url).groups(), timeout=60)


def in_threads(function, *arguments):
    """Starts a thread for each argument. Returns: a function that waits for the results."""
    results = [None] * len(arguments)

    def call(i):
        results[i] = function(arguments[i])

    threads = [threading.Thread(target=call, args=[i]) for i in range(len(arguments))]
    for thread in threads:
        thread.start()

    def wait():
        for thread in threads:
            thread.join()
        return results

    return wait


def sample(web, name):
    """The value of a metric; 0 where it has no sample yet."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", web.get("/metrics").text, re.M)
    return float(found[1]) if found else 0.0


def test_predictions_status_and_metadata(folder):
    with running(folder) as web:
        expected = [{"score": 1.0, "translation": "A"}, {"score": 1.0, "translation": "B"}]
        for path in (PREDICT, f"{MODEL}/versions/1:predict", f"{MODEL}/versions/01:predict"):
            response = web.post(path, content=b'{"instances": ["a", "b"]}')  # without a type
            assert response.json() == {"predictions": expected}
        columns = web.post(PREDICT, json={"inputs": {"text": ["a", "b"]}}).json()
        assert columns == {"outputs": {"translation": ["A", "B"], "score": [1.0, 1.0]}}
        assert predict(web, "c", signature="options").json()["predictions"][0]["score"] == 1.0
        state = {
            "version": "1",
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        for path in (MODEL, f"{MODEL}/versions/1"):
            assert web.get(path).json() == {"model_version_status": [state]}
            metadata = web.get(f"{path}/metadata").json()
            assert metadata["model_spec"] == {"name": "anna", "signature_name": "", "version": "1"}
            signatures = metadata["metadata"]["signature_def"]["signature_def"]
            assert signatures["serving_default"]["inputs"]["text"]["dtype"] == "DT_STRING"
        assert web.get("/healthz").json() == {"status": "ok", "version": 1}
        assert web.get("/healthz/live").json() == {"status": "ok"}


@pytest.mark.parametrize(
    "method, path, status, message",
    [
        ("POST", "/v1/models/none:predict", 404, "the model is at /v1/models/anna"),
        ("POST", f"{MODEL}/versions/7:predict", 404, "Servable not found for request: Specific"),
        ("GET", f"{MODEL}/versions/7/metadata", 404, "Servable not found for request: Specific"),
        ("GET", f"{MODEL}/versions/7", 404, "Could not find version 7 of model anna"),
        ("GET", f"{MODEL}/versions/x", 400, "version: Input should be a valid integer"),
        ("GET", f"{MODEL}/versions/{2**63}", 400, "version: Input should be less than or equal"),
        ("GET", f"{MODEL}/versions/{'9' * 5000}", 400, "version: "),
        ("GET", f"{MODEL}/versions/-1", 400, "version: "),
        ("GET", PREDICT, 405, "Method Not Allowed"),
        ("DELETE", MODEL, 405, "Method Not Allowed"),
        ("GET", "/nothing%0a", 404, "nothing is here"),
        ("GET", "/docs/", 404, "nothing is here"),
        ("GET", "/swagger-ui/../server.py", 404, "nothing is here"),
    ],
)
def test_wrong_paths(folder, method, path, status, message):
    with running(folder) as web:
        response = web.request(method, path, **({"json": {}} if method == "POST" else {}))
        assert message in error_of(response, status)


def test_limits_of_requests(folder):
    limits = {"max_rows": 4, "max_rows_alone": 2, "max_request_tokens": 9, "max_request_bytes": 999}
    with running(folder, **limits) as web:
        assert "serving_default takes at most 4" in error_of(predict(web, *"abcde"), 413)
        refused = predict(web, *"abc", signature="alignments")
        assert "alignments takes at most 2" in error_of(refused, 413)
        message = "10 sub-words in one request: the server takes at most 9"
        assert error_of(predict(web, "a " * 4, "a " * 6), 413) == message
        assert "more than 999 bytes" in error_of(predict(web, "a" * 999), 413)
        parts = (b"a" * 100 for _ in range(20))  # without Content-Length
        assert "more than 999 bytes" in error_of(web.post(PREDICT, content=parts), 413)
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
        assert predict(web, "a").status_code == 200


def test_a_large_request_is_answered_though_the_client_still_sends(folder):
    with listening(folder) as (url, _):
        assert error_of(httpx2.post(url + PREDICT, content=b"a" * 30_000_000), 413)


def test_requests_that_wait_are_batched_by_their_options(folder):
    with running(folder) as web:
        (model,) = FakeModel.loaded
        model.gate.clear()
        first = in_threads(lambda text: predict(web, text), "first")
        assert model.started.acquire(timeout=60)
        rows = [("a", 1), ("b", 2), ("c", 1), ("d", 2)]
        others = in_threads(
            lambda row: predict(web, row[0], signature="options", beam_size=row[1]), *rows
        )
        wait_until(lambda: sample(web, "tf_transformer_waiting") == 4)
        model.gate.set()
        (response,) = first()
        assert response.status_code == 200
        translations = [answer.json()["predictions"][0]["translation"] for answer in others()]
        assert translations == ["A", "B", "C", "D"]
        batches = [batch for batch in model.batches if "beam_size" in batch]
        assert sorted((sorted(batch["text"]), batch["beam_size"]) for batch in batches) == [
            (["a", "c"], [1, 1]), (["b", "d"], [2, 2]),
        ]  # fmt: skip


def test_an_overloaded_server_refuses_requests_and_recovers(folder):
    with running(folder, max_queue=1, timeout=0.5) as web:
        (model,) = FakeModel.loaded
        model.gate.clear()
        first = in_threads(lambda text: predict(web, text), "a")
        assert model.started.acquire(timeout=60)
        second = in_threads(lambda text: predict(web, text), "b")
        wait_until(lambda: sample(web, "tf_transformer_waiting") == 1)
        refused = predict(web, "c")
        assert error_of(refused, 503) == "1 requests are waiting: try again later"
        assert refused.headers["retry-after"] == "1"
        for (response,) in (first(), second()):
            assert error_of(response, 504) == "no answer within 0.5 s"
        model.gate.set()
        wait_until(lambda: predict(web, "d").status_code == 200)


def test_a_client_that_disconnects_withdraws_its_request(folder):
    with listening(folder) as (url, _):
        (model,) = FakeModel.loaded
        model.gate.clear()
        first = in_threads(lambda text: httpx2.post(url + PREDICT, json={"inputs": [text]}), "a")
        assert model.started.acquire(timeout=60)
        body = b'{"instances": ["withdrawn"]}'
        with connect(url) as connection:
            head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            with httpx2.Client(base_url=url) as web:
                wait_until(lambda: sample(web, "tf_transformer_waiting") == 1)
                connection.close()
                wait_until(lambda: sample(web, "tf_transformer_waiting") == 0)
                model.gate.set()
                assert first()[0].json() == {"outputs": {"score": [1.0], "translation": ["A"]}}
                cancelled = 'request_count{model_name="anna",status="CANCELLED"}'
                wait_until(lambda: sample(web, f":tensorflow:serving:{cancelled}") == 1)
        assert ["withdrawn"] not in [batch["text"] for batch in model.batches]


def test_errors_of_the_model_reach_only_their_request(folder, caplog):
    caplog.set_level(logging.INFO, logger="tf_transformer.serving")
    with running(folder) as web:
        headers = {"X-Request-Id": "mine"}
        response = web.post(PREDICT, json={"instances": ["bug"]}, headers=headers)
        assert error_of(response, 500) == "internal error: the log has it beside X-Request-Id"
        assert response.headers["x-request-id"] == "mine"
        assert error_of(predict(web, "bad"), 400) == "the text is bad"
        others = predict(web, "good")
        assert others.status_code == 200
        assert len(others.headers["x-request-id"]) == 32
    assert "request mine failed" in caplog.messages
    lines = [message for message in caplog.messages if PREDICT in message]
    assert [re.fullmatch(r"(\S+) POST (\S+) (\d+) \S+ s (\S+)", line)[3] for line in lines] == [
        "500", "400", "200",
    ]  # fmt: skip
    assert lines[0].endswith(" mine")


def test_an_id_that_could_break_the_log_is_replaced(folder):
    with running(folder) as web:
        for given in ("a b", "x" * 129, '"'):
            response = web.get(MODEL, headers={"X-Request-Id": given})
            assert re.fullmatch("[0-9a-f]{32}", response.headers["x-request-id"])


def test_metrics(folder):
    with running(folder) as web:
        predict(web, "a b", "c")
        predict(web, "bad")
        text = web.get("/metrics").text
        assert web.get("/monitoring/prometheus/metrics").status_code == 200
    serving = ":tensorflow:serving:"
    for line in (
        f'{serving}request_count{{model_name="anna",status="OK"}} 1.0',
        f'{serving}request_count{{model_name="anna",status="INVALID_ARGUMENT"}} 1.0',
        f'{serving}request_latency_count{{API="predict",entrypoint="REST",model_name="anna"}} 1.0',
        f'{serving}runtime_latency_count{{API="Predict",model_name="anna",runtime="TF1"}} 1.0',
        f'{serving}batching_session:queuing_latency_count{{thread_pool_name="short"}} 2.0',
        f"{serving}batching_session:input_batch_size_sum 2.0",
        f"{serving}batching_session:processed_batch_size_sum 3.0",
        ':tensorflow:cc:saved_model:load_attempt_count{model_path="anna/1",status="success"} 1.0',
        "tf_transformer_tokens_total 3.0",
        "tf_transformer_version 1.0",
        "tf_transformer_waiting 0.0",
    ):
        assert line in text.splitlines()
    assert "process_resident_memory_bytes" in text
    assert str(folder) not in text


def version_of(web):
    return web.get("/healthz").json().get("version")


def test_a_newer_version_replaces_the_current_one_which_answers_its_requests(folder):
    with running(folder) as web:
        (old,) = FakeModel.loaded
        old.gate.clear()
        pending = in_threads(lambda text: predict(web, text), "a")
        assert old.started.acquire(timeout=60)
        add_version(folder, "0012")  # with leading zeros, as in TensorFlow Serving
        wait_until(lambda: version_of(web) == 12)
        assert not old.is_closed
        assert "Specific(anna, 1)" in error_of(web.get(f"{MODEL}/versions/1/metadata"), 404)
        old.gate.set()
        assert pending()[0].json()["predictions"] == [{"translation": "A", "score": 1.0}]
        wait_until(lambda: old.is_closed)
        os.rmdir(folder / "0012")  # an older one does not take its place
        add_version(folder, 3)
        add_version(folder, 20)
        wait_until(lambda: version_of(web) == 20)
        assert predict(web, "b").json()["predictions"] == [{"translation": "B", "score": 20.0}]


def test_a_version_that_cannot_be_loaded_is_tried_again(folder):
    with running(folder) as web:
        (folder / "new").mkdir()
        (folder / "new" / "broken").touch()
        (folder / "new").rename(folder / "2")

        def states():
            return {
                state["version"]: state for state in web.get(MODEL).json()["model_version_status"]
            }

        wait_until(lambda: "2" in states())
        found = states()
        assert (found["1"]["state"], found["2"]["state"]) == ("AVAILABLE", "END")
        assert found["2"]["status"] == {
            "error_code": "FAILED_PRECONDITION", "error_message": "2/broken is broken",
        }  # fmt: skip
        attempts = ":tensorflow:cc:saved_model:load_attempt_count"
        assert sample(web, f'{attempts}{{model_path="anna/2",status="fail"}}') >= 1
        assert version_of(web) == 1
        (folder / "2" / "broken").unlink()  # as when a slow copy ends
        wait_until(lambda: version_of(web) == 2)
        assert list(states()) == ["2"]


def test_at_the_start_an_older_version_stands_in_for_a_broken_one(folder):
    add_version(folder, 2)
    (folder / "2" / "broken").touch()
    with running(folder) as web:
        assert version_of(web) == 1


def test_requests_before_the_model_is_loaded(folder):
    gate = threading.Event()

    def load(path, concurrency):
        gate.wait()
        return FakeModel(path)

    with TestClient(Server("anna", str(folder), ServeConfig(), load).app) as web:
        assert web.get("/healthz/live").status_code == 200
        ready = web.get("/healthz/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "the model is being loaded")
        refused = predict(web, "a")
        assert error_of(refused, 503) == "the model is being loaded"
        assert refused.headers["retry-after"] == "1"
        wait_until(lambda: web.get(MODEL).json()["model_version_status"])
        (state,) = web.get(MODEL).json()["model_version_status"]
        assert (state["version"], state["state"]) == ("1", "LOADING")
        gate.set()
        wait_until(lambda: predict(web, "a").status_code == 200)


def test_requests_at_the_end_of_the_server(folder):
    """One is answered in time, and one is computed longer than the server waits for it."""
    with listening(folder) as (url, server):
        (model,) = FakeModel.loaded
        model.gate.clear()
        send = in_threads(
            lambda i: httpx2.post(url + PREDICT, json={"inputs": ["a"]}, timeout=60), 0
        )
        assert model.started.acquire(timeout=60)
        server.should_exit = True
        (late,) = send()
        assert error_of(late, 503) == "the server is shutting down"
    add_version(folder, 2)
    with listening(folder) as (url, server):
        (model,) = FakeModel.loaded
        model.gate.clear()
        send = in_threads(lambda i: httpx2.post(url + PREDICT, json={"inputs": ["a"]}), 0)
        assert model.started.acquire(timeout=60)
        server.should_exit = True
        model.gate.set()
        assert send()[0].json()["outputs"]["translation"] == ["A"]


def test_a_body_that_does_not_arrive(folder):
    with listening(folder, timeout=0.2) as (url, _), connect(url) as connection:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
        connection.sendall(head.encode() + b"{")
        response = connection.makefile("rb").read()  # until the server closes the connection
        assert response.startswith(b"HTTP/1.1 408")
        assert b"not complete within 0.2 s" in response


def test_a_folder_without_a_version_is_an_error(tmp_path):
    settings = ServeConfig(port=0)
    with bind_address(settings) as bound, pytest.raises(UserError, match="can be loaded"):
        Server("anna", str(tmp_path), settings, FakeModel).run(bound)


def test_addresses_that_cannot_be_used():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} .Address already in use.: give another"):
            bind_address(ServeConfig(port=port))
    for host in ("192.0.2.1", "no.such.host.invalid", "\udcff"):
        with pytest.raises(UserError, match="cannot listen at"):
            bind_address(ServeConfig(host=host, port=0))


SERVER = """
import sys
from serving.fake_models import FakeModel
from tf_transformer.cli.interrupts import handle_interrupts
from tf_transformer.config import ServeConfig
from tf_transformer.serving.server import Server, bind_address
handle_interrupts()
settings = ServeConfig(port=0, drain_seconds=float(sys.argv[2]))
with bind_address(settings) as bound:
    print(bound.getsockname()[1], flush=True)
    Server("anna", sys.argv[1], settings, FakeModel).run(bound)
print("ended in order")
"""


@contextlib.contextmanager
def server_process(folder, drain_seconds):
    """The process of a server that is ready, and its address."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["tests", *sys.path])}
    command = [sys.executable, "-c", SERVER, str(folder), str(drain_seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"

        def is_ready():
            with contextlib.suppress(httpx2.HTTPError):
                return httpx2.get(f"{url}/healthz/ready").status_code == 200

        wait_until(is_ready)
        yield process, url
        assert process.communicate(timeout=60)[0] == b"ended in order\n"
        assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_in_order(folder, number):
    with server_process(folder, drain_seconds=0) as (process, _):
        process.send_signal(number)


def test_health_checks_fail_before_the_server_stops(folder):
    with server_process(folder, drain_seconds=3600) as (process, url):
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: httpx2.get(f"{url}/healthz/ready").status_code == 503)
        assert httpx2.get(f"{url}/healthz/ready").json() == {
            "status": "the server is shutting down"
        }
        assert httpx2.post(url + PREDICT, json={"inputs": ["a"]}).status_code == 200
        process.send_signal(signal.SIGTERM)  # a second signal does not wait


def test_the_page_and_its_files(folder):
    """`browser_page.py` tests them in a browser."""
    (folder / "1" / "assets.extra").mkdir()
    description = {
        "source": "en", "target": "de", "beam_size": 4, "length_penalty": 0.6,
        "max_source_subwords": 1024, "max_aligned_subwords": 128,
    }  # fmt: skip
    (folder / "1" / "assets.extra" / "model.json").write_text(json.dumps(description))
    with running(folder) as web:
        assert web.get("/model.json").json() == description
        for path in ("/", "/docs"):
            page = web.get(path)
            assert "default-src 'none'" in page.headers["content-security-policy"]
            assert not re.search(r"<style|\s(on\w+|style)=|https?://|\$\w", page.text)
            assert set(re.findall(r"<script[^>]*>(.*?)</script>", page.text, re.S)) == {""}
            names = re.findall(r'(?:src|href)="(.*?)"', page.text)
            for name in set(names) - {"data:,"}:
                assert web.get(f"/{name}").status_code == 200
        assert 'data-name="anna"' in web.get("/").text


def test_the_description_of_the_interface(folder):
    with running(folder) as web:
        document = web.get("/openapi.json").json()
    assert {
        PREDICT, f"{MODEL}/versions/{{version}}:predict", MODEL, f"{MODEL}/versions/{{version}}",
        f"{MODEL}/metadata", "/healthz/ready", "/metrics",
    } <= document["paths"].keys()  # fmt: skip
    content = document["paths"][PREDICT]["post"]["requestBody"]["content"]["application/json"]
    assert content["schema"]["properties"].keys() == {"signature_name", "instances", "inputs"}
    for operations in document["paths"].values():
        for operation in operations.values():
            assert "422" not in operation["responses"]
