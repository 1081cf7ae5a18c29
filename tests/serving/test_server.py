"""The REST server, compared with TensorFlow Serving's interface and the live model."""

import asyncio
import base64
import contextlib
import gzip
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx2
import numpy as np
import pytest
from starlette.testclient import TestClient

from serving.raw_http import POST_PREDICT, PREDICT, exchange, wait_until
from tf_transformer.errors import UserError
from tf_transformer.serving.client import RestClient, translate_lines
from tf_transformer.serving.connections import bind_address
from tf_transformer.serving.loaded_model import InvalidInputError, LoadedModel
from tf_transformer.serving.model_source import one_model
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.served_version import ServedVersion
from tf_transformer.serving.server import Server


@pytest.fixture(scope="module")
def folder(cold_export, tmp_path_factory):
    """A folder of versions, with a copy of version 1."""
    path = tmp_path_factory.mktemp("versions")
    shutil.copytree(cold_export, path / "1")
    return path


@contextlib.contextmanager
def running(server):
    """An HTTP client of a server whose model is loaded."""
    with TestClient(server.app) as client:
        wait_until(lambda: client.get("/healthz/ready").status_code == 200)
        yield client


@pytest.fixture(scope="module")
def web(folder):
    """An HTTP client of a server."""
    settings = ServeConfig(
        max_rows=8,
        max_rows_alone=2,
        max_request_tokens=100,
        max_request_bytes=4096,
        reload_seconds=0.1,
    )
    with running(Server(one_model(str(folder), "anna"), settings)) as client:
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


def metric(text, name):
    """The sum of the samples of a metric in the response of /metrics."""
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith(f"tf_transformer_{name}")
    )


def in_flight(address):
    """The number of requests that a server computes."""
    return metric(httpx2.get(f"{address}/metrics").text, "in_flight")


def error_of(response, status):
    """The error message of a response, which must have this status."""
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    (error,) = response.json().values()
    assert list(response.json()) == ["error"]
    return error


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
        ("GET", "/%00", 404, "Malformed request: GET /%00"),
        ("GET", "/v1/models/anna%0a", 404, "Could not find any versions of model anna\n"),
        (
            "POST",
            "/v1/models/an%0Ana:predict",
            404,
            "Servable not found for request: Latest(an\nna)",
        ),
        ("GET", "/v1/models/an%2Fna", 404, "Could not find any versions of model an/na"),
        ("POST", "/v1/models/none:classify", 404, "Servable not found for request: Latest(none)"),
        (
            "GET",
            f"/v1/models/anna/versions/{2**64 - 1}",
            400,
            f"Failed to convert version: {2**64 - 1} to numeric.",
        ),
        (
            "GET",
            f"/v1/models/anna/versions/{'9' * 250}",
            400,
            f"Failed to convert version: {'9' * 200}... to numeric.",
        ),
        (
            "GET",
            f"/v1/models/anna/versions/{'0' * 5000}",
            404,
            "Could not find version 0 of model anna",
        ),
        ("GET", "/docs/", 404, "Malformed request: GET /docs/"),
        ("POST", "/healthz", 405, "method POST is not allowed"),
        (
            "GET",
            "/v1/models/anna/labels/stable",
            400,
            "Unrecognized servable version label: stable",
        ),
        ("PUT", "/v1/models/anna", 405, "method PUT is not allowed"),
        ("DELETE", PREDICT, 405, "method DELETE is not allowed"),
        ("OPTIONS", PREDICT, 405, "method OPTIONS is not allowed"),
    ],
)
def test_errors_equal_those_of_tensorflow_serving(web, method, path, status, message):
    body = {"json": {}} if method == "POST" else {}
    response = web.request(method, path, **body)
    assert error_of(response, status) == message
    if status == 405:
        assert response.headers["allow"] == ("POST" if ":" in path else "GET")


