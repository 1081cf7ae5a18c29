"""The cache of the exported built-in model."""

import logging
import os
import pathlib
import shutil

import pytest

from tf_transformer.checkpoints.checksums import write_checksums
from tf_transformer.export import built_in as built_in_module
from tf_transformer.export.built_in import built_in_export as exported_model


@pytest.fixture
def exports(monkeypatch):
    """The folders that were exported to. An export is a version with one file."""
    folders = []

    def export(model_dir, folder):
        version = pathlib.Path(folder, str(1 + len(os.listdir(folder))))
        version.mkdir()
        (version / "saved_model.pb").write_text("graph")
        write_checksums(str(version))
        folders.append(folder)

    monkeypatch.setattr(built_in_module, "export_saved_model", export)
    return folders


@pytest.fixture
def built_in(tmp_path):
    """A folder that stands for a built-in model."""
    folder = tmp_path / "pocket-en-de"
    folder.mkdir()
    (folder / "config.json").touch()
    write_checksums(str(folder))
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def use(model_dir):
    with exported_model(str(model_dir)) as folder:
        assert os.listdir(folder)
        return folder


def test_the_model_is_exported_once(exports, built_in, cache):
    folder = use(built_in)
    assert exports == [folder]
    assert folder.startswith(f"{cache}/tf_transformer/pocket-en-de-")
    assert use(built_in) == folder
    assert len(exports) == 1
    (built_in / "config.json").write_text("another model")
    write_checksums(str(built_in))
    other = use(built_in)
    assert exports == [folder, other]
    assert other != folder


def test_a_damaged_export_is_not_served(exports, built_in, cache, caplog):
    caplog.set_level(logging.INFO, logger="tf_transformer")
    folder = pathlib.Path(use(built_in))
    (folder / "1" / "saved_model.pb").write_text("grapH")
    use(built_in)
    assert len(exports) == 2
    assert f"{folder}/1 is damaged: removing it" in caplog.messages
    (folder / "1" / "SHA256SUMS").unlink()
    use(built_in)
    assert len(exports) == 3
    shutil.rmtree(folder / "1")
    (folder / ".unfinished-x").mkdir()  # of an export that was killed
    use(built_in)
    assert len(exports) == 4


def test_the_default_cache_folder(exports, built_in, tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert use(built_in).startswith(f"{tmp_path}/.cache/tf_transformer/pocket-en-de-")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # not valid, so it is ignored
    assert use(built_in).startswith(f"{tmp_path}/.cache/")


@pytest.mark.parametrize("home", ["/dev/null", "no home"])
def test_without_a_cache_folder_the_export_is_temporary(home, exports, built_in, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    folder = use(built_in)
    assert exports == [folder]
    assert not os.path.exists(folder)
