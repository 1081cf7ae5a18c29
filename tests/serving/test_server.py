"""The REST server, compared with TensorFlow Serving's interface and the live model."""

import base64
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

import httpx2
import numpy as np
import pytest
from starlette.testclient import TestClient

from tf_transformer.config import ServeConfig
from tf_transformer.errors import UserError
from tf_transformer.serving.client import RestClient, translate_lines
from tf_transformer.serving.server import Server

PREDICT = "/v1/models/anna:predict"
POST_PREDICT = b"POST " + PREDICT.encode() + b" HTTP/1.1\r\n"


@pytest.fixture(scope="module")
def folder(exported, tmp_path_factory):
    """A folder of versions, with a copy of version 1."""
    path = tmp_path_factory.mktemp("versions")
    shutil.copytree(exported, path / "1")
    return path


@pytest.fixture(scope="module")
def web(folder):
    """An HTTP client of a server."""
    settings = ServeConfig(max_rows=8, max_rows_alone=2, max_request_bytes=4096, reload_seconds=0.1)
    with TestClient(Server(str(folder), "anna", settings).app) as client:
        yield client


@pytest.fixture
def log(caplog):
    """The log of the server: a function that returns pairs (level, message)."""
    caplog.set_level(logging.INFO, logger="tf_transformer.serving")

    def records():
        return [
            (record.levelname, record.getMessage())
            for record in caplog.records
            if record.name.startswith("tf_transformer.serving")
        ]

    return records


def predict(web, **request):
    return web.post(PREDICT, json=request)


def error_of(response, status):
    """The error message of a response, which must have this status."""
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    (error,) = response.json().values()
    assert list(response.json()) == ["error"]
    return error


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_predictions_equal_those_of_the_translator(web, translator):
    texts = ["Anna sleeps.", "", "The old man reads a book."]
    rows = predict(web, instances=texts).json()["predictions"]
    assert [row["translation"] for row in rows] == translator(texts)
    assert predict(web, inputs=texts).json()["outputs"] == {
        "translation": [row["translation"] for row in rows],
        "score": [row["score"] for row in rows],
    }
    of_version = web.post("/v1/models/anna/versions/1:predict", json={"instances": texts})
    assert of_version.json()["predictions"] == rows
    assert predict(web, inputs=[]).json() == {"outputs": {"translation": [], "score": []}}


def test_predictions_of_the_other_signatures(web, translator):
    text = "Anna sleeps."
    encoded = {"text": {"b64": base64.b64encode(text.encode()).decode()}}
    nbest = predict(web, signature_name="nbest", instances=[encoded]).json()["predictions"][0]
    expected = translator.n_best([text], 4)[0]
    assert nbest["translations"] == [text for text, _ in expected]
    np.testing.assert_allclose(nbest["scores"], [score for _, score in expected], rtol=1e-5)
    texts = ["", "The old man reads a book."]
    pairs = {"source": texts, "target": texts}
    score = predict(web, signature_name="score", inputs=pairs).json()["outputs"]
    sums = np.sum(score["token_log_probabilities"], axis=1)
    np.testing.assert_allclose(sums, score["log_probability"], rtol=1e-5)
    alignments = predict(web, signature_name="alignments", instances=[text]).json()
    weights = alignments["predictions"][0]["weights"]
    np.testing.assert_allclose(np.sum(weights, axis=-1), 1.0, atol=1e-5)


