"""Compilation before the first update changes nothing."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import sentences

from tf_transformer.config import Config
from tf_transformer.data.batching import Bucket
from tf_transformer.training.compilation import compile_updates, compiled_shapes
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.update import make_state, make_update

BUCKETS = [Bucket(0, 4, 8, 1, 8), Bucket(4, 6, 8, 1, 8), Bucket(6, 8, 4, 1, 4)]
SIZES = dict(num_layers=1, d_model=16, num_heads=2, dff=32, dropout_rate=0.1)


def values_of(state):
    variables = [*state.model.variables, *state.optimizer.variables]
    return [variable.numpy() for variable in variables], state.loss_scale.state()


@pytest.mark.parametrize(
    ("precision", "jit_compile"), [("float32", True), ("mixed_float16", False)]
)
def test_it_changes_no_variable(precision, jit_compile):
    """Weights, moments, their number of updates, moving averages and loss scale stay."""
    config = Config().with_vocabularies(60, 60).replace(**SIZES, ema_decay=0.9, warmup_steps=4)
    strategy = make_strategy()
    state = make_state(config, precision, strategy)
    update = make_update(state, config.train, strategy, False, jit_compile)
    inp, tar = map(tf.constant, (sentences(8, 4, 1), sentences(8, 4, 2, start=True)))
    for _ in range(2):
        update(inp, tar, tf.zeros([2]))
    before, scale = values_of(state)
    calls = []

    def counted(*arguments):
        calls.append(arguments[0].shape)
        return update(*arguments)

    shapes = 1 if jit_compile else 2  # XLA compiles a shape in seconds
    compile_updates(counted, state, BUCKETS, False, lambda: len(calls) == shapes)
    assert calls == [(8, 4), (8, 6)][:shapes]  # the others are left out
    after, scale_after = values_of(state)
    assert scale == scale_after
    for left, right in zip(before, after, strict=True):
        assert left.tobytes() == right.tobytes()
    update(inp, tar, tf.zeros([2]))
    assert not np.array_equal(values_of(state)[0][0], before[0])  # a usual batch changes them


def test_one_bucket_for_each_shape_of_a_shard():
    """The rows of a shard decide, not those of the batch."""
    same = dataclasses.replace(BUCKETS[1], rows=16)
    assert compiled_shapes([*BUCKETS, same], replicas=2, micro_batch_tokens=24) == BUCKETS
    assert len(compiled_shapes([*BUCKETS, same], replicas=2, micro_batch_tokens=4096)) == 4
