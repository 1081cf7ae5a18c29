"""Dropout: the definition, the layer, and masks as a function of a key."""

import contextlib
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.model.dropout import LEVELS, Dropout, dropout, dropout_key

SMALL_ONES = tf.ones((40, 50))


def train_output(layer, x=SMALL_ONES):
    """The output of the layer in training."""
    return layer(x, training=True).numpy()


def keyed_output(layer, *key, x=SMALL_ONES):
    """The output of the layer in training, in the scope of a key."""
    with dropout_key(tf.constant(key)):
        return train_output(layer, x)


def are_independent(output, other_output, rate=0.3):
    """Whether two masks differ in a fraction 2 p (1 - p) of the values."""
    different = np.mean((output == 0) != (other_output == 0))
    return np.isclose(different, 2 * rate * (1 - rate), atol=0.05)


def test_definition_by_hand():
    """With a rate of 1/5 the kept values are divided by 4/5."""
    x = tf.constant([4.0, -8.0, 12.0])
    keep = tf.constant([True, True, False])
    np.testing.assert_allclose(dropout(x, keep, 0.2), [5.0, -10.0, 0.0], rtol=1e-6)


@pytest.mark.parametrize("rate_factor", [None, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_fraction_dropped_and_scale(rate, rate_factor):
    """In a `dropout_key` scope, where the key draws the mask, and outside (None), as in `fit`."""
    keras.utils.set_random_seed(1)
    scope = contextlib.nullcontext()
    if rate_factor is not None:
        scope = dropout_key(tf.constant([1, 2]), tf.constant(rate_factor))
    with scope:
        output = train_output(Dropout(rate), tf.ones((200, 250)))
    rate *= 1.0 if rate_factor is None else rate_factor
    np.testing.assert_allclose(np.mean(output == 0), rate, atol=0.01)  # 4 standard deviations
    rounding = 2 / LEVELS / (1 - rate)  # the keyed rate is a multiple of 1 / LEVELS
    np.testing.assert_allclose(output[output != 0], 1 / (1 - rate), rtol=rounding)
    np.testing.assert_allclose(output.mean(), 1, rtol=0.06)


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["graph", "XLA"])
def test_each_call_and_key_has_its_own_mask(options):
    """One trace serves all keys. XLA draws other random numbers than eager execution."""
    layers = [Dropout(0.3), Dropout(0.3)]

    @tf.function(**options)
    def run(key):
        with dropout_key(key):
            return [layer(SMALL_ONES, training=True) for layer in (*layers, layers[0])]

    keys = [(5, 7), (5, 8), (6, 7), (7, 5), (5, -7)]  # update and replica; swapped; negative
    outputs = [output.numpy() for key in keys for output in run(tf.constant(key))]
    for output, other_output in itertools.combinations(outputs, 2):
        assert are_independent(output, other_output)
    assert np.mean(outputs) == pytest.approx(1.0, abs=0.02)
    np.testing.assert_array_equal(run(tf.constant((5, 7)))[0], outputs[0])
    if not options:
        np.testing.assert_array_equal(keyed_output(layers[0], 5, 7), outputs[0])
    assert run.experimental_get_tracing_count() == 1


def test_calls_without_a_mask_do_not_change_later_masks():
    """Calls with a rate of 0, and calls outside training, are not counted."""
    expected = keyed_output(Dropout(0.3), 5, 7)
    with dropout_key(tf.constant([5, 7])):
        Dropout(0.0)(SMALL_ONES, training=True)
        Dropout(0.5)(SMALL_ONES, training=False)
        np.testing.assert_array_equal(train_output(Dropout(0.3)), expected)


@pytest.mark.parametrize(
    ("dtype", "rtol"), [("float32", 1e-5), ("bfloat16", 1e-2), ("float16", 2e-3)]
)
def test_equals_the_definition(dtype, rtol):
    """Values and gradients of `dropout` with the same mask.

    The layer rounds the rate to a multiple of 2^-16, and in bfloat16 the scale to 8 bits.
    """
    x, upstream = (tf.cast(tf.random.normal((30, 40)), dtype) for _ in range(2))
    layer = Dropout(0.25, dtype=dtype)
    keep = tf.constant(keyed_output(layer, 3, 4, x=tf.ones((30, 40), dtype)) != 0)
    results = []
    for function in (lambda: layer(x, training=True), lambda: dropout(x, keep, 0.25)):
        with tf.GradientTape() as tape, dropout_key(tf.constant([3, 4])):
            tape.watch(x)
            output = function()
        results.append([output, tape.gradient(output, x, output_gradients=upstream)])
        assert output.dtype == dtype
    for value, expected in zip(*results):
        np.testing.assert_allclose(
            tf.cast(value, "float32"), tf.cast(expected, "float32"), rtol=rtol
        )


def test_nested_scopes_and_a_scope_that_ends_with_an_error():
    layer = Dropout(0.3)
    with dropout_key(tf.constant([5, 7])):
        expected = [train_output(layer) for _ in range(2)]
    with dropout_key(tf.constant([5, 7])):
        np.testing.assert_array_equal(train_output(layer), expected[0])
        with pytest.raises(KeyError), dropout_key(tf.constant([1, 1])):
            assert are_independent(train_output(layer), expected[1])
            raise KeyError
        np.testing.assert_array_equal(train_output(layer), expected[1])
    assert are_independent(train_output(layer), train_output(layer))  # outside of all scopes
