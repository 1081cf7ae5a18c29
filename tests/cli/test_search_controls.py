"""The flags of translate and evaluate that change the search."""

import collections

import pytest


@pytest.fixture
def translate(model_dir, lines):
    return "translate", f"--model_dir={model_dir}", lines, "--extra_decode_length=12"


def bigrams_that_repeat(translator, text):
    repeated = 0
    for ids in translator.target.encode(text.splitlines()).to_list():
        counts = collections.Counter(zip(ids, ids[1:]))
        repeated += sum(number - 1 for number in counts.values())
    return repeated


def test_repetitions(run, translate, translator):
    _, free, _ = run(*translate, "--beam_size=2")
    code, out, err = run(*translate, "--beam_size=2", "--no_repeat_ngram_size=2")
    assert (code, len(out.splitlines()), err) == (0, 3, "")
    assert bigrams_that_repeat(translator, out) < bigrams_that_repeat(translator, free)


def test_diverse_groups(run, translate):
    diverse = "--diverse_groups=2", "--diversity_strength=9", "--n_best=4"
    code, out, err = run(*translate, *diverse)
    assert (code, err) == (0, "")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["1"] * 4 + ["2"] + ["3"] * 4


def test_constraints(run, refused, translate, tmp_path):
    file = tmp_path / "constraints.txt"
    command = (*translate, f"--constraints={file}")
    file.write_text("Katze\tim Garten\n\n\n")
    code, out, err = run(*command, "--n_best=2")
    assert (code, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert [number for number, *_ in rows] == ["1", "1", "2", "3", "3"]
    for _, _, text in rows[:2]:
        assert "Katze" in text and "im Garten" in text
    for text, message in (
        ("Katze\t\n\n\n", "line 1 has an empty constraint"),
        ("\n\n" + "Katze\t" * 99 + "Hund\n", "line 3 has constraints of"),
        ("Katze\n", "constraints.txt has 1 lines"),
    ):
        file.write_text(text)
        assert message in refused(*command)
