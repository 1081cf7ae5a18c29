"""The flags --engine and --compute_type of serve and translate."""

import logging
import os
import shutil

import pytest

from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder
from tf_transformer.export.versions import find_versions

ENGINE = "--engine=ctranslate2"
MODEL = "--model_dir=pocket-en-de"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache folder for all tests: exporting a model takes seconds."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def in_cache(cache, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """An export with settings of its own."""
    path = str(tmp_path_factory.mktemp("exports") / "1")
    write_ctranslate2_folder("pocket-en-de", path, beam_size=2)
    return path


def test_translate_writes_what_the_engine_tensorflow_writes(run, lines, cache, caplog):
    shutil.rmtree(cache / "tf_transformer", ignore_errors=True)  # of another test
    caplog.set_level(logging.INFO, logger="tf_transformer")
    flags = MODEL, lines, "--n_best=2", "--beam_size=3", "--print_length", "--min_length=2"
    expected, found = (run("translate", *flags, *engine) for engine in ([], [ENGINE]))
    assert found[0] == expected[0] == 0
    for row, other in zip(found[1].splitlines(), expected[1].splitlines(), strict=True):
        (number, _, *rest), (expected_number, _, *expected_rest) = (
            each.split("\t") for each in (row, other)
        )
        assert (number, rest) == (expected_number, expected_rest)
    assert sum("exporting pocket-en-de to" in message for message in caplog.messages) == 1


def test_flags_of_translate(run, refused, lines, export, tmp_path):
    flags = ("translate", lines, ENGINE, f"--model_dir={export}")
    out = run(*flags, "--n_best=2")[1]
    assert [line.split("\t")[0] for line in out.splitlines()] == ["1", "1", "2", "3", "3"]
    assert run(*flags, "--n_best=3", "--beam_size=3", "--compute_type=int8")[0] == 0
    assert "--print_alignment is for --engine=tensorflow" in refused(*flags, "--print_alignment")
    assert "3 translations of a beam of 2" in refused(*flags, "--n_best=3")
    assert f"--checkpoint: {export} is an export" in refused(*flags, "--checkpoint=best")
    (tmp_path / "in.txt").write_text("a\n" + "a " * 2000 + "\n")
    assert "line 2 has 2,001 sub-words, the model takes at most 1,024" in refused(*flags)
    assert run(*flags, "--skip_long_lines")[1].splitlines()[1:] == [""]


def test_serve_takes_an_export_or_a_folder_of_versions(succeed, export, replace_server):
    def serve(folder, load):
        newest = next(iter(find_versions(folder).values()))
        model = load(newest)
        scores = model.signatures["nbest"]({"text": ["Anna sleeps."]})["scores"]
        served.append((newest, scores))
        model.close()

    served = []
    replace_server(serve)
    flags = [f"--export_dir={export}"], [f"--export_dir={os.path.dirname(export)}"], [MODEL]
    for each in (*flags, [MODEL, "--compute_type=int8"]):
        succeed("serve", ENGINE, "--port=0", *each)
    (one, first), (several, second), (of_the_model, third), (_, int8) = served
    assert not os.path.exists(os.path.dirname(one))  # a folder with a link to the export
    assert several == export
    assert os.path.basename(os.path.dirname(of_the_model)).startswith("pocket-en-de-")
    assert first.tolist() == second.tolist()
    assert [len(scores[0]) for scores in (first, third, int8)] == [2, 4, 4]  # the beam
    assert int8.tolist() != third.tolist()
