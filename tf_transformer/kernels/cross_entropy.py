"""Cross-entropy of the output projection, computed for a chunk of tokens at a time.

The logits of a batch are its largest tensor: 25,000 tokens x 37,000 sub-words in float32 are
3.7 GB, and automatic differentiation keeps several tensors of that size. Here the logits of
`CHUNK_TOKENS` tokens exist at a time, and their gradient is computed with them. The gain is memory;
an update takes about as long either way (`benchmarks/kernels.py`).

Shapes: B batch, T target, D d_model, V vocabulary, n tokens.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tf_transformer.special_tokens import PAD

CHUNK_TOKENS = 1024  # target tokens whose logits exist at a time

Project = Callable[..., tf.Tensor]  # project(x, *weights), from `[n, D]` to `[n, V]`


def cross_entropy(
    labels: tf.Tensor, logits: tf.Tensor, label_smoothing: float = 0.0
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the loss of each token, with and without label smoothing.

    The gradient of the smoothed loss is p - q, with the predicted distribution p and the smoothed
    label q (Sec. 5.4). TensorFlow's automatic gradient takes several more passes over `[n, V]`.

    Args:
      labels: int32 `[n]`.
      logits: float32 `[n, V]`.
      label_smoothing: epsilon_ls.
    Returns: two float32 `[n]` in nats: the smoothed loss, as of
      `training.loss.label_smoothed_cross_entropy`, and -log p, which has no gradient.
    """

    @tf.custom_gradient
    def loss_of(
        logits: tf.Tensor,
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[[tf.Tensor, tf.Tensor], tf.Tensor]]:
        p = tf.nn.softmax(logits)  # (n, V)
        # log p(k) = logit(k) - log sum exp(logits). The sum comes from the most probable token,
        # whose p is never close to 0.
        best = tf.argmax(logits, axis=-1, output_type=tf.int32)  # (n)
        best_logit = tf.gather(logits, best, batch_dims=1)  # (n)
        log_sum = best_logit - tf.math.log(tf.gather(p, best, batch_dims=1))  # (n)
        mean_logit = tf.reduce_mean(logits, axis=-1)  # (n)
        label_logit = tf.gather(logits, labels, batch_dims=1)  # (n)
        smoothed = log_sum - (1 - label_smoothing) * label_logit - label_smoothing * mean_logit

        def gradient(upstream: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            upstream = upstream[:, tf.newaxis]  # (n, 1)
            uniform = label_smoothing / tf.cast(tf.shape(logits)[-1], tf.float32)
            grad_logits = (p - uniform) * upstream  # (n, V)
            index = tf.stack([tf.range(tf.size(labels)), labels], axis=1)  # (n, 2)
            grad_label = (1 - label_smoothing) * upstream[:, 0]  # (n)
            return tf.tensor_scatter_nd_sub(grad_logits, index, grad_label)

        return (smoothed, log_sum - label_logit), gradient

    return loss_of(logits)


def chunked_loss_sums(
    project: Project,
    weights: Sequence[tf.Tensor],
    x: tf.Tensor,
    tar_real: tf.Tensor,
    label_smoothing: float = 0.0,
) -> tf.Tensor:
    """Computes loss and accuracy from the decoder's output; for validation, without a gradient.

    Args:
      project: the output projection, a function `project(x, *weights)` from `[n, D]` to `[n, V]`.
      weights: a list of tensors.
      x: the decoder's output `[B, T, D]`.
      tar_real: label ids `[B, T]`, 0 where there is padding.
      label_smoothing: epsilon_ls.
    Returns: float32 `[4]`, sums over the tokens that are not padding: loss in nats, tokens,
      correct tokens, loss without smoothing.
    """

    def chunk_sums(chunk: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        x_chunk, labels = chunk
        return _sums(labels, project(x_chunk, *weights), label_smoothing)

    sums = tf.map_fn(
        chunk_sums,
        _chunks(x, tar_real),
        fn_output_signature=tf.TensorSpec([4], tf.float32),
        parallel_iterations=1,
    )  # (chunks, 4)
    return tf.reduce_sum(sums, axis=0)


def chunked_cross_entropy(
    project: Project,
    weights: Sequence[tf.Tensor],
    x: tf.Tensor,
    tar_real: tf.Tensor,
    label_smoothing: float,
    scale: tf.Tensor | float,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the same sums, and a loss that can be differentiated by `x` and the weights.

    The forward pass computes the gradients too, so that no logits are kept for the backward pass.

    Args:
      project, weights, x, tar_real, label_smoothing: as for `chunked_loss_sums`.
      scale: float32 scalar, factor on the loss: one over the number of tokens of the batch, times
        the loss scale of float16.
    Returns: the loss, float32 scalar: scale times the sum of the smoothed losses; the sums `[4]`
      of `chunked_loss_sums`, which have no gradient.
    """

    @tf.custom_gradient
    def loss_and_sums(
        x: tf.Tensor, *weights: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[[tf.Tensor, tf.Tensor], list[tf.Tensor]]]:
        sums, grad_x, grad_weights = _loss_gradients(
            project, weights, x, tar_real, label_smoothing, scale
        )

        def gradient(upstream: tf.Tensor, _: tf.Tensor) -> list[tf.Tensor]:
            return [tf.cast(upstream, g.dtype) * g for g in (grad_x, *grad_weights)]

        return (sums[0] * scale, sums), gradient

    return loss_and_sums(x, *weights)


def _loss_gradients(
    project: Project,
    weights: Sequence[tf.Tensor],
    x: tf.Tensor,
    tar_real: tf.Tensor,
    label_smoothing: float,
    scale: tf.Tensor | float,
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """The sums `[4]`, the gradient by x `[B, T, D]`, and a list of those by the weights."""
    x_chunks, label_chunks = _chunks(x, tar_real)  # (chunks, n, D), (chunks, n)
    chunks = tf.shape(x_chunks)[0]

    def add_chunk(
        i: tf.Tensor, sums: tf.Tensor, grad_x: tf.TensorArray, grad_weights: list[tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray, list[tf.Tensor]]:
        x_chunk = x_chunks[i]  # (n, D)
        with tf.GradientTape() as tape:
            tape.watch([x_chunk, *weights])
            chunk_sums = _sums(label_chunks[i], project(x_chunk, *weights), label_smoothing)
            loss = chunk_sums[0] * scale
        grad_chunk, *more = tape.gradient(loss, [x_chunk, *weights])
        grad_weights = [total + new for total, new in zip(grad_weights, more)]
        return i + 1, sums + chunk_sums, grad_x.write(i, grad_chunk), grad_weights

    first = (
        0,
        tf.zeros([4]),
        tf.TensorArray(x.dtype, chunks, element_shape=x_chunks.shape[1:]),
        [tf.zeros_like(weight) for weight in weights],
    )
    _, sums, grad_x, grad_weights = tf.while_loop(
        lambda i, *_: i < chunks, add_chunk, first, parallel_iterations=1
    )
    grad_x = tf.reshape(grad_x.stack(), [-1, x.shape[-1]])[: tf.size(tar_real)]  # (B*T, D)
    return sums, tf.reshape(grad_x, tf.shape(x)), grad_weights


def _chunks(x: tf.Tensor, tar_real: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Divides the tokens into chunks of equal size n, at most `CHUNK_TOKENS`, padded at the end.

    Returns: x `[chunks, n, D]`, labels int32 `[chunks, n]`.
    """
    tokens, width = tf.size(tar_real), x.shape[-1]
    chunks = tf.maximum(-(-tokens // CHUNK_TOKENS), 1)
    n = -(-tokens // chunks)
    padding = [[0, chunks * n - tokens]]
    x = tf.pad(tf.reshape(x, [tokens, width]), [*padding, [0, 0]])
    labels = tf.cast(tf.reshape(tar_real, [tokens]), tf.int32)
    labels = tf.pad(labels, padding, constant_values=PAD)
    return tf.reshape(x, [chunks, n, width]), tf.reshape(labels, [chunks, n])


def _sums(labels: tf.Tensor, logits: tf.Tensor, label_smoothing: float) -> tf.Tensor:
    """labels `[n]`, logits `[n, V]` -> `[4]`, as `chunked_loss_sums` returns them."""
    logits = tf.cast(logits, tf.float32)
    real = tf.cast(tf.not_equal(labels, PAD), tf.float32)  # (n)
    smoothed, unsmoothed = cross_entropy(labels, logits, label_smoothing)  # (n), (n)
    correct = tf.equal(labels, tf.argmax(logits, axis=-1, output_type=tf.int32))  # (n)
    losses = tf.reduce_sum(smoothed * real), tf.reduce_sum(unsmoothed * real)
    tokens = tf.reduce_sum(real)
    return tf.stack(
        [losses[0], tokens, tf.reduce_sum(tf.cast(correct, tf.float32) * real), losses[1]]
    )
