"""The flags of translate and evaluate that change the search."""

import collections

import pytest


@pytest.fixture
def flags(model_dir, tmp_path):
    (tmp_path / "in.txt").write_text("Anna sleeps.\n\nThe dog sees the cat.\n")
    return f"--model_dir={model_dir}", f"--input={tmp_path}/in.txt", "--extra_decode_length=12"


def bigrams_that_repeat(translator, texts):
    repeated = 0
    for ids in translator.target.encode(texts).to_list():
        counts = collections.Counter(zip(ids, ids[1:]))
        repeated += sum(number - 1 for number in counts.values())
    return repeated


def test_repetitions(run, refused, flags, translator):
    for changes in (["--beam_size=2"], ["--sampling", "--top_k=3"]):
        code, free, _ = run("translate", *flags, *changes)
        code, out, err = run("translate", *flags, *changes, "--no_repeat_ngram_size=2")
        assert (code, err) == (0, "")
        texts = [free.splitlines(), out.splitlines()]
        assert [len(lines) for lines in texts] == [3, 3]
        before, after = (bigrams_that_repeat(translator, lines) for lines in texts)
        assert after < before
    message = refused("translate", *flags, "--no_repeat_ngram_size=2", "--engine=ctranslate2")
    assert "--no_repeat_ngram_size is for --engine=tensorflow" in message
    assert "give at least 0.01" in refused("translate", *flags, "--repetition_penalty=0")


def test_diverse_groups(run, refused, flags):
    diverse = ("--diverse_groups=2", "--diversity_strength=9", "--n_best=4")
    code, out, err = run("translate", *flags, *diverse)
    assert (code, err) == (0, "")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["1"] * 4 + ["2"] + ["3"] * 4
    message = refused("translate", *flags, "--diverse_groups=3")
    assert "3 groups of a beam of 4: give a divisor of --beam_size" in message
    message = refused("translate", *flags, "--diversity_strength=1")
    assert "--diversity_strength is for --diverse_groups" in message
    assert "--sampling" in refused("translate", *flags, "--sampling", "--diverse_groups=2")


def test_constraints(run, refused, flags, tmp_path):
    file = tmp_path / "constraints.txt"
    constraints = ("translate", *flags, f"--constraints={file}")
    file.write_text("Katze\tim Garten\n\n\n")
    code, out, err = run(*constraints, "--n_best=2")
    assert (code, err) == (0, "")
    lines = [line.split("\t") for line in out.splitlines()]
    assert [number for number, *_ in lines] == ["1", "1", "2", "3", "3"]
    for _, _, text in lines[:2]:
        assert "Katze" in text and "im Garten" in text
    assert run(*constraints, "--n_best=2", "--diverse_groups=1")[1] == out
    file.write_text("Katze\t\n\n\n")
    assert "line 1 has an empty constraint" in refused(*constraints)
    file.write_text("\n\n" + "Katze\t" * 99 + "Hund\n")
    assert "line 3 has constraints of" in refused(*constraints)
    file.write_text("Katze\n")
    assert "constraints.txt has 1 lines" in refused(*constraints)
    for flag in ("--sampling", "--target_prefix=x", "--diverse_groups=2", "--split_sentences"):
        message = refused(*constraints, flag)
        assert "--constraints" in message and flag.split("=")[0] in message
    assert "--constraints is for" in refused(*constraints, "--engine=ctranslate2")


def test_evaluate(run, model_dir, corpus_folder, tmp_path, translator):
    sources = (corpus_folder / "test.en").read_text().splitlines()[:4]
    output = tmp_path / "out.txt"
    flags = ("evaluate", f"--model_dir={model_dir}", "--max_pairs=4", "--metrics=bleu")
    code, _, _ = run(*flags, f"--output={output}", "--beam_size=1", "--repetition_penalty=3")
    assert code == 0
    before, after = translator(sources), output.read_text().splitlines()
    assert bigrams_that_repeat(translator, after) < bigrams_that_repeat(translator, before)
