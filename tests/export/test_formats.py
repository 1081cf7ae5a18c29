"""The Keras export, compared with the live model. Other formats have tests of their own."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model

from tf_transformer.errors import UserError
from tf_transformer.export.formats import export_keras


def test_a_loaded_model_has_the_same_logits(model_dir, translator, tmp_path):
    """Invariant 8."""
    path = str(tmp_path / "new" / "model.keras")
    export_keras(str(model_dir), path)
    assert os.listdir(tmp_path / "new") == ["model.keras"]
    arrays = np.int32([[5, 6, 3]]), np.int32([[2, 7, 8]])
    logits, _ = keras.models.load_model(path)(*arrays, training=False)
    expected, _ = translator.model(*arrays, training=False)
    np.testing.assert_allclose(logits, expected, atol=1e-6)
    with pytest.raises(UserError, match="already exists"):
        export_keras(str(model_dir), path)
    with pytest.raises(UserError, match="ends with .keras"):
        export_keras(str(model_dir), str(tmp_path / "model"))


@pytest.mark.slow
def test_a_model_of_litert_runs(tmp_path):
    """Invariant 8, for Keras' own export. `tests/model/test_keras.py` has its SavedModels."""
    model = make_model(num_layers=1)
    inp, tar = np.int32([[5, 6, 3, 0], [7, 3, 0, 0]]), np.int32([[2, 7, 8], [2, 9, 0]])
    path = str(tmp_path / "model.tflite")
    model.export(path, format="litert", verbose=False)
    run = tf.lite.Interpreter(path).get_signature_runner()
    outputs, (logits, attention_weights) = run(inp=inp, tar=tar), model(inp, tar)
    assert outputs.keys() == {"logits", *attention_weights}
    np.testing.assert_allclose(outputs["logits"], logits, atol=1e-5)
