"""Layer normalization against Keras' own, and the kernel against the definition."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.kernels import layer_norm as kernel
from tf_transformer.model.layer_norm import LayerNormalization, layer_normalization

X = np.random.default_rng(1).normal(3.0, 2.0, (4, 5, 16))
GAMMA, BETA = np.random.default_rng(2).normal(1.0, 0.3, (2, 16))


def results(layer, dtype="float32"):
    """Output and gradients (of x, gamma, beta) of a layer with given weights."""
    layer.build(X.shape)
    layer.set_weights([GAMMA, BETA])
    x = tf.constant(X, dtype)
    upstream = tf.constant(np.random.default_rng(3).normal(size=X.shape), dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = layer(x)
    return [
        output,
        *tape.gradient(output, [x, *layer.trainable_variables], output_gradients=upstream),
    ]


def test_equals_the_layer_of_keras():
    ours, theirs = (
        results(kind(epsilon=1e-6))
        for kind in (LayerNormalization, keras.layers.LayerNormalization)
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_low_precision_is_computed_in_float32():
    ours = results(LayerNormalization(epsilon=1e-6, dtype="mixed_bfloat16"), "bfloat16")
    exact = results(LayerNormalization(epsilon=1e-6))
    assert [part.dtype for part in ours] == [tf.bfloat16, tf.bfloat16, tf.float32, tf.float32]
    for one, other in zip(ours, exact, strict=True):
        np.testing.assert_allclose(tf.cast(one, tf.float32), other, atol=0.1)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_kernel_equals_the_definition(dtype, tolerance):
    """Values and gradients; bfloat16 within 0.05 at values and gradients of up to 5."""
    found = []
    for function in (kernel.layer_normalization, layer_normalization):
        x, gamma, beta = tf.constant(X, dtype), tf.constant(GAMMA), tf.constant(BETA)
        arguments = [x, tf.cast(gamma, "float32"), tf.cast(beta, "float32")]
        upstream = tf.constant(np.random.default_rng(3).normal(size=X.shape), dtype)
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            output = function(*arguments)
        gradients = tape.gradient(output, arguments, output_gradients=upstream)
        found.append([tf.cast(x, "float32").numpy() for x in (output, *gradients)])
    for kernel_value, expected in zip(*found, strict=True):
        np.testing.assert_allclose(kernel_value, expected, rtol=tolerance, atol=tolerance)


def test_by_hand():
    """Values 1, 3 have mean 2 and variance 1."""
    out = layer_normalization(
        tf.constant([[1.0, 3.0]]), tf.constant([2.0, 5.0]), tf.constant([10.0, 20.0]), 0.0
    )
    np.testing.assert_allclose(out, [[8.0, 25.0]])


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_any_rank(rank):
    x = tf.random.normal([2] * (rank - 1) + [8])
    with tf.GradientTape() as tape:
        tape.watch(x)
        out = layer_normalization(x, tf.ones(8), tf.zeros(8))
    np.testing.assert_allclose(tf.reduce_mean(out, -1), tf.zeros([2] * (rank - 1)), atol=1e-5)
    assert tape.gradient(out, x).shape == x.shape