def test_requests_at_the_end_of_the_server(cold_export, tmp_path, monkeypatch):
    """A request that is computed, one of a replaced version, and one that is incomplete."""
    shutil.copytree(cold_export, tmp_path / "1")
    replace_signature(monkeypatch, _SlowModel())
    server = Server(
        one_model(str(tmp_path), "anna"), ServeConfig(reload_seconds=0.1, grace_seconds=1.0)
    )

    async def never_complete():
        yield b'{"inst'
        await asyncio.sleep(20)

    async def test():
        transport = httpx2.ASGITransport(server.app)
        async with (
            server.app.router.lifespan_context(server.app),
            httpx2.AsyncClient(transport=transport, base_url="http://x") as web,
        ):

            async def wait_for_version(version):
                while (await web.get("/healthz")).json().get("version") != version:
                    await asyncio.sleep(0.05)

            def send(**request):
                return asyncio.ensure_future(web.post(PREDICT, **request))

            await wait_for_version(1)
            replaced = send(json={"instances": ["a"]})
            shutil.copytree(cold_export, tmp_path / "incomplete")
            os.rename(tmp_path / "incomplete", tmp_path / "2")
            await wait_for_version(2)
            computed = send(json={"instances": ["a"]})
            incomplete = send(content=never_complete())
            await asyncio.sleep(0.2)
            start = time.monotonic()
            await server.stop()
            for request in (replaced, computed, incomplete, send(json={"instances": ["a"]})):
                response = await request
                assert error_of(response, 503) == "the server is shutting down"
                assert response.headers["retry-after"] == "1"
            assert 0.9 < time.monotonic() - start < 5

    asyncio.run(asyncio.wait_for(test(), 60))


def test_errors_of_requests(web):
    classify = web.post("/v1/models/anna:classify", json={})
    assert "Expected classify signature" in error_of(classify, 400)
    assert error_of(web.post(PREDICT, content=b"{"), 400).startswith("JSON Parse error")
    assert error_of(web.post(PREDICT, content=b"[" * 300 + b"]" * 300), 400)
    assert "at most 8" in error_of(predict(web, instances=["a"] * 9), 413)
    alignments = predict(web, signature_name="alignments", instances=["a"] * 3)
    assert "alignments takes at most 2" in error_of(alignments, 413)
    long = predict(web, instances=["a " * 60] * 2)
    message = "120 sub-words in one request: the server takes at most 100"
    assert error_of(long, 413) == message
    assert "4,096 bytes" in error_of(predict(web, instances=["a" * 5000]), 413)
    without_length = web.post(PREDICT, content=(b"a" * 1000 for _ in range(9)))
    assert "4,096 bytes" in error_of(without_length, 413)


def test_a_compressed_request(web, translator):
    body = gzip.compress(b'{"instances": ["Anna sleeps."]}')

    def post(content, encoding="gzip"):
        return web.post(PREDICT, content=content, headers={"Content-Encoding": encoding})

    (row,) = post(body).json()["predictions"]
    assert row["translation"] == translator("Anna sleeps.")
    assert error_of(post(b"{}"), 400) == "the body is not gzip"
    assert "incomplete" in error_of(post(body[:-4]), 400)
    assert "4,096 bytes" in error_of(post(gzip.compress(b" " * 5000)), 413)
    assert "content encoding br is not known" in error_of(post(body, "br"), 415)


def test_a_long_request_does_not_delay_a_short_one(folder):
    settings = ServeConfig(timeout=1.5, max_request_tokens=10**6, max_rows=9999)
    with running(Server(one_model(str(folder), "anna"), settings)) as web:
        predict(web, instances=["Anna sleeps."])  # the first one takes longer
        # Much more than can be translated within the timeout.
        rows = ["a " * 90] * 4000
        statuses = []
        start = time.monotonic()
        thread = threading.Thread(
            target=lambda: statuses.append(predict(web, instances=rows).status_code)
        )
        thread.start()
        time.sleep(0.2)
        while thread.is_alive():
            before = time.monotonic()
            assert predict(web, instances=["Anna sleeps."]).status_code == 200
            assert time.monotonic() - before < 1.4
        assert statuses == [504]
        assert time.monotonic() - start < 6
        # The work of the long request has ended with it.
        before = os.times()
        time.sleep(1)
        after = os.times()
        assert after.user + after.system - before.user - before.system < 0.3


def test_metrics(web):
    before = web.get("/metrics").text
    predict(web, instances=["a", "b"])
    predict(web, instances=7)
    after = web.get("/monitoring/prometheus/metrics").text
    errors = 'requests_total{method="predict",model="anna",signature="",status="400"}'
    assert metric(after, errors) == metric(before, errors) + 1
    signature = '{model="anna",signature="serving_default"}'
    rows = f"rows_total{signature}"
    assert metric(after, rows) == metric(before, rows) + 2
    tokens = f"source_tokens_total{signature}"
    assert metric(after, tokens) >= metric(before, tokens) + 2
    for name in ("request_seconds", "queue_seconds", "compute_seconds", "batch_rows"):
        count = f"{name}_count{signature}"
        assert metric(after, count) == metric(before, count) + 1
    assert metric(after, f"in_flight{signature}") == 0
    assert metric(after, "version") == 1
    assert metric(after, "load_seconds") > 0
    assert metric(after, "failed_loads_total") == 0
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


