"""The cache of exports."""

import os
import pathlib
import shutil
import threading

import pytest

from tf_transformer.export.cache import MAX_EXPORTS, cached_export, fingerprint_of


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tf_transformer"


@pytest.fixture
def exports():
    """The folders that were exported to."""
    return []


@pytest.fixture
def use(exports):
    """Uses an export of a fingerprint, a version with one file. Returns: its folder."""

    def export(folder):
        version = pathlib.Path(folder, "1")
        version.mkdir()
        (version / "saved_model.pb").write_text("graph")
        exports.append(folder)

    def use(fingerprint):
        with cached_export("models/m", fingerprint, export) as folder:
            assert os.listdir(f"{folder}/1") == ["saved_model.pb"]
        return folder

    return use


def test_the_most_recently_used_exports_stay(use, cache, exports):
    for time in range(MAX_EXPORTS):
        os.utime(use(str(time)), (time, time))
    assert use("0") == exports[0]
    use("new")
    assert len(exports) == MAX_EXPORTS + 1
    expected = sorted(f"m-{name}" for name in [0, *range(2, MAX_EXPORTS), "new"])
    assert sorted(name for name in os.listdir(cache) if name != ".lock") == expected


def test_users_at_the_same_time_export_once(use, exports):
    begun = threading.Barrier(3)

    def use_together():
        begun.wait()
        use("a")

    threads = [threading.Thread(target=use_together) for _ in range(3)]
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


def test_an_export_that_was_killed_is_made_again(use, exports):
    folder = pathlib.Path(use("a"))
    shutil.rmtree(folder / "1")
    (folder / ".unfinished-x").mkdir()
    use("a")
    assert len(exports) == 2


@pytest.mark.parametrize("home", ["", "/dev/null", "no home"])
def test_without_a_cache_folder_the_export_is_temporary(home, use, tmp_path, monkeypatch):
    """The default is that of the user."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", home or str(tmp_path))
    folder = use("a")
    assert os.path.exists(folder) == (not home)
    assert home or folder == f"{tmp_path}/.cache/tf_transformer/m-a"
