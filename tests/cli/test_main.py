"""The command line: help, one clear line and exit code 2 for a user's mistake, and processes."""

import re

import pytest

import tf_transformer
from tf_transformer.cli.main import COMMANDS
from tf_transformer.presets import PRESETS


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(run, succeed, command):
    """Lines have at most 100 columns, and required flags are in the first line."""
    out, _ = succeed("help", *filter(None, [command]))
    assert max(map(len, out.splitlines())) <= 100
    usage = out.splitlines()[0]
    other_input = command in ("compare", "import", "rescore")
    assert ("--model_dir=TEXT" in usage) == ("(required)" in out and not other_input)
    if command:
        assert usage.startswith(f"usage: tf-transformer {command}")
        assert out.index("\n  --help, -h\n") > out.index("\nFlags of all commands:\n")
        assert run(command, "-h")[1] == run(command, "--help")[1] == out


def test_help_of_train(run):
    """The groups, the kinds of values, and the defaults of the presets."""
    out = run("train", "--help")[1]
    assert out.index("\nModel:\n") < out.index("\nData:\n") < out.index("\nTraining:\n")
    assert "\n  --dry_run\n" in out
    assert "\n  --shared_vocab, --noshared_vocab\n" in out
    meanings = dict(re.findall(r"^  --(\w+)=.*\n((?:      .*\n)+)", out, re.M))
    assert "(default: 1e-09)" in meanings["epsilon"]
    steps = " ".join(meanings["train_steps"].split())
    for name, config in PRESETS.items():
        assert re.search(rf"{config.train.train_steps} in [^;]*\b{name}\b", steps)
    assert "\n  --format=saved_model|ctranslate2|keras|huggingface\n" in run("export", "--help")[1]


def test_help_and_version(run):
    assert run("--version")[1] == f"{tf_transformer.__version__}\n"
    assert run()[1] == run("help")[1] == run("-h")[1]
    _, out, err = run("info", "--preset=big", "--preset=base", "--verbose")
    assert "preset base" in out
    assert err.endswith("WARNING given several times, the last value counts: --preset=base\n")
