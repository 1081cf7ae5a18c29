"""One update of the weights (Sec. 5), and one step of validation.

The reference's `train_step` is

    with tf.GradientTape() as tape:
        predictions, _ = transformer(inp, tar_inp, True, ...)
        loss = loss_function(tar_real, predictions)
    gradients = tape.gradient(loss, transformer.trainable_variables)
    optimizer.apply_gradients(zip(gradients, transformer.trainable_variables))

Here the first four lines are `micro_batch_gradients`, and the last one is `Update.apply`. The loss
of an update is the sum over all target tokens of the batch, divided by their number; where pairs
have weights w, it is the sum of w x loss, divided by the sum of w.

A batch is cut into micro-batches: one for each replica, or several, which a replica computes one
after the other while it adds up their gradients (gradient accumulation). The rows of a micro-batch
and its dropout masks depend only on its number. So 8 replicas with 1 micro-batch each, 2 with 4,
and 1 with 8 make the same update.

Shapes: B batch, b micro-batch, S source, T target, D d_model.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.checkpoints.loading import build_model
from tf_transformer.config import Config, ModelConfig, TrainConfig
from tf_transformer.data.batching import IDS, WEIGHTS, Bucket
from tf_transformer.model.dropout import dropout_key
from tf_transformer.model.transformer import Transformer
from tf_transformer.special_tokens import PAD
from tf_transformer.training.distribution import on_all_replicas
from tf_transformer.training.loss import chunked_gradients, chunked_loss_sums
from tf_transformer.training.optimizer import FusedAdam, make_optimizer
from tf_transformer.training.precision import LossScale

MAX_MICRO_BATCHES = 1024  # of a batch, that have dropout keys of their own


class Sums(NamedTuple):
    """What an update adds up over the tokens of its batch; a tensor has them in this order."""

    loss: Any  # nats
    target_tokens: Any
    correct: Any  # target tokens
    unsmoothed_loss: Any  # nats
    source_tokens: Any


def micro_batch_gradients(
    settings: TrainConfig,
    model: Transformer,
    inp: tf.Tensor,
    tar: tf.Tensor,
    seed: tf.Tensor,
    step: tf.Tensor,
    scale: tf.Tensor,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Forward pass, loss and gradients of one micro-batch.

    Args:
      inp: source ids `[b, S]`.
      tar: target ids `[b, T + 1]`, with start and end token.
      seed: of the dropout masks, int32 `[2]`.
      step: the update, counted from 0.
      scale: factor on the token losses, float32 scalar, or `[b]` for each pair.
    Returns: a dense gradient for each weight; the `Sums`, float32 `[5]`.
    """
    tar_inp, tar_real = tar[:, :-1], tar[:, 1:]  # (b, T), (b, T)
    rate_factor = dropout_rate_factor(step, settings.dropout_warmup_steps)
    with tf.GradientTape() as tape, dropout_key(seed, rate_factor):
        dec_output, _ = model.decoder_output(inp, tar_inp, training=True)  # (b, T, D)
        project, weights = model.output_projection()
    outputs = [dec_output, *weights]
    output_gradients, sums = chunked_gradients(
        project, weights, dec_output, tar_real, settings.label_smoothing, scale
    )
    gradients = tape.gradient(outputs, model.trainable_variables, output_gradients)
    return gradients, tf.concat([sums, [count_tokens(inp)]], axis=0)


