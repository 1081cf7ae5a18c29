"""The REST server, against TensorFlow Serving's interface and the live model."""

import base64
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


@pytest.fixture(scope="module")
def folder(exported, tmp_path_factory):
    """A folder of versions of our own, with version 1."""
    path = tmp_path_factory.mktemp("versions")
    shutil.copytree(exported, path / "1")
    return path


@pytest.fixture(scope="module")
def web(folder):
    server = Server(
        str(folder),
        "anna",
        ServeConfig(max_rows=8, max_rows_alone=2, max_request_bytes=4096, reload_seconds=0.1),
        say=lambda line: None,
    )
    with TestClient(server.app) as client:
        yield client


def ask(web, **request):
    return web.post(PREDICT, json=request)


def error_of(response, status):
    assert response.status_code == status and response.headers["content-type"] == "application/json"
    (error,) = response.json().values()
    assert list(response.json()) == ["error"]
    return error


def test_predictions_are_the_translators(web, translator):
    texts = ["Anna sleeps.", "", "The old man reads a book."]
    rows = ask(web, instances=texts).json()["predictions"]
    assert [row["translation"] for row in rows] == translator(texts)
    assert ask(web, inputs=texts).json()["outputs"] == {
        "translation": [row["translation"] for row in rows], "score": [row["score"] for row in rows]
    }  # fmt: skip
    best = ask(
        web,
        signature_name="nbest",
        instances=[{"text": {"b64": base64.b64encode(texts[0].encode()).decode()}}],
    ).json()
    expected = translator.n_best(texts[:1], 4)[0]
    assert best["predictions"][0]["translations"] == [text for text, _ in expected]
    np.testing.assert_allclose(
        best["predictions"][0]["scores"], [score for _, score in expected], rtol=1e-5
    )
    found = ask(
        web, signature_name="score", inputs={"source": texts[1:], "target": texts[1:]}
    ).json()["outputs"]
    np.testing.assert_allclose(
        np.sum(found["token_log_probabilities"], axis=1), found["log_probability"], rtol=1e-5
    )
    weights = ask(web, signature_name="alignments", instances=texts[:1]).json()["predictions"][0][
        "weights"
    ]
    np.testing.assert_allclose(np.sum(weights, axis=-1), 1.0, atol=1e-5)
    assert ask(web, inputs=[]).json() == {"outputs": {"translation": [], "score": []}}
    assert (
        web.post("/v1/models/anna/versions/1:predict", json={"instances": texts}).json()[
            "predictions"
        ]
        == rows
    )


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
    assert text["dtype"] == "DT_STRING" and text["tensor_shape"] == {
        "dim": [{"size": "-1", "name": ""}],
        "unknown_rank": False,
    }
    assert signatures["nbest"]["outputs"]["scores"]["tensor_shape"]["dim"][1]["size"] == "4"
    assert web.get("/healthz").json() == {"status": "ok", "version": 1}


def test_errors_are_those_of_tensorflow_serving(web):
    assert (
        error_of(web.post("/v1/models/none:predict", json={}), 404)
        == "Servable not found for request: Latest(none)"
    )
    assert (
        error_of(web.post("/v1/models/anna/versions/7:predict", json={}), 404)
        == "Servable not found for request: Specific(anna, 7)"
    )
    assert error_of(web.get("/v1/models/none"), 404) == "Could not find any versions of model none"
    assert (
        error_of(web.get("/v1/models/anna/versions/7"), 404)
        == "Could not find version 7 of model anna"
    )
    assert error_of(web.get(PREDICT), 400) == f"Malformed request: GET {PREDICT}"
    assert (
        error_of(web.post("/v1/models/anna", json={}), 400)
        == "Malformed request: POST /v1/models/anna"
    )
    assert error_of(web.get("/nothing"), 404) == "Malformed request: GET /nothing"
    assert "Expected classify signature" in error_of(
        web.post("/v1/models/anna:classify", json={}), 400
    )
    assert error_of(web.post(PREDICT, content=b"{"), 400).startswith("JSON Parse error")
    assert "at most 8" in error_of(ask(web, instances=["a"] * 9), 400)
    assert "alignments takes at most 2" in error_of(
        ask(web, signature_name="alignments", instances=["a"] * 3), 400
    )
    assert error_of(web.post(PREDICT, content=b"[" * 300 + b"]" * 300), 400)
    assert "4,096 bytes" in error_of(ask(web, instances=["a" * 5000]), 413)
    endless = web.post(PREDICT, content=(b"a" * 1000 for _ in range(9)))  # without a length
    assert "4,096 bytes" in error_of(endless, 413)


