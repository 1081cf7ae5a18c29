"""The loss (Sec. 5.4) and the accuracy: sums over tokens, to be divided by their number.

The definitions come first. Training computes the same values and gradients from the decoder's
output, for a chunk of tokens at a time (`chunked_gradients`). The logits of a batch are its largest
tensor: 25,000 tokens x 37,000 sub-words in float32 are 3.7 GB, and automatic differentiation keeps
several tensors of that size. Here the logits of `chunk_tokens()` tokens exist at a time, and their
gradient is computed with them. The gain is memory; an update takes about as long either way
(`benchmarks/kernels.py`).

Shapes: B batch, T target, D d_model, V vocabulary, n tokens.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tf_transformer.model.keras_compat import refuse_ragged, serializable
from tf_transformer.special_tokens import PAD

CHUNK_TOKENS, GPU_CHUNK_TOKENS = 1024, 4096  # target tokens whose logits exist at a time
CHUNK_MULTIPLE = 16  # XLA pads the rows of a product in bfloat16 to a multiple of this

Project = Callable[..., tf.Tensor]  # project(x, *weights), from `[n, D]` to `[n, V]`


class TokenSums(NamedTuple):
    """A sum over the tokens of a batch, and their number: float32 scalars.

    It is no tensor, so that a function which returns it cannot be a loss or a metric of `compile`.
    """

    total: tf.Tensor
    tokens: tf.Tensor

    def __tf_tensor__(self, dtype: Any = None, name: Any = None) -> tf.Tensor:
        """Raises: TypeError."""
        raise TypeError(
            "this function returns a sum and a number of tokens: give `compile` "
            "loss=LabelSmoothedCrossEntropy() and metrics=[TokenAccuracy()] of tf_transformer"
        )


def label_smoothed_cross_entropy(
    tar_real: tf.Tensor, logits: tf.Tensor, label_smoothing: float = 0.1
) -> TokenSums:
    """-sum_k q(k) log p(k) with q(k) = (1 - e) [k is the label] + e / V (Sec. 5.4).

    Training uses `chunked_gradients`, and the loss for `compile` is `LabelSmoothedCrossEntropy`.

    Args:
      tar_real: label ids `[B, T]`, 0 where there is padding, which does not count.
      logits: `[B, T, V]`; the loss is computed in float32.
      label_smoothing: e = epsilon_ls, at least 0 and below 1.
    Returns: the sum over all tokens of the batch, in nats, and the number of tokens.
    """
    refuse_ragged(tar_real, logits)
    tar_real = tf.cast(tar_real, tf.int64)
    log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))  # (B, T, V)
    label_log_prob = tf.gather(log_probs, tar_real, batch_dims=2)  # (B, T)
    mean_log_prob = tf.reduce_mean(log_probs, axis=-1)  # (B, T)
    loss = -(1 - label_smoothing) * label_log_prob - label_smoothing * mean_log_prob
    mask = tf.cast(tf.math.not_equal(tar_real, PAD), tf.float32)  # (B, T)
    return TokenSums(tf.reduce_sum(loss * mask), tf.reduce_sum(mask))


def token_accuracy(tar_real: tf.Tensor, logits: tf.Tensor) -> TokenSums:
    """Counts the tokens whose label has the largest logit; for `compile` use `TokenAccuracy`.

    Args:
      tar_real, logits: as for `label_smoothed_cross_entropy`.
    Returns: the number of correct tokens, and the number of tokens.
    """
    refuse_ragged(tar_real, logits)
    tar_real = tf.cast(tar_real, tf.int64)
    correct = tf.cast(tf.equal(tar_real, tf.argmax(logits, axis=-1)), tf.float32)  # (B, T)
    mask = tf.cast(tf.math.not_equal(tar_real, PAD), tf.float32)  # (B, T)
    return TokenSums(tf.reduce_sum(correct * mask), tf.reduce_sum(mask))


@serializable
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """`label_smoothed_cross_entropy` for `compile`: its mean over the tokens of all replicas.

    Args:
      label_smoothing: e = epsilon_ls, at least 0 and below 1.
      reduction: None; the mean over the tokens is the only one.
    Raises: ValueError for another value of one of these.
    """

    def __init__(
        self, label_smoothing: float = 0.1, name: str = "label_smoothed_cross_entropy",
        reduction: None = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing {label_smoothing}: give at least 0 and less than 1")
        if reduction is not None:
            raise ValueError(
                f"reduction {reduction!r}: this loss is a mean over tokens. "
                "`label_smoothed_cross_entropy` has their sum and number"
            )
        super().__init__(name, "sum", dtype)  # over losses / tokens
        self.label_smoothing = label_smoothing

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        """As of the base class; weights are `[B]` or `[B, T]`, and do not change the divisor."""
        refuse_ragged(y_true, y_pred)
        return super().__call__(y_true, y_pred, _token_weights(sample_weight))

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Label ids `[B, T]`, 0 for padding, logits `[B, T, V]` -> `[B, T]`, to be summed."""
        labels = tf.cast(y_true, tf.int64)  # (B, T)
        logits = tf.reshape(tf.cast(y_pred, tf.float32), (-1, y_pred.shape[-1]))  # (B * T, V)
        smoothed, _ = token_cross_entropy(tf.reshape(labels, [-1]), logits, self.label_smoothing)
        losses = tf.reshape(smoothed, tf.shape(labels))  # (B, T)
        mask = tf.cast(tf.math.not_equal(labels, PAD), tf.float32)  # (B, T)
        tokens = tf.reduce_sum(mask)
        context = tf.distribute.get_replica_context()
        if context and context.num_replicas_in_sync > 1:  # the gradients of all are summed
            tokens = context.all_reduce(tf.distribute.ReduceOp.SUM, tokens)
        return losses * mask / tf.maximum(tokens, 1.0)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"name": self.name, "dtype": self.dtype, "label_smoothing": self.label_smoothing}


