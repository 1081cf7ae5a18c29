"""Ensembles, minimum Bayes risk decoding and rescoring on the command line."""

import types

import pytest

from tf_transformer.cli import scoring


@pytest.fixture
def flags(model_dir, tmp_path):
    (tmp_path / "in.txt").write_text("Anna sleeps.\n\nThe dog sees the cat.\n")
    return f"--model_dir={model_dir}", f"--input={tmp_path}/in.txt"


def test_an_ensemble_of_a_model_and_itself(run, refused, model_dir, flags):
    _, expected, _ = run("translate", *flags)
    pair = f"--model_dir={model_dir},{model_dir}"
    assert run("translate", pair, flags[1]) == (0, expected, "")
    message = refused("translate", pair, flags[1], "--engine=ctranslate2")
    assert "ensembles: give one model" in message
    assert "no model folder none" in refused("translate", f"{pair},none", flags[1])
    message = refused("evaluate", pair, "--checkpoint=a,b,c")
    assert "give one of them once, or as many of both" in message


def test_export_an_ensemble(refused, model_dir):
    pair = f"--model_dir={model_dir},{model_dir}"
    assert "give the folder for the export of the ensemble" in refused("export", pair)
    message = refused("export", pair, "--format=ctranslate2", "--output=x")
    assert "--format=ctranslate2 has no ensembles: give one model" in message


def test_evaluate_an_ensemble_keeps_the_translations_of_its_first_model(run, model_dir):
    code, out, _ = run("evaluate", f"--model_dir={model_dir},{model_dir}", "--max_pairs=2")
    assert code == 0
    assert "BLEU" in out
    assert list((model_dir / "evaluation").glob("ensemble.*"))


def test_minimum_bayes_risk(run, refused, flags):
    code, out, _ = run("translate", *flags, "--mbr=chrf", "--n_best=2", "--beam_size=3")
    lines = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert [number for number, _, _ in lines if number != "2"] in (["1", "1", "3", "3"],)
    assert float(lines[0][1]) >= float(lines[1][1])
    sampling = (*flags, "--sampling", "--mbr=bleu", "--mbr_samples=4")
    code, out, _ = run("translate", *sampling, "--seed=3")
    assert (code, len(out.splitlines())) == (0, 3)
    assert out.splitlines()[1] == ""
    assert "--mbr_samples is for" in refused("translate", *flags, "--mbr_samples=4", "--mbr=bleu")
    assert "--split_sentences" in refused("translate", *flags, "--mbr=bleu", "--split_sentences")


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
    (tmp_path / "one.txt").write_text("Ann.\n")
    files = f"--input={tmp_path}/list.txt", f"--sources={tmp_path}/one.txt"
    models = "--model_dir=a,unused", "--reverse_model_dir=b", "--weights=1,1,0,1"
    assert run("rescore", *files, *models, "--tag=<2de>")[0] == 0
    forward, backward = ("a", [("<2de> Ann.", "Anna.")]), ("b", [("Anna.", "Ann.")])
    assert calls == [forward, backward]
    assert run("rescore", *files, *models, "--tag=<2de>", "--reverse_tag=<2en>")[0] == 0
    assert calls[2:] == [forward, ("b", [("<2en> Anna.", "Ann.")])]
    # A tag of the sources is not a part of their text.
    (tmp_path / "one.txt").write_text("<2de> Ann.\n")
    assert run("rescore", *files, *models)[0] == 0
    assert calls[4:] == [forward, backward]


def test_diversity_strength_of_evaluate_needs_groups(refused, flags):
    message = refused("evaluate", flags[0], "--diversity_strength=1")
    assert "--diversity_strength is for --diverse_groups" in message


def test_rescore(run, refused, flags, tmp_path):
    """The score of a model is that of its search; another weight changes the order."""
    model = "--model_dir=pocket-en-de"
    _, n_best, _ = run("translate", model, flags[1], "--n_best=2")
    (tmp_path / "list.txt").write_text(n_best)
    rescore = ("rescore", f"--input={tmp_path}/list.txt", f"--sources={tmp_path}/in.txt")
    _, out, _ = run(*rescore, model, "--weights=0,1", "--n_best=2")
    expected, found = ([line.split("\t") for line in lines.splitlines()] for lines in (n_best, out))
    assert [line for line, _, _ in found] == ["1", "1", "2", "3", "3"]
    for one, other in zip(expected, found):
        if one in (expected[0], expected[3]):  # the best ones
            assert one[2] == other[2]
            assert float(one[1]) == pytest.approx(float(other[1]), abs=2e-4)

    worst = "".join(f"{expected[i][2]}\n" for i in (1, 2, 4))
    files = f"--output={tmp_path}/worst.txt"
    assert run(*rescore, "--reverse_model_dir=pocket-en-de", "--weights=-1,0", files)[0] == 0
    assert (tmp_path / "worst.txt").read_text() == worst
    assert "give at least one model" in refused(*rescore)
    assert "--weights=1: give 2 numbers" in refused(*rescore, model, "--weights=1")
    assert "--sources is missing" in refused(*rescore[:2], model)
    reverse = refused(*rescore, "--reverse_model_dir=pocket-en-de", "--reverse_tag=<2en>")
    assert "--reverse_tag=<2en>: the model has no such tag" in reverse
    assert "--reverse_tag is for --reverse_model_dir" in refused(
        *rescore, model, "--reverse_tag=<x>"
    )
