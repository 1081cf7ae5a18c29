"""The built-in models: their files, their translations, and the resolution of their names."""

import logging
import os

import numpy as np
import pytest

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.checkpoint import MODEL
from tf_transformer.checkpoints.loading import load_model
from tf_transformer.data.readers import open_corpus
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.evaluation.bleu import score
from tf_transformer.files import is_intact

NAME = "pocket-en-de"
FOLDER = os.path.join(model_folder.BUILT_IN_FOLDER, NAME)


@pytest.fixture(scope="module")
def built_in_translator():
    return Translator.load(NAME)


@pytest.fixture(scope="module")
def test_pairs():
    return list(open_corpus("pocket", "en", "de").read("test"))[:100]


def test_files():
    assert model_folder.built_in_models() == [model_folder.DEFAULT_MODEL] == [NAME]
    files = ["README.md", "SHA256SUMS", "averaged.npz", "config.json", "shared.model"]
    assert sorted(os.listdir(FOLDER)) == files
    assert is_intact(FOLDER)
    with np.load(os.path.join(FOLDER, "averaged.npz")) as file:
        types = {file[name].dtype for name in file.files if name.startswith(MODEL)}
    assert types == {np.dtype(np.float16)}


def test_translations(built_in_translator):
    texts = [
        "This man wears a cheap shirt.",
        "She believes that she is not at home.",
        "Yesterday at half past six my aunt got up.",
    ]
    assert built_in_translator(texts) == [
        "Dieser Mann trägt ein billiges Hemd.",
        "Sie glaubt, dass sie nicht zu Hause ist.",
        "Gestern um halb sieben ist meine Tante aufgestanden.",
    ]


def test_float16_does_not_change_the_translations(built_in_translator, test_pairs):
    """Float32 weights that round to the stored ones give the same translations."""
    sources = [source for source, _ in test_pairs]
    references = [reference for _, reference in test_pairs]
    translations = built_in_translator(sources)
    assert score(translations, references).bleu > 92
    model, tokenizers, config = load_model(NAME)
    assert {variable.dtype for variable in model.variables} == {"float32"}
    random = np.random.default_rng(0)
    for variable in model.trainable_variables:
        stored = variable.numpy()
        half_step = np.spacing(np.abs(stored).astype(np.float16)).astype(np.float32) / 2
        rounded_from = stored + random.uniform(-0.99, 0.99, stored.shape) * half_step
        variable.assign(rounded_from)
    others = Translator(model, tokenizers, config.decode)(sources)
    assert sum(a == b for a, b in zip(translations, others)) >= 98


def test_find_model_dir(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="tf_transformer")
    monkeypatch.chdir(tmp_path)
    assert model_folder.find_model_dir(NAME) == FOLDER
    assert model_folder.find_model_dir("models/mine") == "models/mine"
    assert caplog.messages == []
    (tmp_path / NAME).mkdir()
    assert model_folder.find_model_dir(NAME) == NAME
    assert "using the folder ./pocket-en-de" in caplog.messages[0]
    with pytest.raises(UserError, match=r"pocket-en-de holds no model \(no config.json\)"):
        load_model(NAME)


def test_the_default_model_is_logged(caplog):
    caplog.set_level(logging.INFO, logger="tf_transformer")
    assert model_folder.default_model() == FOLDER
    assert caplog.messages == [
        "no --model_dir: using the built-in model pocket-en-de, which knows only the sentences of "
        "the built-in corpus"
    ]


def test_an_unknown_name_lists_the_built_in_models():
    with pytest.raises(UserError, match="no model folder pocket-en-fr.*: pocket-en-de$"):
        model_folder.load_config("pocket-en-fr")


def test_writable_folder(tmp_path, monkeypatch):
    assert model_folder.writable_folder("models/mine") == "models/mine"
    assert model_folder.writable_folder(str(tmp_path)) == str(tmp_path)
    with monkeypatch.context() as patch:  # a read-only file system
        patch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
        assert model_folder.writable_folder(str(tmp_path)) == f"models/{tmp_path.name}"
    assert model_folder.writable_folder(FOLDER) == f"models/{NAME}"
    link = tmp_path / "link"
    link.symlink_to(FOLDER)
    assert model_folder.is_built_in(f"{link}/")
    assert model_folder.writable_folder(f"{link}/") == f"models/{NAME}"
    assert not model_folder.is_built_in(str(tmp_path))
