"""The cache of exports."""

import os
import pathlib
import shutil
import threading
import time

import pytest

from tf_transformer.export import cache as export_cache
from tf_transformer.export import saved_model
from tf_transformer.export.cache import built_in_export, cached_export, fingerprint_of
from tf_transformer.files import write_checksums


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(export_cache, "MAX_EXPORTS", 2)
    return tmp_path / "cache" / "tf_transformer"


def export(folder):
    version = pathlib.Path(folder, "1")
    version.mkdir()
    (version / "model").touch()


def use(name):
    time.sleep(0.01)  # the times of the folders differ
    with cached_export("models/m", name, export) as folder:
        assert os.listdir(folder) == ["1"]


def test_the_most_recently_used_exports_stay(cache):
    use("a"), use("b"), use("a"), use("c")
    assert sorted(name for name in os.listdir(cache) if name != ".lock") == ["m-a", "m-c"]


def test_two_processes_export_once(cache):
    exports = []

    def export_slowly(folder):
        exports.append(folder)
        time.sleep(0.2)
        export(folder)

    def use_slow_export():
        with cached_export("models/m", "a", export_slowly) as folder:
            assert os.listdir(folder) == ["1"]

    threads = [threading.Thread(target=use_slow_export) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(exports) == 1


def test_the_fingerprint_depends_on_versions_and_files(tmp_path):
    file = tmp_path / "config.json"
    file.write_text("1")
    first = fingerprint_of(["1.0"], [str(file)])
    assert fingerprint_of(["1.0"], [str(file)]) == first
    assert fingerprint_of(["1.1"], [str(file)]) != first
    file.write_text("2")
    assert fingerprint_of(["1.0"], [str(file)]) != first


@pytest.fixture
def exports(monkeypatch):
    """The folders that were exported to. An export is a version with one file."""
    folders = []

    def export(model_dir, folder):
        version = pathlib.Path(folder, str(1 + len(os.listdir(folder))))
        version.mkdir()
        (version / "saved_model.pb").write_text("graph")
        folders.append(folder)

    monkeypatch.setattr(saved_model, "export_saved_model", export)
    return folders


@pytest.fixture
def built_in(tmp_path):
    """A folder that stands for a built-in model."""
    folder = tmp_path / "pocket-en-de"
    folder.mkdir()
    (folder / "config.json").touch()
    write_checksums(str(folder))
    return folder


def use_built_in(model_dir):
    with built_in_export(str(model_dir)) as folder:
        assert os.listdir(folder)
        return folder


def test_the_model_is_exported_once(exports, built_in, cache):
    folder = use_built_in(built_in)
    assert exports == [folder]
    assert folder.startswith(f"{cache}/pocket-en-de-")
    assert use_built_in(built_in) == folder
    assert len(exports) == 1
    (built_in / "config.json").write_text("another model")
    write_checksums(str(built_in))
    other = use_built_in(built_in)
    assert exports == [folder, other]
    assert other != folder


def test_an_export_that_was_killed_is_made_again(exports, built_in):
    folder = pathlib.Path(use_built_in(built_in))
    shutil.rmtree(folder / "1")
    (folder / ".unfinished-x").mkdir()
    use_built_in(built_in)
    assert len(exports) == 2


def test_the_default_cache_folder(exports, built_in, tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert use_built_in(built_in).startswith(f"{tmp_path}/.cache/tf_transformer/pocket-en-de-")


@pytest.mark.parametrize("home", ["/dev/null", "no home"])
def test_without_a_cache_folder_the_export_is_temporary(home, exports, built_in, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    folder = use_built_in(built_in)
    assert exports == [folder]
    assert not os.path.exists(folder)
