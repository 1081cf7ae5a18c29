"""The exported SavedModel: a server without this package gives the results of the live model."""

import errno
import hashlib
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.model_folder import step_checkpoints
from tf_transformer.data.readers import open_corpus
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.export import saved_model
from tf_transformer.export.saved_model import WARM_UP_TEXTS, export_saved_model, warm_up_texts
from tf_transformer.export.signatures import SIGNATURES
from tf_transformer.export.versions import read_description
from tf_transformer.training.trainer import build_trainer

LOAD_SAVED_MODEL = (pathlib.Path(__file__).parent / "load_saved_model.py").read_text("utf-8")


@pytest.fixture(scope="module")
def texts(tiny_config):
    pairs = open_corpus(tiny_config.data.data, "en", "de").read("test")
    too_long = "x " * 500
    return [source for source, _ in pairs][:20] + ["", "Ж\U0001f600", too_long]


def load_in_another_process(path, texts, folder):
    """Runs `load_saved_model.py` in a folder without this package. Returns: its results."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-c", LOAD_SAVED_MODEL, path, json.dumps(texts)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_process_without_the_package_gives_the_same_translations(
    exported, translator, texts, tmp_path
):
    """Invariant 8."""
    results = load_in_another_process(exported, texts, tmp_path)
    assert not results["has_package"]
    translations = results["translations"]
    live = translator.n_best(texts[:-1], 4)
    for row, scores, expected in zip(translations, results["scores"], live):
        expected = expected + [("", -1e9)] * (4 - len(expected))
        assert row == [text for text, _ in expected]
        np.testing.assert_allclose(scores, [score for _, score in expected], rtol=1e-5)
    assert translations[-1] == [""] * 4
    assert results["scores"][-1] == [-1e9] * 4
    assert results["session"] == results["single_texts"] == [row[0] for row in translations]

    assert results["unknown"] == []
    forbidden = ("PyFunc", "Xla", "Eager")
    operations = results["operations"]
    assert not [name for name in operations if any(part in name for part in forbidden)]
    assert {signature for signature, _ in results["requests"]} == set(results["signatures"])
    assert {model for _, model in results["requests"]} == {"anna"}
    outputs = {
        "serving_default": ["score", "translation"],
        "nbest": ["scores", "translations"],
        "score": ["log_probability", "token_log_probabilities", "tokens"],
        "alignments": ["source_tokens", "target_tokens", "translation", "weights"],
        "count_tokens": ["tokens"],
        "translate_with_options": ["count", "scores", "translations"],
        "sample": ["score", "translation"],
        "alternatives": ["probabilities", "scores", "translations"],
    }
    assert results["signatures"] == {
        name: [sorted(texts + options), outputs[name]]
        for name, (texts, _, options) in SIGNATURES.items()
    }


def test_an_ensemble(model_dir, texts, tmp_path):
    """Its export translates and scores as the live ensemble. It has no attention weights."""
    average = str(tmp_path / "average.npz")
    checkpoint.average(step_checkpoints(str(model_dir)), average)
    checkpoints = f"{average},latest"
    path = export_saved_model(str(model_dir), str(tmp_path / "out"), checkpoints, beam_size=2)
    live = Translator.load(str(model_dir), checkpoints, beam_size=2)
    signatures = tf.saved_model.load(path).signatures
    assert "alignments" not in signatures
    results = signatures["serving_default"](text=tf.constant(texts[:6]))
    translations = [text.decode() for text in results["translation"].numpy()]
    assert translations == live(texts[:6])
    pairs = list(zip(texts[:6], translations))
    sources, targets = map(tf.constant, (texts[:6], translations))
    scores = signatures["score"](source=sources, target=targets)["log_probability"]
    np.testing.assert_allclose(scores, [each.log_prob for each in live.score(pairs)], rtol=1e-5)
    one = Translator.load(str(model_dir), "latest").score(pairs)
    assert not np.allclose(scores, [each.log_prob for each in one], rtol=1e-4)
    assert read_description(path)["max_aligned_subwords"] == 0
    assert "alignments" not in pathlib.Path(path, "README.md").read_text()
    requests = os.path.join(path, "assets.extra", "tf_serving_warmup_requests")
    assert b"alignments" not in pathlib.Path(requests).read_bytes()


def test_separate_vocabularies(tiny_config, tmp_path):
    """Source and target keep their own tokenizers."""
    config = tiny_config.replace(
        shared_vocab=False, train_steps=1, vocab_size=450, bleu_sentences=0
    )
    model_dir = str(tmp_path / "model")
    assert build_trainer(config, model_dir).run()
    path = export_saved_model(model_dir, str(tmp_path / "exported"), beam_size=2)
    texts = ["Anna sleeps.", "The old man reads a book."]
    results = load_in_another_process(path, texts, tmp_path)
    expected = Translator.load(model_dir, beam_size=2)(texts)
    assert results["session"] == results["single_texts"] == expected


def test_files_of_a_version(exported):
    version = pathlib.Path(exported)
    folder = version.parent
    assert version.name == "1"
    settings = ["batching_parameters.txt", "models.config", "monitoring.config"]
    assert sorted(os.listdir(folder)) == ["1", *settings]
    lines = (version / "SHA256SUMS").read_text("utf-8").splitlines()
    checksums = dict(reversed(line.split("  ")) for line in lines)
    paths = [path for path in version.rglob("*") if path.is_file()]
    files = {str(path.relative_to(version)) for path in paths}
    assert set(checksums) == files - {"SHA256SUMS"}
    for name, checksum in checksums.items():
        assert hashlib.sha256((version / name).read_bytes()).hexdigest() == checksum
    readme = (version / "README.md").read_text("utf-8")
    assert f"-v '{folder}:/models/anna' tensorflow/serving" in readme
    assert "/v1/models/anna:predict" in readme
    assert "96 sub-words" in readme
    assert 'name: "anna"' in (folder / "models.config").read_text("utf-8")


def test_the_description_of_a_version(exported):
    """The tiny model has 96 positions, fewer than the 128 sub-words of `alignments`."""
    assert read_description(exported) == {
        "source": "en",
        "target": "de",
        "beam_size": 4,
        "length_penalty": 0.6,
        "extra_decode_length": 50,
        "max_source_subwords": 96,
        "max_target_subwords": 96,
        "max_aligned_subwords": 96,
    }
    assert "assets.extra/model.json" in (pathlib.Path(exported) / "SHA256SUMS").read_text("utf-8")


def test_server_settings_are_valid(exported):
    folder = pathlib.Path(exported).parent
    config = text_format.Parse(
        (folder / "models.config").read_text("utf-8"), model_server_config_pb2.ModelServerConfig()
    )
    (model,) = config.model_config_list.config
    assert model.name == "anna"
    assert model.base_path == "/models/anna"
    assert model.model_platform == "tensorflow"
    batching = (folder / "batching_parameters.txt").read_text("utf-8")
    assert "max_batch_size { value: 128 }" in batching
    monitoring = (folder / "monitoring.config").read_text("utf-8")
    assert 'path: "/monitoring/prometheus/metrics"' in monitoring


def test_versions_increase_and_an_incomplete_version_is_never_visible(
    model_dir, tmp_path, monkeypatch
):
    output = tmp_path / "exported"
    (output / "7").mkdir(parents=True)
    (output / "notes").mkdir()
    entries = []
    monkeypatch.setattr(
        saved_model, "write_checksums", lambda folder: entries.extend(os.listdir(output))
    )
    assert export_saved_model(str(model_dir), str(output)) == str(output / "8")
    assert [name for name in entries if name.isdigit()] == ["7"]

    def fail(folder):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(saved_model, "write_checksums", fail)
    with pytest.raises(UserError, match="no space"):
        export_saved_model(str(model_dir), str(output))
    settings = ["batching_parameters.txt", "models.config", "monitoring.config"]
    assert sorted(os.listdir(output)) == ["7", "8", *settings, "notes"]


def test_warm_up_texts_consist_of_the_vocabulary(translator):
    texts = warm_up_texts(translator.source)
    lengths = translator.source.encode(texts).row_lengths().numpy()
    assert len(texts) == WARM_UP_TEXTS
    assert lengths.min() < 4
    assert lengths.max() > 15
