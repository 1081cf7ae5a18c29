"""The linear layer, compared with the layer of Keras."""

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
