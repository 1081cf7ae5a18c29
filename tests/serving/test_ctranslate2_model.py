"""A version that was exported for CTranslate2, compared with the SavedModel of the same model."""

import asyncio
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from starlette.testclient import TestClient

from serving.fake_models import wait_until
from tf_transformer.checkpoints import checkpoint as checkpoints
from tf_transformer.config import ServeConfig
from tf_transformer.data.readers import open_corpus
from tf_transformer.data.scripts import LINE_SEPARATORS
from tf_transformer.decoding.inference import detokenize
from tf_transformer.errors import UserError
from tf_transformer.export import ctranslate2_folder
from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder
from tf_transformer.export.ctranslate2_translator import CTranslate2Translator
from tf_transformer.serving.ctranslate2_model import CTranslate2Model
from tf_transformer.serving.dynamic_batching import Batcher
from tf_transformer.serving.server import Server
from tf_transformer.serving.tensorflow_model import TensorFlowModel
from tf_transformer.special_tokens import PAD, START

TEXTS = [
    "Anna sleeps.",
    "The old man reads a book.",
    "",
    " \u3000",
    "Ж\U0001f600",
    b"a\xff\xc3(\xf0\x9fb",
    b"\xed\xa0\x80",
    "a\0b",
    "[END] [PAD] <0x41>",
    "x " * 500,
]


@pytest.fixture(scope="module")
def export(model_dir, tmp_path_factory):
    """Version 1 of the tiny model, which was trained for a few updates only."""
    path = str(tmp_path_factory.mktemp("ctranslate2") / "1")
    write_ctranslate2_folder(str(model_dir), path)
    return path


@pytest.fixture(scope="module")
def model(export):
    return CTranslate2Model(export, concurrency=3)


@pytest.fixture(scope="module")
def saved_model(cold_export):
    model = TensorFlowModel(cold_export)
    yield model
    model.close()


@pytest.fixture(scope="module")
def pocket(tmp_path_factory):
    """Version 1 of the built-in model."""
    path = str(tmp_path_factory.mktemp("pocket") / "1")
    write_ctranslate2_folder("pocket-en-de", path)
    return path


def test_texts_are_read_as_by_the_saved_model(model, saved_model):
    for text in TEXTS:
        counts = [
            each.signatures["count_tokens"]({"text": [text]}) for each in (model, saved_model)
        ]
        assert counts[0]["tokens"].tolist() == counts[1]["tokens"].tolist(), text
        assert counts[0]["tokens"].dtype == counts[1]["tokens"].dtype


def test_scores_of_given_translations_equal_those_of_the_saved_model(model, saved_model):
    targets = ["Anna schläft.", "", "Ein Buch", "x", "", "é", "a", "b", "c", "d"]
    inputs = {"source": [*TEXTS, "a"], "target": [*targets, "x " * 500]}
    found = model.signatures["score"](inputs)
    expected = saved_model.signatures["score"](inputs)
    assert found["tokens"].tolist() == expected["tokens"].tolist()
    for name in ("log_probability", "token_log_probabilities"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-4)
        assert found[name].dtype == expected[name].dtype


@pytest.mark.parametrize("name", ["serving_default", "nbest"])
def test_rows_without_a_translation(model, saved_model, name):
    texts = {"text": ["", " ", "x " * 500]}
    found, expected = (each.signatures[name](texts) for each in (model, saved_model))
    assert found.keys() == expected.keys()
    for output, array in expected.items():
        np.testing.assert_array_equal(found[output], array)
        assert found[output].dtype == array.dtype
        assert model.signatures[name]({"text": []})[output].shape == (0, *array.shape[1:])


def test_translations_at_the_longest_output(model_dir, tmp_path):
    """A barely trained model writes to the limit. Only the end token can follow there."""
    path = str(tmp_path / "1")
    write_ctranslate2_folder(str(model_dir), path, beam_size=1, extra_decode_length=3)
    from tf_transformer.decoding.translator import Translator

    texts = ["Anna sleeps.", "The old man reads a book.", "a", "b c d e f g h i j k"]
    live = Translator.load(str(model_dir), beam_size=1, extra_decode_length=3)
    found = CTranslate2Model(path).signatures["serving_default"]({"text": texts})
    expected = live.n_best(texts, 1)
    assert [text.decode() for text in found["translation"]] == [best[0][0] for best in expected]
    np.testing.assert_allclose(found["score"], [best[0][1] for best in expected], atol=2e-3)
    tokens = [len(ids) for ids in live.target.encode([best[0][0] for best in expected]).to_list()]
    assert max(tokens) > 8  # the model does write that much


