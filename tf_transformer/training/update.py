"""The update of a run: model, optimizer and step, composed for the replicas of a strategy."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tf_transformer.checkpoints.loading import build_model
from tf_transformer.config import Config, TrainConfig
from tf_transformer.data.batching import IDS, WEIGHTS
from tf_transformer.model.transformer import Transformer
from tf_transformer.training.distribution import on_all_replicas
from tf_transformer.training.fine_tuning import freeze
from tf_transformer.training.optimizer import FusedAdam, make_optimizer
from tf_transformer.training.precision import LossScale, NoLossScale, make_loss_scale
from tf_transformer.training.sharding import ShardGradients, accumulated_shards, one_shard
from tf_transformer.training.train_step import compiled, shard_gradients, train_step

# A function of source ids, target ids, votes to stop, and weights of the pairs where they have
# some; see `train_step`.
Update = Callable[..., dict[str, tf.Tensor]]


class TrainingState(NamedTuple):
    """What an update changes."""

    model: Transformer
    optimizer: FusedAdam
    loss_scale: LossScale | NoLossScale


def make_state(config: Config, precision: str, strategy: tf.distribute.Strategy) -> TrainingState:
    """Builds a model with new weights, its optimizer and its loss scale, in all replicas.

    Args:
      config: a `Config` with the sizes of its vocabularies.
      precision: name of a Keras dtype policy.
      strategy: of the replicas.
    """
    with strategy.scope():
        model = build_model(config.model, precision)
        freeze(model, config.train.freeze)
        optimizer = make_optimizer(config.model, config.train)
        optimizer.build(model.trainable_variables)
        return TrainingState(model, optimizer, make_loss_scale(precision))


def make_update(
    state: TrainingState,
    settings: TrainConfig,
    strategy: tf.distribute.Strategy,
    accumulate: bool,
    jit_compile: bool,
    weighted: bool = False,
) -> Update:
    """Composes an update of shard gradients, accumulation and apply.

    Args:
      state: a `TrainingState`.
      settings: a `TrainConfig`.
      strategy: of the replicas.
      accumulate: whether a replica may compute its rows in several micro-batches. Without
        accumulation the graph is half as large.
      jit_compile: whether XLA compiles the gradients.
      weighted: whether the pairs of the batches have weights.
    Returns: an `Update`.
    """
    gradients: ShardGradients = functools.partial(shard_gradients, settings)
    if jit_compile:
        gradients = compiled(gradients)
    shards = accumulated_shards if accumulate else one_shard
    gradients = functools.partial(shards, gradients, state.model, settings)
    update = functools.partial(
        train_step, state.model, state.optimizer, settings, gradients, state.loss_scale
    )
    specs = [IDS, IDS, tf.TensorSpec([2], tf.float32), *([WEIGHTS] if weighted else [])]
    return on_all_replicas(strategy, update, specs)