class Update:
    """The update of a run in all replicas, with a new model, its optimizer and its loss scale.

    Args:
      config: the settings, with the sizes of the vocabularies.
      precision: name of a Keras dtype policy.
      accumulate: whether a replica may compute its rows in several micro-batches; otherwise the
        graph is half as large.
      jit_compile: whether there is a form of the gradients that XLA compiles, for each shape.
      weighted: whether the pairs of the batches have weights.
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
            self.optimizer = optimizer(config.model, config.train)
            self.optimizer.build(self.model.trainable_variables)
            self.loss_scale = LossScale(precision)
        # For each replica, which has its own weights: the gradients without XLA, and with it.
        self._functions: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}
        self.divide(config.train.micro_batch_tokens, accumulate)

    def divide(self, micro_batch_tokens: int, accumulate: bool = True) -> None:
        """Makes the graphs for other `gradient_accumulation_steps`; weights and optimizer stay."""
        self._micro_batch_tokens = micro_batch_tokens if accumulate else 0
        compiled, flags = tf.TensorSpec([], tf.bool), tf.TensorSpec([2], tf.float32)
        signature = [compiled, IDS, IDS, flags, *[WEIGHTS] * self._weighted]
        self._run = on_all_replicas(self._strategy, self.step, signature)
        self._compile = on_all_replicas(self._strategy, self._first_micro_batch, [IDS, IDS])

    def __call__(self, *batch: tf.Tensor, compiled: bool = True) -> dict[str, tf.Tensor]:
        """Makes an update of a whole batch: inp, tar, stop_flags and weights, as for `step`."""
        return self._run(tf.constant(compiled), *batch)

    def step(
        self,
        compiled: tf.Tensor,
        inp: tf.Tensor,
        tar: tf.Tensor,
        stop_flags: tf.Tensor,
        weights: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """The part of one replica.

        Args:
          compiled: bool scalar, whether to use the form that XLA compiles, where there is one. The
            first call with a shape compiles it.
          inp: source ids of the whole batch `[B, S]`.
          tar: target ids of the whole batch `[B, T + 1]`, with start and end token.
          stop_flags: float32 `[2]`, 1 where this worker wants to stop. Their sums are returned, so
            that all workers stop at the same update.
          weights: of the pairs in the loss, float32 `[B]`; None: all are 1.
        Returns: as of `apply`.
        """
        row_tokens = tf.reduce_sum(tf.cast(tar[:, 1:] != PAD, tf.float32), axis=1)  # (B)
        weights = tf.ones_like(row_tokens) if weights is None else weights  # (B)
        mean = tf.math.divide_no_nan(1.0, tf.reduce_sum(weights * row_tokens))
        scale = self.loss_scale.scale * mean * weights  # (B)
        gradients, sums = self.gradients(inp, tar, scale, compiled)
        return self.apply(gradients, sums, stop_flags)

    def gradients(
        self, inp: tf.Tensor, tar: tf.Tensor, scale: tf.Tensor, compiled: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """The results of `micro_batch_gradients`, added over the micro-batches of this replica."""
        steps = self._accumulation_steps(inp)
        if isinstance(steps, int):  # all rows of the replica at once
            return self._gradients_of(0, steps, inp, tar, scale, compiled)

        def add(i: tf.Tensor, total: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
            gradients, sums = self._gradients_of(i, steps, inp, tar, scale, compiled)
            return i + 1, [x + y for x, y in zip(total, (*gradients, sums))]

        zeros = [tf.zeros(weight.shape) for weight in self.model.trainable_variables]
        zeros.append(tf.zeros([len(Sums._fields)]))
        _, (*gradients, sums) = tf.while_loop(
            lambda i, _: i < steps, add, (0, zeros), parallel_iterations=1
        )
        return gradients, sums

    def _accumulation_steps(self, inp: tf.Tensor) -> tf.Tensor | int:
        """The micro-batches of each replica, for the ids `[B, S]` of a batch."""
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        rows, length = tf.unstack(tf.shape(inp))
        return gradient_accumulation_steps(rows, length, replicas, self._micro_batch_tokens)

    def _gradients_of(
        self, i: tf.Tensor | int, steps: tf.Tensor | int, inp: tf.Tensor, tar: tf.Tensor,
        scale: tf.Tensor, compiled: tf.Tensor | bool,
    ) -> tuple[list[tf.Tensor], tf.Tensor]:  # fmt: skip
        """The results for micro-batch i of this replica; the other arguments as of `gradients`."""
        replica = tf.distribute.get_replica_context()
        number, replica_id = replica.num_replicas_in_sync, replica.replica_id_in_sync_group
        index, step = i * number + replica_id, tf.convert_to_tensor(self.optimizer.iterations)
        seed = dropout_seed(step, self.settings.seed, index)
        inp, tar, scale = (micro_batch_of(x, index, steps * number) for x in (inp, tar, scale))
        arguments = inp, tar, seed, step, scale
        compute = functools.partial(micro_batch_gradients, self.settings, self.model)
        if not self.jit_compile:
            return compute(*arguments)
        device = str(replica.devices)
        if device not in self._functions:
            without_xla = tf.function(compute, autograph=False)
            with_xla = tf.function(without_xla, autograph=False, jit_compile=True)
            self._functions[device] = without_xla, with_xla
        without_xla, with_xla = self._functions[device]
        if compiled is True:
            return with_xla(*arguments)
        return tf.cond(compiled, lambda: with_xla(*arguments), lambda: without_xla(*arguments))

    def apply(
        self, gradients: list[tf.Tensor], sums: tf.Tensor, stop_flags: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Adds gradients and sums of all replicas, and updates the weights.

        Returns: a dict, equal in all replicas: the `Sums` `[5]` over the batch, without the weights
          of the pairs; replica_tokens `[replicas]`, target tokens of each; gradient_norm; skipped,
          1 where it was not finite; stop `[2]`, the sums of the flags. Weights and moments do not
          change where the update is skipped, or the batch is padding.
        """
        replica = tf.distribute.get_replica_context()
        index, replicas = replica.replica_id_in_sync_group, replica.num_replicas_in_sync
        replica_tokens = tf.one_hot(index, replicas) * Sums(*tf.unstack(sums)).target_tokens
        # The identities are on the replica's device, which the all-reduce needs to know.
        tensors = [tf.identity(x) for x in (*gradients, sums, replica_tokens, stop_flags)]
        *gradients, sums, replica_tokens, stop = replica.all_reduce("sum", tensors)

        gradients = self.loss_scale.unscale(gradients)
        norm = tf.linalg.global_norm(gradients)
        total = Sums(*tf.unstack(sums))
        finite = tf.math.is_finite(norm) & tf.math.is_finite(total.loss)
        self.loss_scale.update(finite)
        if self.settings.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.settings.clip_norm, norm)
        has_tokens = total.target_tokens > 0  # a batch of padding, which `rehearse` makes, has none
        self.optimizer.apply_if(finite & has_tokens, gradients, self.model.trainable_variables)
        return {
            "sums": sums,
            "replica_tokens": replica_tokens,
            "gradient_norm": norm,
            "skipped": 1.0 - tf.cast(finite, tf.float32),
            "stop": stop,
        }

    def rehearse(self, bucket: Bucket) -> None:
        """Makes an update of padding without XLA, which changes nothing, to try the memory."""
        step, scale = self.optimizer.iterations.numpy(), self.loss_scale.state()
        try:
            weights = [tf.zeros([bucket.rows])] * self._weighted
            result = self(*padding(bucket), tf.zeros([2]), *weights, compiled=False)
            result["sums"].numpy()  # waits for its end
        finally:
            self.optimizer.iterations.assign(step)
            self.loss_scale.restore(scale)

    def compile(self, bucket: Bucket) -> None:
        """Lets XLA compile the gradients of a shape. Raises: tf.errors.OpError where it fails."""
        self._compile(*padding(bucket)).numpy()  # waits for its end

    def _first_micro_batch(self, inp: tf.Tensor, tar: tf.Tensor) -> tf.Tensor:
        """The sums of the first micro-batch of this replica, computed as XLA compiled it."""
        steps, scale = self._accumulation_steps(inp), tf.zeros([tf.shape(inp)[0]])
        _, sums = self._gradients_of(0, steps, inp, tar, scale, compiled=True)
        return sums