def test_status_and_metadata(web):
    state = {
        "version": "1",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    for path in ("/v1/models/anna", "/v1/models/anna/versions/1"):
        assert web.get(path).json() == {"model_version_status": [state]}
    metadata = web.get("/v1/models/anna/metadata").json()
    assert metadata["model_spec"] == {"name": "anna", "signature_name": "", "version": "1"}
    signatures = metadata["metadata"]["signature_def"]["signature_def"]
    text = signatures["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert signatures["nbest"]["outputs"]["scores"]["tensor_shape"]["dim"][1]["size"] == "4"
    assert web.get("/healthz").json() == {"status": "ok", "version": 1}


@pytest.mark.parametrize(
    "method, path, status, message",
    [
        ("POST", "/v1/models/none:predict", 404, "Servable not found for request: Latest(none)"),
        (
            "POST",
            "/v1/models/anna/versions/7:predict",
            404,
            "Servable not found for request: Specific(anna, 7)",
        ),
        ("GET", "/v1/models/none", 404, "Could not find any versions of model none"),
        ("GET", "/v1/models/anna/versions/7", 404, "Could not find version 7 of model anna"),
        ("GET", PREDICT, 400, f"Malformed request: GET {PREDICT}"),
        ("POST", "/v1/models/anna", 400, "Malformed request: POST /v1/models/anna"),
        ("GET", "/nothing", 404, "Malformed request: GET /nothing"),
    ],
)
def test_errors_equal_those_of_tensorflow_serving(web, method, path, status, message):
    body = {"json": {}} if method == "POST" else {}
    assert error_of(web.request(method, path, **body), status) == message


def test_errors_of_requests(web):
    classify = web.post("/v1/models/anna:classify", json={})
    assert "Expected classify signature" in error_of(classify, 400)
    assert error_of(web.post(PREDICT, content=b"{"), 400).startswith("JSON Parse error")
    assert error_of(web.post(PREDICT, content=b"[" * 300 + b"]" * 300), 400)
    assert "at most 8" in error_of(predict(web, instances=["a"] * 9), 400)
    alignments = predict(web, signature_name="alignments", instances=["a"] * 3)
    assert "alignments takes at most 2" in error_of(alignments, 400)
    assert "4,096 bytes" in error_of(predict(web, instances=["a" * 5000]), 413)
    without_length = web.post(PREDICT, content=(b"a" * 1000 for _ in range(9)))
    assert "4,096 bytes" in error_of(without_length, 413)


def test_metrics(web):
    def value(text, name):
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.startswith(f"tf_transformer_{name}")
        )

    before = web.get("/metrics").text
    predict(web, instances=["a", "b"])
    predict(web, instances=7)
    after = web.get("/monitoring/prometheus/metrics").text
    errors = 'requests_total{method="predict",status="400"}'
    assert value(after, errors) == value(before, errors) + 1
    texts = 'texts_total{method="predict"}'
    assert value(after, texts) == value(before, texts) + 2
    assert value(after, "version") == 1
    assert "process_resident_memory_bytes" in after


def test_the_page_refers_to_no_other_host(web):
    page = web.get("/")
    assert page.status_code == 200
    assert "anna" in page.text
    assert "MODEL_NAME" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http://" not in page.text
    assert "https://" not in page.text


def test_concurrent_requests_get_their_own_results(web, translator):
    texts = ["Anna sleeps.", "The old man reads a book.", "", "He sees the dog.", "x"] * 4
    expected = translator(texts)
    translations = [None] * len(texts)

    def translate(i):
        response = predict(web, instances=[texts[i]])
        translations[i] = response.json()["predictions"][0]["translation"]

    threads = [threading.Thread(target=translate, args=[i]) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert translations == expected


def test_an_unexpected_error_has_status_500_and_is_logged(folder, log):
    server = Server(str(folder), "anna", ServeConfig())
    server._first_model.signatures["serving_default"] = _FailingSignature()
    with TestClient(server.app) as web:
        assert error_of(predict(web, instances=["a"]), 500) == "RuntimeError: out of order"
        assert web.get("/healthz").status_code == 200
    assert ("ERROR", "a predict request failed") in log()


class _FailingSignature:
    """Stands for a signature with a bug."""

    inputs = ["text"]
    may_be_batched = True

    def __call__(self, inputs):
        raise RuntimeError("out of order")


def test_a_newer_version_replaces_the_current_one_unless_it_is_broken(exported, tmp_path, log):
    shutil.copytree(exported, tmp_path / "1")
    server = Server(str(tmp_path), "anna", ServeConfig(reload_seconds=0.1))
    with TestClient(server.app) as web:
        (tmp_path / "3").mkdir()  # not a model
        wait_until(lambda: len(log()) > 1)
        level, message = log()[1]
        assert level == "WARNING"
        assert f"{tmp_path}/3 cannot be loaded" in message
        assert web.get("/healthz").json()["version"] == 1
        shutil.copytree(exported, tmp_path / "incomplete")
        os.rename(tmp_path / "incomplete", tmp_path / "12")
        wait_until(lambda: web.get("/healthz").json()["version"] == 12)
        assert predict(web, instances=["a"]).status_code == 200
        assert error_of(web.get("/v1/models/anna/versions/1"), 404)
    # The broken version is logged once.
    assert [level for level, _ in log()] == ["INFO", "WARNING", "INFO", "INFO"]
    assert "serving version 1 of anna" in log()[0][1]
    assert "serving version 12 of anna" in log()[2][1]
    assert log()[3][1] == "stopped serving anna"


def test_a_folder_without_a_version_is_an_error(tmp_path, log):
    with pytest.raises(UserError, match="no version of a model"):
        Server(str(tmp_path), "anna", ServeConfig())
    assert log() == []
    (tmp_path / "1").mkdir()
    with pytest.raises(UserError, match="no version of a model in .* can be loaded"):
        Server(str(tmp_path), "anna", ServeConfig())
    assert "1 cannot be loaded" in log()[0][1]


def test_a_broken_newest_version_is_loaded_after_its_files_change(exported, tmp_path, log):
    shutil.copytree(exported, tmp_path / "1")
    shutil.copytree(exported, tmp_path / "2")
    missing = tmp_path / "2" / "variables" / "variables.index"
    missing.rename(tmp_path / "kept")
    server = Server(str(tmp_path), "anna", ServeConfig(reload_seconds=0.1))
    with TestClient(server.app) as web:
        assert web.get("/healthz").json()["version"] == 1
        assert "2 cannot be loaded" in log()[0][1]
        (tmp_path / "kept").rename(missing)  # as when a slow copy ends
        wait_until(lambda: web.get("/healthz").json()["version"] == 2)


class _SlowSignature:
    """Stands for a signature of a slow model, which waits for `gate`."""

    inputs = ["text"]
    may_be_batched = True

    def __init__(self):
        self.gate = threading.Event()

    def __call__(self, inputs):
        self.gate.wait(30)
        return {"translation": np.array([b"x"] * len(inputs["text"]), object)}


def test_an_overloaded_server_refuses_requests_and_recovers(folder):
    server = Server(str(folder), "anna", ServeConfig(max_queue=1, timeout=0.5))
    slow = _SlowSignature()
    server._first_model.signatures["serving_default"] = slow
    with TestClient(server.app) as web:
        responses = []
        threads = [
            threading.Thread(target=lambda: responses.append(predict(web, instances=["a"])))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
        for thread in threads:
            thread.join()
        statuses = [response.status_code for response in responses]
        assert statuses.count(503) >= 3
        assert statuses.count(504) >= 1
        assert set(statuses) == {503, 504}
        refused = next(response for response in responses if response.status_code == 503)
        assert "are waiting" in refused.json()["error"]
        slow.gate.set()
        wait_until(lambda: predict(web, instances=["a"]).status_code == 200)


def test_an_idle_connection_is_closed(folder, serve):
    address = serve(Server(str(folder), "anna", ServeConfig(port=0, timeout=0.5)))
    incomplete_requests = [
        b"",
        b"GET / HT",
        POST_PREDICT + b"Host: x\r\nContent-Length: 99\r\n\r\n{",
    ]
    for content in incomplete_requests:
        with socket.create_connection(address, timeout=10) as connection:
            connection.sendall(content)
            start = time.monotonic()
            response = connection.recv(9999)
            assert 0.3 < time.monotonic() - start < 5
            assert response == b"" or response.startswith(b"HTTP/1.1 408")
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        response = b""
        while not response.endswith(b"}"):
            response += connection.recv(9999)
        assert response.startswith(b"HTTP/1.1 200")
        connection.sendall(b"G")
        assert connection.recv(9999) == b""


def serve_command(folder, port, *flags):
    """The command line of a server."""
    command = [sys.executable, "-m", "tf_transformer", "serve"]
    return [*command, f"--export_dir={folder}", f"--port={port}", *flags]


@pytest.fixture
def process(folder):
    """The server as a process, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = serve_command(folder, port, "--name=anna", "--timeout=20")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        line = process.stdout.readline()
        address = f"http://127.0.0.1:{port}"
        expected = f"INFO serving version 1 of anna at {address}"
        assert expected in line, line + process.stdout.read()
        wait_until(lambda: _is_healthy(address))
        yield process, address
        process.kill()


def _is_healthy(address):
    try:
        return httpx2.get(f"{address}/healthz").status_code == 200
    except httpx2.TransportError:
        return False


MALFORMED_REQUESTS = [
    b"\x00\xff\x16\x03\x01" * 50,
    b"GET " + b"/" * 100_000,
    POST_PREDICT + b"Content-Length: 99\r\n\r\n{",
    POST_PREDICT + b"Content-Length: -5\r\n\r\n",
    b"",
    b"GET / HTTP/9.9\r\n\r\n",
    POST_PREDICT + b"Host: x\r\nContent-Length: 20\r\n\r\n" + b'{"instances": ["a"]}',
]


def test_the_process_survives_malformed_requests_and_stops_in_order(process, translator, folder):
    server, address = process
    host, port = address.removeprefix("http://").split(":")
    lines = ["Anna sleeps.", "He sees the dog.", ""] * 20
    client = RestClient(address, "anna")
    results = list(translate_lines(client, iter([*lines, "x " * 999]), batch_size=7))
    assert [translation for translation, _ in results] == [*translator(lines), ""]
    assert results[-1][1] == -1e9
    for content in MALFORMED_REQUESTS * 5:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(content)
    assert client(["Anna sleeps."])[0][0] == translator("Anna sleeps.")

    second = subprocess.run(serve_command(folder, port), capture_output=True, text=True)
    assert second.returncode == 2
    assert f"cannot listen at 127.0.0.1, port {port}" in second.stderr
    assert not second.stdout
    with pytest.raises(UserError, match="returned status 404: Servable not found"):
        RestClient(address, "none")(["a"])

    responses = []

    def post():
        url = address + PREDICT
        responses.append(httpx2.post(url, json={"instances": lines}, timeout=60))

    thread = threading.Thread(target=post)
    thread.start()
    time.sleep(0.3)
    server.terminate()
    thread.join()
    rows = responses[0].json()["predictions"]
    assert [row["translation"] for row in rows] == translator(lines)
    assert server.wait(30) == 0
    log = server.stdout.read()
    assert "Traceback" not in log
    assert "INFO stopped serving anna" in log


def test_a_client_without_a_server():
    with pytest.raises(UserError, match="no answer from http://127.0.0.1:9/v1"):
        RestClient("http://127.0.0.1:9", "anna", retries=1)(["a"])
