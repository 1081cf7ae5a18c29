"""Dropout whose masks follow from a key (Sec. 5.4, "Residual Dropout").

The training loop opens a `dropout_key(key)` scope around the forward pass. Each `Dropout` that runs in it takes the next key, in
the order of the program, so a mask is a pure function of (key, place in the model): nothing to save for an exact resume, and replicas
get different masks by getting different keys. Outside a scope (`fit`, or a call by hand) Keras' own random state is used.
"""

import contextlib
import threading

import keras
import tensorflow as tf

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


def _random(shape):
    """Uniform numbers in [0, 1) of a shape, or None outside a `dropout_key` scope.

    Philox numbers with the scope's key; the place of this call in the program is the upper half of the counter.
    """
    state = getattr(_scope, "state", None)
    if state is None:
        return None
    state["calls"] += 1
    key = tf.bitcast(state["key"][tf.newaxis], tf.uint64)  # (1)
    counter = tf.constant([0, state["calls"]], tf.uint64)
    return tf.raw_ops.StatelessRandomUniformV2(shape=shape, key=key, counter=counter, alg=1)


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
        random = _random(tf.shape(x))
        if random is None:
            return keras.random.dropout(x, self.rate, seed=self.seed_generator)
        rate = self.rate * _scope.state["strength"]
        return x * (tf.cast(random >= rate, x.dtype) * tf.cast(1 / (1 - rate), x.dtype))

    def compute_output_shape(self, x_shape):
        """The shape of the input."""
        return x_shape

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "rate": self.rate}
