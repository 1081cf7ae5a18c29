"""One training update of a preset on random ids, for the benchmarks that time it."""


def make_update(config, precision="float32", accumulate=False):
    """Builds a model, its optimizer, and the update on all logical CPUs.

    Args:
      config: a `Config`.
      precision: name of a Keras dtype policy.
      accumulate: whether a replica computes its rows in micro-batches of `micro_batch_tokens`.
    Returns: a function `update(inp, tar)`, which returns what `Update` returns; the model; the
      optimizer.
    """
    import tensorflow as tf

    from tf_transformer.training.distribution import make_strategy
    from tf_transformer.training.update import Update

    strategy = make_strategy(len(tf.config.list_logical_devices("CPU")))
    update = Update(config, precision, strategy, accumulate=accumulate)
    no_stop = tf.zeros([2])
    return lambda inp, tar: update(inp, tar, no_stop), update.model, update.optimizer


def random_batch(vocab_size, rows, length):
    """Random ids without padding: source `[rows, length]`, target `[rows, length + 1]`."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(0)
    inp = random.integers(4, vocab_size, (rows, length))
    tar = random.integers(4, vocab_size, (rows, length + 1))
    return tf.constant(inp, tf.int32), tf.constant(tar, tf.int32)
