"""The recipes of the Makefile have the paper's settings, and run end to end on small data."""

import dataclasses
import os
import pathlib
import shlex
import shutil
import subprocess

import pytest

from tf_transformer.checkpoints.model_folder import (
    BUILT_IN_FOLDER,
    default_model_dir,
    load_config,
)
from tf_transformer.cli.command import SETTINGS, given
from tf_transformer.cli.main import main, parse
from tf_transformer.config import Config
from tf_transformer.presets import preset

ROOT = pathlib.Path(__file__).parents[2]
TINY = (
    "--num_layers=1 --d_model=16 --num_heads=2 --dff=16 --vocab_size=300 --train_steps=4 "
    "--eval_steps=2 --bleu_sentences=2 --batch_tokens=512 --max_length=256 --precision=float32 "
    "--beam_size=2 --logical_devices=1"
)


def commands(recipe, *variables, flags=""):
    """The commands that a target of the Makefile runs, as lists of the arguments of the program.

    Args:
      recipe: the target.
      *variables: of make, such as "SIZE=big".
      flags: the variable FLAGS.
    """
    if shutil.which("make") is None:
        pytest.skip("needs make")
    make = ["make", "-n", "--no-print-directory", recipe, f"FLAGS={flags}", *variables]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if "-m tf_transformer" in line]
    return [shlex.split(line)[3:] for line in lines]


def train_config(arguments):
    """The flag values and the `Config` of a train command."""
    command, *flags = arguments
    assert command == "train"
    values = parse(command, flags)
    return values, preset(values.preset).replace(**given(values, SETTINGS))


def test_multi30k():
    """The recipe trains two models and one of the opposite direction, rescores and scores."""
    *trainings, evaluate, translate, rescore, evaluate_rescored = commands(
        "multi30k", "DATA=some/folder"
    )
    (one, config), (two, other), (reverse, opposite) = map(train_config, trainings)
    assert config.data == dataclasses.replace(opposite.data, source="en", target="de")
    assert (config.data.data, config.model) == ("some/folder", opposite.model)
    assert config.train.seed == 1 and other == config.replace(seed=2)
    first, second = one.model_dir, two.model_dir
    assert first.endswith("-seeds/seed-1") and second == first.replace("seed-1", "seed-2")
    assert evaluate == ["evaluate", f"--model_dir={first}", "--split=test_2016_flickr"]
    assert translate[:2] == ["translate", f"--model_dir={first},{second}"]
    assert rescore[0] == "rescore" and f"--reverse_model_dir={reverse.model_dir}" in rescore
    assert evaluate_rescored[:3] == evaluate
    assert [command for command, *_ in commands("multi30k", flags="--dry_run")] == ["train"] * 3
    lowercased = commands("multi30k-lowercased", "MODEL_DIR=my/run", "DATA=some/folder/")
    assert lowercased == commands("multi30k", "MODEL_DIR=my/run", "DATA=some/folder-lowercased")


def test_spanish():
    """The recipe is the one of the built-in model, but for the precision."""
    train, evaluate = commands("spanish", "DATA=spa-eng/spa.txt")
    _, config = train_config(train)
    built_in = load_config(os.path.join(BUILT_IN_FOLDER, "tatoeba-en-es"))
    other = {
        "data", "precision", "input_vocab_size", "target_vocab_size", "log_steps", "save_steps",
    }  # fmt: skip
    assert dict(config.values().items() - built_in.values().items()).keys() <= other
    assert evaluate == ["evaluate", "--model_dir=models/spanish"]


# Sec. 5.1, 5.3, 5.4 and 6.1, and Table 3.
@pytest.mark.parametrize(("recipe", "size", "data", "vocab_size", "dropout", "steps", "average"), [
    ("wmt14-ende", "base", "wmt14_translate/de-en", 37000, 0.1, 100_000, (5, 1500)),
    ("wmt14-ende", "big", "wmt14_translate/de-en", 37000, 0.3, 300_000, (20, 600)),
    ("wmt14-enfr", "base", "wmt14_translate/fr-en", 32000, 0.1, 100_000, (5, 1500)),
    ("wmt14-enfr", "big", "wmt14_translate/fr-en", 32000, 0.1, 300_000, (20, 600)),
])  # fmt: skip
def test_settings_are_the_papers(recipe, size, data, vocab_size, dropout, steps, average):
    train, evaluate = commands(recipe, "MODEL_DIR=models/x", f"SIZE={size}")
    _, config = train_config(train)
    assert (config.data.data, config.data.source, config.data.target) == (data, "en", recipe[-2:])
    assert config.data.vocab_size == vocab_size
    assert config.data.shared_vocab is True
    assert config.data.batch_tokens == 25_000
    assert config.model.dropout_rate == dropout
    assert config.train.train_steps == steps
    # A checkpoint every 10 minutes, at 0.4 and 1.0 seconds per update (Sec. 5.2).
    assert (config.train.max_checkpoints, config.train.save_steps) == average
    decode = config.decode
    assert (decode.beam_size, decode.length_penalty, decode.extra_decode_length) == (4, 0.6, 50)
    assert evaluate == ["evaluate", "--model_dir=models/x"]


def test_settings_of_the_papers_parser():
    """Sec. 6.3: 4 layers, d_model 1024, 16,000 sub-words, the rest as in base.

    Beam 21, alpha 0.3, maximum output length: input length + 300.
    """
    train, evaluate = commands("parse", "MODEL_DIR=models/x", "PRESET=parsing", "DATA=wsj/")
    assert evaluate == ["evaluate", "--model_dir=models/x"]
    _, config = train_config(train)
    base = preset("base")
    assert config.model == dataclasses.replace(base.model, num_layers=4, d_model=1024)
    assert config.train.train_steps == base.train.train_steps
    data = config.data
    assert (data.data, data.source, data.target) == ("wsj/", "words", "trees")
    assert data.vocab_size == 16_000
    decode = config.decode
    assert (decode.beam_size, decode.length_penalty, decode.extra_decode_length) == (21, 0.3, 300)
    # By default, another preset and treebank. `make` and the command resume the same run.
    values, config = train_config(commands("parse")[0])
    assert (values.preset, config.data.data) == ("parsing-pocket", "pocket-trees")
    assert values.model_dir == default_model_dir(values.preset, config.data)


@pytest.mark.slow
def test_end_to_end_on_mock_data(tmp_path, capsys):
    import tensorflow_datasets as tfds

    with tfds.testing.mock_data(num_examples=40, data_dir=str(tmp_path / "tfds")):
        for arguments in commands("wmt14-ende", f"MODEL_DIR={tmp_path}/model", flags=TINY):
            assert main(arguments) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert "test of the TensorFlow data set wmt14_translate" in out
    assert "compound-split BLEU" in out
    assert Config.load(str(tmp_path / "model" / "config.json")).data.source == "en"
