"""One update of the weights (Sec. 5), and one step of validation.

The reference's `train_step` is

    with tf.GradientTape() as tape:
        predictions, _ = transformer(inp, tar_inp, True, ...)
        loss = loss_function(tar_real, predictions)
    gradients = tape.gradient(loss, transformer.trainable_variables)
    optimizer.apply_gradients(zip(gradients, transformer.trainable_variables))

Forward pass, loss and gradients are in `shard_gradients`, the update is in `train_step`. The loss
of an update is the sum over all target tokens of the batch, divided by their number; where pairs
have weights w, it is the sum of w x loss, divided by the sum of w.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from tf_transformer.config import TrainConfig
from tf_transformer.model.dropout import dropout_key
from tf_transformer.model.transformer import Transformer
from tf_transformer.special_tokens import PAD
from tf_transformer.training.loss import chunked_cross_entropy, chunked_loss_sums, chunked_r_drop
from tf_transformer.training.optimizer import FusedAdam
from tf_transformer.training.precision import LossScale, NoLossScale
from tf_transformer.training.sharding import ShardGradients, shard_of


def shard_gradients(
    train_config: TrainConfig,
    model: Transformer,
    inp: tf.Tensor,
    tar: tf.Tensor,
    seed: tf.Tensor,
    step: tf.Tensor,
    scale: tf.Tensor,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Forward pass, loss and gradients of one shard of a batch.

    Args:
      train_config: a `TrainConfig`.
      model: a `Transformer`.
      inp: source ids `[b, S]`.
      tar: target ids `[b, T + 1]`, with start and end token.
      seed: of the dropout masks, int32 `[2]`.
      step: the update, counted from 0.
      scale: factor on the token losses, float32 scalar, or `[b]` for each pair.
    Returns: a dense gradient for each weight; float32 `[5]`, sums: loss in nats, target tokens,
      correct target tokens, loss without smoothing, source tokens.
    """
    tar_inp, tar_real = tar[:, :-1], tar[:, 1:]
    rate_factor = dropout_rate_factor(step, train_config.dropout_warmup_steps)
    label_smoothing = train_config.label_smoothing
    with tf.GradientTape() as tape, dropout_key(seed, rate_factor):
        if train_config.r_drop:  # both halves of the doubled batch have their own dropout masks
            doubled = tf.concat([inp, inp], axis=0), tf.concat([tar_inp, tar_inp], axis=0)
            dec_output, _ = model.decoder_output(*doubled, training=True)  # (2 b, T, D)
            x_1, x_2 = tf.split(dec_output, 2)  # (b, T, D), (b, T, D)
            loss, sums = chunked_r_drop(
                *model.output_projection(), x_1, x_2, tar_real, label_smoothing,
                train_config.r_drop, scale,
            )  # fmt: skip
        else:
            dec_output, _ = model.decoder_output(inp, tar_inp, training=True)  # (b, T, D)
            loss, sums = chunked_cross_entropy(
                *model.output_projection(), dec_output, tar_real, label_smoothing, scale
            )
    gradients = tape.gradient(loss, model.trainable_variables)
    return gradients, tf.concat([sums, [count_tokens(inp)]], axis=0)