def test_errors_of_the_model_reach_only_their_request(folder, log, monkeypatch):
    replace_signature(monkeypatch, _failing_signature)
    with running(Server(one_model(str(folder), "anna"), ServeConfig())) as web:
        headers = {"X-Request-Id": "id-of-the-client"}
        response = web.post(PREDICT, json={"instances": ["bug"]}, headers=headers)
        message = "internal error; the log of the server has it as id-of-the-client"
        assert error_of(response, 500) == message
        assert response.headers["x-request-id"] == "id-of-the-client"
        assert error_of(predict(web, instances=["bad"]), 400) == "the text is bad"
        assert web.get("/healthz").status_code == 200
        others = predict(web, instances=["good"])
        assert others.status_code == 200
        assert len(others.headers["x-request-id"]) == 32
    assert ("ERROR", "request id-of-the-client failed") in log()


def replace_signature(monkeypatch, function):
    """Replaces what `serving_default` computes in the models that are loaded from now on."""
    warm_up = LoadedModel._warm_up

    def warm_up_and_replace(model):
        warm_up(model)
        signature = model.signatures["serving_default"]
        signature._run = lambda outputs, feed, deadline: function(feed, deadline)

    monkeypatch.setattr(LoadedModel, "_warm_up", warm_up_and_replace)


def _failing_signature(feed, deadline):
    (texts,) = feed.values()
    if b"bug" in texts:
        raise RuntimeError("out of order")
    if b"bad" in texts:
        raise InvalidInputError("the text is bad")
    return {"translation": texts}


def test_a_newer_version_replaces_the_current_one_unless_it_is_broken(cold_export, tmp_path, log):
    shutil.copytree(cold_export, tmp_path / "1")
    with running(Server(one_model(str(tmp_path), "anna"), ServeConfig(reload_seconds=0.1))) as web:
        (tmp_path / "3").mkdir()  # not a model
        wait_until(lambda: "WARNING" in dict(log()))
        assert f"{tmp_path}/3 cannot be loaded" in dict(log())["WARNING"]
        assert web.get("/healthz").json()["version"] == 1
        served, failed = web.get("/v1/models/anna").json()["model_version_status"]
        assert (served["version"], served["state"]) == ("1", "AVAILABLE")
        assert (failed["version"], failed["state"]) == ("3", "END")
        assert failed["status"]["error_code"] == "FAILED_PRECONDITION"
        assert "saved_model.pb" in failed["status"]["error_message"]
        metrics = web.get("/metrics").text
        assert 'tf_transformer_failed_loads_total{model="anna"} 1.0' in metrics
        attempts = ":tensorflow:cc:saved_model:load_attempt_count"
        assert f'{attempts}{{model_path="{tmp_path}/1",status="success"}} 1.0' in metrics
        assert f'{attempts}{{model_path="{tmp_path}/3",status="fail"}} 1.0' in metrics
        shutil.copytree(cold_export, tmp_path / "incomplete")
        os.rename(tmp_path / "incomplete", tmp_path / "12")
        wait_until(lambda: web.get("/healthz").json()["version"] == 12)
        assert predict(web, instances=["a"]).status_code == 200
        assert error_of(web.get("/v1/models/anna/versions/1"), 404)
        wait_until(lambda: ("INFO", "unloaded version 1 of anna") in log())
    messages = [message.removeprefix(f"loading {tmp_path}/") for _, message in log()]
    # The broken version is logged once.
    assert messages[0] == "1"
    assert "serving version 1 of anna" in messages[1]
    assert messages[2] == "3"
    assert "3 cannot be loaded" in messages[3]
    assert messages[4] == "12"
    assert "serving version 12 of anna" in messages[5]
    assert messages[6:] == ["unloaded version 1 of anna", "stopped serving anna"]


def test_a_folder_without_a_version_is_an_error(tmp_path, log):
    with pytest.raises(UserError, match="missing is not a folder"):
        Server(one_model(str(tmp_path / "missing"), "anna"), ServeConfig())
    (tmp_path / "1").mkdir()
    settings = ServeConfig(port=0)
    handler = signal.getsignal(signal.SIGINT)
    with bind_address(settings) as bound, pytest.raises(UserError, match="can be loaded"):
        Server(one_model(str(tmp_path), "anna"), settings).run(bound)
    assert signal.getsignal(signal.SIGINT) is handler
    assert "1 cannot be loaded" in log()[1][1]