@serializable
class TokenAccuracy(keras.metrics.Mean):
    """`token_accuracy` for `compile`: the fraction of all tokens."""

    def __init__(self, name: str = "token_accuracy", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def update_state(
        self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> None:
        """Counts the tokens of a batch: label ids `[B, T]`, 0 for padding, logits `[B, T, V]`."""
        refuse_ragged(y_true, y_pred)
        labels = tf.cast(y_true, tf.int64)
        mask = tf.cast(tf.math.not_equal(labels, PAD), tf.float32)  # (B, T)
        if sample_weight is not None:
            mask *= _token_weights(sample_weight)
        super().update_state(tf.equal(labels, tf.argmax(y_pred, axis=-1)), mask)


def _token_weights(sample_weight: Any) -> tf.Tensor | None:
    """Weights `[B]` or `[B, T]`, or None -> `[B, 1]` or `[B, T]`, or None."""
    if sample_weight is None:
        return None
    weights = tf.cast(sample_weight, tf.float32)
    return weights if weights.shape.rank == 2 else weights[:, tf.newaxis]


def token_cross_entropy(
    labels: tf.Tensor, logits: tf.Tensor, label_smoothing: float = 0.0
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the loss of each token, with and without label smoothing, as training uses it.

    The gradient of the smoothed loss is p - q, with the predicted distribution p and the smoothed
    label q (Sec. 5.4). TensorFlow's automatic gradient takes several more passes over `[n, V]`:
    projection and loss of base then take 1.2 times as long on a CPU.

    Args:
      labels: int64 `[n]`.
      logits: float32 `[n, V]`.
    Returns: two float32 `[n]` in nats: the smoothed loss, and -log p, which has no gradient.
    """

    @tf.custom_gradient
    def losses(logits: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[..., tf.Tensor]]:
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
            size = tf.shape(logits)[-1]
            uniform = label_smoothing / tf.cast(size, tf.float32)
            q = tf.one_hot(labels, size, 1 - label_smoothing + uniform, uniform)  # (n, V)
            return (p - q) * upstream[:, tf.newaxis]  # (n, V)

        return (smoothed, log_sum - label_logit), gradient

    return losses(logits)


def token_losses(
    labels: tf.Tensor, logits: tf.Tensor, label_smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """The loss of each token, 0 for padding, and the sums of `chunked_loss_sums`.

    Arguments are as for `token_cross_entropy`, with logits of any type. Returns: `[n]` and `[4]`.
    """
    logits = tf.cast(logits, tf.float32)
    real = tf.cast(tf.not_equal(labels, PAD), tf.float32)  # (n)
    smoothed, unsmoothed = token_cross_entropy(labels, logits, label_smoothing)  # (n), (n)
    correct = tf.cast(tf.equal(labels, tf.argmax(logits, axis=-1)), tf.float32)  # (n)
    losses = smoothed * real  # (n)
    of_tokens = [losses, real, correct * real, unsmoothed * real]
    return losses, tf.stack([tf.reduce_sum(values) for values in of_tokens])


def chunked_loss_sums(
    project: Project,
    weights: Sequence[tf.Tensor],
    x: tf.Tensor,
    tar_real: tf.Tensor,
    label_smoothing: float = 0.0,
) -> tf.Tensor:
    """Computes loss and accuracy from the decoder's output; for validation, without a gradient.

    Args:
      project, weights: the output projection.
      x: the decoder's output `[B, T, D]`.
      tar_real: label ids `[B, T]`, 0 where there is padding.
    Returns: float32 `[4]`, sums over the tokens that are not padding: loss in nats, tokens,
      correct tokens, loss without smoothing.
    """
    sums = tf.map_fn(
        lambda chunk: token_losses(chunk[1], project(chunk[0], *weights), label_smoothing)[1],
        (_chunks(x), tf.cast(_chunks(tar_real), tf.int64)),
        fn_output_signature=tf.TensorSpec([4], tf.float32),
        parallel_iterations=1,
    )  # (chunks, 4)
    return tf.reduce_sum(sums, axis=0)


def chunked_gradients(
    project: Project,
    weights: Sequence[tf.Tensor],
    x: tf.Tensor,
    tar_real: tf.Tensor,
    label_smoothing: float,
    scale: tf.Tensor | float,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Computes the sums of `chunked_loss_sums`, and the gradients of the loss, chunk by chunk.

    Args:
      project, weights, x, tar_real: as for `chunked_loss_sums`.
      scale: float32 scalar, factor on the loss: one over the number of tokens of the batch, times
        the loss scale of float16; or float32 `[B]`, such a factor for each pair.
    Returns: the gradients of the sum of scale times the losses by `x`, in its type, and by each of
      the weights, float32; the sums `[4]`, without the scale.
    """
    # TensorFlow compares int64 on a GPU, and int32 on the host.
    xs, labels = _chunks(x), tf.cast(_chunks(tar_real), tf.int64)  # (chunks, n, D), (chunks, n)
    scales = _chunks(tf.broadcast_to(tf.reshape(scale, [-1, 1]), tf.shape(tar_real)))  # (chunks, n)
    weights = [tf.cast(weight, x.dtype) for weight in weights]  # once, and not in each chunk

    def add_chunk(i: tf.Tensor, grad_xs: tf.TensorArray, totals: list[tf.Tensor]) -> Any:
        with tf.GradientTape() as tape:
            inputs = [xs[i], *weights]
            tape.watch(inputs)
            losses, sums = token_losses(labels[i], project(*inputs), label_smoothing)  # (n), (4)
            loss = tf.reduce_sum(losses * scales[i])
        grad_x, *grad_weights = tape.gradient(loss, inputs)
        added = [sums, *(tf.cast(gradient, tf.float32) for gradient in grad_weights)]
        return i + 1, grad_xs.write(i, grad_x), [x + y for x, y in zip(totals, added)]

    chunks = tf.shape(labels)[0]
    grad_xs = tf.TensorArray(x.dtype, chunks, element_shape=xs.shape[1:])
    totals = [tf.zeros([4]), *(tf.zeros(weight.shape) for weight in weights)]
    _, grad_xs, (sums, *grad_weights) = tf.while_loop(
        lambda i, *_: i < chunks, add_chunk, (0, grad_xs, totals), parallel_iterations=1
    )
    rows = tf.reshape(grad_xs.stack(), [-1, x.shape[-1]])[: tf.size(tar_real)]  # (B * T, D)
    return [tf.reshape(rows, tf.shape(x)), *grad_weights], sums


def chunk_tokens() -> int:
    """Returns how many target tokens have logits at a time.

    Each chunk reads the embedding table and adds to its gradient. With 4,096 tokens in place of
    1,024, an update of base reads and writes 95 GB of GPU memory, not 110
    (`benchmarks/compile_for_gpu.py`). A CPU is as fast with 1,024, and its memory is smaller.
    """
    return GPU_CHUNK_TOKENS if tf.config.get_visible_devices("GPU") else CHUNK_TOKENS


def _chunks(x: tf.Tensor) -> tf.Tensor:
    """`[B, T, ...]` -> `[chunks, n, ...]`, padded with 0; n is about `chunk_tokens()`."""
    of_token = x.shape[2:]
    tokens = tf.shape(x)[0] * tf.shape(x)[1]
    chunks = tf.maximum(-(-tokens // chunk_tokens()), 1)
    n = -(-tokens // (chunks * CHUNK_MULTIPLE)) * CHUNK_MULTIPLE
    x = tf.reshape(x, [tokens, *of_token])
    x = tf.pad(x, [[0, chunks * n - tokens], *([0, 0] for _ in of_token)])
    return tf.reshape(x, [chunks, n, *of_token])
