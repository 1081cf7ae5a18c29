"""The chunked loss of R-Drop equals its definition."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.kernels import cross_entropy, r_drop
from tf_transformer.training.loss import label_smoothed_cross_entropy

V, D = 7, 4
LABELS = tf.constant([[3, 6, 5, 0], [1, 0, 0, 0], [1, 2, 3, 4]])  # 8 tokens, 4 of padding
RANDOM = np.random.default_rng(2)
X_1, X_2 = tf.unstack(tf.constant(RANDOM.normal(size=(2, 3, 4, D)), tf.float32))
TABLE = tf.constant(RANDOM.normal(size=(V, D)), tf.float32)
ALPHA, SCALE = 5.0, 0.25


def project(x, table):
    """The tied projection, `[..., D]` -> `[..., V]`."""
    return tf.einsum("...d,vd->...v", x, table)


def definition(x_1, x_2, table):
    """Half of the paper's Eq. 4, summed over the tokens, times `SCALE`."""
    logits = project(x_1, table), project(x_2, table)
    losses = [label_smoothed_cross_entropy(LABELS, side, 0.1)[0] for side in logits]
    p, q = (tf.nn.softmax(side) for side in logits)
    kl = tf.keras.losses.KLDivergence(reduction="none")
    divergence = (kl(p, q) + kl(q, p)) / 2  # (B, T)
    real = tf.cast(LABELS != 0, tf.float32)
    return SCALE / 2 * (losses[0] + losses[1] + ALPHA * tf.reduce_sum(divergence * real)), losses


@pytest.mark.parametrize("chunk_tokens", [1, 5, 12])
def test_equals_the_definition(monkeypatch, chunk_tokens):
    monkeypatch.setattr(cross_entropy, "CHUNK_TOKENS", chunk_tokens)
    with tf.GradientTape() as tape:
        tape.watch([X_1, X_2, TABLE])
        expected, losses = definition(X_1, X_2, TABLE)
    expected_gradients = tape.gradient(expected, [X_1, X_2, TABLE])
    with tf.GradientTape() as tape:
        tape.watch([X_1, X_2, TABLE])
        loss, sums = r_drop.chunked_r_drop(project, [TABLE], X_1, X_2, LABELS, 0.1, ALPHA, SCALE)
    gradients = tape.gradient(loss, [X_1, X_2, TABLE])
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(sums[:2], [(losses[0] + losses[1]) / 2, 8], rtol=1e-6)
    for gradient, expected_gradient in zip(gradients, expected_gradients):
        np.testing.assert_allclose(gradient, expected_gradient, atol=1e-5)


def test_equal_passes_have_the_usual_loss():
    """Without dropout the divergence is 0."""
    arguments = (LABELS, 0.1, ALPHA, SCALE)
    loss, sums = r_drop.chunked_r_drop(project, [TABLE], X_1, X_1, *arguments)
    usual = cross_entropy.chunked_cross_entropy(project, [TABLE], X_1, LABELS, 0.1, SCALE)
    np.testing.assert_allclose(loss, usual[0], rtol=1e-6)
    np.testing.assert_allclose(sums, usual[1], rtol=1e-6)


def test_divergence_by_hand():
    """P = (3/4, 1/4), Q = (1/4, 3/4): D(P || Q) = D(Q || P) = log(3) / 2."""
    p, q = np.log([[0.75, 0.25]]), np.log([[0.25, 0.75]])
    np.testing.assert_allclose(r_drop.symmetric_divergence(p, q), [np.log(3) / 2], rtol=1e-6)