def test_metrics_count(web):
    before = web.get("/metrics").text
    ask(web, instances=["a", "b"])
    ask(web, instances=7)
    after = web.get("/monitoring/prometheus/metrics").text

    def value(text, name):
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.startswith(f"tf_transformer_{name}")
        )

    assert (
        value(after, 'requests_total{method="predict",status="400"}')
        == value(before, 'requests_total{method="predict",status="400"}') + 1
    )
    assert (
        value(after, 'texts_total{method="predict"}')
        == value(before, 'texts_total{method="predict"}') + 2
    )
    assert value(after, "version") == 1 and "process_resident_memory_bytes" in after


def test_the_page_asks_nobody_else(web):
    page = web.get("/")
    assert page.status_code == 200 and "anna" in page.text and "MODEL_NAME" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http://" not in page.text and "https://" not in page.text


def test_requests_of_many_clients_are_answered_right(web, translator):
    texts = ["Anna sleeps.", "The old man reads a book.", "", "He sees the dog.", "x"] * 4
    expected, found = translator(texts), [None] * len(texts)

    def one(i):
        found[i] = ask(web, instances=[texts[i]]).json()["predictions"][0]["translation"]

    threads = [threading.Thread(target=one, args=[i]) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_newer_version_takes_over_and_a_broken_one_does_not(exported, tmp_path):
    said = []
    shutil.copytree(exported, tmp_path / "1")
    server = Server(str(tmp_path), "anna", ServeConfig(reload_seconds=0.1), say=said.append)
    with TestClient(server.app) as web:
        (tmp_path / "3").mkdir()  # not a model
        wait_until(lambda: len(said) > 1)
        assert "3 cannot be loaded" in said[1]
        assert web.get("/healthz").json()["version"] == 1
        shutil.copytree(exported, tmp_path / "unfinished")
        os.rename(tmp_path / "unfinished", tmp_path / "12")
        wait_until(lambda: web.get("/healthz").json()["version"] == 12)
        assert ask(web, instances=["a"]).status_code == 200
        assert error_of(web.get("/v1/models/anna/versions/1"), 404)
    assert len(said) == 3  # the broken one is mentioned once


def test_a_folder_without_a_version(tmp_path):
    with pytest.raises(UserError, match="no version of a model"):
        Server(str(tmp_path), "anna", ServeConfig())
    (tmp_path / "1").mkdir()
    said = []
    with pytest.raises(UserError, match="no version of a model that can be loaded"):
        Server(str(tmp_path), "anna", ServeConfig(), say=said.append)
    assert "1 cannot be loaded" in said[0]


def test_a_broken_newest_version_is_passed_over_and_tried_again_when_it_changes(exported, tmp_path):
    said = []
    shutil.copytree(exported, tmp_path / "1")
    shutil.copytree(exported, tmp_path / "2")
    missing = tmp_path / "2" / "variables" / "variables.index"
    missing.rename(tmp_path / "kept")
    server = Server(str(tmp_path), "anna", ServeConfig(reload_seconds=0.1), say=said.append)
    with TestClient(server.app) as web:
        assert web.get("/healthz").json()["version"] == 1 and "2 cannot be loaded" in said[0]
        (tmp_path / "kept").rename(missing)  # as a slow copy would
        wait_until(lambda: web.get("/healthz").json()["version"] == 2)


class _Slow:
    """Stands for a model that takes its time."""

    inputs, may_be_batched = ["text"], True

    def __init__(self):
        self.gate = threading.Event()

    def __call__(self, inputs):
        self.gate.wait(30)
        return {"translation": np.array([b"x"] * len(inputs["text"]), object)}


def test_too_much_and_too_slow(folder):
    server = Server(
        str(folder), "anna", ServeConfig(max_queue=1, timeout=0.5), say=lambda line: None
    )
    slow = _Slow()
    server._first.signatures["serving_default"] = slow
    with TestClient(server.app) as web:
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(ask(web, instances=["a"])))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
        for thread in threads:
            thread.join()
        statuses = [answer.status_code for answer in answers]
        assert statuses.count(503) >= 3 and statuses.count(504) >= 1 and set(statuses) == {503, 504}
        assert "are waiting" in next(
            answer.json()["error"] for answer in answers if answer.status_code == 503
        )
        slow.gate.set()
        wait_until(lambda: ask(web, instances=["a"]).status_code == 200)


