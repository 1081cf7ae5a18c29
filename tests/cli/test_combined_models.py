"""Ensembles, minimum Bayes risk decoding and rescoring on the command line."""

import types

import pytest

from tf_transformer.cli import scoring


@pytest.fixture
def translate(model_dir, lines):
    return "translate", f"--model_dir={model_dir}", lines, "--extra_decode_length=12"


def test_an_ensemble_of_a_model_and_itself(run, model_dir, translate):
    pair = f"--model_dir={model_dir},{model_dir}"
    assert run(*translate, pair) == run(*translate)
    # The translations of the first model alone are kept.
    code, out, _ = run("evaluate", pair, "--max_pairs=2", "--beam_size=1", "--metrics=bleu")
    assert code == 0 and "BLEU" in out
    assert list((model_dir / "evaluation").glob("ensemble.*"))


def test_minimum_bayes_risk(run, translate):
    code, out, _ = run(*translate, "--mbr=chrf", "--n_best=2", "--beam_size=3")
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert [number for number, _, _ in rows if number != "2"] == ["1", "1", "3", "3"]
    assert float(rows[0][1]) >= float(rows[1][1])
    sampling = "--sampling", "--mbr=bleu", "--mbr_samples=4", "--seed=3"
    code, out, _ = run(*translate, *sampling)
    assert (code, len(out.splitlines()), out.splitlines()[1]) == (0, 3, "")


def test_rescore_gives_each_direction_its_pairs(run, tmp_path, monkeypatch):
    calls = []

    def load_translator(values, folder, checkpoint, tag_name):
        def score(pairs, progress, skip_long):
            calls.append((folder, pairs))
            return [types.SimpleNamespace(normalized=0.0)] * len(pairs)

        return types.SimpleNamespace(score=score)

    monkeypatch.setattr(scoring, "load_translator", load_translator)
    monkeypatch.setattr(scoring, "load_config", lambda folder: None)
    (tmp_path / "list.txt").write_text("1\t-1\tAnna.\n")
    files = f"--input={tmp_path}/list.txt", f"--sources={tmp_path}/one.txt"
    models = "--model_dir=a,unused", "--reverse_model_dir=b", "--weights=1,1,0,1"
    for source, tags, reverse in (
        ("Ann.", ["--tag=<2de>"], "Anna."),
        ("Ann.", ["--tag=<2de>", "--reverse_tag=<2en>"], "<2en> Anna."),
        ("<2de> Ann.", [], "Anna."),  # a tag of the sources is not a part of their text
    ):
        calls.clear()
        (tmp_path / "one.txt").write_text(f"{source}\n")
        assert run("rescore", *files, *models, *tags)[0] == 0
        assert calls == [("a", [("<2de> Ann.", "Anna.")]), ("b", [(reverse, "Ann.")])]


def test_rescore(run, refused, lines, tmp_path):
    """The score of a model is that of its search; another weight changes the order."""
    model, reverse = "--model_dir=pocket-en-de", "--reverse_model_dir=pocket-en-de"
    _, n_best, _ = run("translate", model, lines, "--n_best=2")
    (tmp_path / "list.txt").write_text(n_best)
    rescore = ("rescore", f"--input={tmp_path}/list.txt", f"--sources={tmp_path}/in.txt")
    _, out, _ = run(*rescore, model, "--weights=0,1", "--n_best=2")
    expected, found = ([line.split("\t") for line in text.splitlines()] for text in (n_best, out))
    assert [line for line, _, _ in found] == ["1", "1", "2", "3", "3"]
    for index in (0, 3):  # the best ones
        assert found[index][2] == expected[index][2]
        assert float(found[index][1]) == pytest.approx(float(expected[index][1]), abs=2e-4)
    worst = "".join(f"{expected[index][2]}\n" for index in (1, 2, 4))
    assert run(*rescore, reverse, "--weights=-1,0") == (0, worst, "")
    message = refused(*rescore, reverse, "--reverse_tag=<2en>")
    assert "--reverse_tag=<2en>: the model has no such tag" in message
