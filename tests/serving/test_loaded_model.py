"""An exported model in memory."""

import shutil
import subprocess
import sys
import threading
import time
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.serving import loaded_model
from tf_transformer.serving.loaded_model import InvalidInputError, LoadedModel


@pytest.fixture(scope="module", params=["small", "large"])
def model(request, exported, cold_export):
    """The model with the executor of small models, and with that of large ones."""
    is_small = request.param == "small"
    limit = loaded_model.SMALL_MODEL if is_small else 0
    with mock.patch.object(loaded_model, "SMALL_MODEL", limit):
        model = LoadedModel(exported if is_small else cold_export, concurrency=2)
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
    model = LoadedModel(cold_export)
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
from tf_transformer.serving.loaded_model import LoadedModel
for _ in range(7):
    model = LoadedModel(sys.argv[1])
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
        LoadedModel(str(folder))
