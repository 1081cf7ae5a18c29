"""One update of the weights (Sec. 5), and one step of validation.

The reference's `train_step` is

    with tf.GradientTape() as tape:
        predictions, _ = transformer(inp, tar_inp, True, ...)
        loss = loss_function(tar_real, predictions)
    gradients = tape.gradient(loss, transformer.trainable_variables)
    optimizer.apply_gradients(zip(gradients, transformer.trainable_variables))

Here the first three lines are `shard_gradients`, and the last one is `Update.apply`. The loss of an
update is the sum over all target tokens of the batch, divided by their number; where pairs have
weights w, it is the sum of w x loss, divided by the sum of w.

A batch is cut into shards: one for each replica, or several, which a replica computes one after the
other while it adds up their gradients (gradient accumulation). The rows of a shard and its dropout
masks depend only on the shard's number. So 8 replicas with 1 shard each, 2 with 4, and 1 with 8
make the same update.

Shapes: B batch, b shard, S source, T target, D d_model.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tf_transformer.checkpoints.loading import build_model
from tf_transformer.config import Config, ModelConfig, TrainConfig
from tf_transformer.data.batching import IDS, WEIGHTS, Bucket
from tf_transformer.model.dropout import dropout_key
from tf_transformer.model.transformer import Transformer
from tf_transformer.special_tokens import PAD
from tf_transformer.training.distribution import on_all_replicas
from tf_transformer.training.fine_tuning import freeze
from tf_transformer.training.loss import chunked_cross_entropy, chunked_loss_sums
from tf_transformer.training.optimizer import FusedAdam, make_optimizer
from tf_transformer.training.precision import LossScale

MAX_SHARDS = 1024  # shards of a batch that have dropout keys of their own


def shard_gradients(
    settings: TrainConfig,
    model: Transformer,
    inp: tf.Tensor,
    tar: tf.Tensor,
    seed: tf.Tensor,
    step: tf.Tensor,
    scale: tf.Tensor,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Forward pass, loss and gradients of one shard of a batch.

    Args:
      settings: a `TrainConfig`.
      model: a `Transformer`.
      inp: source ids `[b, S]`.
      tar: target ids `[b, T + 1]`, with start and end token.
      seed: of the dropout masks, int32 `[2]`.
      step: the update, counted from 0.
      scale: factor on the token losses, float32 scalar, or `[b]` for each pair.
    Returns: a dense gradient for each weight; float32 `[5]`, sums: loss in nats, target tokens,
      correct target tokens, loss without smoothing, source tokens.
    """
    tar_inp, tar_real = tar[:, :-1], tar[:, 1:]  # (b, T), (b, T)
    rate_factor = dropout_rate_factor(step, settings.dropout_warmup_steps)
    with tf.GradientTape() as tape, dropout_key(seed, rate_factor):
        passes = 2 if settings.r_drop else 1  # both halves have their own dropout masks
        inps, tar_inps = (tf.concat([side] * passes, axis=0) for side in (inp, tar_inp))
        dec_output, _ = model.decoder_output(inps, tar_inps, training=True)  # (passes b, T, D)
        project, weights = model.output_projection()
        outputs = tf.split(dec_output, passes)  # (b, T, D) each
        loss, sums = chunked_cross_entropy(
            project, weights, outputs, tar_real, settings.label_smoothing, scale, settings.r_drop
        )
    gradients = tape.gradient(loss, model.trainable_variables)
    return gradients, tf.concat([sums, [count_tokens(inp)]], axis=0)


