"""The command line: help, one clear line and exit code 2 for a user's mistake, and processes."""

import re

import pytest

import tf_transformer
from tf_transformer.cli.main import COMMANDS
from tf_transformer.presets import PRESETS


@pytest.mark.parametrize("command", list(COMMANDS))
def test_help_of_a_command_lists_defaults(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert out.startswith(f"usage: tf-transformer {command}")
    if command == "train":
        _, _, rest = out.partition("  --train_steps=INTEGER\n")
        meaning = " ".join(rest.partition("\n  --")[0].split())
        for name, config in PRESETS.items():
            assert re.search(rf"{config.train.train_steps} in [^;]*\b{name}\b", meaning)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_a_terminal(run, command):
    """Lines have at most 100 columns, and required flags are in the first line."""
    code, out, _ = run("help", *filter(None, [command]))
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100
    usage = out.splitlines()[0]
    other_input = command in ("evalb", "compare", "import", "rescore")
    assert ("--model_dir=TEXT" in usage) == ("(required)" in out and not other_input)
    if command:
        assert out.index("\n  --help, -h\n") > out.index("\nFlags of all commands:\n")
        assert run(command, "-h")[1] == out


def test_help_names_the_groups_and_the_kinds_of_values(run):
    out = run("train", "--help")[1]
    titles = [line for line in out.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        "Flags:", "Model:", "Data:", "Training:", "Translation and parsing:",
        "Flags of all commands:",
    ]  # fmt: skip
    assert "\n  --dry_run\n" in out
    assert "\n  --shared_vocab, --noshared_vocab\n" in out
    assert "\n  --epsilon=NUMBER\n      Adam's epsilon (default: 1e-09)\n" in out
    assert "\n  --format=saved_model|ctranslate2|keras|huggingface\n" in run("export", "--help")[1]
    assert "(default: 32)" in run("serve", "--help")[1]


def test_flags_before_the_command(run, refused):
    assert run("--quiet", "info", "--preset=base") == run("info", "--preset=base")
    assert run("--help", "info") == run("info", "--help")
    assert run("--version")[1] == f"{tf_transformer.__version__}\n"
    assert run()[1] == run("help")[1] == run("-h")[1]
    assert "the command is missing" in refused("--quiet")
    assert "--verbose and --quiet: give one of them" in refused("--verbose", "info", "--quiet")


def test_the_last_value_of_a_flag_counts(run):
    assert "preset base" in run("info", "--preset=big", "--preset=base")[1]


def test_wrong_arguments(refused, tmp_path):
    assert "unknown command 'fly'" in refused("fly")
    assert "unknown preset 'huge'" in refused("train", "--preset=huge")
    assert "unknown command 'trian' (did you mean train" in refused("trian")
    message = refused("train", "--train_step=3")
    assert "Unknown command line flag 'train_step'. Did you mean: train_steps ?" in message
    assert "`tf-transformer train --help` lists the flags" in message
    assert "train has no flag --n_best: it is for translate, rescore" in refused(
        "train", "--n_best=3"
    )
    assert "Did you mean: model_dir" in refused("average", "--model-dir=x")
    for value in ("many", "1.5"):
        message = refused("train", f"--train_steps={value}")
        assert message.endswith(f"flag --train_steps={value}: give a whole number")
    assert "--epsilon=small: give a number" in refused("train", "--epsilon=small")
    assert "timeout is nan: give at most 86,400" in refused("serve", "--timeout=nan")
    assert "--dry_run=maybe: give true or false" in refused("train", "--dry_run=maybe")
    assert "--nodry_run=1 does not take an argument" in refused("train", "--nodry_run=1")
    assert "--data=: give a value, or leave the flag out" in refused("train", "--data=")
    assert "Missing value for flag --data" in refused("train", "--data")
    assert "train_steps is 0: give at least 1" in refused("train", "--train_steps=0")
    assert "unexpected 'now'" in refused("train", "now")
    message = refused("train", "--d_model=100", "--num_heads=8")
    assert "d_model 100 is not divisible by num_heads 8" in message
    assert "--model_dir is missing" in refused("average")
    assert "no model folder" in refused("translate", f"--model_dir={tmp_path}/none")
    assert f"{tmp_path} " in refused("evaluate", f"--model_dir={tmp_path}")
    assert "no config.json" in refused("evaluate", f"--model_dir={tmp_path}")


def test_wrong_data(refused, tmp_path):
    model_dir = f"--model_dir={tmp_path}/model"
    train = ("train", f"--data={tmp_path}", model_dir)
    assert "no such data folder or file: /no/where" in refused(
        "train", "--data=/no/where", model_dir
    )
    (tmp_path / "train.en").write_text("a\nb\nc\n")
    (tmp_path / "train.de").write_text("A\nB\n")
    message = refused(*train)
    assert "train.de has 2 lines" in message
    assert "train.en has more" in message
    (tmp_path / "train.de").write_bytes(b"A\n\xff\nC\n")
    message = refused(*train)
    assert "train.de:2: " in message
    assert "UTF-8" in message
    (tmp_path / "train.de").write_bytes(b"")
    assert "train.de has 0 lines" in refused(*train)
