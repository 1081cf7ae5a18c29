"""The cache of exports."""

import os
import pathlib
import shutil
import subprocess
import sys
import threading

import pytest

from tf_transformer.checkpoints import model_folder
from tf_transformer.errors import UserError
from tf_transformer.export.cache import MAX_EXPORTS, cached_export, ctranslate2_export
from tf_transformer.files import is_intact


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
    """Uses the export of a version of the library and of some files. Returns: its folder."""

    def export(folder):
        version = pathlib.Path(folder, "1")
        version.mkdir()
        (version / "saved_model.pb").write_text("graph")
        exports.append(folder)

    def use(version, *files):
        folder = cached_export("models/m", version, files, export)
        assert os.listdir(f"{folder}/1") == ["saved_model.pb"]
        return folder

    return use


def test_the_most_recently_used_exports_stay(use, cache, exports):
    for time in range(MAX_EXPORTS):
        os.utime(use(str(time)), (time, time))
    assert use("0") == exports[0]
    use("new")
    assert len(exports) == MAX_EXPORTS + 1
    assert sorted(cache.glob("m-*")) == sorted(map(pathlib.Path, exports[:1] + exports[2:]))


def test_users_at_the_same_time_export_once(use, exports):
    threads = [threading.Thread(target=use, args=["a"]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(exports) == 1


def test_other_files_are_exported_again(use, exports, tmp_path):
    file = tmp_path / "config.json"
    for content, number in (("1", 1), ("1", 1), ("2", 2)):
        file.write_text(content)
        use("a", file)
        assert len(exports) == number


def test_an_export_that_was_killed_is_made_again(use, exports):
    folder = pathlib.Path(use("a"))
    shutil.rmtree(folder / "1")
    (folder / ".unfinished-x").mkdir()
    use("a")
    assert len(exports) == 2


@pytest.mark.slow
def test_an_export_in_a_process_of_its_own(tmp_path):
    program = """
import sys
from tf_transformer.export.cache import ctranslate2_export
print(ctranslate2_export(sys.argv[1], None))
assert "tensorflow" not in sys.modules"""
    model = tmp_path / "model"
    shutil.copytree(model_folder.find_model_dir("pocket-en-de"), model)
    command = [sys.executable, "-c", program, str(model)]
    folder = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    assert is_intact(f"{folder}/1")
    pathlib.Path(model_folder.find(str(model))).write_bytes(b"x")
    with pytest.raises(UserError, match=r"^.*/model could not be exported: [^\n]*damaged[^\n]*$"):
        ctranslate2_export(str(model), None)


@pytest.mark.parametrize("home", ["", "/dev/null"])
def test_without_a_cache_folder_the_export_is_temporary(home, use, tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", home or str(tmp_path))
    assert use("a").startswith(f"{tmp_path}/.cache/tf_transformer/m-") == (not home)
