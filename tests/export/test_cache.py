"""The cache of exports: how many stay. (`test_built_in.py` has the rest.)"""

import os
import pathlib
import threading
import time

import pytest

from tf_transformer.checkpoints.checksums import write_checksums
from tf_transformer.export import cache as export_cache
from tf_transformer.export.cache import cached_export, fingerprint_of


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(export_cache, "MAX_EXPORTS", 2)
    return tmp_path / "cache" / "tf_transformer"


def export(folder):
    version = pathlib.Path(folder, "1")
    version.mkdir()
    (version / "model").touch()
    write_checksums(str(version))


def use(name):
    time.sleep(0.01)  # the times of the folders differ
    with cached_export("models/m", name, export) as folder:
        assert os.listdir(folder) == ["1"]


def test_the_most_recently_used_exports_stay(cache):
    use("a"), use("b"), use("a"), use("c")
    assert sorted(os.listdir(cache)) == ["m-a", "m-c"]


def test_an_export_in_use_stays(cache):
    with cached_export("models/m", "a", export):
        use("b"), use("c"), use("d")
        assert sorted(os.listdir(cache)) == ["m-a", "m-c", "m-d"]
    use("e")
    assert sorted(os.listdir(cache)) == ["m-d", "m-e"]


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