class Update:
    """The update of a run. A call makes one in all replicas of a strategy.

    It has a model with new weights, its optimizer, whose number of updates is the step, and its
    loss scale.

    Args:
      config: a `Config` with the sizes of its vocabularies.
      precision: name of a Keras dtype policy.
      strategy: of the replicas.
      accumulate: whether a replica may compute its rows in several shards. Without it the graph is
        half as large.
      jit_compile: whether XLA compiles the gradients.
      weighted: whether the pairs of the batches have weights.
      optimizer: makes a `FusedAdam` of the configurations of model and training.
    """

    def __init__(
        self,
        config: Config,
        precision: str,
        strategy: tf.distribute.Strategy,
        accumulate: bool = True,
        jit_compile: bool = False,
        weighted: bool = False,
        optimizer: Callable[[ModelConfig, TrainConfig], FusedAdam] = make_optimizer,
    ) -> None:
        self.settings = config.train
        self.jit_compile = jit_compile
        self._strategy, self._weighted = strategy, weighted
        with strategy.scope():
            self.model = build_model(config.model, precision)
            freeze(self.model, config.train.freeze)
            self.optimizer = optimizer(config.model, config.train)
            self.optimizer.build(self.model.trainable_variables)
            self.loss_scale = LossScale(precision)
        self.divide(config.train.micro_batch_tokens, accumulate)

    def divide(self, micro_batch_tokens: int, accumulate: bool = True) -> None:
        """Makes the graph for other micro-batches; weights and optimizer stay.

        Args:
          micro_batch_tokens: as for `gradient_accumulation_steps`.
          accumulate: as for the constructor.
        """
        self._micro_batch_tokens, self._accumulate = micro_batch_tokens, accumulate
        specs = [IDS, IDS, tf.TensorSpec([2], tf.float32)] + [WEIGHTS] * self._weighted
        self._run = on_all_replicas(self._strategy, self.step, specs)

    def __call__(self, *batch: tf.Tensor) -> dict[str, tf.Tensor]:
        """Makes an update of a whole batch; arguments and result as of `step`."""
        return self._run(*batch)

    def step(
        self, inp: tf.Tensor, tar: tf.Tensor, votes: tf.Tensor, weights: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """The part of one replica.

        Args:
          inp: source ids of the whole batch `[B, S]`.
          tar: target ids of the whole batch `[B, T + 1]`, with start and end token.
          votes: float32 `[2]`, this worker's votes to stop, of which the sums are returned. So all
            workers stop at the same update.
          weights: of the pairs in the loss, float32 `[B]`; None: all are 1.
        Returns: a dict, as `apply` returns it.
        """
        row_tokens = tf.reduce_sum(tf.cast(tar[:, 1:] != PAD, tf.float32), axis=1)  # (B)
        weights = tf.ones_like(row_tokens) if weights is None else weights  # (B)
        mean = tf.math.divide_no_nan(1.0, tf.reduce_sum(weights * row_tokens))
        scale = self.loss_scale.scale * mean * weights  # (B)
        gradients, sums = self.gradients(inp, tar, scale)
        return self.apply(gradients, sums, votes)

    def gradients(
        self, inp: tf.Tensor, tar: tf.Tensor, scale: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """The gradients and the sums of `shard_gradients`, added over this replica's shards."""
        replica = tf.distribute.get_replica_context()
        replicas, replica_id = replica.num_replicas_in_sync, replica.replica_id_in_sync_group
        step = tf.convert_to_tensor(self.optimizer.iterations)
        micro_batches = 1
        if self._accumulate:
            rows, length = tf.unstack(tf.shape(inp))
            micro_batches = gradient_accumulation_steps(
                rows, length, replicas, self._micro_batch_tokens
            )
        compute = functools.partial(shard_gradients, self.settings, self.model)
        if self.jit_compile:  # a function for each replica, which has its own weights
            compute = tf.function(compute, jit_compile=True, autograph=False)

        def of_shard(i: tf.Tensor | int) -> tuple[list[tf.Tensor], tf.Tensor]:
            index, shards = i * replicas + replica_id, micro_batches * replicas
            seed = dropout_seed(step, self.settings.seed, index)
            shard_inp, shard_tar, factor = (shard_of(x, index, shards) for x in (inp, tar, scale))
            return compute(shard_inp, shard_tar, seed, step, factor)

        if not self._accumulate:
            return of_shard(0)

        def add_shard(i: tf.Tensor, total: Sequence[tf.Tensor]) -> tuple[tf.Tensor, list[Any]]:
            gradients, sums = of_shard(i)
            return i + 1, [x + y for x, y in zip(total, (*gradients, sums))]

        zeros = [tf.zeros(weight.shape) for weight in self.model.trainable_variables]
        _, (*gradients, sums) = tf.while_loop(
            lambda i, _: i < micro_batches,
            add_shard,
            (0, [*zeros, tf.zeros([5])]),
            parallel_iterations=1,
        )
        return gradients, sums

    def apply(
        self, gradients: list[tf.Tensor], sums: tf.Tensor, votes: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Adds the results of all replicas, and updates the weights.

        Args:
          gradients, sums: of this replica.
          votes: of this worker.
        Returns: a dict, equal in all replicas: sums `[5]` over the batch, without the weights of
          the pairs; replica_tokens `[replicas]`, target tokens of each; gradient_norm; skipped, 1
          where the norm was not finite, in which case weights and moments have not changed, nor
          have they for a batch of padding; stop `[2]`, the sums of the votes.
        """
        replica = tf.distribute.get_replica_context()
        index, replicas = replica.replica_id_in_sync_group, replica.num_replicas_in_sync
        replica_tokens = tf.one_hot(index, replicas) * sums[1]
        # The identities are on the replica's device, which the all-reduce needs to know.
        tensors = [tf.identity(x) for x in (*gradients, sums, replica_tokens, votes)]
        *gradients, sums, replica_tokens, votes = replica.all_reduce("sum", tensors)

        gradients = self.loss_scale.unscale(gradients)
        norm = tf.linalg.global_norm(gradients)
        finite = tf.math.is_finite(norm) & tf.math.is_finite(sums[0])
        self.loss_scale.update(finite)
        if self.settings.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.settings.clip_norm, norm)
        has_tokens = sums[1] > 0  # a batch of padding, which `rehearse` makes, has none
        self.optimizer.apply_if(finite & has_tokens, gradients, self.model.trainable_variables)
        return {
            "sums": sums,
            "replica_tokens": replica_tokens,
            "gradient_norm": norm,
            "skipped": 1.0 - tf.cast(finite, tf.float32),
            "stop": votes,
        }

    def rehearse(self, bucket: Bucket) -> None:
        """Makes an update with a batch of padding; nothing changes, also where the memory is short.

        Args:
          bucket: the shape of the batch.
        Raises: tf.errors.ResourceExhaustedError.
        """
        averages = self.optimizer.averages if self.optimizer.use_ema else []
        saved = [(each, each.numpy()) for each in (self.optimizer.iterations, *averages)]
        saved_scale = self.loss_scale.state()
        inp = tf.zeros([bucket.rows, bucket.length], tf.int32)
        tar = tf.zeros([bucket.rows, bucket.length + 1], tf.int32)
        try:
            weights = [tf.zeros([bucket.rows])] * self._weighted
            self(inp, tar, tf.zeros([2]), *weights)["sums"].numpy()  # waits for its end
        finally:
            for variable, value in saved:
                variable.assign(value)
            self.loss_scale.restore(saved_scale)


def eval_step(model: Transformer, inp: tf.Tensor, tar: tf.Tensor, vote: tf.Tensor) -> tf.Tensor:
    """Loss without smoothing, whose exponential is the perplexity, and accuracy; in each replica.

    Args:
      model: a `Transformer`.
      inp, tar: as for `Update.step`.
      vote: float32 `[1]`, not 0 where this worker is to stop.
    Returns: float32 `[4]`, sums over the batch: loss in nats, target tokens, correct target tokens;
      and the sum of the votes.
    """
    replica = tf.distribute.get_replica_context()
    index, shards = replica.replica_id_in_sync_group, replica.num_replicas_in_sync
    inp, tar = shard_of(inp, index, shards), shard_of(tar, index, shards)
    dec_output, _ = model.decoder_output(inp, tar[:, :-1], training=False)
    sums = chunked_loss_sums(*model.output_projection(), dec_output, tar[:, 1:])
    return replica.all_reduce("sum", tf.concat([sums[:3], vote], axis=0))


def gradient_accumulation_steps(
    rows: Any, length: Any, replicas: int, micro_batch_tokens: int
) -> Any:
    """How many shards of a batch each replica computes; numbers or tensors.

    Args:
      rows, length: the shape of the batch.
      replicas: how many there are.
      micro_batch_tokens: most tokens of a shard on a side, padding included. A shard has at least
        one row. 0 for the rows of the replica at once.
    """
    if not micro_batch_tokens:
        return 1
    larger = max if isinstance(length, int) else tf.maximum
    rows_at_once = replicas * larger(micro_batch_tokens // length, 1)
    return -(-rows // rows_at_once)


def shard_of(rows: tf.Tensor, index: tf.Tensor | int, shards: tf.Tensor | int) -> tf.Tensor:
    """Takes the rows of one shard: `[B, ...]` -> `[B / shards, ...]`.

    Rows of padding are appended where `shards` does not divide B.
    """
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
