"""The loss from its definition, in NumPy and float64."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.training.loss import label_smoothed_cross_entropy, token_accuracy

V = 7
TAR_REAL = np.array([[3, 6, 1, 0], [5, 0, 0, 0], [1, 2, 3, 4]])
REAL = (TAR_REAL != 0).astype(np.float64)


def distribution(label_smoothing):
    """q(k) = (1 - e) [k is the right word] + e / V, (B, T, V)."""
    return (1 - label_smoothing) * np.eye(V)[TAR_REAL] + label_smoothing / V


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def definition(logits, label_smoothing):
    cross_entropy = -(distribution(label_smoothing) * log_softmax(logits)).sum(-1)  # (B, T)
    return (cross_entropy * REAL).sum(), REAL.sum()


@pytest.fixture
def logits():
    return np.random.default_rng(1).normal(size=(*TAR_REAL.shape, V), scale=3)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("ids", [tf.int32, tf.int64])
def test_equals_the_definition(logits, label_smoothing, ids):
    loss_sum, tokens = label_smoothed_cross_entropy(
        tf.constant(TAR_REAL, ids), tf.constant(logits, tf.float32), label_smoothing
    )
    assert loss_sum.dtype == tokens.dtype == tf.float32 and loss_sum.shape == tokens.shape == ()
    np.testing.assert_allclose((loss_sum, tokens), definition(logits, label_smoothing), rtol=1e-5)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_low_precision_logits_are_summed_in_float32(logits, dtype):
    rounded = tf.cast(tf.constant(logits), dtype)
    result = label_smoothed_cross_entropy(tf.constant(TAR_REAL), rounded)
    assert result[0].dtype == tf.float32
    np.testing.assert_allclose(
        result, definition(tf.cast(rounded, tf.float64).numpy(), 0.1), rtol=1e-5
    )


@pytest.mark.parametrize("label_smoothing", [0.0, 0.5])
def test_gradient_is_softmax_minus_q(logits, label_smoothing):
    x = tf.constant(logits, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss_sum, _ = label_smoothed_cross_entropy(tf.constant(TAR_REAL), x, label_smoothing)
    expected = (np.exp(log_softmax(logits)) - distribution(label_smoothing)) * REAL[..., np.newaxis]
    np.testing.assert_allclose(tape.gradient(loss_sum, x), expected, atol=1e-5)


def test_least_loss_is_the_entropy_of_the_smoothed_labels():
    """Reached where the model says q itself: with smoothing, certainty is punished."""
    q = distribution(0.1)
    loss_sum, tokens = label_smoothed_cross_entropy(
        tf.constant(TAR_REAL), tf.constant(np.log(q), tf.float32), 0.1
    )
    entropy = -(0.9 + 0.1 / V) * np.log(0.9 + 0.1 / V) - (V - 1) * (0.1 / V) * np.log(0.1 / V)
    np.testing.assert_allclose(loss_sum / tokens, entropy, rtol=1e-5)
    certain, _ = label_smoothed_cross_entropy(
        tf.constant(TAR_REAL), tf.constant(100 * np.eye(V)[TAR_REAL], tf.float32), 0.1
    )
    assert certain > loss_sum


def test_default_smoothing_is_the_papers(logits):
    labels, x = tf.constant(TAR_REAL), tf.constant(logits, tf.float32)
    default, _ = label_smoothed_cross_entropy(labels, x)
    assert default == label_smoothed_cross_entropy(labels, x, 0.1)[0]


def test_padding_counts_nothing(logits):
    changed = logits + 50 * (1 - REAL[..., np.newaxis]) * np.arange(V)
    one, other = (
        label_smoothed_cross_entropy(tf.constant(TAR_REAL), tf.constant(x, tf.float32))
        for x in (logits, changed)
    )
    np.testing.assert_array_equal(one, other)


def test_all_padding_is_nothing_and_finite(logits):
    x = tf.constant(logits, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = label_smoothed_cross_entropy(tf.zeros((3, 4), tf.int32), x)
    np.testing.assert_array_equal(result, (0, 0))
    np.testing.assert_array_equal(tape.gradient(result[0], x), np.zeros_like(logits))
    np.testing.assert_array_equal(token_accuracy(tf.zeros((3, 4), tf.int32), x), (0, 0))


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("ids", [tf.int32, tf.int64])
def test_token_accuracy_by_hand(dtype, ids):
    # Wrong: (0, 2), (1, 0), (2, 2); padding: (0, 3), (1, 1:).
    said = np.array([[3, 6, 2, 0], [4, 0, 1, 1], [1, 2, 0, 4]])
    right, tokens = token_accuracy(tf.constant(TAR_REAL, ids), tf.constant(np.eye(V)[said], dtype))
    assert right.dtype == tokens.dtype == tf.float32
    assert (float(right), float(tokens)) == (5, 8)
