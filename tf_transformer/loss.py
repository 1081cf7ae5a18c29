"""The loss (Sec. 5.4) and the accuracy, each as a sum over tokens and the number of tokens, to be divided once at the end."""

import tensorflow as tf

from tf_transformer.config import PAD


def label_smoothed_cross_entropy(tar_real, logits, label_smoothing=0.1):
    """-sum_k q(k) log p(k), q = (1 - e) [k is the right word] + e / V: cross-entropy with smoothed labels (Sec. 5.4).

    Args:
      tar_real: right ids `[B, T]`, 0 where there is padding (which counts nothing).
      logits: `[B, T, V]`; the loss is computed in float32.
      label_smoothing: e, at least 0 and below 1.
    Returns: float32 scalars: the sum over all tokens of the batch, in nats, and the number of tokens.
    """
    logits = tf.cast(logits, tf.float32)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(tar_real, logits)  # (B, T), of the right word
    if label_smoothing:
        # The mean over all k of -log p(k) is this loss + logit of the right word - mean logit.
        right = tf.gather(logits, tar_real, batch_dims=2)  # (B, T)
        loss += label_smoothing * (right - tf.reduce_mean(logits, axis=-1))
    real = tf.cast(tf.not_equal(tar_real, PAD), tf.float32)  # (B, T)
    return tf.reduce_sum(loss * real), tf.reduce_sum(real)


def token_accuracy(tar_real, logits):
    """How many tokens of `tar_real [B, T]` have the highest of the `logits [B, T, V]`; padding does not count.

    Returns: float32 scalars: the number of tokens that are right, and the number of tokens.
    """
    right = tf.equal(tf.cast(tar_real, tf.int32), tf.argmax(logits, axis=-1, output_type=tf.int32))  # (B, T)
    real = tf.not_equal(tar_real, PAD)
    return tf.reduce_sum(tf.cast(right & real, tf.float32)), tf.reduce_sum(tf.cast(real, tf.float32))
