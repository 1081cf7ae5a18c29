"""The exported SavedModel: a stock server could load it, and it says what the live model says."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.checkpoints import paths as model_folder
from tf_transformer.data.sources import open_corpus
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.serving import saved_model as export

# What a server does, in a process that knows nothing of this package: both ways to load, the recorded requests, the operations.
STRANGER = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf, tensorflow_text
path, texts = sys.argv[1], json.loads(sys.argv[2])
loaded = tf.saved_model.load(path)
answers = {key: value.numpy() for key, value in loaded.signatures["nbest"](text=tf.constant(texts)).items()}
alone = [loaded.signatures["nbest"](text=tf.constant([text]))["translations"].numpy()[0, 0].decode() for text in texts]
with tf.compat.v1.Session(graph=tf.Graph()) as session:
    graph = tf.compat.v1.saved_model.load(session, ["serve"], path)
    signatures = {name: s for name, s in graph.signature_def.items() if not name.startswith("__")}
    best = signatures["serving_default"]
    best = session.run(best.outputs["translation"].name, {best.inputs["text"].name: texts})
    operations = {node.op for f in [graph.graph_def, *graph.graph_def.library.function] for node in getattr(f, "node", None) or f.node_def}
    from tensorflow_serving.apis import prediction_log_pb2
    asked = []
    for record in tf.compat.v1.io.tf_record_iterator(os.path.join(path, "assets.extra", "tf_serving_warmup_requests")):
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        signature = signatures[request.model_spec.signature_name]
        feed = {signature.inputs[key].name: tf.make_ndarray(value) for key, value in request.inputs.items()}
        session.run([tensor.name for tensor in signature.outputs.values()], feed)
        asked.append([request.model_spec.signature_name, request.model_spec.name])
from tensorflow.python.framework import op_def_registry
print(json.dumps({
    "translations": [[text.decode() for text in row] for row in answers["translations"]], "scores": answers["scores"].tolist(),
    "alone": alone, "session": [text.decode() for text in best], "asked": asked, "operations": sorted(operations),
    "unknown": [name for name in operations if op_def_registry.get(name) is None], "ours": "tf_transformer" in sys.modules,
    "signatures": {name: [sorted(s.inputs), sorted(s.outputs)] for name, s in signatures.items()},
}))
"""


@pytest.fixture(scope="module")
def texts(tiny_config):
    return [source for source, _ in open_corpus(tiny_config.data.data, "en", "de").read("test")][
        :20
    ] + ["", "Ж\U0001f600", "x " * 500]


