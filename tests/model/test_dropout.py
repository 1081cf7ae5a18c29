"""Dropout: the definition, the layer, and masks as a function of a key."""

import contextlib
import itertools
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.model.dropout import LEVELS, Dropout, dropout, dropout_key

ONES = tf.ones((200, 250))
SMALL_ONES = tf.ones((40, 50))


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
    """In a `dropout_key` scope, where the key draws the mask, and outside, as in `fit`."""
    keras.utils.set_random_seed(1)
    scope = dropout_key(tf.constant([1, 2])) if in_scope else contextlib.nullcontext()
    with scope:
        output = Dropout(rate)(ONES, training=True).numpy()
    np.testing.assert_allclose(np.mean(output == 0), rate, atol=0.01)  # 4 standard deviations
    rounding = 2 / LEVELS / (1 - rate)  # the keyed rate is a multiple of 1 / LEVELS
    np.testing.assert_allclose(output[output != 0], 1 / (1 - rate), rtol=rounding)
    np.testing.assert_allclose(output.mean(), 1, rtol=0.06)


def test_masks_of_two_calls_are_independent():
    """Two independent masks differ in a fraction 2 p (1 - p) of the values."""
    layer = Dropout(0.3)
    first = layer(ONES, training=True).numpy() == 0
    second = layer(ONES, training=True).numpy() == 0
    np.testing.assert_allclose(np.mean(first != second), 2 * 0.3 * 0.7, atol=0.05)


def train_output(layer, x=SMALL_ONES):
    """The output of the layer in training."""
    return layer(x, training=True).numpy()


def keyed_output(layer, *key, x=SMALL_ONES):
    """The output of the layer in training, in the scope of a key."""
    with dropout_key(tf.constant(key)):
        return train_output(layer, x)


def are_independent(output, other_output, rate):
    """Whether two masks differ in a fraction 2 p (1 - p) of the values."""
    different = np.mean((output == 0) != (other_output == 0))
    return np.isclose(different, 2 * rate * (1 - rate), atol=0.05)


def test_same_key_same_mask():
    np.testing.assert_array_equal(
        keyed_output(Dropout(0.3), 5, 7), keyed_output(Dropout(0.3), 5, 7)
    )


@pytest.mark.parametrize(
    "key", [(6, 7), (5, 8), (7, 5), (5, -7)], ids=["replica", "step", "swapped", "negative"]
)
def test_other_key_other_mask(key):
    layer = Dropout(0.3)
    assert are_independent(keyed_output(layer, 5, 7), keyed_output(layer, *key), 0.3)


@pytest.mark.parametrize("rate_factor", [0.0, 0.5, 1.0])
def test_rate_factor(rate_factor):
    rate = 0.4 * rate_factor
    with dropout_key(tf.constant([1, 2]), tf.constant(rate_factor)):
        output = train_output(Dropout(0.4), tf.ones((200, 250)))
    np.testing.assert_allclose(np.mean(output == 0), rate, atol=0.01)
    rounding = 2 / LEVELS / (1 - rate)
    np.testing.assert_allclose(output[output != 0], 1 / (1 - rate), rtol=rounding)


def test_each_call_in_a_scope_has_its_own_mask():
    layer1 = Dropout(0.3)
    layer2 = Dropout(0.3)
    with dropout_key(tf.constant([5, 7])):
        outputs = [train_output(layer1), train_output(layer2), train_output(layer1)]
    for output, other_output in itertools.combinations(outputs, 2):
        assert are_independent(output, other_output, 0.3)


def test_compiled_masks_are_independent():
    """XLA draws other random numbers; their masks are independent and reproducible too."""
    layers = [Dropout(0.3), Dropout(0.3)]

    @tf.function(jit_compile=True)
    def run(key):
        with dropout_key(key):
            return [layer(SMALL_ONES, training=True) for layer in layers]

    keys = [(5, 7), (5, 8), (6, 7)]
    outputs = [output.numpy() for key in keys for output in run(tf.constant(key))]
    for output, other_output in itertools.combinations(outputs, 2):
        assert are_independent(output, other_output, 0.3)
    assert np.mean(outputs) == pytest.approx(1.0, abs=0.02)
    np.testing.assert_array_equal(run(tf.constant((5, 7)))[0], outputs[0])


def test_calls_without_a_mask_do_not_change_later_masks():
    """Calls with a rate of 0, and calls outside training, are not counted."""
    expected = keyed_output(Dropout(0.3), 5, 7)
    with dropout_key(tf.constant([5, 7])):
        Dropout(0.0)(SMALL_ONES, training=True)
        Dropout(0.5)(SMALL_ONES, training=False)
        np.testing.assert_array_equal(train_output(Dropout(0.3)), expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_low_precision(dtype):
    output = keyed_output(Dropout(0.5, dtype=dtype), 1, 2, x=tf.cast(SMALL_ONES, dtype))
    assert output.dtype == dtype
    assert set(np.unique(output).astype(float)) == {0.0, 2.0}


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-5), ("bfloat16", 1e-2)])
def test_equals_the_definition(dtype, rtol):
    """Values and gradients of `dropout` with the same mask.

    The layer rounds the rate to a multiple of 2^-16, and in bfloat16 the scale to 8 bits.
    """
    x = tf.cast(tf.random.normal((30, 40)), dtype)
    upstream = tf.cast(tf.random.normal((30, 40)), dtype)
    layer = Dropout(0.25, dtype=dtype)
    with tf.GradientTape() as tape, dropout_key(tf.constant([3, 4])):
        tape.watch(x)
        output = layer(x, training=True)
    gradient = tape.gradient(output, x, output_gradients=upstream)

    keep = tf.constant(keyed_output(layer, 3, 4, x=tf.ones((30, 40), dtype)) != 0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        expected_output = dropout(x, keep, 0.25)
    expected_gradient = tape.gradient(expected_output, x, output_gradients=upstream)
    for value, expected in ((output, expected_output), (gradient, expected_gradient)):
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
            assert are_independent(train_output(layer), expected[1], 0.3)
            raise KeyError
        np.testing.assert_array_equal(train_output(layer), expected[1])
    assert are_independent(train_output(layer), train_output(layer), 0.3)


def test_key_as_argument_of_a_graph():
    """One trace serves all keys, and gives the masks of eager execution."""
    layer = Dropout(0.3)

    @tf.function
    def step(key):
        with dropout_key(key):
            return layer(SMALL_ONES, training=True), layer(SMALL_ONES, training=True)

    first, second = (output.numpy() for output in step(tf.constant([5, 7])))
    first_again, _ = step(tf.constant([5, 7]))
    other_key, _ = step(tf.constant([5, 8]))
    np.testing.assert_array_equal(first_again, first)
    np.testing.assert_array_equal(first, keyed_output(layer, 5, 7))
    assert are_independent(first, second, 0.3)
    assert are_independent(first, other_key.numpy(), 0.3)
    assert step.experimental_get_tracing_count() == 1


def test_each_thread_has_its_own_scope():
    """MirroredStrategy traces its replicas in threads."""
    layer = Dropout(0.3)
    outputs = {}
    barrier = threading.Barrier(2)

    def replica(number):
        with dropout_key(tf.constant([number, 0])):
            barrier.wait()
            outputs[number] = train_output(layer)

    threads = [threading.Thread(target=replica, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        np.testing.assert_array_equal(outputs[number], keyed_output(layer, number, 0))
