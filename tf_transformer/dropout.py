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
def dropout_key(key):
    """Lets every `Dropout` called inside draw its mask from `key`.

    Args:
      key: int32 `[2]`, for example (seed + replica, step). May be a symbolic tensor.
    """
    outer = getattr(_scope, "state", None)
    _scope.state = {"key": key, "calls": 0}
    try:
        yield
    finally:
        _scope.state = outer


def _next_key():
    """The key of this call, int32 `[2]`, or None outside a `dropout_key` scope."""
    state = getattr(_scope, "state", None)
    if state is None:
        return None
    state["calls"] += 1
    return tf.random.experimental.stateless_fold_in(state["key"], state["calls"], alg="philox")


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
        key = _next_key()
        if key is None:
            return keras.random.dropout(x, self.rate, seed=self.seed_generator)
        return tf.nn.experimental.stateless_dropout(x, self.rate, seed=key, rng_alg="philox")

    def compute_output_shape(self, x_shape):
        """The shape of the input."""
        return x_shape

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "rate": self.rate}
