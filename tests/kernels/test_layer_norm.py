"""The layer normalization kernel equals `model.layer_norm.layer_normalization`."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.kernels import layer_norm as kernel
from tf_transformer.model.layer_norm import layer_normalization

X = np.random.default_rng(1).normal(3.0, 2.0, (4, 5, 16))
GAMMA, BETA = np.random.default_rng(2).normal(1.0, 0.3, (2, 16))
UPSTREAM = np.random.default_rng(3).normal(size=X.shape)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_equals_the_definition(dtype, tolerance):
    """Values and gradients; bfloat16 within 0.05 at values and gradients of up to 5."""
    results = []
    for function in (kernel.layer_normalization, layer_normalization):
        x = tf.constant(X, dtype)
        gamma = tf.constant(GAMMA, tf.float32)
        beta = tf.constant(BETA, tf.float32)
        with tf.GradientTape() as tape:
            tape.watch([x, gamma, beta])
            output = function(x, gamma, beta)
        gradients = tape.gradient(
            output, [x, gamma, beta], output_gradients=tf.constant(UPSTREAM, dtype)
        )
        results.append([tf.cast(part, tf.float32).numpy() for part in (output, *gradients)])
    for kernel_value, expected in zip(*results, strict=True):
        np.testing.assert_allclose(kernel_value, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_any_rank(rank):
    x = tf.random.normal([2] * (rank - 1) + [8])
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = kernel.layer_normalization(x, tf.ones(8), tf.zeros(8))
    np.testing.assert_allclose(tf.reduce_mean(output, -1), tf.zeros([2] * (rank - 1)), atol=1e-5)
    assert tape.gradient(output, x).shape == x.shape


def test_by_hand():
    """The values 1 and 3 have mean 2 and variance 1."""
    gamma = tf.constant([2.0, 5.0])
    beta = tf.constant([10.0, 20.0])
    output = kernel.layer_normalization(tf.constant([[1.0, 3.0]]), gamma, beta, 0.0)
    np.testing.assert_allclose(output, [[8.0, 25.0]])
