"""One training update of a preset on random ids, for the benchmarks that time it."""

import functools


def make_update(config, precision="float32", accumulate=False):
    """Builds a model, its optimizer, and the update on all logical CPUs.

    Args:
      config: a `Config`.
      precision: name of a Keras dtype policy.
      accumulate: whether a replica computes its rows in micro-batches of `micro_batch_tokens`.
    Returns: a function `update(inp, tar)`, which returns what `train_step` returns; the model; the
      optimizer.
    """
    import tensorflow as tf

    from tf_transformer.checkpoints.loading import build_model
    from tf_transformer.training.distribution import make_strategy, on_all_replicas
    from tf_transformer.training.optimizer import make_optimizer
    from tf_transformer.training.precision import make_loss_scale
    from tf_transformer.training.sharding import accumulated_shards, one_shard
    from tf_transformer.training.train_step import shard_gradients, train_step

    settings = config.train
    strategy = make_strategy(cpu_only=True)
    with strategy.scope():
        model = build_model(config.model, precision)
        optimizer = make_optimizer(config.model, settings)
        optimizer.build(model.trainable_variables)
        loss_scale = make_loss_scale(precision)
    shards = accumulated_shards if accumulate else one_shard
    gradients = functools.partial(shard_gradients, settings)
    gradients = functools.partial(shards, gradients, model, settings)

    def update(inp, tar):
        no_votes = tf.zeros([2])
        return train_step(model, optimizer, settings, gradients, loss_scale, inp, tar, no_votes)

    ids = tf.TensorSpec([None, None], tf.int32)
    return on_all_replicas(strategy, update, [ids, ids]), model, optimizer


def random_batch(vocab_size, rows, length):
    """Random ids without padding: source `[rows, length]`, target `[rows, length + 1]`."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(0)
    inp = random.integers(4, vocab_size, (rows, length))
    tar = random.integers(4, vocab_size, (rows, length + 1))
    return tf.constant(inp, tf.int32), tf.constant(tar, tf.int32)
