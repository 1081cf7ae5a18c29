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
    words = tf.reshape(tar_real, [-1])  # (B*T)
    logits = tf.reshape(tf.cast(logits, tf.float32), [tf.size(words), -1])  # (B*T, V)
    loss = _cross_entropy(words, logits, label_smoothing)  # (B*T)
    real = tf.cast(tf.not_equal(words, PAD), tf.float32)  # (B*T)
    return tf.reduce_sum(loss * real), tf.reduce_sum(real)


def _cross_entropy(words, logits, e):
    """The loss of each of n words `[n]` under logits `[n, V]` -> `[n]`.

    Its gradient p - q is written down, because TensorFlow's own would pass over `[n, V]` some five times more.
    """

    @tf.custom_gradient
    def loss_of(logits):
        # With q = [k is right]: the loss -log p(right), and p - q.
        loss, difference = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=logits, labels=words)  # (n), (n, V)
        # The mean over all k of -log p(k) is that loss + logit of the right word - mean logit.
        smoothing = tf.gather(logits, words, batch_dims=1) - tf.reduce_mean(logits, axis=-1)  # (n)

        def gradient(upstream):
            upstream = upstream[:, tf.newaxis]  # (n, 1)
            all_words = (difference - e / tf.cast(tf.shape(logits)[-1], tf.float32)) * upstream  # (n, V)
            right_word = tf.stack([tf.range(tf.size(words)), tf.cast(words, tf.int32)], axis=1)  # (n, 2)
            return tf.tensor_scatter_nd_add(all_words, right_word, e * upstream[:, 0])

        return loss + e * smoothing, gradient

    return loss_of(logits)


def token_accuracy(tar_real, logits):
    """How many tokens of `tar_real [B, T]` have the highest of the `logits [B, T, V]`; padding does not count.

    Returns: float32 scalars: the number of tokens that are right, and the number of tokens.
    """
    right = tf.equal(tf.cast(tar_real, tf.int32), tf.argmax(logits, axis=-1, output_type=tf.int32))  # (B, T)
    real = tf.not_equal(tar_real, PAD)
    return tf.reduce_sum(tf.cast(right & real, tf.float32)), tf.reduce_sum(tf.cast(real, tf.float32))
