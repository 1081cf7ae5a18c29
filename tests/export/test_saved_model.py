"""The exported SavedModel: a server without this package gives the results of the live model."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.model_folder import step_checkpoints
from tf_transformer.data.readers import open_corpus
from tf_transformer.decoding.translator import Translator
from tf_transformer.export.saved_model import export_saved_model
from tf_transformer.export.signatures import SIGNATURES
from tf_transformer.export.versions import read_description
from tf_transformer.files import is_intact
from tf_transformer.training.trainer import build_trainer

LOAD_SAVED_MODEL = (pathlib.Path(__file__).parent / "load_saved_model.py").read_text("utf-8")
SERVER_SETTINGS = ["batching_parameters.txt", "models.config", "monitoring.config"]


@pytest.fixture(scope="module")
def texts(tiny_config):
    pairs = open_corpus(tiny_config.data.data, "en", "de").read("test")
    return [source for source, _ in pairs][:20] + ["", "Ж\U0001f600", "x " * 500]


@pytest.mark.slow
def test_a_process_without_the_package_gives_the_same_translations(
    exported, translator, texts, tmp_path
):
    """Invariant 8. The process runs `load_saved_model.py` in a folder without this package."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-c", LOAD_SAVED_MODEL, exported, json.dumps(texts)]
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=tmp_path, env=environment)
    results = json.loads(out.stdout.splitlines()[-1])
    assert not results["has_package"]
    translations = results["translations"]
    live = translator.n_best(texts[:-1], 4) + [[("", -1e9)]]
    for row, scores, expected in zip(translations, results["scores"], live, strict=True):
        expected = expected + [("", -1e9)] * (4 - len(expected))
        assert row == [text for text, _ in expected]
        np.testing.assert_allclose(scores, [score for _, score in expected], rtol=1e-5)
    assert {name for name, _ in results["requests"]} == set(SIGNATURES)
    assert {model for _, model in results["requests"]} == {"anna"}


@pytest.mark.slow
def test_an_ensemble_as_the_next_version(model_dir, texts, tmp_path):
    average = str(tmp_path / "average.npz")
    checkpoint.average(step_checkpoints(str(model_dir)), average)
    checkpoints = f"{average},latest"
    output = tmp_path / "out"
    (output / "7").mkdir(parents=True)
    (output / "notes").mkdir()
    path = export_saved_model(str(model_dir), str(output), checkpoints, beam_size=2)
    assert path == str(output / "8")
    assert sorted(os.listdir(output)) == ["7", "8", *SERVER_SETTINGS, "notes"]
    live = Translator.load(str(model_dir), checkpoints, beam_size=2)
    signatures = tf.saved_model.load(path).signatures
    results = signatures["serving_default"](text=tf.constant(texts[:6]))
    translations = [text.decode() for text in results["translation"].numpy()]
    assert translations == live(texts[:6])
    pairs = list(zip(texts[:6], texts[:6]))
    sources = targets = tf.constant(texts[:6])
    scores = signatures["score"](source=sources, target=targets)["log_probability"]
    np.testing.assert_allclose(scores, [each.log_prob for each in live.score(pairs)], rtol=1e-5)
    one = Translator.load(str(model_dir), "latest").score(pairs)
    assert not np.allclose(scores, [each.log_prob for each in one], rtol=1e-4)
    assert "alignments" not in signatures
    assert read_description(path)["max_aligned_subwords"] == 0
    for file in ("README.md", "assets.extra/tf_serving_warmup_requests"):
        assert b"alignments" not in pathlib.Path(path, file).read_bytes()


@pytest.mark.slow
def test_separate_vocabularies_and_pre_norm(tiny_config, tmp_path):
    changes = {"shared_vocab": False, "norm": "pre", "num_encoder_layers": 3}
    changes |= {"num_decoder_layers": 2, "train_steps": 1, "vocab_size": 450, "bleu_sentences": 0}
    config = tiny_config.replace(**changes)
    model_dir = str(tmp_path / "model")
    assert build_trainer(config, model_dir).run()
    path = export_saved_model(model_dir, str(tmp_path / "exported"), beam_size=2)
    texts = ["Anna sleeps.", "The old man reads a book."]
    signatures = tf.saved_model.load(path).signatures
    results = signatures["serving_default"](text=tf.constant(texts))
    found = [text.decode() for text in results["translation"].numpy()]
    assert found == Translator.load(model_dir, beam_size=2)(texts)
    layers = signatures["alignments"](text=tf.constant(texts))["weights"].shape[1]
    assert layers == config.model.decoder_layers


def test_files_of_a_version(exported):
    version = pathlib.Path(exported)
    folder = version.parent
    assert version.name == "1"
    assert sorted(os.listdir(folder)) == ["1", *SERVER_SETTINGS]
    assert is_intact(exported)
    readme = (version / "README.md").read_text("utf-8")
    assert f"-v '{folder}:/models/anna' tensorflow/serving" in readme
    assert "/v1/models/anna:predict" in readme
    # The tiny model has 96 positions, fewer than the 128 sub-words of `alignments`.
    expected = {"source": "en", "target": "de", "beam_size": 4, "max_aligned_subwords": 96}
    assert expected.items() <= read_description(exported).items()
    config = (folder / "models.config").read_text("utf-8")
    (model,) = text_format.Parse(config, ModelServerConfig()).model_config_list.config
    assert (model.name, model.base_path, model.model_platform) == (
        "anna", "/models/anna", "tensorflow",
    )  # fmt: skip
