"""Dropout (Sec. 5.4, "Residual Dropout"), keyed by (seed, shard, step, layer).

The training step opens a `dropout_key` scope around the forward pass. Each `Dropout` layer called
in it draws its mask from that key and from its own position in the sequence of calls. A mask is
thus a pure function of the key: nothing needs to be saved for an exact resume, and replicas get
different masks by getting different keys. (`keras.layers.Dropout` draws the same mask on every
replica.)
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tf_transformer.model.keras_compat import ReferenceLayer, serializable

LEVELS = 2**16  # values of a 16-bit random number

_scope = threading.local()


def dropout(x: tf.Tensor, keep: tf.Tensor, rate: float) -> tf.Tensor:
    """Dropout(x) = x * keep / (1 - rate), with a random mask `keep` that is 1 with P = 1 - rate.

    This is the definition; the layer computes the same by `keyed_dropout`, which draws the mask.

    Args:
      x: a tensor of any shape.
      keep: bool, of the same shape.
      rate: P_drop, at least 0 and below 1.
    Returns: a tensor of the shape and type of `x`. Its mean over the masks is `x`.
    """
    return x * tf.cast(keep, x.dtype) / tf.cast(1 - rate, x.dtype)


@serializable
class Dropout(ReferenceLayer):
    """Sets a fraction `rate` of the values to 0 and scales the others by 1 / (1 - rate).

    Outside training it is the identity. In training, outside a `dropout_key` scope, for example
    under `fit`, it is `keras.random.dropout`.

    Args:
      rate: P_drop, at least 0 and below 1.
    """

    def __init__(self, rate: float, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.seed_generator = keras.random.SeedGenerator() if rate else None

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "rate": self.rate}

    def build(self, x_shape: tuple) -> None:
        """There are no weights; Keras keeps the shape for the summary."""

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """`x` of any shape -> the same shape."""
        if not training or not self.rate:
            return x
        if getattr(_scope, "state", None) is None:
            return keras.random.dropout(x, self.rate, seed=self.seed_generator)
        return keyed_dropout(x, self.rate)


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


def keyed_dropout(x: tf.Tensor, rate: float) -> tf.Tensor:
    """`dropout` with a mask of 16-bit random numbers from the scope's key.

    A mask of 16-bit numbers takes half the random numbers of a mask of floats, and the backward
    pass keeps one byte per value. An update takes 13% (base sizes) to 18% (small sizes) longer with
    `tf.nn.experimental.stateless_dropout` (float32, two cores; `benchmarks/kernels.py`). The rate
    is rounded down to a multiple of 2^-16. Arguments and result are as of `dropout`.
    """
    state = _scope.state
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