def train_step(
    model: Transformer,
    optimizer: FusedAdam,
    train_config: TrainConfig,
    replica_gradients: Callable[..., tuple[list[tf.Tensor], tf.Tensor]],
    loss_scale: LossScale | NoLossScale,
    inp: tf.Tensor,
    tar: tf.Tensor,
    stop: tf.Tensor,
    weights: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """One update; runs in each replica.

    Args:
      model: a `Transformer`.
      optimizer: a `FusedAdam`; its number of updates is the step.
      train_config: a `TrainConfig`.
      replica_gradients: computes the gradients of this replica's part of the batch from
        `(inp, tar, step, scale)`, as `sharding.one_shard` or `sharding.accumulated_shards` do.
      loss_scale: a `LossScale` or `NoLossScale`.
      inp: source ids of the whole batch `[B, S]`.
      tar: target ids of the whole batch `[B, T + 1]`, with start and end token.
      stop: float32 `[2]`, this worker's votes to stop. Their sums are returned, so that all workers
        stop at the same update.
      weights: of the pairs in the loss, float32 `[B]`; None: all are 1.
    Returns: a dict, equal in all replicas: sums `[5]` over the batch, as `shard_gradients` returns
      them, without the weights; replica_tokens `[replicas]`, target tokens of each; gradient_norm;
      skipped, 1 where the norm was not finite, in which case weights and moments have not changed,
      nor have they for a batch of padding; stop `[2]`.
    """
    scale = loss_scale.scale / tf.maximum(count_tokens(tar[:, 1:]), 1.0)
    if weights is not None:
        row_tokens = tf.reduce_sum(tf.cast(tar[:, 1:] != PAD, tf.float32), axis=1)  # (B)
        mean = tf.math.divide_no_nan(1.0, tf.reduce_sum(weights * row_tokens))
        scale = loss_scale.scale * mean * weights  # (B)
    step = tf.convert_to_tensor(optimizer.iterations)
    gradients, sums = replica_gradients(inp, tar, step, scale)
    gradients, sums, replica_tokens, stop = sum_over_replicas(gradients, sums, stop)

    gradients = loss_scale.unscale(gradients)
    norm = tf.linalg.global_norm(gradients)
    finite = tf.math.is_finite(norm) & tf.math.is_finite(sums[0])
    loss_scale.update(finite)
    gradients = clip(gradients, norm, train_config.clip_norm)
    has_tokens = sums[1] > 0  # a batch of padding, which `compile_updates` makes, has none
    optimizer.apply_if(finite & has_tokens, gradients, model.trainable_variables)
    return {
        "sums": sums,
        "replica_tokens": replica_tokens,
        "gradient_norm": norm,
        "skipped": 1.0 - tf.cast(finite, tf.float32),
        "stop": stop,
    }


def eval_step(model: Transformer, inp: tf.Tensor, tar: tf.Tensor) -> tf.Tensor:
    """Loss without smoothing, whose exponential is the perplexity, and accuracy; in each replica.

    Args:
      model: a `Transformer`.
      inp, tar: as for `train_step`.
    Returns: float32 `[3]`, sums over the batch: loss in nats, target tokens, correct target tokens.
    """
    replica = tf.distribute.get_replica_context()
    index, shards = replica.replica_id_in_sync_group, replica.num_replicas_in_sync
    inp, tar = shard_of(inp, index, shards), shard_of(tar, index, shards)
    dec_output, _ = model.decoder_output(inp, tar[:, :-1], training=False)
    sums = chunked_loss_sums(*model.output_projection(), dec_output, tar[:, 1:])
    return replica.all_reduce("sum", sums[:3])


def compiled(shard_gradients: ShardGradients) -> ShardGradients:
    """`shard_gradients`, compiled by XLA for each shape of its batch."""

    def compiled_gradients(
        model: Transformer, *tensors: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        function = functools.partial(shard_gradients, model)
        return tf.function(function, jit_compile=True, autograph=False)(*tensors)

    return compiled_gradients


def sum_over_replicas(
    gradients: list[tf.Tensor], sums: tf.Tensor, stop: tf.Tensor
) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor, tf.Tensor]:
    """All-reduces the results of the replicas.

    Returns: the sums of gradients, sums and stop; and the target tokens of each replica,
      `[replicas]`.
    """
    replica = tf.distribute.get_replica_context()
    index, replicas = replica.replica_id_in_sync_group, replica.num_replicas_in_sync
    replica_tokens = tf.one_hot(index, replicas) * sums[1]
    # The identities are on the replica's device, which the all-reduce needs to know.
    tensors = [tf.identity(x) for x in (*gradients, sums, replica_tokens, stop)]
    *gradients, sums, replica_tokens, stop = replica.all_reduce("sum", tensors)
    return gradients, sums, replica_tokens, stop


def clip(gradients: list[tf.Tensor], norm: tf.Tensor, clip_norm: float) -> list[tf.Tensor]:
    """Scales gradients of global norm `norm` down to `clip_norm`; 0 means no clipping."""
    if not clip_norm:
        return gradients
    gradients, _ = tf.clip_by_global_norm(gradients, clip_norm, use_norm=norm)
    return gradients


def dropout_rate_factor(step: tf.Tensor, dropout_warmup_steps: int) -> tf.Tensor | float:
    """The factor on the dropout rate: rises linearly from 0 to 1 (after Morerio et al. 2017).

    An untrained model cannot overfit, and learns faster without dropout.
    """
    if not dropout_warmup_steps:
        return 1.0
    return tf.minimum(1.0, tf.cast(step, tf.float32) / dropout_warmup_steps)


def count_tokens(ids: tf.Tensor) -> tf.Tensor:
    """The number of ids that are not padding, float32."""
    return tf.reduce_sum(tf.cast(ids != PAD, tf.float32))
