"""Dropout from 16 random bits per value, keyed by (seed, shard, step, layer).

The training step opens a `dropout_key` scope around the forward pass. Each `Dropout` layer called
in it draws its mask from that key and from its own position in the sequence of calls. A mask is
thus a pure function of the key: nothing needs to be saved for an exact resume, and replicas get
different masks by getting different keys. (`keras.layers.Dropout` draws the same mask on every
replica.)
"""

import contextlib
import threading
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf

LEVELS = 2**16  # values of a 16-bit random number

_scope = threading.local()


@contextlib.contextmanager
def dropout_key(key: tf.Tensor, rate_factor: tf.Tensor | float = 1.0) -> Iterator[None]:
    """Makes every `Dropout` layer called inside draw its mask from `key`.

    Args:
      key: int32 `[2]`, for example (step, seed and shard). May be a symbolic tensor.
      rate_factor: factor on the dropout rates, 0 to 1. May be a symbolic tensor.
    """
    outer = getattr(_scope, "state", None)
    _scope.state = {"key": key, "rate_factor": rate_factor, "calls": 0}
    try:
        yield
    finally:
        _scope.state = outer


def dropout(x: tf.Tensor, rate: float, seed_generator: keras.random.SeedGenerator) -> tf.Tensor:
    """Computes `model.dropout.dropout` with a mask from the scope's key.

    A mask of 16-bit numbers takes half the random numbers of a mask of floats, and the backward
    pass keeps one byte per value. An update takes 1% to 4% longer with
    `tf.nn.experimental.stateless_dropout` (base and small sizes, float32, two cores;
    `benchmarks/kernels.py`). The rate is rounded down to a multiple of 2^-16. Outside a
    `dropout_key` scope, for example under `fit`, this is `keras.random.dropout`.

    Args:
      x: a tensor of any shape.
      rate: P_drop, at least 0 and below 1.
      seed_generator: a `keras.random.SeedGenerator`, used outside a scope.
    Returns: a tensor of the shape and type of `x`.
    """
    state = getattr(_scope, "state", None)
    if state is None:
        return keras.random.dropout(x, rate, seed=seed_generator)
    state["calls"] += 1
    bits = random_bits(state["key"], state["calls"], tf.size(x))
    dropped_levels = tf.cast(rate * state["rate_factor"] * LEVELS, tf.int32)  # rounded down
    keep = tf.reshape(bits >= tf.cast(dropped_levels, tf.uint16), tf.shape(x))
    return apply_mask(x, keep, tf.cast(LEVELS / (LEVELS - dropped_levels), x.dtype))


def random_bits(key: tf.Tensor, counter: int, number: tf.Tensor) -> tf.Tensor:
    """Draws random uint16 `[number]` with the Philox generator.

    Args:
      key: int32 `[2]`.
      counter: int, the upper half of Philox's counter: another one gives independent numbers.
      number: how many, int32 scalar.
    """
    key = tf.reshape(tf.bitcast(key, tf.uint64), [1])
    counter = tf.constant([0, counter], tf.uint64)
    pairs = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[(number + 1) // 2], key=key, counter=counter, alg=1, dtype=tf.uint32
    )
    return tf.reshape(tf.bitcast(pairs, tf.uint16), [-1])[:number]


def apply_mask(x: tf.Tensor, keep: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """Returns x * scale where `keep` is true, else 0. The gradient keeps only the bool mask."""

    @tf.custom_gradient
    def masked(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def mask(values: tf.Tensor) -> tf.Tensor:
            return values * tf.cast(keep, x.dtype) * scale

        return mask(x), mask

    return masked(x)
