"""The loss from its definition, in NumPy and float64; then the losses in chunks."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.training import loss as training_loss
from tf_transformer.training.loss import (
    chunked_gradients,
    chunked_loss_sums,
    label_smoothed_cross_entropy,
    token_accuracy,
    token_cross_entropy,
)

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
    of_tokens = -(distribution(label_smoothing) * log_softmax(logits)).sum(-1)  # (B, T)
    return (of_tokens * REAL).sum(), REAL.sum()


@pytest.fixture
def logits():
    return np.random.default_rng(1).normal(size=(*TAR_REAL.shape, V), scale=3)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("ids", [tf.int32, tf.int64])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16])
def test_equals_the_definition(logits, label_smoothing, ids, dtype):
    """Logits of low precision are summed in float32."""
    x = tf.cast(tf.constant(logits), dtype)
    loss_sum, tokens = label_smoothed_cross_entropy(tf.constant(TAR_REAL, ids), x, label_smoothing)
    assert loss_sum.dtype == tokens.dtype == tf.float32 and loss_sum.shape == tokens.shape == ()
    expected = definition(tf.cast(x, tf.float64).numpy(), label_smoothing)
    np.testing.assert_allclose((loss_sum, tokens), expected, rtol=1e-5)


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


# In chunks


D = 4
LABELS = tf.constant(TAR_REAL, tf.int32)  # 8 tokens, 4 of padding
RANDOM = np.random.default_rng(2)
X = tf.constant(RANDOM.normal(size=(3, 4, D)), tf.float32)
TABLE = tf.constant(RANDOM.normal(size=(V, D)), tf.float32)


def project(x, table):
    """The tied projection, `[..., D]` -> `[..., V]`."""
    return tf.einsum("...d,vd->...v", x, tf.cast(table, x.dtype))


@pytest.fixture(params=[1, 5, 13], ids=lambda n: f"chunks of {n}")
def chunk_tokens(request, monkeypatch):
    """Sets the size of a chunk; not all of these sizes divide the 12 positions."""
    monkeypatch.setattr(training_loss, "chunk_tokens", lambda: request.param)
    monkeypatch.setattr(training_loss, "CHUNK_MULTIPLE", 1)
    return request.param


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_cross_entropy_equals_the_definition(chunk_tokens, label_smoothing):
    with tf.GradientTape() as tape:
        tape.watch([X, TABLE])
        logits = project(X, TABLE)
        loss, tokens = label_smoothed_cross_entropy(LABELS, logits, label_smoothing)
        scaled = 0.25 * loss
    expected_gradients = tape.gradient(scaled, [X, TABLE])
    correct, _ = token_accuracy(LABELS, logits)
    unsmoothed, _ = label_smoothed_cross_entropy(LABELS, logits, 0.0)

    gradients, sums = chunked_gradients(project, [TABLE], X, LABELS, label_smoothing, 0.25)
    np.testing.assert_allclose(sums, [loss, tokens, correct, unsmoothed], rtol=1e-6)
    for gradient, expected in zip(gradients, expected_gradients):
        np.testing.assert_allclose(gradient, expected, atol=1e-6)
    without_gradient = chunked_loss_sums(project, [TABLE], X, LABELS, label_smoothing)
    np.testing.assert_allclose(without_gradient, sums, rtol=1e-6)


def test_only_one_chunk_of_logits_exists_at_a_time(chunk_tokens):
    """The projection is called for one chunk at a time, with and without gradients."""
    chunk_sizes = []

    def recording_project(x, table):
        chunk_sizes.append(x.shape[0])
        return project(x, table)

    chunked_gradients(recording_project, [TABLE], X, LABELS, 0.1, 1.0)
    chunked_loss_sums(recording_project, [TABLE], X, LABELS)
    assert max(chunk_sizes) <= chunk_tokens
    assert sum(chunk_sizes) >= 2 * 12


def test_logits_far_apart():
    """log sum exp is exact where all probabilities but the largest are 0 in float32."""
    logits = tf.constant([[500.0, -500.0, 0.0, 400.0, 0.0, 0.0, 0.0]] * 2)
    _, unsmoothed = token_cross_entropy(tf.constant([3, 1]), logits, 0.1)
    np.testing.assert_allclose(unsmoothed, [100.0, 1000.0], rtol=1e-6)