def test_translations_are_those_of_the_live_model(pocket):
    """The best translation of a trained model, and with few exceptions all of them."""
    from tf_transformer.decoding.translator import Translator

    texts = [text for text, _ in open_corpus("pocket", "en", "de").read("test")][:60]
    expected = Translator.load("pocket-en-de").n_best(texts, 4)
    model = CTranslate2Model(pocket)
    found = model.signatures["nbest"]({"text": texts})
    best = model.signatures["serving_default"]({"text": texts})
    assert [text.decode() for text in best["translation"]] == [row[0][0] for row in expected]
    # Padding and the start token have no probability in this search.
    np.testing.assert_allclose(best["score"], [row[0][1] for row in expected], atol=5e-3)
    rows = [[text.decode() for text in row] for row in found["translations"]]
    equal = sum(row == [text for text, _ in pairs] for row, pairs in zip(rows, expected))
    assert equal >= 0.95 * len(texts), equal


def test_a_row_has_the_same_result_in_every_batch(model):
    """The texts have different limits, which this model reaches."""
    translate = model.signatures["nbest"]
    texts = ["a", "Anna sleeps.", "The old man reads a book. " * 4]
    together = translate({"text": texts})
    for i, text in enumerate(texts):
        alone = translate({"text": [text]})
        assert alone["translations"][0].tolist() == together["translations"][i].tolist()
        np.testing.assert_allclose(alone["scores"][0], together["scores"][i], atol=1e-4)


def test_int8_is_an_approximation(pocket):
    texts = {"text": ["Anna sleeps.", "The old man reads a book."]}
    exact = CTranslate2Model(pocket).signatures["serving_default"](texts)
    found = CTranslate2Model(pocket, compute_type="int8").signatures["serving_default"](texts)
    np.testing.assert_array_equal(found["translation"], exact["translation"])
    assert 1e-6 < np.abs(found["score"] - exact["score"]).max() < 0.2


def test_metadata_equals_that_of_the_saved_model(model, saved_model):
    def without_tensor_names(metadata):
        for tensors in (metadata["inputs"], metadata["outputs"]):
            tensors = {name: {**tensor, "name": ""} for name, tensor in tensors.items()}
            metadata = {**metadata, **{"inputs": {}, "outputs": tensors}}
        return metadata

    expected = dict(saved_model.signatures)
    for name in ("alignments", "translate_with_options", "sample", "alternatives"):
        del expected[name]
    assert model.signatures.keys() == expected.keys()
    for name, of_saved_model in expected.items():
        signature = model.signatures[name]
        found = without_tensor_names(signature.metadata)
        assert found == without_tensor_names(of_saved_model.metadata), name
        assert signature.inputs == of_saved_model.inputs
        assert signature.may_be_batched == of_saved_model.may_be_batched


def test_padding_and_start_are_never_produced(model_dir, tmp_path, monkeypatch):
    load_model = ctranslate2_folder.load_model

    def load_broken_model(*arguments):
        """Loads the model, and makes the embeddings of padding and start the most probable."""
        model, tokenizers, config = load_model(*arguments)
        table = checkpoints.named_weights(model)["embedding/table"]
        rows = tf.reduce_sum(table, axis=0) * 0 + 100 * tf.sign(table[5])
        table.assign(tf.tensor_scatter_nd_update(table, [[PAD], [START]], [rows, -rows]))
        return model, tokenizers, config

    monkeypatch.setattr(ctranslate2_folder, "load_model", load_broken_model)
    path = str(tmp_path / "1")
    write_ctranslate2_folder(str(model_dir), path)
    translator = CTranslate2Translator(path)
    rows = translator.encode(["Anna sleeps.", "a b c"])
    excluded, translator._excluded = translator._excluded, None
    pieces = {
        piece for found in translator._search(rows, 20, 4) for h in found.hypotheses for piece in h
    }
    assert pieces & {"[PAD]", "[START]"}  # without the exclusion
    translator._excluded = excluded
    pieces = {
        piece for found in translator._search(rows, 20, 4) for h in found.hypotheses for piece in h
    }
    assert not pieces & {"[PAD]", "[START]"}