def test_a_damaged_version_is_not_served(cold_export, tmp_path, log):
    shutil.copytree(cold_export, tmp_path / "1")
    shutil.copytree(cold_export, tmp_path / "2")
    with open(tmp_path / "2" / "README.md", "a") as file:
        file.write("x")
    with running(Server(one_model(str(tmp_path), "anna"), ServeConfig())) as web:
        assert web.get("/healthz").json()["version"] == 1
        status = web.get("/v1/models/anna/versions/2").json()["model_version_status"][0]
        message = "its files are not those of its SHA256SUMS"
        assert status["status"]["error_message"] == message


def test_a_broken_newest_version_is_loaded_after_its_files_change(cold_export, tmp_path, log):
    shutil.copytree(cold_export, tmp_path / "1")
    shutil.copytree(cold_export, tmp_path / "2")
    missing = tmp_path / "2" / "variables" / "variables.index"
    missing.rename(tmp_path / "kept")
    with running(Server(one_model(str(tmp_path), "anna"), ServeConfig(reload_seconds=0.1))) as web:
        assert web.get("/healthz").json()["version"] == 1
        assert "2 cannot be loaded" in log()[1][1]
        (tmp_path / "kept").rename(missing)  # as when a slow copy ends
        wait_until(lambda: web.get("/healthz").json()["version"] == 2)


class _SlowModel:
    """Stands for a signature of a slow model, which waits for `gate`."""

    def __init__(self):
        self.is_called = threading.Event()
        self.gate = threading.Event()

    def __call__(self, feed, deadline):
        self.is_called.set()
        if not self.gate.wait(deadline - time.monotonic()):
            raise TimeoutError
        (texts,) = feed.values()
        return {"translation": texts}


def test_an_overloaded_server_refuses_requests_and_recovers(folder, monkeypatch):
    slow = _SlowModel()
    replace_signature(monkeypatch, slow)
    with running(
        Server(one_model(str(folder), "anna"), ServeConfig(max_queue=1, timeout=2.0))
    ) as web:
        responses = []
        threads = [
            threading.Thread(target=lambda: responses.append(predict(web, instances=["a"])))
            for _ in range(2)
        ]
        threads[0].start()
        assert slow.is_called.wait(2)
        threads[1].start()  # it waits
        wait_until(lambda: metric(web.get("/metrics").text, "in_flight") == 2, 2)
        for _ in range(3):
            refused = predict(web, instances=["a"])
            assert "are waiting" in error_of(refused, 503)
            assert refused.headers["retry-after"] == "1"
        for thread in threads:
            thread.join()
        assert [response.status_code for response in responses] == [504, 504]
        slow.gate.set()
        wait_until(lambda: predict(web, instances=["a"]).status_code == 200)


def test_requests_that_are_not_http_are_answered_in_json(folder, serve):
    server = Server(one_model(str(folder), "anna"), ServeConfig(port=0))
    address = serve(server)
    body = b'{"instances": ["a"]}'
    length = b"Content-Length: %d\r\n" % len(body)
    not_http = [
        b"\x16\x03\x01\x02\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",  # without Host
        POST_PREDICT + b"Host: x\r\nContent-Length: 3\r\n" + length + b"\r\n" + body,
        POST_PREDICT + b"Host: x\r\nContent-Length: -5\r\n\r\n",
    ]
    for content in not_http:
        status, headers, answer = exchange(address, content)
        assert status == 400
        assert answer == {"error": "the request is not valid HTTP/1.1"}
        assert headers["content-type"] == "application/json"
        assert headers["connection"] == "close"
    # Proxies disagree about the length of such a request (RFC 9112, Section 6.1).
    chunked = b"Transfer-Encoding: chunked\r\n"
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    status, _, answer = exchange(
        address, POST_PREDICT + b"Host: x\r\n" + length + chunked + b"\r\n" + chunks
    )
    assert status == 400
    assert "both Content-Length and Transfer-Encoding" in answer["error"]
    status, _, answer = exchange(
        address, POST_PREDICT + b"Host: x\r\n" + chunked + b"\r\n" + chunks
    )
    assert status == 200
    metrics = httpx2.get(f"http://{address[0]}:{address[1]}/metrics").text
    refused = 'tf_transformer_requests_total{method="other",model="",signature="",status="400"} 5.0'
    assert refused in metrics


