"""R-Drop (Liang et al. 2021, arXiv:2106.14448): two passes with different dropout masks.

Shapes: B batch, T target, D d_model, V vocabulary, n tokens.
"""

from collections.abc import Sequence

import tensorflow as tf

from tf_transformer.kernels.cross_entropy import Project, chunked_loss, token_losses
from tf_transformer.special_tokens import PAD


def symmetric_divergence(logits_1: tf.Tensor, logits_2: tf.Tensor) -> tf.Tensor:
    """(D(P1 || P2) + D(P2 || P1)) / 2 of two predicted distributions (Eq. 2 of the paper).

    With D(P || Q) = sum_k p(k) (log p(k) - log q(k)) this is
    sum_k (p1(k) - p2(k)) (log p1(k) - log p2(k)) / 2.

    Args:
      logits_1, logits_2: `[n, V]`; computed in float32.
    Returns: float32 `[n]`, nats. Both distributions have a gradient, as in the authors' code.
    """
    log_p1 = tf.nn.log_softmax(tf.cast(logits_1, tf.float32))  # (n, V)
    log_p2 = tf.nn.log_softmax(tf.cast(logits_2, tf.float32))  # (n, V)
    difference = (tf.exp(log_p1) - tf.exp(log_p2)) * (log_p1 - log_p2)  # (n, V)
    return tf.reduce_sum(difference, axis=-1) / 2


def chunked_r_drop(
    project: Project,
    weights: Sequence[tf.Tensor],
    x_1: tf.Tensor,
    x_2: tf.Tensor,
    tar_real: tf.Tensor,
    label_smoothing: float,
    alpha: float,
    scale: tf.Tensor | float,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The loss of R-Drop, for a chunk of tokens at a time; it can be differentiated.

    The paper's loss of a token is the sum of both cross-entropies and alpha times the symmetric
    divergence (Eq. 4). Here it is half of that,

        (CE_1 + CE_2) / 2 + alpha / 2 * (D(P1 || P2) + D(P2 || P1)) / 2

    so that alpha = 0 is the usual loss, alpha has the paper's values, and gradients have the usual
    norm. Adam does not depend on the factor. Padding does not count, as in the authors' code.

    Args:
      project, weights, tar_real, label_smoothing, scale: as for
        `cross_entropy.chunked_cross_entropy`.
      x_1, x_2: the decoder's outputs of the two passes, `[B, T, D]`.
      alpha: weight of the divergence.
    Returns: the loss, float32 scalar: the sum of scale times the losses; the sums `[4]` of
      `chunked_loss_sums`, means of both passes. The loss in them is the cross-entropy alone.
    """

    def chunk_loss(
        labels: tf.Tensor, x_1: tf.Tensor, x_2: tf.Tensor, *weights: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        logits_1, logits_2 = project(x_1, *weights), project(x_2, *weights)  # (n, V)
        losses_1, sums_1 = token_losses(labels, logits_1, label_smoothing)
        losses_2, sums_2 = token_losses(labels, logits_2, label_smoothing)
        real = tf.cast(labels != PAD, tf.float32)  # (n)
        divergence = symmetric_divergence(logits_1, logits_2) * real  # (n)
        return (losses_1 + losses_2 + alpha * divergence) / 2, (sums_1 + sums_2) / 2

    return chunked_loss(chunk_loss, weights, [x_1, x_2], tar_real, scale)
