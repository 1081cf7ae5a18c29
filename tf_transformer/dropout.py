"""Dropout whose masks follow from a key (Sec. 5.4, "Residual Dropout").

The training loop opens a `dropout_key(key)` scope around the forward pass. Each `Dropout` that runs in it takes the next key, in
the order of the program, so a mask is a pure function of (key, place in the model): nothing to save for an exact resume, and replicas
get different masks by getting different keys. Outside a scope (`fit`, or a call by hand) Keras' own random state is used.
"""

import contextlib
import threading

import keras
import tensorflow as tf

VALUES = 2**16  # of a random number: sixteen bits for each mask value are enough, and half the work of a float

_scope = threading.local()


@contextlib.contextmanager
def dropout_key(key, strength=1.0):
    """Lets every `Dropout` called inside draw its mask from `key`.

    Args:
      key: int32 `[2]`, for example (seed + replica, step). May be a symbolic tensor.
      strength: factor on the rates, 0 to 1, so that dropout can grow while training. May be a symbolic tensor.
    """
    outer = getattr(_scope, "state", None)
    _scope.state = {"key": key, "strength": strength, "calls": 0}
    try:
        yield
    finally:
        _scope.state = outer


def _random_bits(number):
    """Random uint16 `[number]`, or None outside a `dropout_key` scope.

    Philox numbers with the scope's key; the place of this call in the program is the upper half of the counter.
    """
    state = getattr(_scope, "state", None)
    if state is None:
        return None
    state["calls"] += 1
    key = tf.bitcast(state["key"][tf.newaxis], tf.uint64)  # (1)
    counter, words = tf.constant([0, state["calls"]], tf.uint64), (number + 1) // 2
    numbers = tf.raw_ops.StatelessRandomUniformFullIntV2(shape=[words], key=key, counter=counter, alg=1, dtype=tf.uint32)
    return tf.reshape(tf.bitcast(numbers, tf.uint16), [2 * words])[:number]


def _masked(x, keep, scale):
    """x where `keep` says so, times scale, else 0. The gradient needs no more than `keep`, of one byte a value."""

    @tf.custom_gradient
    def masked(x):
        mask = lambda values: values * tf.cast(keep, x.dtype) * scale  # noqa: E731
        return mask(x), mask

    return masked(x)


@keras.saving.register_keras_serializable(package="tf_transformer")
class Dropout(keras.layers.Layer):
    """Sets a share `rate` of the values to 0 and scales the others by 1 / (1 - rate); the identity outside training.

    Args:
      rate: P_drop, at least 0 and below 1.
    """

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.seed_generator = keras.random.SeedGenerator() if rate else None
        self.supports_masking = True
        self.built = True

    def call(self, x, training=False):
        """`x` of any shape; the same shape is returned."""
        if not training or not self.rate:
            return x
        bits = _random_bits(tf.size(x))
        if bits is None:
            return keras.random.dropout(x, self.rate, seed=self.seed_generator)
        dropped = tf.cast(self.rate * _scope.state["strength"] * VALUES, tf.int32)  # of so many values, rounded down
        keep = tf.reshape(bits >= tf.cast(dropped, tf.uint16), tf.shape(x))
        return _masked(x, keep, tf.cast(VALUES / (VALUES - dropped), x.dtype))

    def compute_output_shape(self, x_shape):
        """The shape of the input."""
        return x_shape

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "rate": self.rate}
