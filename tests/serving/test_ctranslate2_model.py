"""A version that was exported for CTranslate2, compared with the SavedModel of the same model."""

import itertools
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.loading import load_model
from tf_transformer.checkpoints.model_folder import find
from tf_transformer.config import GenerationConfig
from tf_transformer.data.readers import open_corpus
from tf_transformer.data.text_files import LINE_SEPARATORS
from tf_transformer.decoding.inference import detokenize
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder
from tf_transformer.export.ctranslate2_translator import CTranslate2Translator
from tf_transformer.serving import ctranslate2_model
from tf_transformer.serving.ctranslate2_model import CTranslate2Model
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
TARGETS = ["Anna schläft.", "", "Ein Buch", "x", "", "é", "a", "b", "c", "d"]


@pytest.fixture(scope="module")
def export(model_dir, tmp_path_factory):
    """Version 1 of the tiny model, which was trained for a few updates only."""
    path = str(tmp_path_factory.mktemp("ctranslate2") / "1")
    write_ctranslate2_folder(str(model_dir), path)
    return path


@pytest.fixture(scope="module")
def model(export):
    return CTranslate2Model(export, parallel=2)


@pytest.mark.parametrize(
    "name, inputs, tolerance",
    [
        ("count_tokens", {"text": TEXTS}, 0),
        ("count_tokens", {"text": []}, 0),
        ("score", {"source": [*TEXTS, "a"], "target": [*TARGETS, "x " * 500]}, 1e-4),
        ("serving_default", {"text": ["", " ", "x " * 500]}, 0),  # without a translation
        ("serving_default", {"text": []}, 0),
        ("nbest", {"text": ["", " ", "x " * 500]}, 0),
        ("nbest", {"text": []}, 0),
    ],
)
def test_outputs_equal_those_of_the_saved_model(model, saved_model, name, inputs, tolerance):
    found, expected = (each.signatures[name](inputs) for each in (model, saved_model))
    assert found.keys() == expected.keys()
    for output, array in expected.items():
        assert found[output].dtype == array.dtype
        if array.dtype == object:
            assert found[output].tolist() == array.tolist()
        else:
            np.testing.assert_allclose(found[output], array, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("beam_size, shortest, extra", [(1, 0, 3), (4, 12, 3), (4, 12, 30)])
def test_the_shortest_and_longest_outputs(model_dir, tmp_path, beam_size, shortest, extra):
    """Those of the live model, which is barely trained and writes to the limit.

    The longest output holds where the shortest one is longer.
    """
    folder, decode = str(tmp_path / "1"), {"beam_size": beam_size, "extra_decode_length": extra}
    write_ctranslate2_folder(str(model_dir), folder, **decode)
    texts = ["Anna sleeps.", "The old man reads a book.", "a", "b c d e f g h i j k"]
    live = Translator.load(str(model_dir), None, GenerationConfig(min_length=shortest), **decode)
    found = CTranslate2Translator(folder, min_length=shortest).n_best(texts, 1)
    for (each,), (expected,) in zip(found, live.n_best(texts, 1)):
        assert (each[0], each.length, each.truncated) == (
            expected[0], expected.length, expected.truncated,
        )  # fmt: skip
        assert each[1] == pytest.approx(expected[1], abs=2e-3)
        assert each.length >= shortest or each.truncated


def test_translations_are_those_of_the_live_model(tmp_path):
    """The best translation of a trained model, and with few exceptions all of them."""
    pocket = str(tmp_path / "1")
    write_ctranslate2_folder("pocket-en-de", pocket)
    pairs = open_corpus("pocket", "en", "de").read("test")
    texts = [text for text, _ in itertools.islice(pairs, 60)]
    expected = Translator.load("pocket-en-de").n_best(texts, 4)
    signatures = CTranslate2Model(pocket).signatures
    best = signatures["serving_default"]({"text": texts})
    assert [text.decode() for text in best["translation"]] == [row[0][0] for row in expected]
    # Padding and the start token have no probability in this search.
    np.testing.assert_allclose(best["score"], [row[0][1] for row in expected], atol=5e-3)
    rows = signatures["nbest"]({"text": texts})["translations"]
    live = [[text.encode() for text, _ in row] for row in expected]
    equal = sum(row.tolist() == of_live for row, of_live in zip(rows, live))
    assert equal >= 0.95 * len(texts), equal

    int8 = CTranslate2Model(pocket, compute_type="int8").signatures["serving_default"]
    found = int8({"text": texts[:2]})  # an approximation
    np.testing.assert_array_equal(found["translation"], best["translation"][:2])
    assert 1e-6 < np.abs(found["score"] - best["score"][:2]).max() < 0.2


def test_metadata_equals_that_of_the_saved_model(model, saved_model):
    def without_tensor_names(metadata):
        tensors = {name: {**each, "name": ""} for name, each in metadata["outputs"].items()}
        return {**metadata, "inputs": sorted(metadata["inputs"]), "outputs": tensors}

    missing = {"alignments", "translate_with_options", "sample", "alternatives"}
    assert model.signatures.keys() == saved_model.signatures.keys() - missing
    for name, signature in model.signatures.items():
        expected = saved_model.signatures[name]
        found = without_tensor_names(signature.metadata)
        assert found == without_tensor_names(expected.metadata), name
        assert signature.inputs == expected.inputs
        assert signature.may_be_batched == expected.may_be_batched


def test_padding_and_start_are_never_produced(model_dir, tmp_path):
    """In this model, one of them is the most probable sub-word at every position."""
    model, _, _ = load_model(str(model_dir))
    table = checkpoint.named_weights(model)["embedding/table"]
    row = 100 * tf.sign(table[5])
    table.assign(tf.tensor_scatter_nd_update(table, [[PAD], [START]], [row, -row]))
    path = str(tmp_path / "weights.npz")
    checkpoint.save(path, model, state=checkpoint.read_state(find(str(model_dir))))
    write_ctranslate2_folder(str(model_dir), str(tmp_path / "1"), path, beam_size=1)
    texts = ["Anna sleeps.", "a b c"]
    expected = Translator.load(str(model_dir), path, beam_size=1)(texts)
    found = CTranslate2Translator(str(tmp_path / "1")).n_best(texts, 1)
    assert [text for ((text, _),) in found] == expected
    assert all(expected)


def test_text_of_any_sub_words_equals_that_of_the_tokenizer(export, translator):
    """Bytes that are not UTF-8, and line separators."""
    ids = np.random.default_rng(0).integers(4, 300, [50, 12])  # most of them are bytes
    texts = detokenize(translator.target, tf.constant(ids, tf.int32)).numpy()
    of_export = CTranslate2Translator(export)
    found = [of_export.decode_target(translator.target.pieces(row)) for row in ids]
    assert found == [text.decode() for text in texts]
    assert any("\ufffd" in text for text in found)
    separators = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
    pattern = tf.strings.regex_replace(separators, LINE_SEPARATORS, " ").numpy().decode()
    pieces = [f"<0x{byte:02X}>" for byte in separators.encode()]
    assert of_export.decode_target(pieces) == pattern == " " * 10


def test_a_deadline_ends_the_computation_after_its_batch(model, monkeypatch):
    """Here the clock counts its readings, one for each batch."""
    clock = SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr(ctranslate2_model, "time", clock)
    monkeypatch.setattr(ctranslate2_model, "SCORED_TOKENS", 1)
    with pytest.raises(TimeoutError):
        model.signatures["score"]({"source": ["a"] * 3, "target": ["a"] * 3}, 1)
    assert clock.monotonic() == 2
    with pytest.raises(TimeoutError):
        model.signatures["nbest"]({"text": ["a"]}, 3)


def test_an_incomplete_export_is_not_loaded(export, tmp_path):
    folder = tmp_path / "1"
    shutil.copytree(export, folder)
    (folder / "model.bin").write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match="SHA256SUMS"):
        CTranslate2Model(str(folder))
    with pytest.raises(UserError, match="not an export for CTranslate2"):
        CTranslate2Translator(str(tmp_path))
    with pytest.raises(UserError, match=f"cannot load {folder}"):
        CTranslate2Translator(str(folder))
    (folder / "source.model").write_bytes(b"x")
    with pytest.raises(UserError, match="source.model is missing or damaged"):
        CTranslate2Translator(str(folder))
