"""Exports compute what Hugging Face transformers computes.

`make test-transformers` installs transformers in an environment of its own, and runs this.
"""

import json
import os
import pathlib
import subprocess
from itertools import islice

import numpy as np
import pytest

from tf_transformer.checkpoints.loading import load_model
from tf_transformer.data.pocket import read_pairs
from tf_transformer.decoding.inference import teacher_forcing
from tf_transformer.decoding.translator import Translator
from tf_transformer.export.huggingface import export_huggingface
from tf_transformer.special_tokens import PAD
from tf_transformer.training.trainer import build_trainer

PYTHON = os.environ["TRANSFORMERS_PYTHON"]  # of the environment that has transformers


def results_of_export(model_dir, folder, sources, targets):
    """What transformers computes with the export of a model."""
    export_huggingface(model_dir, str(folder))
    (folder / "pairs.json").write_text(json.dumps([sources, targets]), "utf-8")
    program, path = pathlib.Path(__file__).with_name("marian_results.py"), folder / "results.npz"
    subprocess.run([PYTHON, program, folder, path], check=True)
    with np.load(path) as file:
        return dict(file)


def assert_equal_ids_and_logits(model_dir, expected, sources, targets):
    model, (source, target), _ = load_model(model_dir)
    inp, tar = source.encode(sources).to_tensor(), target.encode(targets).to_tensor()
    np.testing.assert_array_equal(inp, expected["inp"])
    np.testing.assert_array_equal(tar, expected["tar"])
    logits = teacher_forcing(model, inp, tar)[0].numpy()
    is_token = tar.numpy() != PAD
    np.testing.assert_allclose(logits[is_token], expected["logits"][is_token], rtol=0, atol=1e-4)


def test_the_built_in_model(tmp_path):
    """Without a length penalty, both search the output with the largest probability."""
    pairs = list(islice(read_pairs(), 60))
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    expected = results_of_export("pocket-en-de", tmp_path / "marian", sources, targets)
    assert_equal_ids_and_logits("pocket-en-de", expected, sources, targets)
    for name, beam_size in (("greedy", 1), ("beam", 4)):
        translator = Translator.load("pocket-en-de", beam_size=beam_size, length_penalty=0.0)
        assert translator(sources) == expected[name].tolist()


@pytest.mark.parametrize(
    "changes", [{"shared_vocab": False}, {"activation": "swish", "num_encoder_layers": 2}]
)
def test_other_settings(tiny_config, tmp_path, changes):
    model_dir = str(tmp_path / "model")
    assert build_trainer(tiny_config.replace(**changes), model_dir).run()
    sources, targets = ["Anna sleeps.", "We see the old dog."], ["Anna schläft.", "Ein Hund"]
    expected = results_of_export(model_dir, tmp_path / "marian", sources, targets)
    assert_equal_ids_and_logits(model_dir, expected, sources, targets)
