"""Minimum Bayes risk decoding, rescoring, and the columns of n-best lists."""

import pytest


@pytest.fixture
def translate(model_dir, lines):
    return "translate", f"--model_dir={model_dir}", lines, "--extra_decode_length=12"


def test_minimum_bayes_risk(run, refused, translate):
    message = refused(*translate, "--mbr=bleu", "--bleu_tokenizer=ja-mecab")
    assert "ja-mecab cannot be used" in message
    code, out, _ = run(*translate, "--mbr=chrf", "--n_best=2", "--beam_size=3")
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert [number for number, _, _ in rows if number != "2"] == ["1", "1", "3", "3"]
    assert float(rows[0][1]) >= float(rows[1][1])
    sampling = "--sampling", "--mbr=bleu", "--mbr_samples=4", "--seed=3"
    code, out, _ = run(*translate, *sampling)
    assert (code, len(out.splitlines()), out.splitlines()[1]) == (0, 3, "")


def test_further_columns(succeed, refused, lines, tmp_path, caplog):
    """Score, length and alignment; rescore keeps the last two apart from the translation."""
    model, flags = "--model_dir=pocket-en-de", ["--print_length", "--print_alignment"]
    plain, _ = succeed("translate", model, lines)
    out, err = succeed("translate", model, lines, "--print_scores", *flags)
    rows = [line.split("\t") for line in out.splitlines()]
    assert ([row[0] for row in rows], err) == (plain.splitlines(), "")
    assert [row[1:] for row in rows[1:2]] == [["0.0000", "0", ""]]
    assert [row[3] for row in rows[::2]] == ["0-0 1-1", "0-0 1-1 2-2 3-3 4-4"]

    short = "--extra_decode_length=1"
    out, _ = succeed("translate", model, lines, "--n_best=2", short, *flags)
    lengths = [line.split("\t")[3] for line in out.splitlines()]
    cut = sum("+" in length for length in lengths)
    assert 0 < cut
    assert f"1 sub-words more than the source: {cut}, the first in line 1" in caplog.text
    (tmp_path / "list.txt").write_text(out)
    rescore = "rescore", f"--input={tmp_path}/list.txt", f"--sources={tmp_path}/in.txt", model
    assert succeed(*rescore, "--weights=1,0", "--n_best=2")[0] == out
    assert succeed(*rescore, "--weights=1,0")[0] == succeed("translate", model, lines, short)[0]

    (tmp_path / "pairs.tsv").write_text("Anna sleeps.\tAnna schläft.\na\t" + "a " * 60 + "\n")
    out, _ = succeed("score", model, f"--input={tmp_path}/pairs.tsv", *flags)
    rows = [line.split("\t")[1:] for line in out.splitlines()]
    assert rows[0][1] == "0-0 1-1"
    assert rows[1][0].endswith("+") and not rows[0][0].endswith("+")
    for command in (["translate", lines], ["score", f"--input={tmp_path}/pairs.tsv"]):
        message = refused(*command, f"{model},pocket-en-de", "--print_alignment")
        assert "not an ensemble" in message


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