def padding(bucket: Bucket) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a batch of padding: ids `[B, S]` and `[B, T + 1]`."""
    inp = tf.zeros([bucket.rows, bucket.length], tf.int32)
    return inp, tf.zeros([bucket.rows, bucket.length + 1], tf.int32)


def eval_step(
    model: Transformer, inp: tf.Tensor, tar: tf.Tensor, stop_flag: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Loss without smoothing, whose exponential is the perplexity, and accuracy; in each replica.

    Args:
      inp, tar: as for `Update.step`.
      stop_flag: float32 `[1]`, not 0 where this worker is to stop.
    Returns: sums over the batch, float32 `[3]`: loss in nats, target tokens, correct target tokens;
      and the sum of the flags, float32 `[1]`.
    """
    replica = tf.distribute.get_replica_context()
    index, number = replica.replica_id_in_sync_group, replica.num_replicas_in_sync
    inp, tar = (micro_batch_of(ids, index, number) for ids in (inp, tar))
    dec_output, _ = model.decoder_output(inp, tar[:, :-1], training=False)
    sums = chunked_loss_sums(*model.output_projection(), dec_output, tar[:, 1:])
    return replica.all_reduce("sum", [sums[:3], tf.identity(stop_flag)])


def gradient_accumulation_steps(
    rows: Any, length: Any, replicas: int, micro_batch_tokens: int
) -> Any:
    """How many micro-batches each replica computes of a batch `[rows, length]`; ints or tensors.

    Args:
      micro_batch_tokens: most tokens of a micro-batch on a side, padding included. It has at least
        one row. 0 for the rows of the replica at once.
    """
    if not micro_batch_tokens:
        return 1
    larger = max if isinstance(length, int) else tf.maximum
    rows_at_once = replicas * larger(micro_batch_tokens // length, 1)
    return -(-rows // rows_at_once)


def micro_batch_of(rows: tf.Tensor, index: tf.Tensor | int, number: tf.Tensor | int) -> tf.Tensor:
    """Takes one of `number` micro-batches, padded: `[B, ...]` -> `[ceil(B / number), ...]`."""
    others = [[0, 0]] * (rows.shape.rank - 1)
    rows = tf.pad(rows, [[0, -tf.shape(rows)[0] % number], *others], constant_values=PAD)
    return tf.ensure_shape(rows[index::number], [None] * rows.shape.rank)


def dropout_seed(step: tf.Tensor, seed: int, micro_batch: tf.Tensor | int) -> tf.Tensor:
    """The key of a micro-batch's dropout masks, int32 `[2]`: the step, and seed and micro-batch."""
    number = tf.cast(seed * MAX_MICRO_BATCHES + micro_batch, tf.int64)
    # Not int32, with which TensorFlow computes on the host, which would have to wait for the step.
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
