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
both_variants = pytest.mark.parametrize("f", [layer_normalization, fused_layer_normalization])


def output_and_gradients(function, weights, dtype="float32"):
    """The output for `X`, and its gradients by x and by the weights, as they are and in float32."""
    x = tf.constant(X, dtype)
    with tf.GradientTape() as tape:
        tape.watch([x, *weights])
        output = function(x)
    upstream = tf.constant(UPSTREAM, dtype)
    parts = [output, *tape.gradient(output, [x, *weights], output_gradients=upstream)]
    return parts, [tf.cast(part, tf.float32).numpy() for part in parts]


def of_layer(layer, dtype="float32"):
    """The same of a layer with the weights `GAMMA, BETA`."""
    layer.build(X.shape)
    layer.set_weights([GAMMA, BETA])
    return output_and_gradients(layer, [weight.value for weight in layer.weights], dtype)


def test_equals_the_layer_of_keras():
    _, parts = of_layer(LayerNormalization(epsilon=1e-6))
    _, keras_parts = of_layer(keras.layers.LayerNormalization(epsilon=1e-6))
    for part, keras_part in zip(parts, keras_parts, strict=True):
        np.testing.assert_allclose(part, keras_part, rtol=1e-4, atol=1e-5)
    low, parts_of_low = of_layer(LayerNormalization(dtype="mixed_bfloat16"), "bfloat16")
    assert [part.dtype for part in low] == [tf.bfloat16, tf.bfloat16, tf.float32, tf.float32]
    for part, of_low in zip(parts, parts_of_low, strict=True):
        np.testing.assert_allclose(of_low, part, atol=0.1)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_fused_variant_equals_the_definition(dtype, tolerance):
    """Values and gradients; bfloat16 within 0.05 at values and gradients of up to 5."""
    weights = [tf.constant(weight, tf.float32) for weight in (GAMMA, BETA)]
    (_, fused), (_, expected) = (
        output_and_gradients(lambda x, f=f: f(x, *weights), weights, dtype)
        for f in (fused_layer_normalization, layer_normalization)
    )
    for part, expected_part in zip(fused, expected, strict=True):
        np.testing.assert_allclose(part, expected_part, rtol=tolerance, atol=tolerance)


@both_variants
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_by_hand(f, rank):
    """The values 1 and 3 have mean 2 and variance 1."""
    x = tf.ones([4] * rank + [1]) * tf.constant([1.0, 3.0])
    output = f(x, tf.constant([2.0, 5.0]), tf.constant([10.0, 20.0]), 0.0)
    np.testing.assert_allclose(output, np.broadcast_to([8.0, 25.0], x.shape))
