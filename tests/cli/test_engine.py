"""The flags --engine and --compute_type of serve and translate."""

import logging
import os
import pathlib
import sys
from importlib import metadata

import pytest

from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder
from tf_transformer.export.versions import find_versions
from tf_transformer.serving import server

ENGINE = "--engine=ctranslate2"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache folder, in which the first test exports the model."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def in_cache(cache, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.fixture
def lines(tmp_path):
    (tmp_path / "in.txt").write_text("Anna sleeps.\n\nThe old man reads a book.\n")
    return f"--input={tmp_path}/in.txt"


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """An export with settings of its own."""
    path = str(tmp_path_factory.mktemp("exports") / "1")
    write_ctranslate2_folder("pocket-en-de", path, beam_size=2)
    return path


def test_translate_writes_what_the_engine_tensorflow_writes(run, lines, caplog):
    caplog.set_level(logging.INFO, logger="tf_transformer")
    for flags in ([], ["--n_best=2", "--beam_size=3"]):
        expected, found = (run("translate", lines, *flags, *engine) for engine in ([], [ENGINE]))
        assert found[0] == expected[0] == 0
        for row, other in zip(found[1].splitlines(), expected[1].splitlines(), strict=True):
            *_, text = row.split("\t")
            assert text == other.split("\t")[-1]
            assert row.split("\t")[0] == other.split("\t")[0]
    assert sum("exporting pocket-en-de to" in message for message in caplog.messages) == 1


def test_flags_of_translate(run, refused, lines, export, tmp_path):
    out = run("translate", lines, ENGINE, f"--model_dir={export}", "--n_best=2")[1]
    assert [line.split("\t")[0] for line in out.splitlines()] == ["1", "1", "2", "3", "3"]
    message = refused("translate", lines, ENGINE, f"--model_dir={export}", "--n_best=3")
    assert "3 translations of a beam of 2" in message
    flags = (lines, ENGINE, f"--model_dir={export}")
    assert run("translate", *flags, "--n_best=3", "--beam_size=3", "--compute_type=int8")[0] == 0
    message = refused("translate", *flags, "--checkpoint=best")
    assert f"--checkpoint: {export} is an export" in message
    assert "--compute_type is for --engine=ctranslate2" in refused(
        "translate", "--compute_type=int8"
    )
    message = refused("translate", ENGINE, f"--model_dir={tmp_path}")
    assert f"{tmp_path} holds no model" in message
    (tmp_path / "in.txt").write_text("a\n" + "a " * 2000 + "\n")
    message = refused("translate", *flags)
    assert "line 2 has 2,001 sub-words, the model takes at most 1,024: split the line" in message
    assert run("translate", *flags, "--skip_long_lines")[1].splitlines()[1:] == [""]


def test_without_the_package(refused, export, monkeypatch):
    def version(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.setattr(metadata, "version", version)
    expected = "the package ctranslate2 is missing: pip install 'tf_transformer[ctranslate2]'"
    for flags in ([], [f"--model_dir={export}"]):
        assert expected in refused("translate", ENGINE, *flags)
    for flags in ([], [f"--export_dir={export}"]):
        assert expected in refused("serve", ENGINE, "--port=0", *flags)


class RecordedServer:
    """Stands for `Server`: loads the newest version of its model, and records it."""

    paths, models = [], []

    def __init__(self, name, folder, settings, load):
        self.paths.append(next(iter(find_versions(folder).values())))
        self.models.append(load(self.paths[-1], 3))

    def run(self, bound):
        pass


def test_serve_takes_an_export_or_a_folder_of_versions(run, refused, export, monkeypatch):
    monkeypatch.setattr(server, "Server", RecordedServer)
    folders = (export, os.path.dirname(export))
    for folder in folders:
        code, _, err = run("serve", ENGINE, "--port=0", f"--export_dir={folder}")
        assert code == 0, err
    assert run("serve", ENGINE, "--port=0", "--compute_type=int8")[0] == 0
    one, several, of_the_model = RecordedServer.paths
    assert not os.path.exists(os.path.dirname(one))  # a folder with a link to the export
    assert several == export
    assert pathlib.Path(of_the_model).parent.name.startswith("pocket-en-de-")
    types = [model._translator._engine.compute_type for model in RecordedServer.models]
    assert types == ["float32", "float32", "int8_float32"]
    beams = [model._translator.decode.beam_size for model in RecordedServer.models]
    assert beams == [2, 2, 4]


def test_serve_refuses_what_the_engine_cannot_load(refused, exported, tmp_path):
    message = refused("serve", "--compute_type=int8", f"--export_dir={tmp_path}")
    assert "--compute_type is for --engine=ctranslate2" in message
    folder = os.path.dirname(exported)
    message = refused("serve", ENGINE, "--port=0", f"--export_dir={folder}")
    assert "no version of transformer can be loaded" in message
    message = refused("serve", ENGINE, "--port=0", f"--export_dir={tmp_path}/none")
    assert f"{tmp_path}/none is not a folder" in message
