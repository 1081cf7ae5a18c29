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
ChunkLoss = Callable[..., tuple[tf.Tensor, tf.Tensor]]  # as for `chunked_loss`


def cross_entropy(
    labels: tf.Tensor, logits: tf.Tensor, label_smoothing: float = 0.0
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the loss of each token, with and without label smoothing.

    The gradient of the smoothed loss is p - q, with the predicted distribution p and the smoothed
    label q (Sec. 5.4). TensorFlow's automatic gradient takes several more passes over `[n, V]`.

    Args:
      labels: int64 `[n]`.
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
        best = tf.argmax(logits, axis=-1)  # (n)
        best_logit = tf.gather(logits, best, batch_dims=1)  # (n)
        log_sum = best_logit - tf.math.log(tf.gather(p, best, batch_dims=1))  # (n)
        mean_logit = tf.reduce_mean(logits, axis=-1)  # (n)
        label_logit = tf.gather(logits, labels, batch_dims=1)  # (n)
        smoothed = log_sum - (1 - label_smoothing) * label_logit - label_smoothing * mean_logit

        def gradient(upstream: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            upstream = upstream[:, tf.newaxis]  # (n, 1)
            uniform = label_smoothing / tf.cast(tf.shape(logits)[-1], tf.float32)
            grad_logits = (p - uniform) * upstream  # (n, V)
            rows = tf.cast(tf.range(tf.size(labels)), tf.int64)  # (n)
            index = tf.stack([rows, labels], axis=1)  # (n, 2)
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
        _, sums = token_losses(labels, project(x_chunk, *weights), label_smoothing)
        return sums

    sums = tf.map_fn(
        chunk_sums,
        (_chunks(x), _label_chunks(tar_real)),
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
        the loss scale of float16; or float32 `[B]`, such a factor for each pair.
    Returns: the loss, float32 scalar: the sum of scale times the smoothed losses; the sums `[4]`
      of `chunked_loss_sums`, without the scale and without a gradient.
    """

    def chunk_loss(
        labels: tf.Tensor, x: tf.Tensor, *weights: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return token_losses(labels, project(x, *weights), label_smoothing)

    return chunked_loss(chunk_loss, weights, [x], tar_real, scale)


def chunked_loss(
    chunk_loss: ChunkLoss,
    weights: Sequence[tf.Tensor],
    xs: Sequence[tf.Tensor],
    tar_real: tf.Tensor,
    scale: tf.Tensor | float,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Adds up a loss over the chunks, and computes its gradients in the forward pass.

    Args:
      chunk_loss: a function `chunk_loss(labels, *x_chunks, *weights)` of labels int64 `[n]` and
        chunks `[n, D]`, which returns the losses `[n]` of these tokens and their sums `[4]`.
      weights: a list of tensors.
      xs: outputs of the decoder for the same labels, each `[B, T, D]`.
      tar_real: label ids `[B, T]`, 0 where there is padding.
      scale: factor on the losses, as for `chunked_cross_entropy`.
    Returns: the loss, which can be differentiated by `xs` and the weights; the sums `[4]`, which
      have no gradient.
    """
    scales = tf.reshape(tf.convert_to_tensor(scale), [-1, 1])  # (1, 1) or (B, 1)
    scales = tf.broadcast_to(scales, tf.shape(tar_real))  # (B, T)

    @tf.custom_gradient
    def loss_and_sums(
        *tensors: tf.Tensor,
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[[tf.Tensor, tf.Tensor], list[tf.Tensor]]]:
        xs, weights = tensors[:number], tensors[number:]
        loss, sums, gradients = _loss_gradients(chunk_loss, weights, xs, tar_real, scales)

        def gradient(upstream: tf.Tensor, _: tf.Tensor) -> list[tf.Tensor]:
            return [tf.cast(upstream, g.dtype) * g for g in gradients]

        return (loss, sums), gradient

    number = len(xs)
    return loss_and_sums(*xs, *weights)


def _loss_gradients(
    chunk_loss: ChunkLoss,
    weights: Sequence[tf.Tensor],
    xs: Sequence[tf.Tensor],
    tar_real: tf.Tensor,
    scales: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """The loss, the sums `[4]`, and the gradients by each of `xs` `[B, T, D]` and the weights."""
    x_chunks = [_chunks(x) for x in xs]  # (chunks, n, D)
    label_chunks = _label_chunks(tar_real)  # (chunks, n)
    scale_chunks = _chunks(scales[..., tf.newaxis])[..., 0]  # (chunks, n)
    chunks = tf.shape(label_chunks)[0]

    def add_chunk(
        i: tf.Tensor, loss: tf.Tensor, sums: tf.Tensor, grad_xs: list[tf.TensorArray],
        grad_weights: list[tf.Tensor],
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, list[tf.TensorArray], list[tf.Tensor]]:  # fmt: skip
        tensors = [*(chunk[i] for chunk in x_chunks), *weights]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            losses, new_sums = chunk_loss(label_chunks[i], *tensors)
            new_loss = tf.reduce_sum(losses * scale_chunks[i])
        gradients = tape.gradient(new_loss, tensors)
        grad_xs = [array.write(i, new) for array, new in zip(grad_xs, gradients)]
        new_weights = gradients[len(xs) :]
        grad_weights = [total + new for total, new in zip(grad_weights, new_weights)]
        return i + 1, loss + new_loss, sums + new_sums, grad_xs, grad_weights

    first = (
        0,
        tf.zeros([]),
        tf.zeros([4]),
        [tf.TensorArray(x.dtype, chunks, element_shape=x.shape[1:]) for x in x_chunks],
        [tf.zeros_like(weight) for weight in weights],
    )
    _, loss, sums, grad_xs, grad_weights = tf.while_loop(
        lambda i, *_: i < chunks, add_chunk, first, parallel_iterations=1
    )
    gradients = [
        tf.reshape(tf.reshape(g.stack(), [-1, x.shape[-1]])[: tf.size(tar_real)], tf.shape(x))
        for g, x in zip(grad_xs, xs)
    ]  # (B, T, D)
    return loss, sums, [*gradients, *grad_weights]


def _chunks(x: tf.Tensor) -> tf.Tensor:
    """Divides the tokens into chunks of equal size n, at most `CHUNK_TOKENS`, padded at the end.

    Args:
      x: `[B, T, D]`.
    Returns: `[chunks, n, D]`.
    """
    width = x.shape[-1]
    tokens = tf.size(x) // width
    chunks = tf.maximum(-(-tokens // CHUNK_TOKENS), 1)
    n = -(-tokens // chunks)
    x = tf.pad(tf.reshape(x, [tokens, width]), [[0, chunks * n - tokens], [0, 0]])
    return tf.reshape(x, [chunks, n, width])


def _label_chunks(tar_real: tf.Tensor) -> tf.Tensor:
    """The same for labels: `[B, T]` -> int64 `[chunks, n]`; the id of padding is 0."""
    # TensorFlow compares int64 on a GPU, and int32 on the host.
    return tf.cast(_chunks(tar_real[..., tf.newaxis])[..., 0], tf.int64)


def token_losses(
    labels: tf.Tensor, logits: tf.Tensor, label_smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """The loss of each token, 0 for padding, and the sums of `chunked_loss_sums`.

    Args:
      labels: int64 `[n]`.
      logits: `[n, V]`.
      label_smoothing: epsilon_ls.
    Returns: float32 `[n]` and `[4]`.
    """
    logits = tf.cast(logits, tf.float32)
    real = tf.cast(tf.not_equal(labels, PAD), tf.float32)  # (n)
    smoothed, unsmoothed = cross_entropy(labels, logits, label_smoothing)  # (n), (n)
    correct = tf.equal(labels, tf.argmax(logits, axis=-1))  # (n)
    losses = smoothed * real  # (n)
    of_tokens = [losses, real, tf.cast(correct, tf.float32) * real, unsmoothed * real]
    return losses, tf.stack([tf.reduce_sum(values) for values in of_tokens])
