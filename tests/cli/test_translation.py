"""The commands translate, evaluate, score and parse."""

import io
import subprocess
import sys

import pytest

from tf_transformer.cli.main import main
from tf_transformer.data.trees import read_trees


@pytest.fixture
def translate(model_dir, tmp_path):
    """The command translate with the input in.txt."""
    return "translate", f"--model_dir={model_dir}", f"--input={tmp_path}/in.txt"


def test_translate_a_file(run, translate, tmp_path):
    """Each line has one line of output, whatever its characters are."""
    odd = ["\ufeffAnna", "a\u2028b\u0085", "a\rb", "a\x00b", "x" * 90]
    lines = ["Anna sleeps.", *odd, "", " ", "\x0b"]
    (tmp_path / "in.txt").write_bytes("\r\n".join(lines).encode())
    flags = "--beam_size=2", "--extra_decode_length=5"
    assert run(*translate, *flags, f"--output={tmp_path}/out.txt") == (0, "", "")
    *best, end = (tmp_path / "out.txt").read_bytes().decode().split("\n")
    assert (len(best), best[-3:], end) == (len(lines), [""] * 3, "")
    code, out, _ = run(*translate, *flags, "--n_best=2")
    rows = [line.split("\t") for line in out.split("\n")[:-1]]
    assert code == 0
    assert [row[0] for row in rows] == [*"112233445566789"]
    assert [row[2] for row in rows[:12:2]] == best[:6]


@pytest.mark.slow
def test_translate_a_pipe(model_dir):
    """Standard input to standard output, while more input arrives; one warning at the end."""
    arguments = ["translate", f"--model_dir={model_dir}", "--beam_size=1"]
    command, pipe = [sys.executable, "-m", "tf_transformer", *arguments], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    process.stdin.write("Anna sleeps.\n\n")
    process.stdin.flush()
    early = [process.stdout.readline() for _ in range(2)]  # the input has not ended
    out, err = process.communicate("Anna sleeps.\n" * 200)
    assert (process.returncode, err.count("\n")) == (0, 1)
    assert "50 sub-words more than the source: 201, the first in line 1" in err
    assert early[1] == "\n"
    assert out == early[0] * 200


def test_a_line_that_is_too_long(run, succeed, translate, tmp_path):
    """It ends the command after the earlier windows, or its result is empty."""
    lines = ["Anna sleeps."] * 100 + ["long words " * 200, "Anna sleeps."]
    (tmp_path / "in.txt").write_text("\n".join(lines))
    flags = "--beam_size=1", "--extra_decode_length=5"
    code, out, err = run(*translate, *flags)
    assert (code, out.count("\n")) == (2, 64)
    assert "line 101 has" in err
    out, err = succeed(*translate, *flags, "--skip_long_lines")
    assert "WARNING line 101 has" in err
    translations = out.split("\n")
    assert translations == [translations[0]] * 100 + ["", translations[0], ""]


def test_translate_sentences(succeed, refused, translate, tmp_path, translator):
    """Each sentence has a translation of its own, and each line its line."""
    cat = "The dog sees the cat."
    long = " ".join([cat] * 100)
    lines = ["Anna sleeps.  " + cat, "", long, " " + cat, "Anna sleeps. " + "long words " * 200]
    (tmp_path / "in.txt").write_text("\n".join(lines))
    assert "line 5 has" in refused(*translate, "--split_sentences")
    out, err = succeed(*translate, "--split_sentences", "--skip_long_lines")
    assert "WARNING line 5 has" in err
    anna, dog = translator(["Anna sleeps.", cat])
    expected = [f"{anna}  {dog}", "", " ".join([dog] * 100), f" {dog}", "", ""]
    assert out.split("\n") == expected