def ask_stranger(path, texts, folder):
    """What `STRANGER` prints, from a folder in which this package is not."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-c", STRANGER, path, json.dumps(texts)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_process_that_knows_only_tensorflow_gives_the_same_translations(
    exported, translator, texts, tmp_path
):
    """Law 8."""
    found = ask_stranger(exported, texts, tmp_path)
    assert not found["ours"]
    live = translator.n_best(texts[:-1], 4)
    for row, scores, expected in zip(found["translations"], found["scores"], live):
        expected = expected + [("", -1e9)] * (4 - len(expected))
        assert row == [text for text, _ in expected]
        np.testing.assert_allclose(scores, [score for _, score in expected], rtol=1e-5)
    assert found["translations"][-1] == [""] * 4 and found["scores"][-1] == [-1e9] * 4
    assert found["session"] == found["alone"] == [row[0] for row in found["translations"]]

    assert found["unknown"] == []
    assert not [
        name for name in found["operations"] if "PyFunc" in name or "Xla" in name or "Eager" in name
    ]
    assert {name for name, _ in found["asked"]} == set(found["signatures"]) and {
        model for _, model in found["asked"]
    } == {"anna"}
    assert found["signatures"] == {
        "serving_default": [["text"], ["score", "translation"]],
        "nbest": [["text"], ["scores", "translations"]],
        "score": [["source", "target"], ["log_probability", "token_log_probabilities", "tokens"]],
        "alignments": [["text"], ["source_tokens", "target_tokens", "translation", "weights"]],
    }


def test_two_vocabularies_survive(tiny_config, tmp_path):
    """Each side must get its own tokenizer back."""
    from tf_transformer.training.build import build_trainer

    config = tiny_config.replace(
        shared_vocab=False, train_steps=1, vocab_size=450, bleu_sentences=0
    )
    assert build_trainer(config, str(tmp_path / "model")).run()
    path = export.export_saved_model(
        str(tmp_path / "model"), str(tmp_path / "exported"), beam_size=2
    )
    texts = ["Anna sleeps.", "The old man reads a book."]
    found = ask_stranger(path, texts, tmp_path)
    assert found["session"] == Translator.load(str(tmp_path / "model"), beam_size=2)(texts)


def test_what_is_in_a_version(exported, model_dir):
    version = os.path.basename(exported)
    folder = os.path.dirname(exported)
    assert version == "1"
    assert sorted(os.listdir(folder)) == [
        "1",
        "batching_parameters.txt",
        "models.config",
        "monitoring.config",
    ]
    sums = dict(
        reversed(line.split("  "))
        for line in open(os.path.join(exported, "SHA256SUMS"), encoding="utf-8").read().splitlines()
    )
    files = {
        os.path.relpath(os.path.join(place, name), exported)
        for place, _, names in os.walk(exported)
        for name in names
    }
    assert set(sums) == files - {"SHA256SUMS"}
    for name, checksum in sums.items():
        assert (
            hashlib.sha256(open(os.path.join(exported, name), "rb").read()).hexdigest() == checksum
        )
    readme = open(os.path.join(exported, "README.md"), encoding="utf-8").read()
    assert (
        f"-v '{folder}:/models/anna' tensorflow/serving" in readme
        and "/v1/models/anna:predict" in readme
        and "96 sub-words" in readme
    )
    assert 'name: "anna"' in open(os.path.join(folder, "models.config"), encoding="utf-8").read()


def test_the_settings_are_what_a_server_reads(exported):
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    folder = os.path.dirname(exported)
    contents = {
        name: open(os.path.join(folder, name), encoding="utf-8").read()
        for name in os.listdir(folder)
        if not name.isdigit()
    }
    config = text_format.Parse(
        contents["models.config"], model_server_config_pb2.ModelServerConfig()
    )
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path, model.model_platform) == (
        "anna",
        "/models/anna",
        "tensorflow",
    )
    assert "max_batch_size { value: 128 }" in contents["batching_parameters.txt"]
    assert 'path: "/monitoring/prometheus/metrics"' in contents["monitoring.config"]


def test_versions_count_up_and_half_a_version_is_never_seen(model_dir, tmp_path, monkeypatch):
    output = tmp_path / "exported"
    (output / "7").mkdir(parents=True)
    (output / "notes").mkdir()
    seen = []
    monkeypatch.setattr(export, "_write_sums", lambda folder: seen.extend(os.listdir(output)))
    assert export.export_saved_model(str(model_dir), str(output)) == str(output / "8")
    assert [name for name in seen if name.isdigit()] == ["7"]

    def fail(folder):
        raise OSError("no space")

    monkeypatch.setattr(export, "_write_sums", fail)
    with pytest.raises(OSError, match="no space"):
        export.export_saved_model(str(model_dir), str(output))
    assert sorted(os.listdir(output)) == [
        "7",
        "8",
        "batching_parameters.txt",
        "models.config",
        "monitoring.config",
        "notes",
    ]


def test_without_the_corpus_the_recorded_requests_are_of_the_vocabulary(model_dir, translator):
    config = model_folder.load_config(str(model_dir)).replace(data="/no/where")
    texts = export._warm_up_texts(config, translator.source)
    lengths = translator.source.encode(texts).row_lengths().numpy()
    assert len(texts) == export.WARM_UP_TEXTS and lengths.min() < 4 and lengths.max() > 15


def test_as_a_keras_file(model_dir, translator, tmp_path):
    path = str(tmp_path / "new" / "model.keras")
    export.export_keras(str(model_dir), path)
    inp, tar = tf.constant([[5, 6, 3]]), tf.constant([[2, 7, 8]])
    expected = translator.model(inp, tar, training=False)[0].numpy()
    code = (
        "import sys, keras, numpy; from tf_transformer import Transformer; model = keras.models.load_model(sys.argv[1]); "
        "numpy.save(sys.argv[2], model(numpy.int32([[5, 6, 3]]), numpy.int32([[2, 7, 8]]), training=False)[0])"
    )
    subprocess.run(
        [sys.executable, "-c", code, path, str(tmp_path / "logits.npy")],
        check=True,
        capture_output=True,
    )
    np.testing.assert_allclose(np.load(tmp_path / "logits.npy"), expected, atol=1e-6)
    assert os.listdir(tmp_path / "new") == ["model.keras"]
    with pytest.raises(UserError, match="is there already"):
        export.export_keras(str(model_dir), path)
    with pytest.raises(UserError, match="ends with .keras"):
        export.export_keras(str(model_dir), str(tmp_path / "model"))
