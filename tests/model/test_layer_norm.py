"""Layer normalization: values computed by hand, and the layer of Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.model.layer_norm import (
    LayerNormalization,
    fused_layer_normalization,
    layer_normalization,
)

X = np.random.default_rng(1).normal(3.0, 2.0, (4, 5, 16))
GAMMA, BETA = np.random.default_rng(2).normal(1.0, 0.3, (2, 16))
UPSTREAM = np.random.default_rng(3).normal(size=X.shape)
VARIANTS = [layer_normalization, fused_layer_normalization]
both_variants = pytest.mark.parametrize("function", VARIANTS)


def output_and_gradients(layer, dtype="float32"):
    """The output of a layer with weights `GAMMA, BETA`; its gradients by x, gamma and beta."""
    layer.build(X.shape)
    layer.set_weights([GAMMA, BETA])
    x = tf.constant(X, dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = layer(x)
    gradients = tape.gradient(
        output, [x, *layer.trainable_variables], output_gradients=tf.constant(UPSTREAM, dtype)
    )
    return [output, *gradients]


def test_equals_the_layer_of_keras():
    parts = output_and_gradients(LayerNormalization(epsilon=1e-6))
    keras_parts = output_and_gradients(keras.layers.LayerNormalization(epsilon=1e-6))
    for part, keras_part in zip(parts, keras_parts, strict=True):
        np.testing.assert_allclose(part, keras_part, rtol=1e-4, atol=1e-5)


def test_low_precision_is_computed_in_float32():
    layer = LayerNormalization(epsilon=1e-6, dtype="mixed_bfloat16")
    parts = output_and_gradients(layer, "bfloat16")
    float32_parts = output_and_gradients(LayerNormalization(epsilon=1e-6))
    assert [part.dtype for part in parts] == [tf.bfloat16, tf.bfloat16, tf.float32, tf.float32]
    for part, float32_part in zip(parts, float32_parts, strict=True):
        np.testing.assert_allclose(tf.cast(part, tf.float32), float32_part, atol=0.1)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_fused_variant_equals_the_definition(dtype, tolerance):
    """Values and gradients; bfloat16 within 0.05 at values and gradients of up to 5."""
    results = []
    for function in (fused_layer_normalization, layer_normalization):
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
    for fused, expected in zip(*results, strict=True):
        np.testing.assert_allclose(fused, expected, rtol=tolerance, atol=tolerance)


@both_variants
def test_by_hand(function):
    """The values 1 and 3 have mean 2 and variance 1."""
    gamma = tf.constant([2.0, 5.0])
    beta = tf.constant([10.0, 20.0])
    output = function(tf.constant([[1.0, 3.0]]), gamma, beta, 0.0)
    np.testing.assert_allclose(output, [[8.0, 25.0]])


@both_variants
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_any_rank(rank, function):
    x = tf.random.normal([2] * (rank - 1) + [8])
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = function(x, tf.ones(8), tf.zeros(8))
    np.testing.assert_allclose(tf.reduce_mean(output, -1), tf.zeros([2] * (rank - 1)), atol=1e-5)
    assert tape.gradient(output, x).shape == x.shape
