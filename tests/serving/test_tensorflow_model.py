"""A SavedModel in memory, and the server with it."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from starlette.testclient import TestClient

from serving.fake_models import wait_until
from tf_transformer.config import ServeConfig
from tf_transformer.serving.model_interface import InvalidInputError
from tf_transformer.serving.server import Server
from tf_transformer.serving.tensorflow_model import TensorFlowModel


@pytest.fixture(scope="module")
def model(exported):
    model = TensorFlowModel(exported, concurrency=2)
    yield model
    model.close()


def test_a_signature_equals_that_of_the_saved_model(model, exported):
    texts = ["Anna sleeps.", "", "The old man reads a book."]
    expected = tf.saved_model.load(exported).signatures["nbest"](tf.constant(texts))
    found = model.signatures["nbest"]({"text": texts})
    np.testing.assert_array_equal(found["translations"], expected["translations"].numpy())
    np.testing.assert_allclose(found["scores"], expected["scores"].numpy(), rtol=1e-5)


def test_strings_and_bytes(model):
    count = model.signatures["count_tokens"]
    texts = ["é", "é".encode(), b"a\0", ""]
    tokens = count({"text": texts})["tokens"]
    assert tokens[0] == tokens[1]
    assert tokens[2] > 0
    assert tokens[3] == 0
    assert count({"text": []})["tokens"].shape == (0,)


def long_texts():
    return {"text": ["a " * 90] * 2000}


def test_a_computation_is_stopped_at_its_deadline(model):
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        model.signatures["nbest"](long_texts(), start + 0.5)
    assert time.monotonic() - start < 5  # much less than the texts take
    with pytest.raises(TimeoutError):
        model.signatures["nbest"]({"text": ["a"]}, start)
    assert len(model.signatures["nbest"]({"text": ["a"]})["scores"]) == 1


def test_more_calls_than_threads_do_not_block_each_other(model):
    results = []

    def call(name):
        for _ in range(3):
            results.append(model.signatures[name]({"text": ["Anna sleeps."] * 3}))

    names = ["serving_default", "nbest", "count_tokens", "alignments"] * 2
    threads = [threading.Thread(target=call, args=[name], daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(results) == 24


def test_an_error_of_the_graph_names_no_nodes(model):
    signature = model.signatures["score"]
    with pytest.raises(InvalidInputError) as raised:
        signature({"source": ["a", "b"], "target": ["a"]})
    assert "\n" not in str(raised.value)
    assert "Graph" not in str(raised.value)
    assert str(raised.value)


def test_close_stops_the_computation(cold_export):
    model = TensorFlowModel(cold_export)
    model.signatures["nbest"]({"text": ["a"]})  # the first call takes longer
    errors = []

    def translate():
        try:
            model.signatures["nbest"](long_texts())
        except tf.errors.OpError as error:
            errors.append(type(error))

    thread = threading.Thread(target=translate)
    thread.start()
    time.sleep(0.3)
    start = time.monotonic()
    model.close()
    thread.join()
    assert errors == [tf.errors.CancelledError]
    assert time.monotonic() - start < 5


LOADS = """
import sys
import psutil
from tf_transformer.serving.tensorflow_model import TensorFlowModel
for _ in range(7):
    model = TensorFlowModel(sys.argv[1])
    model.signatures["nbest"]({"text": ["a"]})
    model.close()
    print(psutil.Process().memory_info().rss)
"""


def test_a_closed_model_leaves_no_memory(cold_export):
    command = [sys.executable, "-c", LOADS, cold_export]
    process = subprocess.run(command, capture_output=True, text=True)
    sizes = [int(line) for line in process.stdout.splitlines()]
    assert len(sizes) == 7, process.stderr
    assert sizes[-1] < 1.05 * sizes[3]


def test_a_damaged_model_is_not_loaded(exported, tmp_path):
    folder = tmp_path / "1"
    shutil.copytree(exported, folder)
    with open(folder / "assets.extra" / "tf_serving_warmup_requests", "ab") as file:
        file.write(b"x")
    with pytest.raises(ValueError, match="SHA256SUMS"):
        TensorFlowModel(str(folder))


@pytest.fixture(scope="module")
def predict(cold_export):
    """A function that sends a request to a server. It returns the JSON of the response."""
    settings = ServeConfig(max_request_tokens=10**6, max_rows=9999, timeout=20.0)
    server = Server("anna", os.path.dirname(cold_export), settings, TensorFlowModel)
    with TestClient(server.app) as web:
        wait_until(lambda: web.get("/healthz/ready").status_code == 200)
        yield lambda **request: web.post("/v1/models/anna:predict", json=request).json()


def test_responses_equal_the_live_model(predict, translator):
    texts = ["Anna sleeps.", "", "The old man reads a book."]
    rows = predict(instances=texts)["predictions"]
    assert [row["translation"] for row in rows] == translator(texts)
    assert predict(inputs=[])["outputs"] == {"translation": [], "score": []}
    outputs = predict(signature_name="nbest", inputs=texts)["outputs"]
    expected = translator.n_best(texts, 4)
    for row, translations, scores in zip(expected, outputs["translations"], outputs["scores"]):
        assert translations[: len(row)] == [text for text, _ in row]
        np.testing.assert_allclose(scores[: len(row)], [score for _, score in row], rtol=1e-5)
    pairs = {"source": ["", "a"], "target": ["Ein Buch", ""]}
    outputs = predict(signature_name="score", inputs=pairs)["outputs"]
    sums = np.sum(outputs["token_log_probabilities"], axis=1)
    np.testing.assert_allclose(sums, outputs["log_probability"], rtol=1e-5)
    (row,) = predict(signature_name="alignments", instances=["Anna sleeps."])["predictions"]
    np.testing.assert_allclose(np.sum(row["weights"], axis=-1), 1.0, atol=1e-5)


def test_each_row_has_its_own_options(predict):
    rows = [{"text": "Anna sleeps."}, {"text": "Anna sleeps.", "n_best": 2, "length_penalty": 0}]
    together = predict(signature_name="translate_with_options", instances=rows)["predictions"]
    alone = [
        predict(signature_name="translate_with_options", instances=[row])["predictions"][0]
        for row in rows
    ]
    assert [row["translations"] for row in together] == [row["translations"] for row in alone]
    wrong = predict(signature_name="translate_with_options", instances=[{**rows[0], "n_best": 9}])
    assert "n_best must be" in wrong["error"]


def test_concurrent_requests_get_their_own_results(predict, translator):
    texts = ["Anna sleeps.", "The old man reads a book.", "", "He sees the dog.", "x"] * 4
    expected = translator(texts)
    with concurrent.futures.ThreadPoolExecutor(len(texts)) as executor:
        found = executor.map(lambda text: predict(instances=[text])["predictions"], texts)
    assert [row["translation"] for (row,) in found] == expected


def test_a_long_request_does_not_delay_short_ones(predict):
    """Its rows are more than can be translated within the time limit of a request."""
    finished = threading.Event()
    answers = []

    def send_long():
        answers.append(predict(instances=["a " * 90] * 4000))
        finished.set()

    thread = threading.Thread(target=send_long)
    thread.start()
    short = 0
    while not finished.is_set():
        assert "predictions" in predict(instances=["Anna sleeps."])
        short += 1
    thread.join()
    assert answers == [{"error": "no answer within 20 s"}]
    assert short > 10
