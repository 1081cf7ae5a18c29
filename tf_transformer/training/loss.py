"""The loss (Sec. 5.4) and the accuracy: sums over tokens, to be divided by their number.

Shapes: B batch, T target, V vocabulary.
"""

import tensorflow as tf

from tf_transformer.special_tokens import PAD


def label_smoothed_cross_entropy(
    tar_real: tf.Tensor, logits: tf.Tensor, label_smoothing: float = 0.1
) -> tuple[tf.Tensor, tf.Tensor]:
    """-sum_k q(k) log p(k) with q(k) = (1 - e) [k is the label] + e / V (Sec. 5.4).

    This is the definition. Training uses `kernels.cross_entropy`, which computes the same values
    and gradients from the decoder's output.

    Args:
      tar_real: label ids `[B, T]`, 0 where there is padding, which does not count.
      logits: `[B, T, V]`; the loss is computed in float32.
      label_smoothing: e = epsilon_ls, at least 0 and below 1.
    Returns: two float32 scalars: the sum over all tokens of the batch, in nats, and the number of
      tokens.
    """
    log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))  # (B, T, V)
    label_log_prob = tf.gather(log_probs, tar_real, batch_dims=2)  # (B, T)
    mean_log_prob = tf.reduce_mean(log_probs, axis=-1)  # (B, T)
    loss = -(1 - label_smoothing) * label_log_prob - label_smoothing * mean_log_prob
    mask = tf.cast(tf.math.not_equal(tar_real, PAD), tf.float32)  # (B, T)
    return tf.reduce_sum(loss * mask), tf.reduce_sum(mask)


def token_accuracy(tar_real: tf.Tensor, logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts the tokens whose label has the largest logit.

    Args:
      tar_real: label ids `[B, T]`, 0 where there is padding, which does not count.
      logits: `[B, T, V]`.
    Returns: two float32 scalars: the number of correct tokens, and the number of tokens.
    """
    predicted = tf.argmax(logits, axis=-1, output_type=tar_real.dtype)  # (B, T)
    correct = tf.cast(tf.equal(tar_real, predicted), tf.float32)  # (B, T)
    mask = tf.cast(tf.math.not_equal(tar_real, PAD), tf.float32)  # (B, T)
    return tf.reduce_sum(correct * mask), tf.reduce_sum(mask)
