"""The dropout layer: identity outside training, fraction dropped, scale, configuration."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.kernels.dropout import LEVELS, dropout_key
from tf_transformer.model.dropout import Dropout, dropout

ONES = tf.ones((200, 250))


def test_definition_by_hand():
    """With a rate of 1/5 the kept values are divided by 4/5."""
    x = tf.constant([4.0, -8.0, 12.0])
    keep = tf.constant([True, True, False])
    np.testing.assert_allclose(dropout(x, keep, 0.2), [5.0, -10.0, 0.0], rtol=1e-6)


def test_identity_outside_training():
    x = tf.random.normal((3, 4))
    for layer in (Dropout(0.5), Dropout(0.0)):
        np.testing.assert_array_equal(layer(x), x)
        np.testing.assert_array_equal(layer(x, training=False), x)
        with dropout_key(tf.constant([1, 2])):
            np.testing.assert_array_equal(layer(x), x)
    np.testing.assert_array_equal(Dropout(0.0)(x, training=True), x)


@pytest.mark.parametrize("in_scope", [True, False])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_fraction_dropped_and_scale(rate, in_scope):
    """In a `dropout_key` scope, where the kernel draws the mask, and outside, as in `fit`."""
    keras.utils.set_random_seed(1)
    scope = dropout_key(tf.constant([1, 2])) if in_scope else contextlib.nullcontext()
    with scope:
        output = Dropout(rate)(ONES, training=True).numpy()
    np.testing.assert_allclose(np.mean(output == 0), rate, atol=0.01)  # 4 standard deviations
    rounding = 2 / LEVELS / (1 - rate)  # the kernel's rate is a multiple of 1 / LEVELS
    np.testing.assert_allclose(output[output != 0], 1 / (1 - rate), rtol=rounding)
    np.testing.assert_allclose(output.mean(), 1, rtol=0.06)


def test_masks_of_two_calls_are_independent():
    """Two independent masks differ in a fraction 2 p (1 - p) of the values."""
    layer = Dropout(0.3)
    first = layer(ONES, training=True).numpy() == 0
    second = layer(ONES, training=True).numpy() == 0
    np.testing.assert_allclose(np.mean(first != second), 2 * 0.3 * 0.7, atol=0.05)


def test_config_round_trip():
    layer = Dropout(0.3, name="dropout1")
    again = Dropout.from_config(layer.get_config())
    assert again.rate == 0.3
    assert again.name == "dropout1"
    assert again.get_config() == layer.get_config()
