"""An update of a training as StableHLO for a GPU, made on a machine without one."""

import numpy as np
import pytest
import step_stablehlo
import tensorflow as tf

from tf_transformer.checkpoints.loading import build_model
from tf_transformer.config import Config
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.update import Update

pytestmark = pytest.mark.slow
SHAPE = 6, 5
CONFIG = (
    Config()
    .replace(num_layers=1, d_model=32, num_heads=2, dff=64, warmup_steps=2)
    .with_vocabularies(300, 300)
)


def test_the_update_compiles_for_gpus():
    text = step_stablehlo.update_text(CONFIG, build_model(CONFIG.model), SHAPE)
    assert "custom_call" not in text  # nothing is computed on the host


def test_the_pure_update_is_that_of_training():
    """With dropout and label smoothing: weights and losses of three updates."""
    tf.keras.utils.set_random_seed(0)
    strategy = make_strategy(logical_devices=1)
    update = Update(CONFIG, "float32", strategy, accumulate=False)
    weights = update.model.trainable_variables
    values = [tf.constant(weight.numpy()) for weight in weights]
    values += [tf.zeros(weight.shape) for weight in weights] * 2 + [tf.constant(0)]
    pure = tf.function(step_stablehlo.pure_update(CONFIG, update.model, SHAPE), autograph=False)
    random = np.random.default_rng(0)
    for _ in range(3):
        inp = tf.constant(random.integers(0, 300, SHAPE), tf.int32)
        tar = tf.constant(random.integers(0, 300, (6, 6)), tf.int32)
        *values, sums = pure(*values, inp, tar)
        np.testing.assert_allclose(sums, update(inp, tar, tf.zeros([2]))["sums"], rtol=1e-5)
    assert values[-1] == 3
    for value, weight in zip(values, weights):
        # The softmax ignores the bias of the keys, so its gradient is only rounding errors.
        if not weight.path.endswith("wk/bias"):
            np.testing.assert_allclose(value, weight, rtol=1e-4, atol=1e-5)