def test_translate_with_prefixes(run, refused, translate, tmp_path):
    translate = (*translate, "--beam_size=2", f"--target_prefix={tmp_path}/prefixes.txt")
    (tmp_path / "in.txt").write_text("Anna sleeps.\n" * 3)
    (tmp_path / "prefixes.txt").write_text("Heute\n\nDer Hund\n")
    code, out, err = run(*translate)
    assert (code, err) == (0, "")
    first, free, last = out.splitlines()
    assert first.startswith("Heute") and last.startswith("Der Hund")
    assert not free.startswith(("Heute", "Der Hund"))
    (tmp_path / "in.txt").write_text("Anna sleeps.\n" * 4)
    assert "prefixes.txt has 3 lines" in refused(*translate)


def test_pairs_are_the_translations_of_translate(run, translate, tmp_path):
    """In batches of any size, and without lines that are blank, too long or not translated."""
    lines = ["Anna sleeps.", "", "The dog\tsees the cat.", "a" * 3000, "Tom sleeps."]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    flags = "--extra_decode_length=5", "--sampling", "--top_k=9", "--seed=3"
    command = *translate, *flags
    code, out, err = run(*command, "--pairs", "--decode_batch_tokens=64")
    _, translations, _ = run(*command, "--skip_long_lines")
    expected = zip(translations.splitlines(), lines, strict=True)
    assert code == 0
    assert out.splitlines() == [
        f"{translation}\t{line}".replace("dog\t", "dog ")
        for translation, line in expected
        if translation
    ]
    assert out.count("\n") == 3
    assert "line 4" in err  # which is too long


def test_an_ensemble_of_a_model_and_itself(run, succeed, model_dir, lines):
    pair = f"--model_dir={model_dir},{model_dir}"
    command = "translate", lines, "--extra_decode_length=12"
    assert run(*command, pair) == run(*command, f"--model_dir={model_dir}")
    # The translations of the first model alone are kept.
    out, _ = succeed("evaluate", pair, "--max_pairs=2", "--beam_size=1", "--metrics=bleu")
    assert "BLEU" in out
    assert list((model_dir / "evaluation").glob("ensemble.*"))


def test_translate_interactively(succeed, model_dir, monkeypatch, translator):
    monkeypatch.setattr(sys, "stdin", io.StringIO("Anna sleeps.\n" + "long " * 500 + "\n"))
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    out, err = succeed("translate", f"--model_dir={model_dir}")
    assert translator("Anna sleeps.") in out
    assert "sub-words" in err


def test_evaluate(succeed, model_dir, corpus_folder, tmp_path):
    command = "evaluate", f"--model_dir={model_dir}", "--beam_size=1"
    out, _ = succeed(*command)
    for text in ("BLEU", "chrF", "chrF++", "sentences/s", " (μ = ", "compound-split BLEU"):
        assert text in out
    translations = (model_dir / "evaluation" / "test.de").read_text().splitlines()
    assert len(translations) == 60
    # Other data, several references and a baseline; the metrics are some of those above.
    references, output = f"{corpus_folder}/test.de", tmp_path / "folder" / "out.txt"
    out, _ = succeed(
        *command, f"--data={corpus_folder}/test.en,{references}", "--metrics=bleu,ter",
        f"--references={references},{corpus_folder}/val.de", f"--baseline={references}",
        "--max_pairs=20", f"--output={output}",
    )  # fmt: skip
    for text in ("20 pairs", "BLEU", "TER", "nrefs:2", "baseline 100.00", "baseline 0.00"):
        assert text in out
    assert out.count("p = ") == 2
    assert "chrF" not in out
    assert "tokenised" not in out  # with several references
    assert output.read_text().splitlines() == translations[:20]


