"""The loss (Sec. 5.4), with and without smoothed labels, and the accuracy: each a sum over tokens, to be divided by their number."""

import tensorflow as tf

from tf_transformer.config import PAD

PART_TOKENS = 1024  # target tokens whose logits are there at a time


def label_smoothed_cross_entropy(tar_real, logits, label_smoothing=0.1):
    """-sum_k q(k) log p(k), q = (1 - e) [k is the right word] + e / V: cross-entropy with smoothed labels (Sec. 5.4).

    Args:
      tar_real: right ids `[B, T]`, 0 where there is padding (which counts nothing).
      logits: `[B, T, V]`; the loss is computed in float32.
      label_smoothing: e, at least 0 and below 1.
    Returns: float32 scalars: the sum over all tokens of the batch, in nats, and the number of tokens.
    """
    loss, _, tokens = _loss_sums(tar_real, logits, label_smoothing)
    return loss, tokens


def _loss_sums(tar_real, logits, label_smoothing):
    """Sums: the loss with smoothing and without it, in nats, and the tokens."""
    words, logits = _flat(tar_real, logits)  # (B*T), (B*T, V)
    real = tf.cast(tf.not_equal(words, PAD), tf.float32)  # (B*T)
    smoothed, unsmoothed = cross_entropy(words, logits, label_smoothing)  # (B*T), (B*T)
    return tf.reduce_sum(smoothed * real), tf.reduce_sum(unsmoothed * real), tf.reduce_sum(real)


def _flat(tar_real, logits):
    words = tf.cast(tf.reshape(tar_real, [-1]), tf.int32)  # (B*T)
    return words, tf.reshape(tf.cast(logits, tf.float32), [-1, tf.shape(logits)[-1]])  # (B*T, V)


def cross_entropy(words, logits, e=0.0):
    """The loss of each of n words `[n]` under float32 logits `[n, V]` with smoothing e, and without it, which is -log p -> `[n]`, `[n]`.

    The gradient p - q of the first is written down, because TensorFlow's own would pass over `[n, V]` several times more. The second is
    for perplexities; it has no gradient.
    """

    @tf.custom_gradient
    def loss_of(logits):
        p = tf.nn.softmax(logits)  # (n, V)
        # log p(k) = logit(k) - log sum exp(logits); that sum by the likeliest word, whose p is never near 0.
        likeliest = tf.argmax(logits, axis=-1, output_type=tf.int32)  # (n)
        log_sum = tf.gather(logits, likeliest, batch_dims=1) - tf.math.log(tf.gather(p, likeliest, batch_dims=1))  # (n)
        mean, right = tf.reduce_mean(logits, axis=-1), tf.gather(logits, words, batch_dims=1)  # (n), (n)

        def gradient(upstream, _):
            upstream = upstream[:, tf.newaxis]  # (n, 1)
            all_words = (p - e / tf.cast(tf.shape(logits)[-1], tf.float32)) * upstream  # (n, V)
            right_word = tf.stack([tf.range(tf.size(words)), words], axis=1)  # (n, 2)
            return tf.tensor_scatter_nd_sub(all_words, right_word, (1 - e) * upstream[:, 0])

        return (log_sum - (1 - e) * right - e * mean, log_sum - right), gradient

    return loss_of(logits)


def token_accuracy(tar_real, logits):
    """How many tokens of `tar_real [B, T]` have the highest of the `logits [B, T, V]`; padding does not count.

    Returns: float32 scalars: the number of tokens that are right, and the number of tokens.
    """
    words, logits = _flat(tar_real, logits)  # (B*T), (B*T, V)
    right = tf.equal(words, tf.argmax(logits, axis=-1, output_type=tf.int32))  # (B*T)
    real = tf.not_equal(words, PAD)
    return tf.reduce_sum(tf.cast(right & real, tf.float32)), tf.reduce_sum(tf.cast(real, tf.float32))


def _in_parts(x, tar_real):
    """`[B, T, D]`, `[B, T]` -> parts of one size, `[parts, 1, n, D]`, `[parts, 1, n]`, n at most `PART_TOKENS`, filled up with padding."""
    tokens = tf.size(tar_real)
    parts = tf.maximum(-(-tokens // PART_TOKENS), 1)
    n = -(-tokens // parts)
    x = tf.pad(tf.reshape(x, [tokens, x.shape[-1]]), [[0, parts * n - tokens], [0, 0]])
    words = tf.pad(tf.reshape(tar_real, [tokens]), [[0, parts * n - tokens]], constant_values=PAD)
    return tf.reshape(x, [parts, 1, n, x.shape[-1]]), tf.reshape(words, [parts, 1, n])


def _sums(tar_real, logits, label_smoothing):
    """float32 `[4]`: loss in nats, tokens, right tokens, loss without smoothing."""
    loss, unsmoothed, number = _loss_sums(tar_real, logits, label_smoothing)
    return tf.stack([loss, number, token_accuracy(tar_real, logits)[0], unsmoothed])


def loss_in_parts(logits_of, x, tar_real, label_smoothing=0.0):
    """Loss and accuracy from the decoder's output, for `PART_TOKENS` tokens at a time: there are never the logits of all.

    Args:
      logits_of: the pre-softmax projection, `[1, n, D]` -> `[1, n, V]`.
      x: the decoder's output `[B, T, D]`.
      tar_real: right ids `[B, T]`.
      label_smoothing: e.
    Returns: float32 `[4]`, sums: loss in nats, tokens, right tokens, loss without smoothing.
    """
    sums = lambda part: _sums(part[1], logits_of(part[0]), label_smoothing)  # noqa: E731
    parts, signature = _in_parts(x, tar_real), tf.TensorSpec([4], tf.float32)
    parts = tf.map_fn(sums, parts, fn_output_signature=signature, parallel_iterations=1)  # (parts, 4)
    return tf.reduce_sum(parts, axis=0)


def loss_gradients_in_parts(logits_of, weights, x, tar_real, label_smoothing, factor):
    """The same, and the gradients of factor x loss.

    Args:
      logits_of, x, tar_real, label_smoothing: as for `loss_in_parts`.
      weights: the variables of `logits_of`.
      factor: float32 scalar.
    Returns: the sums `[4]`; the gradient with respect to x `[B, T, D]`; a list of those with respect to the weights.
    """
    inputs, words = _in_parts(x, tar_real)

    def add_part(i, sums, of_inputs, of_weights):
        part = inputs[i]
        with tf.GradientTape() as tape:
            tape.watch(part)
            part_sums = _sums(words[i], logits_of(part), label_smoothing)
            loss = part_sums[0] * factor
        of_part, *more = tape.gradient(loss, [part, *weights])
        return i + 1, sums + part_sums, of_inputs.write(i, of_part), [old + new for old, new in zip(of_weights, more)]

    parts = tf.shape(inputs)[0]
    of_inputs = tf.TensorArray(x.dtype, parts, element_shape=inputs.shape[1:])
    first = (0, tf.zeros([4]), of_inputs, [tf.zeros(weight.shape) for weight in weights])
    _, sums, of_inputs, of_weights = tf.while_loop(lambda i, *_: i < parts, add_part, first, parallel_iterations=1)
    of_x = tf.reshape(of_inputs.stack(), [-1, x.shape[-1]])[: tf.size(tar_real)]  # (B*T, D)
    return sums, tf.reshape(of_x, tf.shape(x)), of_weights
