"""The linear layer, compared with that of Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.model.dense import Dense


@pytest.mark.parametrize("activation", [None, "relu"])
def test_equals_the_layer_of_keras(activation):
    """The same initial weights, output and gradients."""
    x = tf.random.normal((3, 5, 8))
    results = []
    for layer_class in (Dense, keras.layers.Dense):
        keras.utils.set_random_seed(1)
        layer = layer_class(4, activation=activation)
        with tf.GradientTape() as tape:
            output = layer(x)
        results.append([output, *tape.gradient(output, [w.value for w in layer.weights])])
        assert [weight.name for weight in layer.weights] == ["kernel", "bias"]
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_gradient_of_the_bias_of_many_tokens(jit_compile):
    """The sum of 25,000 ones. In bfloat16 it ends at 256."""
    layer = Dense(2, dtype="mixed_bfloat16")
    x = tf.ones((250, 100, 4), tf.bfloat16)
    layer(x)

    @tf.function(jit_compile=jit_compile)
    def gradient():
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(tf.cast(layer(x), tf.float32))
        return tape.gradient(total, layer.bias.value)

    np.testing.assert_array_equal(gradient(), [25_000, 25_000])
