"""Layer normalization (Ba et al. 2016), applied after each residual connection (Sec. 3.1)."""

import keras
import tensorflow as tf

from tf_transformer.keras_compat import ReferenceLayer
from tf_transformer.kernels import layer_norm as kernel


def layer_normalization(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float = 1e-6
) -> tf.Tensor:
    """LayerNorm(x) = gamma (x - mean(x)) / sqrt(variance(x) + epsilon) + beta.

    Mean and variance are over the last axis (Ba et al. 2016, Eq. 4). This is the definition;
    the layer below calls a kernel with the same values.

    Args:
      x: `[..., D]`.
      gamma, beta: float32 `[D]`.
      epsilon: added to the variance.
    Returns: `[..., D]` in the type of `x`, computed in float32.
    """
    wide = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(wide, axis=-1, keepdims=True)  # (..., 1)
    variance = tf.reduce_mean(tf.square(wide - mean), axis=-1, keepdims=True)  # (..., 1)
    normalized = (wide - mean) / tf.sqrt(variance + epsilon)  # (..., D)
    return tf.cast(gamma * normalized + beta, x.dtype)


@keras.saving.register_keras_serializable(package="tf_transformer")
class LayerNormalization(ReferenceLayer):
    """`layer_normalization` with trainable gamma and beta.

    Args:
      epsilon: added to the variance. The paper gives none; 1e-6 is the reference code's.
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, x_shape: tuple) -> None:
        """Creates gamma, all ones, and beta, all zeros, for inputs `[..., D]`."""
        options = {"shape": (x_shape[-1],), "autocast": False}  # float32 in every precision
        self.gamma = self.add_weight(initializer="ones", name="gamma", **options)
        self.beta = self.add_weight(initializer="zeros", name="beta", **options)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """`[..., D]` -> `[..., D]`."""
        gamma, beta = tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)
        return kernel.layer_normalization(x, gamma, beta, self.epsilon)
