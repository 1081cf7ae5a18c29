"""The commands translate, evaluate, parse and evalb."""

import io
import subprocess
import sys
import tracemalloc

import pytest

from tf_transformer.cli.main import main
from tf_transformer.data.trees import read_line
from tf_transformer.decoding.translator import Translator


def test_translate_a_file(run, refused, model_dir, tmp_path):
    (tmp_path / "in.txt").write_text("Anna sleeps.\n\nThe dog sees the cat.\n")
    output = tmp_path / "out.txt"
    flags = (f"--model_dir={model_dir}", f"--input={tmp_path}/in.txt")
    code, out, err = run("translate", *flags, f"--output={output}", "--beam_size=2")
    lines = output.read_text().split("\n")
    assert (code, out, err) == (0, "", "")
    assert len(lines) == 4
    assert lines[1] == lines[3] == ""
    code, out, _ = run("translate", *flags, "--beam_size=2")
    assert code == 0
    assert out == "\n".join(lines)
    code, out, _ = run("translate", *flags, "--n_best=2")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["1", "1", "2", "3", "3"]
    message = refused("translate", f"--model_dir={model_dir}", "--input=/no/file")
    assert "cannot read" in message
    assert "beam" in refused("translate", *flags, "--n_best=9")


def test_translate_a_pipe(model_dir):
    """Standard input to standard output, while more input arrives; nothing on standard error."""
    arguments = ["translate", f"--model_dir={model_dir}", "--beam_size=1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tf_transformer", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdin.write("Anna sleeps.\n\n")
    process.stdin.flush()
    early = [process.stdout.readline() for _ in range(2)]  # the input has not ended
    out, err = process.communicate("Anna sleeps.\n" * 200)
    assert (process.returncode, err) == (0, "")
    assert early[1] == "\n"
    assert out == early[0] * 200


def test_memory_does_not_grow_with_the_input(run, model_dir, tmp_path, monkeypatch):
    """With a search that takes no time, 50,000 lines need no more memory than 10,000."""
    monkeypatch.setattr(
        Translator, "n_best", lambda self, texts, *others: [[(text, 0.0)] for text in texts]
    )
    peaks = []
    for lines in (10_000, 50_000):
        text = "".join(f"{i} {'x' * 100}\n" for i in range(lines))
        (tmp_path / "in.txt").write_text(text)
        files = (f"--input={tmp_path}/in.txt", f"--output={tmp_path}/out.txt")
        tracemalloc.start()
        code, _, _ = run("translate", f"--model_dir={model_dir}", *files)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert code == 0
        assert (tmp_path / "out.txt").read_text() == text
    assert peaks[1] < peaks[0] + 2e6  # the lines alone are 5 MB


def test_odd_characters_keep_the_number_of_lines(run, model_dir, tmp_path):
    lines = [
        "\ufeffAnna",
        "a\u2028b\u0085",
        "a\rb",
        "",
        " ",
        "a\x00b",
        "\x0b\x0c",
        "x" * 90,
        "Anna",
    ]
    (tmp_path / "in.txt").write_bytes("\r\n".join(lines).encode())
    flags = (f"--input={tmp_path}/in.txt", f"--output={tmp_path}/out.txt", "--beam_size=1")
    assert run("translate", f"--model_dir={model_dir}", *flags)[0] == 0
    assert len((tmp_path / "out.txt").read_bytes().split(b"\n")) == len(lines) + 1


def test_a_line_that_is_too_long(run, model_dir, tmp_path):
    """It ends the command after the earlier windows, or its result is empty."""
    lines = ["Anna sleeps."] * 100 + ["long words " * 200, "Anna sleeps."]
    (tmp_path / "in.txt").write_text("\n".join(lines))
    flags = (f"--model_dir={model_dir}", f"--input={tmp_path}/in.txt", "--beam_size=1")
    code, out, err = run("translate", *flags)
    assert (code, out.count("\n")) == (2, 64)
    assert "line 101 has" in err
    code, out, err = run("translate", *flags, "--skip_long_lines")
    assert code == 0
    assert "WARNING line 101 has" in err
    translations = out.split("\n")
    assert translations == [translations[0]] * 100 + ["", translations[0], ""]


def test_translate_sentences(run, refused, model_dir, tmp_path, translator):
    """Each sentence has a translation of its own, and each line its line."""
    cat = "The dog sees the cat."
    long = " ".join([cat] * 100)
    lines = ["Anna sleeps.  " + cat, "", long, " " + cat, "Anna sleeps. " + "long words " * 200]
    (tmp_path / "in.txt").write_text("\n".join(lines[:4]))
    flags = (f"--model_dir={model_dir}", f"--input={tmp_path}/in.txt", "--split_sentences")
    code, out, err = run("translate", *flags)
    assert (code, err) == (0, "")
    anna, dog = translator(["Anna sleeps.", cat])
    assert out.split("\n") == [f"{anna}  {dog}", "", " ".join([dog] * 100), f" {dog}", ""]
    (tmp_path / "in.txt").write_text("\n".join(lines))
    assert "line 5 has" in refused("translate", *flags)
    code, out, err = run("translate", *flags, "--skip_long_lines")
    assert code == 0
    assert "WARNING line 5 has" in err
    assert out.split("\n")[3:] == [f" {dog}", "", ""]
    message = refused("translate", *flags, "--n_best=2")
    assert "--n_best and --split_sentences: give one of them" in message


def test_translate_with_prefixes(run, refused, model_dir, tmp_path, monkeypatch):
    (tmp_path / "in.txt").write_text("Anna sleeps.\n" * 3)
    (tmp_path / "prefixes.txt").write_text("Heute\n\nDer Hund\n")
    flags = (f"--model_dir={model_dir}", f"--target_prefix={tmp_path}/prefixes.txt")
    file = f"--input={tmp_path}/in.txt"
    code, out, err = run("translate", *flags, file, "--beam_size=2")
    assert (code, err) == (0, "")
    first, free, last = out.splitlines()
    assert first.startswith("Heute") and last.startswith("Der Hund")
    assert run("translate", flags[0], file, "--beam_size=2")[1].splitlines() == [free] * 3
    for flag in ("--split_sentences", "--engine=ctranslate2"):
        assert "--target_prefix" in refused("translate", *flags, file, flag)
    (tmp_path / "in.txt").write_text("Anna sleeps.\n" * 2)
    message = refused("translate", *flags, file)
    assert f"in.txt has 2 lines, and {tmp_path}/prefixes.txt has more" in message
    (tmp_path / "in.txt").write_text("Anna sleeps.\n" * 4)
    assert "prefixes.txt has 3 lines" in refused("translate", *flags, file)
    assert "cannot read" in refused("translate", file, "--target_prefix=/no/file")


def test_translate_by_sampling(run, refused, model_dir, tmp_path):
    (tmp_path / "in.txt").write_text("Anna sleeps.\n\nAnna sleeps.\n")
    flags = (f"--model_dir={model_dir}", f"--input={tmp_path}/in.txt", "--extra_decode_length=5")
    sampling = (*flags, "--sampling", "--n_best=5", "--top_k=20")
    code, out, err = run("translate", *sampling, "--temperature=2")
    assert (code, err) == (0, "")
    columns = [line.split("\t") for line in out.splitlines()]
    assert [number for number, *_ in columns] == ["1"] * 5 + ["2"] + ["3"] * 5
    assert len({text for _, _, text in columns}) > 5
    assert run("translate", *sampling, "--temperature=2", "--seed=0")[1] == out
    assert run("translate", *sampling, "--temperature=2", "--seed=1")[1] != out
    for flag in ("--temperature=2", "--top_k=3", "--top_p=0.5", "--seed=0"):
        assert f"{flag.split('=')[0]} is for --sampling" in refused("translate", *flags, flag)
    for flag in ("--beam_size=2", "--split_sentences", "--engine=ctranslate2"):
        assert "--sampling" in refused("translate", *flags, "--sampling", flag)
    for flag in ("--temperature=0", "--top_p=1.5", "--top_k=-1"):
        assert "give at" in refused("translate", *flags, "--sampling", flag)


def test_translate_interactively(run, model_dir, monkeypatch, translator):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", Terminal("Anna sleeps.\n" + "long " * 500 + "\n"))
    code, out, err = run("translate", f"--model_dir={model_dir}")
    assert code == 0
    assert translator("Anna sleeps.") in out
    assert "sub-words" in err


def test_evaluate(run, refused, model_dir, corpus_folder, tmp_path):
    arguments = ("evaluate", f"--model_dir={model_dir}", "--beam_size=1")
    code, out, _ = run(*arguments)
    assert code == 0
    for text in ("BLEU", "tok:13a", "chrF", "chrF++", "sentences/s", " (μ = "):
        assert text in out
    assert "compound-split BLEU" in out
    assert "##AT##-##AT##" in out
    assert "lower-cased, tokenised BLEU" in out
    assert "moses.de:sacremoses." in out
    translations = (model_dir / "evaluation" / "test.de").read_text()
    assert len(translations.splitlines()) == 60
    files = f"{corpus_folder}/test.en,{corpus_folder}/test.de"
    output = tmp_path / "out" / "translations.txt"
    code, same, _ = run(*arguments, f"--data={files}", f"--output={output}")
    assert code == 0
    assert same.splitlines()[1:3] == out.splitlines()[1:3]
    assert output.read_text() == translations
    message = refused("evaluate", f"--model_dir={model_dir}", "--split=nope")
    assert "has no split 'nope'" in message
    message = refused("evaluate", f"--model_dir={model_dir}", "--data=pocket-trees")
    assert "words" in message


def test_evaluate_other_data_with_references_and_a_baseline(
    run, refused, model_dir, corpus_folder, tmp_path
):
    own_result = model_dir / "evaluation" / "test.de"
    own_result.parent.mkdir(exist_ok=True)
    own_result.write_text("result of the test set\n")
    files = f"{corpus_folder}/test.en,{corpus_folder}/test.de"
    other = corpus_folder / "val.de"
    flags = ("evaluate", f"--model_dir={model_dir}", "--beam_size=1", f"--data={files}")
    code, out, _ = run(
        *flags,
        "--metrics=bleu,ter",
        f"--references={corpus_folder}/test.de,{other}",
        f"--baseline={corpus_folder}/test.de",
        "--max_pairs=20",
    )
    assert code == 0
    assert "20 pairs" in out
    assert "BLEU" in out and "TER" in out and "chrF" not in out
    assert "nrefs:2" in out
    assert "baseline 100.00" in out
    assert "baseline 0.00" in out  # of TER
    assert out.count("p = ") == 2
    assert "tokenised" not in out  # with several references
    assert own_result.read_text() == "result of the test set\n"
    assert len(list(own_result.parent.glob("*test.en*.all.de"))) == 1
    code, out, _ = run(*flags, "--metrics=bleu", f"--baseline={model_dir}")
    assert code == 0
    assert "no difference" in out

    (tmp_path / "short").write_text("x\n")
    for flag, problem in (
        (f"--references={tmp_path}/short", "has 1 lines, and the test set 60 pairs"),
        (f"--baseline={tmp_path}/short", "has 1 lines, and the test set 60 pairs"),
        (f"--baseline={tmp_path}/none", "no model folder"),
        ("--metrics=meteor", "unknown metric"),
    ):
        assert problem in refused(*flags, flag)


def test_evaluate_scores_given_translations(run, model_dir, corpus_folder, tmp_path):
    """The scores are those of translating; the model does not translate, and writes nothing."""
    output = tmp_path / "out.de"
    flags = ("evaluate", f"--model_dir={model_dir}")
    _, expected, _ = run(*flags, "--max_pairs=20", f"--output={output}")
    lines = output.read_text().splitlines()
    output.write_text("\n".join(lines + ["x"] * 40) + "\n")
    given = (*flags, f"--translations={output}")

    def times():
        return {path: path.stat().st_mtime_ns for path in model_dir.rglob("*")}

    before = times()
    code, out, _ = run(*given, "--max_pairs=20")
    assert code == 0
    assert (
        out.splitlines()[0] == f"{expected.splitlines()[0].split(',')[0]}, translations in {output}"
    )
    assert out.splitlines()[1:] == expected.splitlines()[1:-1]
    files = f"{corpus_folder}/test.en,{corpus_folder}/test.de"
    assert (
        run(*given, "--max_pairs=20", f"--data={files}")[1].splitlines()[1:]
        == (out.splitlines()[1:])
    )
    both = f"--data={corpus_folder},{corpus_folder}@de-en"
    assert run(*given, both)[1].startswith(f"test of folder {corpus_folder}: 60 pairs, trans")
    assert times() == before
    own = f"--translations={corpus_folder}/test.de"
    code, out, _ = run(*flags, own, "--metrics=bleu", f"--baseline={output}")
    assert code == 0 and "100.00" in out and "p = " in out
    code, out, _ = run(*flags, own, "--max_pairs=2", f"--baseline={model_dir}", "--beam_size=1")
    assert code == 0 and "p = " in out


def test_flags_without_effect_on_given_translations(refused, model_dir, tmp_path):
    output = tmp_path / "out.de"
    output.write_text("x\n")
    flags = ("evaluate", f"--model_dir={model_dir}", f"--translations={output}")
    for flag in (
        "--beam_size=4",
        "--no_repeat_ngram_size=2",
        f"--output={output}",
        "--checkpoint=best",
    ):
        assert f"{flag.split('=')[0]} has no effect with --trans" in refused(*flags, flag)
    message = refused(*flags)
    assert "has 1 lines, and the test set 60 pairs: give one translation" in message


def test_score(run, refused, model_dir, corpus_folder, tmp_path, translator):
    files = f"--input={corpus_folder}/test.en,{corpus_folder}/test.de"
    code, out, _ = run("score", f"--model_dir={model_dir}", files)
    assert code == 0
    sources = (corpus_folder / "test.en").read_text().splitlines()
    targets = (corpus_folder / "test.de").read_text().splitlines()
    expected = translator.score(list(zip(sources, targets)))
    scores = [float(line) for line in out.splitlines()]
    assert scores == pytest.approx([score.log_prob for score in expected], abs=1e-3)

    tsv = tmp_path / "pairs.tsv"
    tsv.write_text("".join(f"{s}\t{t}\n" for s, t in zip(sources[:3], targets)))
    flags = (f"--model_dir={model_dir}", f"--input={tsv}", "--tokens", "--normalize")
    code, out, _ = run("score", *flags)
    for line, score in zip(out.splitlines(), expected):
        total, pieces, log_probs = line.split("\t")
        assert float(total) == pytest.approx(score.normalized, abs=1e-3)
        assert pieces.split(" ") == score.pieces
        assert len(log_probs.split(" ")) == len(score.pieces)
    tsv.write_text("a\tb\nc\n")
    assert "pairs.tsv:2: 1 columns" in refused("score", *flags)


def test_reader_of_the_output_ends(model_dir):
    """As in `... | head`: no traceback."""
    command = (
        f"{sys.executable} -m tf_transformer translate --model_dir={model_dir} --n_best=4 | head -1"
    )
    command = f"yes Anna sleeps. | {command}"  # an input without end
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.startswith("1\t")
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_wrong_output_is_reported_before_the_translation(refused, model_dir, tmp_path):
    (tmp_path / "in.txt").write_text("Anna sleeps.\n")
    files = (f"--input={tmp_path}/in.txt", f"--output={tmp_path}")
    assert str(tmp_path) in refused("translate", f"--model_dir={model_dir}", *files)


def test_failure_keeps_an_earlier_output(refused, model_dir, tmp_path):
    (tmp_path / "in.txt").write_text("long words " * 200)
    (tmp_path / "out.txt").write_text("earlier")
    files = (f"--input={tmp_path}/in.txt", f"--output={tmp_path}/out.txt")
    assert "sub-words" in refused("translate", f"--model_dir={model_dir}", *files)
    assert (tmp_path / "out.txt").read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]
    assert "n_best" in refused("translate", f"--model_dir={model_dir}", "--n_best=0")


