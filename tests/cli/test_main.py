"""The command line: every mistake of a user's is one clear line and exit code 2."""

import io
import os
import subprocess
import sys
import time

import pytest

from tf_transformer.cli.flags import COMMANDS
from tf_transformer.cli.main import main
from tf_transformer.data.trees import read_line
from tf_transformer.presets import PRESETS


def run(capsys, *words):
    """Runs a command in this process: its exit code, output, and messages."""
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys, *words):
    """The one line that a refused command prints."""
    code, _, err = run(capsys, *words)
    assert (
        code == 2
        and err.startswith("tf-transformer: error: ")
        and err.count("\n") == 1
        and "Traceback" not in err
    ), err
    return err


def test_help_answers_within_a_second():
    start = time.monotonic()
    out = subprocess.run(
        [sys.executable, "-m", "tf_transformer", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert time.monotonic() - start < 3  # a second on an idle machine
    assert all(command in out for command in COMMANDS)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_help_of_each_command_tells_defaults(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0 and out.startswith(f"usage: tf-transformer {command}")
    if command == "train":
        steps = "; ".join(line for line in out.splitlines() if "updates of the weights" in line)
        assert all(
            f"{name} {config.train.train_steps}" in steps for name, config in PRESETS.items()
        )


def test_wrong_words(capsys, tmp_path):
    assert "unknown command 'fly'" in refused(capsys, "fly")
    assert "unknown preset 'huge'" in refused(capsys, "train", "--preset=huge")
    assert "Unknown command line flag 'stepps'" in refused(capsys, "train", "--stepps=3")
    assert "steps" in refused(capsys, "train", "--train_steps=many")
    assert "steps is 0: give at least 1" in refused(capsys, "train", "--train_steps=0")
    assert "unexpected 'now'" in refused(capsys, "train", "now")
    assert "d_model 100 is not divisible by num_heads 8" in refused(
        capsys, "train", "--d_model=100", "--num_heads=8"
    )
    assert "--model_dir is missing" in refused(capsys, "translate")
    assert "no model folder" in refused(capsys, "translate", f"--model_dir={tmp_path}/none")
    assert "holds no model" in refused(capsys, "evaluate", f"--model_dir={tmp_path}")


def test_wrong_data(capsys, tmp_path):
    model_dir = f"--model_dir={tmp_path}/model"
    assert "no such data folder or file: /no/where" in refused(
        capsys, "train", "--data=/no/where", model_dir
    )
    (tmp_path / "train.en").write_text("a\nb\nc\n")
    (tmp_path / "train.de").write_text("A\nB\n")
    line = refused(capsys, "train", f"--data={tmp_path}", model_dir)
    assert "train.en has 3 lines" in line and "train.de has 2 lines" in line
    (tmp_path / "train.de").write_bytes(b"A\n\xff\nC\n")
    assert "train.de:2: not UTF-8" in refused(capsys, "train", f"--data={tmp_path}", model_dir)
    (tmp_path / "train.de").write_bytes(b"")
    assert "train.de is empty" in refused(capsys, "train", f"--data={tmp_path}", model_dir)


def test_another_vocabulary_or_shape(capsys, model_dir, corpus_folder):
    train = ("train", f"--data={corpus_folder}", f"--model_dir={model_dir}")
    line = refused(capsys, *train)
    assert (
        "was begun with" in line
        and "d_model 32 (now 128)" in line
        and "vocab_size 500 (now 2000)" in line
    )


def test_translate_a_file(capsys, model_dir, tmp_path):
    (tmp_path / "in.txt").write_text("Anna sleeps.\n\nThe dog sees the cat.\n")
    flags = (f"--model_dir={model_dir}", f"--input={tmp_path}/in.txt")
    code, out, err = run(
        capsys, "translate", *flags, f"--output={tmp_path}/out.txt", "--beam_size=2"
    )
    lines = (tmp_path / "out.txt").read_text().split("\n")
    assert (code, out, err) == (0, "", "") and len(lines) == 4 and lines[1] == lines[3] == ""
    code, out, _ = run(capsys, "translate", *flags, "--beam_size=2")
    assert code == 0 and out == "\n".join(lines)
    code, out, _ = run(capsys, "translate", *flags, "--n_best=2")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["1", "1", "2", "3", "3"]
    assert "cannot read" in refused(
        capsys, "translate", f"--model_dir={model_dir}", "--input=/no/file"
    )
    assert "beam" in refused(capsys, "translate", *flags, "--n_best=9")


def test_translate_a_pipe(model_dir):
    """Standard input to standard output, with nothing else on either stream."""
    command = [
        sys.executable,
        "-m",
        "tf_transformer",
        "translate",
        f"--model_dir={model_dir}",
        "--beam_size=1",
    ]
    done = subprocess.run(command, input="Anna sleeps.\n\n", capture_output=True, text=True)
    assert (
        (done.returncode, done.stderr) == (0, "")
        and done.stdout.count("\n") == 2
        and done.stdout.endswith("\n\n")
    )


def test_interactive(capsys, model_dir, monkeypatch, translator):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", Terminal("Anna sleeps.\n" + "long " * 500 + "\n"))
    code, out, err = run(capsys, "translate", f"--model_dir={model_dir}")
    assert code == 0 and translator("Anna sleeps.") in out and "sub-words" in err


def test_evaluate(capsys, model_dir, corpus_folder, tmp_path):
    code, out, _ = run(capsys, "evaluate", f"--model_dir={model_dir}", "--beam_size=1")
    assert (
        code == 0 and "BLEU" in out and "tok:13a" in out and "chrF" in out and "sentences/s" in out
    )
    assert "compound-split BLEU" in out and "##AT##-##AT##" in out
    assert len((model_dir / "evaluation" / "test.de").read_text().splitlines()) == 60
    files = f"{corpus_folder}/test.en,{corpus_folder}/test.de"
    output = tmp_path / "out" / "translations.txt"
    code, again, _ = run(
        capsys,
        "evaluate",
        f"--model_dir={model_dir}",
        "--beam_size=1",
        f"--data={files}",
        f"--output={output}",
    )
    assert (
        code == 0
        and again.splitlines()[1:3] == out.splitlines()[1:3]
        and output.read_text() == (model_dir / "evaluation" / "test.de").read_text()
    )
    assert "has no split 'nope'" in refused(
        capsys, "evaluate", f"--model_dir={model_dir}", "--split=nope"
    )


def test_average(capsys, model_dir, tmp_path):
    code, out, _ = run(
        capsys, "average", f"--model_dir={model_dir}", "--last=2", f"--output={tmp_path}/mean.npz"
    )
    assert (
        code == 0
        and "step-00000008.npz, step-00000012.npz" in out
        and os.path.exists(tmp_path / "mean.npz")
    )
    assert "keeps 2 checkpoints" in refused(
        capsys, "average", f"--model_dir={model_dir}", "--last=3"
    )
    code, out, _ = run(
        capsys, "average", f"--model_dir={model_dir}", "--best=1", f"--output={tmp_path}/best.npz"
    )
    assert code == 0 and "averaged step-00000012.npz into" in out  # the only one that was validated
    assert "1 were validated" in refused(capsys, "average", f"--model_dir={model_dir}", "--best=2")
    assert "give one of them" in refused(
        capsys, "average", f"--model_dir={model_dir}", "--best=1", "--last=1"
    )


def test_plot(capsys, model_dir, tmp_path):
    code, out, _ = run(capsys, "plot", str(model_dir), f"--output={tmp_path}/run.png")
    assert (
        code == 0
        and out == f"drew {tmp_path}/run.png\n"
        and (tmp_path / "run.png").stat().st_size > 10_000
    )
    assert "no model folder" in refused(capsys, "plot", f"{tmp_path}/none")
    assert "--model_dir is missing" in refused(capsys, "plot")


def test_info(capsys, model_dir, corpus_folder):
    code, out, _ = run(capsys, "info", "--preset=base")
    assert (
        code == 0
        and "63,082,496" in out
        and "9.5e+17 operations" in out
        and "3.3e+18 operations: 12 hours x 8 P100" in out
    )
    code, out, _ = run(capsys, "info", "--preset=A4")
    assert (
        code == 0 and "32 of d_k 16" in out and "P100" not in out
    )  # the paper does not say how long that took
    code, out, _ = run(capsys, "info", str(model_dir))
    assert code == 0 and "averaged.npz" in out and "d_model 32" in out and "12 updates" in out
    assert out == run(capsys, "info", f"--model_dir={model_dir}")[1]
    code, out, _ = run(capsys, "info", f"--data={corpus_folder}")
    assert (
        code == 0
        and "train: 400 pairs" in out
        and "test: 60 pairs" in out
        and out.count("\n      ") == 10
    )
    code, out, _ = run(capsys, "info", f"--model_dir={model_dir}", f"--data={corpus_folder}")
    assert code == 0 and "in the model's vocabulary" in out
    assert "no such data" in refused(capsys, "info", "--data=/no/where")


def test_the_reader_of_the_output_goes_away(model_dir):
    """As in `... | head`: no traceback."""
    command = (
        f"{sys.executable} -m tf_transformer translate --model_dir={model_dir} --n_best=4 | head -1"
    )
    lines = "Anna sleeps.\n" * 3000
    done = subprocess.run(["bash", "-c", command], input=lines, capture_output=True, text=True)
    assert (
        done.stdout.startswith("1\t")
        and "Traceback" not in done.stderr
        and "Exception" not in done.stderr
    )


def test_a_wrong_output_is_said_before_the_work(capsys, model_dir, tmp_path):
    (tmp_path / "in.txt").write_text("Anna sleeps.\n")
    line = refused(
        capsys,
        "translate",
        f"--model_dir={model_dir}",
        f"--input={tmp_path}/in.txt",
        f"--output={tmp_path}",
    )
    assert str(tmp_path) in line


def test_a_failure_costs_no_earlier_output(capsys, model_dir, tmp_path):
    (tmp_path / "in.txt").write_text("long words " * 200)
    (tmp_path / "out.txt").write_text("earlier")
    files = (f"--input={tmp_path}/in.txt", f"--output={tmp_path}/out.txt")
    assert "sub-words" in refused(capsys, "translate", f"--model_dir={model_dir}", *files)
    assert (tmp_path / "out.txt").read_text() == "earlier" and not (
        tmp_path / "out.txt.tmp"
    ).exists()
    assert "n_best" in refused(capsys, "translate", f"--model_dir={model_dir}", "--n_best=0")


def test_export(capsys, model_dir, tmp_path):
    where = f"--model_dir={model_dir}"
    code, out, _ = run(
        capsys,
        "export",
        where,
        "--format=ctranslate2",
        "--quantization=int8",
        f"--output={tmp_path}/engine/",
    )
    assert code == 0 and "wrote" in out and (tmp_path / "engine" / "model.bin").exists()
    assert "is there already" in refused(
        capsys, "export", where, "--format=ctranslate2", f"--output={tmp_path}/engine"
    )
    assert "--model_dir is missing" in refused(capsys, "export")
    assert "--quantization is for --format=ctranslate2" in refused(
        capsys, "export", where, "--quantization=int8"
    )
    assert "--beam_size is for --format=saved_model" in refused(
        capsys, "export", where, "--format=keras", "--beam_size=2"
    )
    code, out, _ = run(
        capsys, "export", where, f"--output={tmp_path}/versions", "--beam_size=2", "--name=two"
    )
    assert code == 0 and f"wrote {tmp_path}/versions/1 for TensorFlow Serving" in out
    assert "beam 2" in (tmp_path / "versions" / "1" / "README.md").read_text()


def test_serve_and_client(capsys, exported, tmp_path):
    assert "no version of a model" in refused(capsys, "serve", f"--export_dir={tmp_path}")
    assert "--model_dir is missing" in refused(capsys, "serve")
    assert "--name is 'a/b'" in refused(capsys, "serve", f"--export_dir={tmp_path}", "--name=a/b")
    assert "give at least 1" in refused(
        capsys, "serve", f"--export_dir={tmp_path}", "--max_queue=0"
    )
    (tmp_path / "in.txt").write_text("Anna sleeps.\n")
    line = refused(
        capsys, "client", "--server=http://127.0.0.1:9", "--retries=0", f"--input={tmp_path}/in.txt"
    )
    assert "no answer from http://127.0.0.1:9/v1/models/transformer:predict" in line


def test_evalb(capsys, tmp_path):
    (tmp_path / "gold").write_text("(S (NP (NNP Anna)) (VP (VBZ sleeps)) (. .))\n")
    (tmp_path / "test").write_text("(S (NP (NNP Anna)) (NP (VBZ sleeps)) (. .))\n")
    code, out, _ = run(capsys, "evalb", f"--gold={tmp_path}/gold", f"--test={tmp_path}/test")
    assert code == 0 and "Bracketing FMeasure       =  66.67" in out and "=== Summary ===" in out
    assert "--test is missing" in refused(capsys, "evalb", f"--gold={tmp_path}/gold")
    (tmp_path / "test").write_text("(S (NP\n")
    assert "test:1:" in refused(
        capsys, "evalb", f"--gold={tmp_path}/gold", f"--test={tmp_path}/test"
    )


@pytest.fixture(scope="module")
def parser_dir(tmp_path_factory):
    """A model that knows nothing yet, of two updates on a folder of trees."""
    folder = tmp_path_factory.mktemp("trees")
    trees = [
        f"( (S (NP-SBJ (NNP {name})) (VP (VBZ {verb})) (. .)))"
        for name in ("Anna", "Paul", "Otto")
        for verb in ("runs", "sleeps", "eats")
    ]
    for split in ("train", "dev", "test"):
        (folder / f"{split}.mrg").write_text("\n".join(trees))
    words = f"--data={folder} --model_dir={folder}/model --num_layers=1 --d_model=16 --num_heads=2 --dff=16 --vocab_size=300 --train_steps=2".split()
    assert main(["train", "--preset=parsing-pocket", "--beam_size=2", *words]) == 0
    return folder / "model"


def test_parse(capsys, parser_dir, tmp_path):
    """Whatever the model writes, a line of words becomes one tree with these words, and an empty line stays empty."""
    (tmp_path / "in.txt").write_text("Anna runs .\n\nOtto (who sleeps) eats .\n")
    code, out, err = run(
        capsys,
        "parse",
        f"--model_dir={parser_dir}",
        f"--input={tmp_path}/in.txt",
        "--extra_decode_length=20",
    )
    lines = out.split("\n")
    assert (code, err, len(lines), lines[1]) == (0, "", 4, "")
    assert read_line(lines[0], "out")[0].words() == ["Anna", "runs", "."]
    assert read_line(lines[2], "out")[0].words() == "Otto -LRB-who sleeps-RRB- eats .".split()


def test_evaluate_a_parser(capsys, parser_dir):
    code, out, _ = run(capsys, "evaluate", f"--model_dir={parser_dir}", "--extra_decode_length=20")
    assert (
        code == 0
        and "test of treebank" in out
        and "F1 " in out
        and "BLEU" not in out
        and "sentences/s" in out
    )
    folder = parser_dir / "evaluation"
    assert (folder / "test.trees").read_text().count("\n") == 9 and "=== Summary ===" in (
        folder / "test.trees.evalb"
    ).read_text()


def test_trees_are_no_text(capsys, model_dir):
    assert "give --source=words --target=trees" in refused(
        capsys, "train", "--data=pocket-trees", "--model_dir=/no/where"
    )
    assert "was not trained on trees" in refused(capsys, "parse", f"--model_dir={model_dir}")