def test_text_of_any_sub_words_equals_that_of_the_tokenizer(export, translator):
    """Bytes that are not UTF-8, and line separators."""
    random = np.random.default_rng(0)
    ids = random.integers(4, 300, [50, 12])  # most of them are bytes
    expected = [
        text.decode() for text in detokenize(translator.target, tf.constant(ids, tf.int32)).numpy()
    ]
    of_export = CTranslate2Translator(export)
    found = [of_export.decode_target(translator.target.pieces(row)) for row in ids]
    assert found == expected
    assert any("\ufffd" in text for text in found)
    separators = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
    pattern = tf.strings.regex_replace(separators, LINE_SEPARATORS, " ").numpy().decode()
    pieces = [f"<0x{byte:02X}>" for byte in separators.encode()]
    assert of_export.decode_target(pieces) == pattern == " " * 10


def test_a_deadline_ends_the_computation_after_its_batch(model):
    texts = ["a " * 40] * 2000
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        model.signatures["nbest"]({"text": texts}, start + 0.3)
    assert time.monotonic() - start < 5  # much less than the texts take
    with pytest.raises(TimeoutError):
        model.signatures["score"]({"source": ["a"], "target": ["a"]}, start)


def test_requests_with_long_texts_do_not_block_others(pocket):
    """The parts of the long request are computed one by one beside the short rows."""
    signature = CTranslate2Model(pocket, concurrency=3).signatures["serving_default"]

    async def test():
        batcher = Batcher(ServeConfig(), lambda *report: None)
        deadline = time.monotonic() + 60
        inputs = {"text": ["Anna " * 480] * 12}
        hostile = asyncio.ensure_future(batcher.compute(signature, inputs, [960] * 12, deadline))
        for _ in range(3):
            await batcher.compute(signature, {"text": ["Anna sleeps."]}, [6], deadline)
        assert not hostile.done()
        hostile.cancel()
        batcher.close()

    asyncio.run(test())


LOADS = """
import sys
import psutil
import tf_transformer.serving.server
from tf_transformer.serving.ctranslate2_model import CTranslate2Model
for _ in range(9):
    model = CTranslate2Model(sys.argv[1])
    model.signatures["nbest"]({"text": ["a"]})
    model.close()
    print(psutil.Process().memory_info().rss)
assert "tensorflow" not in sys.modules
"""


def test_the_server_needs_no_tensorflow_and_a_closed_model_leaves_no_memory(pocket):
    command = [sys.executable, "-c", LOADS, pocket]
    process = subprocess.run(command, capture_output=True, text=True)
    sizes = [int(line) for line in process.stdout.splitlines()]
    assert process.returncode == 0, process.stderr
    assert len(sizes) == 9
    # Of the five loads between these sizes.
    assert sizes[-1] - sizes[3] < 3 * os.path.getsize(os.path.join(pocket, "model.bin"))


def test_the_server_with_this_engine(pocket):
    server = Server("m", os.path.dirname(pocket), ServeConfig(), CTranslate2Model)
    with TestClient(server.app) as web:
        wait_until(lambda: web.get("/healthz/ready").status_code == 200)
        answer = web.post("/v1/models/m:predict", json={"instances": ["Anna sleeps.", ""]})
        first, blank = answer.json()["predictions"]
        assert first["translation"] == "Anna schläft."
        assert blank == {"translation": "", "score": 0.0}
        request = {"signature_name": "alignments", "instances": ["a"]}
        assert web.post("/v1/models/m:predict", json=request).status_code == 400


def test_an_incomplete_export_is_not_loaded(export, tmp_path):
    folder = tmp_path / "1"
    shutil.copytree(export, folder)
    with open(folder / "model.bin", "ab") as file:
        file.write(b"x")
    with pytest.raises(ValueError, match="SHA256SUMS"):
        CTranslate2Model(str(folder))
    with pytest.raises(UserError, match="not an export for CTranslate2"):
        CTranslate2Translator(str(tmp_path))
    (folder / "model.bin").write_bytes(b"x" * 100)
    with pytest.raises(UserError, match=f"cannot load {folder}"):
        CTranslate2Translator(str(folder))
    (folder / "shared.model").write_bytes(b"x")
    with pytest.raises(UserError, match="shared.model is missing or damaged"):
        CTranslate2Translator(str(folder))


def test_separate_vocabularies(export, tmp_path):
    """The export of a model with two vocabularies has two SentencePiece models."""
    folder = tmp_path / "1"
    shutil.copytree(export, folder)
    shutil.copy(folder / "shared.model", folder / "source.model")
    (folder / "shared.model").rename(folder / "target.model")
    texts = ["Anna sleeps.", "a"]
    found, expected = (
        CTranslate2Translator(str(path)).n_best(texts, 2) for path in (folder, export)
    )
    assert found == expected