def test_evalb(run, refused, tmp_path):
    gold = tmp_path / "gold"
    test = tmp_path / "test"
    gold.write_text("(S (NP (NNP Anna)) (VP (VBZ sleeps)) (. .))\n")
    test.write_text("(S (NP (NNP Anna)) (NP (VBZ sleeps)) (. .))\n")
    code, out, _ = run("evalb", f"--gold={gold}", f"--test={test}")
    assert code == 0
    assert "Bracketing FMeasure       =  66.67" in out
    assert "=== Summary ===" in out
    assert "--test is missing" in refused("evalb", f"--gold={gold}")
    test.write_text("(S (NP\n")
    assert "test:1:" in refused("evalb", f"--gold={gold}", f"--test={test}")


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
    flags = [
        "--preset=parsing-pocket",
        f"--data={folder}",
        f"--model_dir={folder}/model",
        "--num_layers=1",
        "--d_model=16",
        "--num_heads=2",
        "--dff=16",
        "--vocab_size=300",
        "--train_steps=2",
        "--beam_size=2",
        "--logical_devices=1",
    ]
    assert main(["train", *flags]) == 0
    return folder / "model"


def test_parse(run, parser_dir, tmp_path):
    """Whatever the model outputs, a line of words becomes one tree with these words.

    An empty line stays empty.
    """
    (tmp_path / "in.txt").write_text("Anna runs .\n\nOtto (who sleeps) eats .\n")
    flags = (f"--input={tmp_path}/in.txt", "--extra_decode_length=20")
    code, out, err = run("parse", f"--model_dir={parser_dir}", *flags)
    lines = out.split("\n")
    assert (code, err, len(lines), lines[1]) == (0, "", 4, "")
    assert read_line(lines[0], "out")[0].words() == ["Anna", "runs", "."]
    assert read_line(lines[2], "out")[0].words() == "Otto -LRB-who sleeps-RRB- eats .".split()


def test_evaluate_a_parser(run, refused, parser_dir):
    message = refused("evaluate", f"--model_dir={parser_dir}", "--translations=x")
    assert "--translations are for translations; this model is a parser" in message
    code, out, _ = run("evaluate", f"--model_dir={parser_dir}", "--extra_decode_length=20")
    assert code == 0
    assert "test of treebank" in out
    assert "F1 " in out
    assert "BLEU" not in out
    assert "sentences/s" in out
    folder = parser_dir / "evaluation"
    assert (folder / "test.trees").read_text().count("\n") == 9
    assert "=== Summary ===" in (folder / "test.trees.evalb").read_text()


def test_trees_are_not_text(refused, model_dir):
    message = refused("train", "--data=pocket-trees", "--model_dir=/no/where")
    assert "give --source=words --target=trees" in message
    assert "was not trained on trees" in refused("parse", f"--model_dir={model_dir}")