def test_the_access_log_has_all_requests_and_no_texts(folder, serve, tmp_path, monkeypatch):
    replace_signature(monkeypatch, _failing_signature)
    path = tmp_path / "access.log"
    settings = ServeConfig(port=0, access_log=str(path), max_rows=2)
    address = serve(Server(one_model(str(folder), "anna"), settings))
    url = f"http://{address[0]}:{address[1]}"

    def post(body, status, url=url + PREDICT):
        response = httpx2.post(url, json=body, headers={"X-Request-Id": "mine"})
        assert response.status_code == status
        return response

    post({"instances": ["secret one", "secret"]}, 200)
    post({"instances": ["bad", "secret"]}, 400)
    post({"instances": ["bug"]}, 500)
    for body in ([7], [{"secret": 1}], [{"b64": "secret", "secret": 2}], "secret"):
        post({"instances": body}, 400)
    post({"instances": ["a"], "inputs": ["secret"]}, 400)
    post(["secret"], 400)
    too_many = post({"instances": ["secret"] * 3}, 413)
    assert "connection" not in too_many.headers  # the request was read
    post({}, 404, url + "/v1/models/none%0A:predict?key=secret")
    assert exchange(address, b"secret\r\n\r\n")[0] == 400
    httpx2.get(url + "/metrics")
    wait_until(lambda: "/metrics" in path.read_text(), 5)  # after the client has its response
    assert "secret" not in path.read_text()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [line for line in lines if line["path"] != "/healthz/ready"]
    prediction, bad, bug, *wrong, too_many, unknown, refused, metrics = lines
    assert [line["status"] for line in lines] == [200, 400, 500] + [400] * 6 + [413, 404, 400, 200]
    assert prediction["request_id"] == bug["request_id"] == "mine"
    assert (prediction["model"], prediction["version"], prediction["rows"]) == ("anna", 1, 2)
    assert (prediction["signature"], prediction["batch_rows"]) == ("serving_default", 2)
    assert prediction["source_tokens"] > 3
    assert prediction["bytes_in"] == len('{"instances":["secret one","secret"]}')
    assert prediction["bytes_out"] == len('{"predictions":["secret one","secret"]}')
    parts = prediction["queue_seconds"] + prediction["compute_seconds"]
    assert 0 < parts < prediction["seconds"]
    assert (bad["rows"], bad["error"]) == (2, "...")
    assert bug["error"] == "internal error; the log of the server has it as mine"
    assert all("..." in line["error"] for line in wrong)
    assert too_many["rows"] == 3
    assert unknown["path"] == "/v1/models/none%0A:predict"
    assert "model" not in unknown
    assert (refused["path"], refused["error"]) == (None, "the request is not valid HTTP/1.1")
    assert (metrics["path"], metrics["remote"]) == ("/metrics", address[0])
    assert "none" not in httpx2.get(url + "/metrics").text  # a name of a client is no label


def test_a_client_that_still_sends_gets_the_answer_that_its_request_is_too_large(folder, serve):
    """Without a reset of the connection, which discards the answer."""
    address = serve(Server(one_model(str(folder), "anna"), ServeConfig(port=0)))
    size = 30_000_000
    for _ in range(3):
        with socket.create_connection(address, timeout=10) as connection:
            head = b"Host: x\r\nContent-Length: %d\r\n\r\n" % size
            connection.sendall(POST_PREDICT + head)
            connection.sendall(b"a" * size)
            time.sleep(0.1)
            assert connection.recv(9999).startswith(b"HTTP/1.1 413")
            assert connection.recv(9999) == b""  # closed in order


def test_health_checks_are_answered_when_there_are_too_many_requests(folder, serve, monkeypatch):
    slow = _SlowModel()
    replace_signature(monkeypatch, slow)
    settings = ServeConfig(port=0, max_connections=1)
    host, port = serve(Server(one_model(str(folder), "anna"), settings))
    address = f"http://{host}:{port}"
    thread = threading.Thread(
        target=lambda: httpx2.post(address + PREDICT, json={"instances": ["a"]})
    )
    thread.start()
    assert slow.is_called.wait(10)
    refused = httpx2.get(f"{address}/v1/models/anna")
    assert error_of(refused, 503) == "1 requests are active"
    assert refused.headers["retry-after"] == "1"
    assert httpx2.get(f"{address}/healthz/ready").status_code == 200
    slow.gate.set()
    thread.join()
    assert httpx2.get(f"{address}/v1/models/anna").status_code == 200