def test_evaluate_scores_given_translations(run, succeed, model_dir, corpus_folder, tmp_path):
    """The scores are those of translating."""
    output = tmp_path / "out.de"
    command = "evaluate", f"--model_dir={model_dir}", "--metrics=bleu,chrf"
    _, expected, _ = run(*command, "--max_pairs=20", "--beam_size=1", f"--output={output}")
    output.write_text(output.read_text() + "x\n" * 40)
    given = f"--translations={output}"
    for data in (str(corpus_folder), f"{corpus_folder}/test.en,{corpus_folder}/test.de"):
        code, out, _ = run(*command, given, "--max_pairs=20", f"--data={data}")
        assert (code, out.splitlines()[1:]) == (0, expected.splitlines()[1:-1])
        assert ": 20 pairs, translations in " in out.splitlines()[0]
    own = f"--translations={corpus_folder}/test.de"
    succeed(*command, "--max_pairs=3", "--beam_size=1")  # the baseline
    for baseline in (str(output), str(model_dir)):
        flags = own, f"--baseline={baseline}", "--max_pairs=2"
        out, _ = succeed(*command, *flags)
        assert "100.00" in out and out.count("p = ") == 2


def test_score(run, model_dir, corpus_folder, tmp_path, translator):
    files = [corpus_folder / "test.en", corpus_folder / "test.de"]
    pairs = list(zip(*(file.read_text().splitlines() for file in files)))
    expected = translator.score(pairs)
    command = "score", f"--model_dir={model_dir}"
    code, out, _ = run(*command, f"--input={files[0]},{files[1]}")
    scores = [float(line) for line in out.splitlines()]
    assert code == 0
    assert scores == pytest.approx([score.log_prob for score in expected], abs=1e-3)
    (tmp_path / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs[:3]))
    code, out, _ = run(*command, f"--input={tmp_path}/pairs.tsv", "--tokens", "--normalize")
    for line, score in zip(out.splitlines(), expected):
        total, pieces, log_probs = line.split("\t")
        assert float(total) == pytest.approx(score.normalized, abs=1e-3)
        assert pieces.split(" ") == score.pieces
        assert len(log_probs.split(" ")) == len(score.pieces)


@pytest.fixture(scope="module")
def parser_dir(tmp_path_factory):
    """A model folder of a parser after two updates."""
    folder = tmp_path_factory.mktemp("trees")
    trees = [
        f"( (S (NP-SBJ (NNP {name})) (VP (VBZ {verb})) (. .)))"
        for name in ("Anna", "Paul", "Otto")
        for verb in ("runs", "sleeps", "eats")
    ]
    for split in ("train", "dev", "test"):
        (folder / f"{split}.mrg").write_text("\n".join(trees))
    flags = (
        f"--preset=parsing-pocket --data={folder} --model_dir={folder}/model --num_layers=1 "
        "--d_model=16 --num_heads=2 --dff=16 --vocab_size=300 --train_steps=2 --beam_size=2 "
        "--logical_devices=1"
    )
    assert main(["train", *flags.split()]) == 0
    return folder / "model"


@pytest.mark.slow
def test_parse(run, parser_dir, tmp_path):
    """Any output of the model becomes one tree with the words; an empty line stays empty."""
    (tmp_path / "in.txt").write_text("Anna runs .\n\nOtto (who sleeps) eats .\n")
    flags = f"--model_dir={parser_dir}", f"--input={tmp_path}/in.txt", "--extra_decode_length=20"
    code, out, err = run("parse", *flags)
    lines = out.split("\n")
    assert (code, err, len(lines), lines[1]) == (0, "", 4, "")
    first, last = read_trees(lines)
    assert first.words() == ["Anna", "runs", "."]
    assert last.words() == "Otto -LRB-who sleeps-RRB- eats .".split()


@pytest.mark.slow
def test_evaluate_a_parser(succeed, refused, parser_dir):
    message = refused("evaluate", f"--model_dir={parser_dir}", "--translations=x")
    assert "--translations are for translations; this model is a parser" in message
    out, _ = succeed("evaluate", f"--model_dir={parser_dir}", "--extra_decode_length=20")
    assert "test of treebank" in out
    assert "F1 " in out and "BLEU" not in out
    assert (parser_dir / "evaluation" / "test.trees").read_text().count("\n") == 9
