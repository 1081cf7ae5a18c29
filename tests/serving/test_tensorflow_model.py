"""A SavedModel in memory, and the server with it."""

import concurrent.futures
import os
import shutil
import time
import types

import pytest
import tensorflow as tf

from serving.fake_models import SECONDS, running, wait_until
from tf_transformer.serving.model_interface import InvalidInputError
from tf_transformer.serving.tensorflow_model import TensorFlowModel

TEXTS = ["Anna sleeps.", "", "The old man reads a book."]


def test_concurrent_calls_get_their_own_results(saved_model, translator):
    """More calls than are computed at the same time, of several signatures."""
    texts = [*TEXTS, "He sees the dog.", "x"] * 4
    count, translate = (saved_model.signatures[n] for n in ("count_tokens", "serving_default"))
    with concurrent.futures.ThreadPoolExecutor(20) as threads:
        counts = threads.map(lambda text: count({"text": [text]})["tokens"], texts)
        found = threads.map(lambda text: translate({"text": [text]})["translation"], texts)
        assert [number for (number,) in counts] == [*count({"text": texts})["tokens"]]
        assert [text.decode() for (text,) in found] == translator(texts)


def test_an_error_of_the_graph_names_no_nodes(saved_model):
    with pytest.raises(InvalidInputError, match="^[^\n]+$") as raised:
        saved_model.signatures["score"]({"source": ["a", "b"], "target": ["a"]})
    assert "Graph" not in str(raised.value)


@pytest.fixture
def endless(tmp_path):
    """A model that writes a file, and whose computation never ends for more than a letter."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def run(text):
        tf.io.write_file(str(tmp_path / "started"), "")
        limit = tf.cast(tf.strings.length(text[0]) > 1, tf.int64) * tf.int64.max
        steps = tf.zeros([], tf.int64)
        while steps < limit:
            steps += 1
        return {"steps": steps}

    tf.saved_model.save(tf.Module(), str(tmp_path / "1"), {"run": run})
    return TensorFlowModel(str(tmp_path / "1"))


def test_a_computation_is_stopped_at_its_deadline(endless):
    run = endless.signatures["run"]
    for seconds in (0.5, 0):
        with pytest.raises(TimeoutError):
            run({"text": ["ab"]}, time.monotonic() + seconds)
    assert run({"text": ["a"]}, time.monotonic() + SECONDS)["steps"] == 0
    endless.close()


def test_close_stops_the_computation(endless, tmp_path):
    with concurrent.futures.ThreadPoolExecutor() as threads:
        pending = threads.submit(endless.signatures["run"], {"text": ["ab"]})
        wait_until((tmp_path / "started").exists)
        endless.close()
        with pytest.raises(tf.errors.CancelledError):
            pending.result(SECONDS)


def test_a_damaged_model_is_not_loaded(exported, tmp_path):
    folder = tmp_path / "1"
    shutil.copytree(exported, folder)
    with open(folder / "assets.extra" / "tf_serving_warmup_requests", "ab") as file:
        file.write(b"x")
    with pytest.raises(ValueError, match="SHA256SUMS"):
        TensorFlowModel(str(folder))


def test_responses_equal_the_live_model(saved_model, cold_export, translator):
    names = "serving_default", "count_tokens", "translate_with_options"
    signatures = {name: saved_model.signatures[name] for name in names}
    shared = types.SimpleNamespace(signatures=signatures, close=lambda: None)
    with running(os.path.dirname(cold_export), load=lambda path: shared) as web:

        def predict(**request):
            return web.post("/v1/models/anna:predict", json=request).json()

        rows = predict(instances=TEXTS)["predictions"]
        assert [row["translation"] for row in rows] == translator(TEXTS)
        assert predict(inputs=[])["outputs"] == {"translation": [], "score": [], "truncated": []}
        # Each row has its own options.
        name = names[-1]
        rows = [{"text": "Anna sleeps.", "n_best": number} for number in (1, 2, 9)]
        outputs = predict(signature_name=name, instances=rows[:2])["predictions"]
        assert [row["count"] for row in outputs] == [1, 2]
        assert "n_best must be" in predict(signature_name=name, instances=rows)["error"]
