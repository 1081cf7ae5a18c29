"""Compilation of the update for all shapes of batches, before the first update.

XLA compiles the gradients anew for each shape, when it first occurs. That would be in the middle of
the first epoch, and count in its speed.
"""

import logging
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from tf_transformer.data.batching import Bucket
from tf_transformer.data.progress import Progress
from tf_transformer.training.memory_plan import bucket_shards
from tf_transformer.training.update import TrainingState, Update

logger = logging.getLogger(__name__)


def compiled_shapes(
    buckets: Sequence[Bucket], replicas: int, micro_batch_tokens: int
) -> list[Bucket]:
    """Returns a bucket for each shape of a shard, which XLA compiles once for each replica.

    Args:
      buckets: of the batches.
      replicas, micro_batch_tokens: as for `sharding.gradient_accumulation_steps`.
    """
    shapes: dict[tuple[int, int], Bucket] = {}
    for bucket in buckets:
        _, rows = bucket_shards(bucket, replicas, micro_batch_tokens)
        shapes.setdefault((rows, bucket.length), bucket)
    return list(shapes.values())


def compile_updates(
    update: Update,
    state: TrainingState,
    buckets: Sequence[Bucket],
    weighted: bool,
    stopped: Callable[[], bool],
) -> None:
    """Makes an update with a batch of padding for each shape; the state does not change.

    The replicas compile a shape at the same time. Different shapes are compiled one after the
    other, because an update all-reduces, and two updates at once could wait for each other.

    Args:
      update: of `make_update`.
      state: a `TrainingState`.
      buckets: of `compiled_shapes`.
      weighted: as for `make_update`.
      stopped: a function that says whether to leave the other shapes to the first epoch.
    """
    start = time.monotonic()
    optimizer, loss_scale = state.optimizer, state.loss_scale
    averages = optimizer.averages if optimizer.use_ema else []
    saved = [(variable, variable.numpy()) for variable in (optimizer.iterations, *averages)]
    saved_scale = loss_scale.state()
    done = 0
    with Progress("compiling", "shapes") as progress:
        for bucket in buckets:
            if stopped():
                break
            inp = tf.zeros([bucket.rows, bucket.length], tf.int32)
            tar = tf.zeros([bucket.rows, bucket.length + 1], tf.int32)
            weights = [tf.zeros([bucket.rows])] if weighted else []
            update(inp, tar, tf.zeros([2]), *weights)["sums"].numpy()  # waits for its end
            done += 1
            progress.show(done)
    for variable, value in saved:
        variable.assign(value)
    loss_scale.restore(saved_scale)
    logger.info("compiled %d shapes in %.0f s", done, time.monotonic() - start)
