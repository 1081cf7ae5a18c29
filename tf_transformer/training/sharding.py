"""How a batch is divided among replicas, and into micro-batches that fit into memory.

A batch is cut into shards: one for each replica, or several, which a replica computes one after the
other while it adds up their gradients (gradient accumulation). The rows of a shard and its dropout
masks depend only on the shard's number. So 8 replicas with 1 shard each, 2 with 4, and 1 with 8
make the same update.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_transformer.config import TrainConfig
from tf_transformer.model.transformer import Transformer
from tf_transformer.special_tokens import PAD

MAX_SHARDS = 1024  # shards of a batch that have dropout keys of their own

# Computes the gradients and the sums of a shard, as `train_step.shard_gradients` does.
ShardGradients = Callable[..., tuple[list[tf.Tensor], tf.Tensor]]


def gradient_accumulation_steps(
    rows: Any, length: Any, replicas: int, micro_batch_tokens: int
) -> Any:
    """How many shards of a batch each replica computes; numbers or tensors.

    Args:
      rows, length: the shape of the batch.
      replicas: how many there are.
      micro_batch_tokens: most tokens of a shard on a side, padding included. A shard has at least
        one row.
    """
    larger = max if isinstance(length, int) else tf.maximum
    rows_at_once = replicas * larger(micro_batch_tokens // length, 1)
    return -(-rows // rows_at_once)


def shard_of(rows: tf.Tensor, index: tf.Tensor | int, shards: tf.Tensor | int) -> tf.Tensor:
    """Takes the rows of one shard: `[B, ...]` -> `[B / shards, ...]`; a scalar is of all rows.

    Rows of padding are appended where `shards` does not divide B.
    """
    if not rows.shape.rank:
        return rows
    others = [[0, 0]] * (rows.shape.rank - 1)
    rows = tf.pad(rows, [[0, -tf.shape(rows)[0] % shards], *others], constant_values=PAD)
    return tf.ensure_shape(rows[index::shards], [None] * rows.shape.rank)


def dropout_seed(step: tf.Tensor, seed: int, shard: tf.Tensor | int) -> tf.Tensor:
    """The key of a shard's dropout masks, int32 `[2]`: the step, and seed and shard.

    Args:
      step: the update, counted from 0.
      seed: of the run.
      shard: the shard's number in the batch.
    """
    number = tf.cast(seed * MAX_SHARDS + shard, tf.int64)
    # TensorFlow computes with int64 on a GPU, and with int32 on the host, which would have to wait
    # for the step.
    return tf.bitcast(tf.cast(step, tf.int64) + 2**32 * number, tf.int32)


def one_shard(
    shard_gradients: ShardGradients,
    model: Transformer,
    train_config: TrainConfig,
    inp: tf.Tensor,
    tar: tf.Tensor,
    step: tf.Tensor,
    scale: tf.Tensor,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """The gradients of this replica's shard, where each replica computes one.

    Args:
      shard_gradients: as `train_step.shard_gradients`.
      model: a `Transformer`.
      train_config: a `TrainConfig`.
      inp, tar: ids of the whole batch, `[B, S]` and `[B, T + 1]`.
      step: the update, counted from 0.
      scale: factor on the token losses, float32 scalar, or `[B]` for each pair.
    Returns: the gradients and sums, as `shard_gradients` returns them.
    """
    replica = tf.distribute.get_replica_context()
    index, shards = replica.replica_id_in_sync_group, replica.num_replicas_in_sync
    seed = dropout_seed(step, train_config.seed, index)
    inp, tar, scale = (shard_of(x, index, shards) for x in (inp, tar, scale))
    return shard_gradients(model, inp, tar, seed, step, scale)


def accumulated_shards(
    shard_gradients: ShardGradients,
    model: Transformer,
    train_config: TrainConfig,
    inp: tf.Tensor,
    tar: tf.Tensor,
    step: tf.Tensor,
    scale: tf.Tensor,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """The same, summed over the shards of this replica, which it computes one after the other."""
    replica = tf.distribute.get_replica_context()
    replicas, replica_id = replica.num_replicas_in_sync, replica.replica_id_in_sync_group
    rows, length = tf.unstack(tf.shape(inp))
    micro_batches = gradient_accumulation_steps(
        rows, length, replicas, train_config.micro_batch_tokens
    )
    shards = micro_batches * replicas

    def add_shard(
        i: tf.Tensor, gradients: list[tf.Tensor], sums: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor], tf.Tensor]:
        index = i * replicas + replica_id
        seed = dropout_seed(step, train_config.seed, index)
        shard_inp, shard_tar, factor = (shard_of(x, index, shards) for x in (inp, tar, scale))
        new_gradients, new_sums = shard_gradients(model, shard_inp, shard_tar, seed, step, factor)
        gradients = [total + new for total, new in zip(gradients, new_gradients)]
        return i + 1, gradients, sums + new_sums

    first = (0, [tf.zeros(weight.shape) for weight in model.trainable_variables], tf.zeros([5]))
    _, gradients, sums = tf.while_loop(
        lambda i, *_: i < micro_batches, add_shard, first, parallel_iterations=1
    )
    return gradients, sums
