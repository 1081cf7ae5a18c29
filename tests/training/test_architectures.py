"""One line registers another architecture, which the usual trainer then trains."""

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
from tf_transformer.model.dense import Dense
from tf_transformer.model.keras_compat import ReferenceLayer
from tf_transformer.training.trainer import build_trainer


class GatedFeedForward(ReferenceLayer):
    """FFN(x) = (max(0, x W_1) * x V) W_2 (Shazeer 2020, Eq. 6), with biases."""

    def __init__(self, d_model, dff, **kwargs):
        super().__init__(**kwargs)
        dtype = self.dtype_policy
        self.inner = Dense(dff, "relu", dtype=dtype, name="inner")
        self.gate = Dense(dff, dtype=dtype, name="gate")
        self.outer = Dense(d_model, dtype=dtype, name="outer")

    def build(self, x_shape):
        self.inner.build(x_shape)
        self.gate.build(x_shape)
        self.outer.build((None, None, self.inner.units))

    def call(self, x):
        return self.outer(self.inner(x) * self.gate(x))


def build_gated(sizes, precision):
    model = build_transformer(sizes, precision)
    for layer in (*model.encoder.enc_layers, *model.decoder.dec_layers):
        layer.ffn = GatedFeedForward(sizes.d_model, sizes.dff, dtype=precision, name="ffn")
    return model


def test_another_architecture_is_trained_and_loaded(tiny_config, tmp_path, monkeypatch):
    monkeypatch.setitem(ARCHITECTURES, "gated", build_gated)
    config = tiny_config.replace(architecture="gated", train_steps=2, save_steps=2, eval_steps=2)
    trainer = build_trainer(config, str(tmp_path))
    assert trainer.run()
    model, _, _ = load_model(str(tmp_path), "latest")
    layers = (*model.encoder.enc_layers, *model.decoder.dec_layers)
    assert all(isinstance(layer.ffn, GatedFeedForward) for layer in layers)
    ids = tf.constant([[5, 6, 7, 3]])
    np.testing.assert_allclose(model(ids, ids)[0], trainer.model(ids, ids)[0], atol=1e-5)


def test_an_unknown_architecture():
    with pytest.raises(UserError, match="no architecture 'gated': known are transformer"):
        build_model(ModelConfig(architecture="gated"))
