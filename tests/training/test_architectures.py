"""One line registers another architecture, which the usual trainer then trains."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.checkpoints.loading import (
    ARCHITECTURES,
    build_model,
    build_transformer,
    load_model,
)
from tf_transformer.config import ModelConfig
from tf_transformer.errors import UserError
from tf_transformer.training.trainer import build_trainer


def build_deep(sizes, precision):
    """Feed-forward networks of three layers."""
    model = build_transformer(sizes, precision)
    for layer in (*model.encoder.enc_layers, *model.decoder.dec_layers):
        widths = {"first": sizes.dff, "second": sizes.dff, "third": sizes.d_model}
        layer.ffn = keras.Sequential(name="ffn")
        for name, width in widths.items():
            layer.ffn.add(keras.layers.Dense(width, "gelu", dtype=precision, name=name))
    return model


def test_another_architecture_is_trained_and_loaded(tiny_config, tmp_path, monkeypatch):
    monkeypatch.setitem(ARCHITECTURES, "deep", build_deep)
    config = tiny_config.replace(architecture="deep", train_steps=2, save_steps=2, eval_steps=2)
    trainer = build_trainer(config, str(tmp_path))
    assert trainer.run()
    model, _, _ = load_model(str(tmp_path), "latest")
    layers = (*model.encoder.enc_layers, *model.decoder.dec_layers)
    assert all(len(layer.ffn.weights) == 6 for layer in layers)
    ids = tf.constant([[5, 6, 7, 3]])
    np.testing.assert_allclose(model(ids, ids)[0], trainer.model(ids, ids)[0], atol=1e-5)


def test_an_unknown_architecture():
    with pytest.raises(UserError, match="no architecture 'deep': known are transformer"):
        build_model(ModelConfig(architecture="deep"))
