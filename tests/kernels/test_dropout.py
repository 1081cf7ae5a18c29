"""Dropout whose masks follow from a key."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.kernels.dropout import LEVELS, dropout_key
from tf_transformer.model.dropout import Dropout, dropout
from tf_transformer.model.layers import EncoderLayer

ONES = tf.ones((40, 50))


def dropped(layer, *key, x=ONES):
    """What the layer makes of ones, in training, in the scope of a key."""
    with dropout_key(tf.constant(key)):
        return layer(x, training=True).numpy()


def differ(one, other, rate):
    """Independent masks differ in a share 2 p (1 - p) of their places."""
    return np.isclose(np.mean((one == 0) != (other == 0)), 2 * rate * (1 - rate), atol=0.05)


def test_same_key_same_mask():
    np.testing.assert_array_equal(dropped(Dropout(0.3), 5, 7), dropped(Dropout(0.3), 5, 7))


@pytest.mark.parametrize(
    "key", [(6, 7), (5, 8), (7, 5), (5, -7)], ids=["replica", "step", "swapped", "negative"]
)
def test_other_key_other_mask(key):
    layer = Dropout(0.3)
    assert differ(dropped(layer, 5, 7), dropped(layer, *key), 0.3)


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_strength_is_a_factor_on_the_rate(strength):
    with dropout_key(tf.constant([1, 2]), tf.constant(strength)):
        output = Dropout(0.4)(tf.ones((200, 250)), training=True).numpy()
    np.testing.assert_allclose(np.mean(output == 0), 0.4 * strength, atol=0.01)
    np.testing.assert_allclose(
        output[output != 0], 1 / (1 - 0.4 * strength), rtol=2 / LEVELS / (1 - 0.4 * strength)
    )


def test_each_place_in_the_program_has_its_own_mask():
    one, other = Dropout(0.3), Dropout(0.3)
    with dropout_key(tf.constant([5, 7])):
        masks = [
            one(ONES, training=True).numpy(),
            other(ONES, training=True).numpy(),
            one(ONES, training=True).numpy(),
        ]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert differ(masks[a], masks[b], 0.3)


def test_compiled_masks_are_independent_too():
    """XLA draws other numbers, of which the same holds."""
    layers = Dropout(0.3), Dropout(0.3)

    @tf.function(jit_compile=True)
    def run(key):
        with dropout_key(key):
            return [layer(ONES, training=True) for layer in layers]

    masks = [mask.numpy() for key in ((5, 7), (5, 8), (6, 7)) for mask in run(tf.constant(key))]
    for a, b in itertools.combinations(masks, 2):
        assert differ(a, b, 0.3)
    assert np.mean(masks) == pytest.approx(1.0, abs=0.02)
    np.testing.assert_array_equal(run(tf.constant((5, 7)))[0], masks[0])


def test_layers_that_draw_nothing_do_not_shift_the_others():
    """A rate of 0, and inference, take no key."""
    expected = dropped(Dropout(0.3), 5, 7)
    with dropout_key(tf.constant([5, 7])):
        Dropout(0.0)(ONES, training=True)
        Dropout(0.5)(ONES, training=False)
        np.testing.assert_array_equal(Dropout(0.3)(ONES, training=True), expected)


@pytest.mark.parametrize("scope", [True, False])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_share_and_scale(rate, scope):
    keras.utils.set_random_seed(1)
    x = tf.ones((200, 250))
    output = dropped(Dropout(rate), 1, 2, x=x) if scope else Dropout(rate)(x, training=True).numpy()
    np.testing.assert_allclose(np.mean(output == 0), rate, atol=0.01)  # 4 standard deviations
    np.testing.assert_allclose(
        output[output != 0], 1 / (1 - rate), rtol=2 / LEVELS / (1 - rate)
    )  # the rate is a multiple of 1 / LEVELS
    np.testing.assert_allclose(output.mean(), 1, rtol=0.06)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_low_precision(dtype):
    output = dropped(Dropout(0.5, dtype=dtype), 1, 2, x=tf.cast(ONES, dtype))
    assert output.dtype == dtype and set(np.unique(output).astype(float)) == {0.0, 2.0}


def test_identity_outside_training():
    x = tf.random.normal((3, 4))
    for layer in (Dropout(0.5), Dropout(0.0)):
        np.testing.assert_array_equal(layer(x), x)
        np.testing.assert_array_equal(layer(x, training=False), x)
        with dropout_key(tf.constant([1, 2])):
            np.testing.assert_array_equal(layer(x), x)
    np.testing.assert_array_equal(Dropout(0.0)(x, training=True), x)


def test_without_a_scope_each_call_differs():
    layer = Dropout(0.3)
    assert differ(layer(ONES, training=True).numpy(), layer(ONES, training=True).numpy(), 0.3)


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-5), ("bfloat16", 1e-2)])
def test_equals_the_definition(dtype, rtol):
    """Values and gradients of `model.dropout.dropout` with the same mask.

    The kernel rounds the rate to a multiple of 2^-16, and in bfloat16 the scale to 8 bits.
    """
    x = tf.cast(tf.random.normal((30, 40)), dtype)
    upstream = tf.cast(tf.random.normal((30, 40)), dtype)
    layer = Dropout(0.25, dtype=dtype)
    with tf.GradientTape() as tape, dropout_key(tf.constant([3, 4])):
        tape.watch(x)
        output = layer(x, training=True)
    gradient = tape.gradient(output, x, output_gradients=upstream)
    keep = tf.constant(dropped(layer, 3, 4, x=tf.ones((30, 40), dtype)) != 0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        expected = dropout(x, keep, 0.25)
    expected_gradient = tape.gradient(expected, x, output_gradients=upstream)
    for found, right in ((output, expected), (gradient, expected_gradient)):
        np.testing.assert_allclose(tf.cast(found, "float32"), tf.cast(right, "float32"), rtol=rtol)


def test_gradient_passes_where_the_value_does():
    x = tf.Variable(ONES)
    with tf.GradientTape() as tape, dropout_key(tf.constant([1, 2])):
        output = Dropout(0.3)(x, training=True)
    np.testing.assert_array_equal(tape.gradient(output, x), output)


def test_scopes_nest_and_end_also_after_an_error():
    layer = Dropout(0.3)
    with dropout_key(tf.constant([5, 7])):
        outer = [layer(ONES, training=True).numpy() for _ in range(2)]
    with dropout_key(tf.constant([5, 7])):
        np.testing.assert_array_equal(layer(ONES, training=True), outer[0])
        with pytest.raises(KeyError), dropout_key(tf.constant([1, 1])):
            assert differ(layer(ONES, training=True).numpy(), outer[1], 0.3)
            raise KeyError
        np.testing.assert_array_equal(layer(ONES, training=True), outer[1])
    assert differ(layer(ONES, training=True).numpy(), layer(ONES, training=True).numpy(), 0.3)


def test_inside_a_graph_the_mask_follows_the_key_argument():
    layer = Dropout(0.3)

    @tf.function
    def step(key):
        with dropout_key(key):
            return layer(ONES, training=True), layer(ONES, training=True)

    first, second = (x.numpy() for x in step(tf.constant([5, 7])))
    again, _ = step(tf.constant([5, 7]))
    other, _ = step(tf.constant([5, 8]))
    np.testing.assert_array_equal(again, first)
    np.testing.assert_array_equal(
        first, dropped(layer, 5, 7)
    )  # the graph and eager execution agree
    assert differ(first, second, 0.3) and differ(first, other.numpy(), 0.3)
    assert step.experimental_get_tracing_count() == 1


def test_a_whole_layer_is_a_function_of_the_key():
    keras.utils.set_random_seed(1)
    layer, x = EncoderLayer(8, 2, 16, rate=0.3), tf.random.normal((2, 5, 8))
    one, other = dropped(layer, 1, 2, x=x), dropped(layer, 1, 3, x=x)
    np.testing.assert_array_equal(dropped(layer, 1, 2, x=x), one)
    assert not np.allclose(one, other)


def test_scope_of_one_thread_is_not_seen_by_another():
    """MirroredStrategy traces its replicas in threads."""
    import threading

    layer, found = Dropout(0.3), {}

    def replica(number):
        with dropout_key(tf.constant([number, 0])):
            barrier.wait()
            found[number] = layer(ONES, training=True).numpy()

    barrier = threading.Barrier(2)
    threads = [threading.Thread(target=replica, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        np.testing.assert_array_equal(found[number], dropped(layer, number, 0))