def test_readiness_is_apart_from_liveness(cold_export, tmp_path, monkeypatch):
    shutil.copytree(cold_export, tmp_path / "1")
    gate = threading.Event()
    load = LoadedModel._load

    def load_slowly(model):
        gate.wait(20)
        load(model)

    monkeypatch.setattr(LoadedModel, "_load", load_slowly)
    server = Server(one_model(str(tmp_path), "anna"), ServeConfig())
    with TestClient(server.app) as web:
        assert web.get("/healthz/live").json() == {"status": "ok"}
        ready = web.get("/healthz/ready")
        assert (ready.status_code, ready.headers["retry-after"]) == (503, "1")
        assert ready.json() == {"status": "the model is being loaded"}
        assert error_of(predict(web, instances=["a"]), 503) == "the model is being loaded"
        gate.set()
        wait_until(lambda: web.get("/healthz/ready").status_code == 200)
        assert predict(web, instances=["a"]).status_code == 200
        # A batch that cannot be stopped.
        monkeypatch.setattr(ServedVersion, "is_overdue", True)
        assert web.get("/healthz/ready").json() == {"status": "a batch does not end"}
        assert web.get("/healthz/live").status_code == 200


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
    limits = ["--max_rows=9999", "--max_request_tokens=999999", "--grace_seconds=2"]
    command = serve_command(folder, port, "--name=anna", "--timeout=20", *limits)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            line = process.stdout.readline()
            address = f"http://127.0.0.1:{port}"
            assert f"INFO loading {folder}/1" in line, line + process.stdout.read()
            wait_until(lambda: _is_healthy(address))
            assert f"INFO serving version 1 of anna at {address}" in process.stdout.readline()
            yield process, address
        finally:
            process.kill()  # otherwise `with` waits for its end


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

    second = subprocess.run(
        serve_command(folder, port),
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"},  # standard error has all imports
    )
    assert second.returncode == 2
    assert " uvicorn\n" in second.stderr
    assert "tensorflow" not in second.stderr
    assert f"cannot listen at 127.0.0.1, port {port}" in second.stderr
    assert not second.stdout
    with pytest.raises(UserError, match="returned status 404: Servable not found"):
        RestClient(address, "none")(["a"])

    responses = []

    def post():
        url = address + PREDICT
        responses.append(httpx2.post(url, json={"instances": lines}, timeout=60))

    def post_long():
        long = {"instances": ["a " * 90] * 2500}
        responses.append(httpx2.post(address + PREDICT, json=long, timeout=60))

    threads = [threading.Thread(target=post), threading.Thread(target=post_long)]
    threads[1].start()
    wait_until(lambda: in_flight(address) == 1)
    threads[0].start()
    wait_until(lambda: in_flight(address) == 2 or responses)
    server.terminate()
    threads[0].join()
    rows = responses[0].json()["predictions"]
    assert [row["translation"] for row in rows] == translator(lines)
    start = time.monotonic()
    threads[1].join()
    assert error_of(responses[1], 503) == "the server is shutting down"
    assert server.wait(10) == 0
    assert time.monotonic() - start < 8  # the grace period and some time to end
    log = server.stdout.read()
    assert "Traceback" not in log
    assert "INFO stopped serving anna" in log


def test_a_second_signal_ends_the_process_at_once(folder, tmp_path):
    path = tmp_path / "access.log"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = ["--name=anna", f"--access_log={path}", "--max_request_tokens=999999", "--quiet"]
    command = serve_command(folder, port, *flags, "--max_rows=9999")
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: _is_healthy(address))
        path.rename(tmp_path / "rotated")

        def post():
            with contextlib.suppress(httpx2.TransportError):
                httpx2.post(address + PREDICT, json={"instances": ["a " * 90] * 5000}, timeout=60)

        thread = threading.Thread(target=post)
        thread.start()
        wait_until(lambda: in_flight(address) == 1 and path.exists())
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)  # the request is pending
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 130
        assert process.stderr.read() == "tf-transformer: ended by a second signal\n"
        thread.join()


def test_a_client_without_a_server():
    with pytest.raises(UserError, match="no answer from http://127.0.0.1:9/v1"):
        RestClient("http://127.0.0.1:9", "anna")(["a"])
