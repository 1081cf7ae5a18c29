"""The built-in models: their files, their translations, and the resolution of their names."""

import logging
import os

import pytest

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.loading import load_model
from tf_transformer.data.readers import open_corpus
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.evaluation.bleu import score
from tf_transformer.files import is_intact

NAME = "pocket-en-de"
FOLDER = os.path.join(model_folder.BUILT_IN_FOLDER, NAME)


def test_files():
    names = model_folder.built_in_models()
    assert {NAME, model_folder.DEFAULT_MODEL} <= set(names)
    for name in names:
        folder = os.path.join(model_folder.BUILT_IN_FOLDER, name)
        files = {"README.md", "SHA256SUMS", "averaged.npz", "config.json"}
        vocabularies = set(os.listdir(folder)) - files
        assert vocabularies in ({"shared.model"}, {"source.model", "target.model"})
        assert set(os.listdir(folder)) == files | vocabularies
        assert is_intact(folder)
        assert os.path.getsize(os.path.join(folder, "averaged.npz")) <= 13_000_000


def test_translations():
    translator = Translator.load(NAME)
    texts = [
        "This man wears a cheap shirt.",
        "She believes that she is not at home.",
        "Yesterday at half past six my aunt got up.",
    ]
    assert translator(texts) == [
        "Dieser Mann trägt ein billiges Hemd.",
        "Sie glaubt, dass sie nicht zu Hause ist.",
        "Gestern um halb sieben ist meine Tante aufgestanden.",
    ]
    sources, references = zip(*list(open_corpus("pocket", "en", "de").read("test"))[:100])
    assert score(translator(sources), references).bleu > 92


@pytest.mark.parametrize(("name", "text", "translation"), [
    ("tatoeba-en-de", "Tom has never heard Mary sing.", "Tom hat Maria nie singen hören."),
    ("tatoeba-de-en", "Vielleicht kommt sie morgen.", "She may come tomorrow."),
    ("tatoeba-en-es", "I love to write.", "Me encanta escribir."),
])  # fmt: skip
def test_everyday_language(name, text, translation):
    assert Translator.load(name)(text) == translation


def test_find_model_dir(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="tf_transformer")
    monkeypatch.chdir(tmp_path)
    assert model_folder.find_model_dir(NAME) == FOLDER
    assert model_folder.find_model_dir("models/mine") == "models/mine"
    assert caplog.messages == []
    default = model_folder.DEFAULT_MODEL
    assert model_folder.default_model() == os.path.join(model_folder.BUILT_IN_FOLDER, default)
    assert f"using the built-in model {default}" in caplog.text
    caplog.clear()
    (tmp_path / NAME).mkdir()
    assert model_folder.find_model_dir(NAME) == NAME
    assert "using the folder ./pocket-en-de" in caplog.messages[0]
    with pytest.raises(UserError, match=r"pocket-en-de holds no model \(no config.json\)"):
        load_model(NAME)


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