def test_a_silent_connection_is_closed(folder, serve):
    address = serve(Server(str(folder), "anna", ServeConfig(port=0, timeout=0.5)))
    for begun in (
        b"",
        b"GET / HT",
        b"POST " + PREDICT.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
    ):
        with socket.create_connection(address, timeout=10) as connection:
            connection.sendall(begun)
            start, answer = time.monotonic(), connection.recv(9999)
            assert 0.3 < time.monotonic() - start < 5
            assert answer == b"" or answer.startswith(b"HTTP/1.1 408")
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}"):
            answer += connection.recv(9999)
        assert answer.startswith(b"HTTP/1.1 200")
        connection.sendall(b"G")
        assert connection.recv(9999) == b""


@pytest.fixture
def process(folder):
    """The server as a process, and its address."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "tf_transformer",
        "serve",
        f"--export_dir={folder}",
        "--name=anna",
        f"--port={port}",
        "--timeout=20",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        line = process.stdout.readline()
        assert "version 1 of anna answers" in line, line + process.stdout.read()
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: _answers(address))
        yield process, address
        process.kill()


def _answers(address):
    try:
        return httpx2.get(f"{address}/healthz").status_code == 200
    except httpx2.TransportError:
        return False


def test_the_process_survives_rude_clients_and_ends_politely(process, translator, folder):
    server, address = process
    host, port = address.removeprefix("http://").split(":")
    lines = ["Anna sleeps.", "He sees the dog.", ""] * 20
    found = list(translate_lines(RestClient(address, "anna"), iter([*lines, "x " * 999]), rows=7))
    assert [translation for translation, _ in found] == [*translator(lines), ""] and found[-1][
        1
    ] == -1e9
    rude = [
        b"\x00\xff\x16\x03\x01" * 50, b"GET " + b"/" * 100_000, b"POST " + PREDICT.encode() + b" HTTP/1.1\r\nContent-Length: 99\r\n\r\n{",
        b"POST " + PREDICT.encode() + b" HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"", b"GET / HTTP/9.9\r\n\r\n",
        b"POST " + PREDICT.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n" + b'{"instances": ["a"]}',
    ]  # fmt: skip
    for content in rude * 5:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(content)
    assert RestClient(address, "anna")(["Anna sleeps."])[0][0] == translator("Anna sleeps.")
    second = [
        sys.executable,
        "-m",
        "tf_transformer",
        "serve",
        f"--export_dir={folder}",
        f"--port={port}",
    ]
    refused = subprocess.run(second, capture_output=True, text=True)
    assert (
        refused.returncode == 2
        and f"cannot listen at 127.0.0.1, port {port}" in refused.stderr
        and not refused.stdout
    )
    with pytest.raises(UserError, match="answers 404: Servable not found"):
        RestClient(address, "none")(["a"])

    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(
            httpx2.post(address + PREDICT, json={"instances": lines}, timeout=60)
        )
    )
    thread.start()
    time.sleep(0.3)
    server.terminate()
    thread.join()
    assert [row["translation"] for row in answers[0].json()["predictions"]] == translator(lines)
    assert server.wait(30) == 0 and "Traceback" not in server.stdout.read()


def test_a_client_without_a_server():
    with pytest.raises(UserError, match="no answer from http://127.0.0.1:9/v1"):
        RestClient("http://127.0.0.1:9", "anna", retries=1)(["a"])
