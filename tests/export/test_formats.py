"""The Keras export, compared with the live model. Other formats have tests of their own."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.errors import UserError
from tf_transformer.export.formats import export_keras

LOAD_AND_RUN = """
import sys, keras, numpy
from tf_transformer import Transformer

model = keras.models.load_model(sys.argv[1])
logits, _ = model(numpy.int32([[5, 6, 3]]), numpy.int32([[2, 7, 8]]), training=False)
numpy.save(sys.argv[2], logits)
"""


def test_a_loaded_model_has_the_same_logits(model_dir, translator, tmp_path):
    """Invariant 8."""
    path = str(tmp_path / "new" / "model.keras")
    export_keras(str(model_dir), path)
    inp = tf.constant([[5, 6, 3]])
    tar = tf.constant([[2, 7, 8]])
    expected = translator.model(inp, tar, training=False)[0].numpy()
    logits = str(tmp_path / "logits.npy")
    command = [sys.executable, "-c", LOAD_AND_RUN, path, logits]
    subprocess.run(command, check=True, capture_output=True)
    np.testing.assert_allclose(np.load(logits), expected, atol=1e-6)
    assert os.listdir(tmp_path / "new") == ["model.keras"]
    with pytest.raises(UserError, match="already exists"):
        export_keras(str(model_dir), path)


def test_other_endings_are_refused(model_dir, tmp_path):
    with pytest.raises(UserError, match="ends with .keras"):
        export_keras(str(model_dir), str(tmp_path / "model"))
