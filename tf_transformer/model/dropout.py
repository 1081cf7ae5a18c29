"""Dropout (Sec. 5.4, "Residual Dropout")."""

import keras
import tensorflow as tf

from tf_transformer.keras_compat import ReferenceLayer
from tf_transformer.kernels import dropout as kernel


def dropout(x: tf.Tensor, keep: tf.Tensor, rate: float) -> tf.Tensor:
    """Dropout(x) = x * keep / (1 - rate), with a random mask `keep` that is 1 with P = 1 - rate.

    This is the definition; the layer below calls a kernel that draws the mask and applies it.

    Args:
      x: a tensor of any shape.
      keep: bool, of the same shape.
      rate: P_drop, at least 0 and below 1.
    Returns: a tensor of the shape and type of `x`. Its mean over the masks is `x`.
    """
    return x * tf.cast(keep, x.dtype) / tf.cast(1 - rate, x.dtype)


@keras.saving.register_keras_serializable(package="tf_transformer")
class Dropout(ReferenceLayer):
    """Sets a fraction `rate` of the values to 0 and scales the others by 1 / (1 - rate).

    Outside training it is the identity.

    Args:
      rate: P_drop, at least 0 and below 1.
    """

    def __init__(self, rate: float, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.seed_generator = keras.random.SeedGenerator() if rate else None
        self.built = True

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """`x` of any shape -> the same shape."""
        if not training or not self.rate:
            return x
        return kernel.dropout(x, self.rate, self.seed_generator)

    def compute_output_shape(self, x_shape: tuple) -> tuple:
        """Returns the shape of the input."""
        return x_shape
