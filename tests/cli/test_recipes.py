"""The Makefile's recipes for the paper's two tasks: their settings are the paper's, and the whole road works on a mock of the data sets."""

import dataclasses
import pathlib
import shlex
import shutil
import subprocess

import pytest

from tf_transformer.checkpoints.paths import default_model_dir
from tf_transformer.cli.flags import PARTS, given, parse
from tf_transformer.cli.main import main
from tf_transformer.config import Config
from tf_transformer.presets import preset

ROOT = pathlib.Path(__file__).parents[2]
TINY = (
    "--num_layers=1 --d_model=16 --num_heads=2 --dff=16 --vocab_size=300 --train_steps=4 --eval_steps=2 --bleu_sentences=2 "
    "--batch_tokens=512 --max_length=256 --precision=float32 --beam_size=2"
)


def commands(recipe, folder=None, size="base", flags="", more=()):
    """The words after `tf_transformer` of the commands that a recipe runs; without a folder, in its own."""
    if shutil.which("make") is None:
        pytest.skip("needs make")
    words = ["make", "-n", "--no-print-directory", recipe, f"SIZE={size}", f"FLAGS={flags}", *more]
    words += [f"MODEL_DIR={folder}"] if folder else []
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if "-m tf_transformer" in line]
    return [shlex.split(line)[3:] for line in lines]


# Sec. 5.1, 5.3, 5.4 and 6.1, and Table 3.
@pytest.mark.parametrize(
    ("recipe", "size", "data", "vocabulary", "dropout_rate", "steps", "average"),
    [
        ("wmt14-ende", "base", "wmt14_translate/de-en", 37000, 0.1, 100_000, (5, 1500)),
        ("wmt14-ende", "big", "wmt14_translate/de-en", 37000, 0.3, 300_000, (20, 600)),
        ("wmt14-enfr", "base", "wmt14_translate/fr-en", 32000, 0.1, 100_000, (5, 1500)),
        ("wmt14-enfr", "big", "wmt14_translate/fr-en", 32000, 0.1, 300_000, (20, 600)),
    ],
)
def test_settings_are_the_papers(recipe, size, data, vocabulary, rate, steps, average):
    (command, *words), evaluate = commands(recipe, "models/x", size)
    values = parse(command, words)
    config = preset(values.preset).replace(**given(values, PARTS))
    assert (config.data.data, config.data.source, config.data.target) == (data, "en", recipe[-2:])
    assert (config.data.vocab_size, config.data.shared_vocab, config.data.batch_tokens) == (
        vocabulary,
        True,
        25_000,
    )
    assert (config.model.dropout_rate, config.train.train_steps) == (rate, steps)
    assert (
        config.train.max_checkpoints,
        config.train.save_steps,
    ) == average  # 10 minutes at 0.4 and at 1.0 s an update (Sec. 5.2)
    assert (
        config.decode.beam_size,
        config.decode.length_penalty,
        config.decode.extra_decode_length,
    ) == (4, 0.6, 50)
    assert evaluate == ["evaluate", "--model_dir=models/x"]


def test_the_papers_parser():
    """Sec. 6.3: 4 layers, d_model 1024, 16,000 sub-words, the rest as base's; beam 21, alpha 0.3, input length + 300."""
    (command, *words), evaluate = commands(
        "parse", "models/x", flags="--nothing=1", more=["PRESET=parsing", "DATA=wsj/"]
    )
    assert (command, words[-1], evaluate) == (
        "train",
        "--nothing=1",
        ["evaluate", "--model_dir=models/x"],
    )
    values = parse(command, words[:-1])
    config, base = preset(values.preset).replace(**given(values, PARTS)), preset("base")
    assert (
        config.model == dataclasses.replace(base.model, num_layers=4, d_model=1024)
        and config.train.train_steps == base.train.train_steps
    )
    assert (config.data.data, config.data.source, config.data.target, config.data.vocab_size) == (
        "wsj/",
        "words",
        "trees",
        16_000,
    )
    assert (
        config.decode.beam_size,
        config.decode.length_penalty,
        config.decode.extra_decode_length,
    ) == (21, 0.3, 300)
    (_, *words), _ = commands("parse", "models/x")
    assert words == ["--preset=parsing-pocket", "--data=pocket-trees", "--model_dir=models/x"]


@pytest.mark.parametrize("recipe", ["wmt14-ende", "parse"])
def test_a_dry_run_is_not_scored(recipe):
    (words,) = commands(recipe, "models/x", flags="--dry_run --seed=1", more=["STEPS=3"])
    assert (
        words[0] == "train"
        and "--train_steps=3" in words
        and words[-2:] == ["--dry_run", "--seed=1"]
    )


def test_the_parsers_folder_is_trains_own():
    """`make parse` and the command without `make` go on with one run."""
    (command, *words), _ = commands("parse")
    values = parse(command, words)
    config = preset(values.preset).replace(**given(values, PARTS))
    assert values.model_dir == default_model_dir(values.preset, config.data)


@pytest.mark.parametrize("recipe", ["wmt14-ende", "wmt14-enfr"])
def test_the_whole_road_on_a_mock(recipe, tmp_path, capsys):
    import tensorflow_datasets as tfds

    with tfds.testing.mock_data(num_examples=40, data_dir=str(tmp_path / "tfds")):
        for words in commands(recipe, tmp_path / "model", flags=TINY):
            assert main(words) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert "test of the TensorFlow data set wmt14_translate" in out and "tok:13a" in out
    assert ("compound-split BLEU" in out) == (recipe == "wmt14-ende")
    assert Config.load(str(tmp_path / "model" / "config.json")).data.source == "en"
