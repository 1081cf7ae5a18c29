"""Layer normalization (Ba et al. 2016), applied after each residual connection (Sec. 3.1)."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_transformer.model.keras_compat import ReferenceLayer, serializable

EPSILON = 1e-6  # of the reference code; the paper gives none


def layer_normalization(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float = EPSILON
) -> tf.Tensor:
    """LayerNorm(x) = gamma (x - mean(x)) / sqrt(variance(x) + epsilon) + beta.

    Mean and variance are over the last axis (Ba et al. 2016, Eq. 4). This is the definition;
    the layer computes the same values by `fused_layer_normalization`.

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


def fused_layer_normalization(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float = EPSILON
) -> tf.Tensor:
    """Computes `layer_normalization` in fewer passes over memory.

    With mean and rstd = 1 / sqrt(variance + epsilon) of a row, n = (x - mean) rstd and upstream
    gradient g, the gradient is

        grad_x     = rstd (g gamma - mean(g gamma) - n mean(g gamma n))
        grad_gamma = sum over rows of g n
        grad_beta  = sum over rows of g

    The backward pass needs only n and rstd. TensorFlow's automatic gradient keeps and reads about
    twice as many tensors of the size of x. An update takes 7% (base sizes) to 16% (small sizes)
    longer with it (float32, two cores; `benchmarks/kernels.py`). Arguments and result are as of
    `layer_normalization`; n is rounded to the type of `x`.
    """

    @tf.custom_gradient
    def normalize(
        x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]]:
        wide = tf.cast(x, tf.float32)
        centred = wide - tf.reduce_mean(wide, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)  # (..., 1)
        rstd = tf.math.rsqrt(variance + epsilon)  # (..., 1)
        normalized = tf.cast(centred * rstd, x.dtype)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            upstream = tf.cast(upstream, tf.float32)
            n = tf.cast(normalized, tf.float32)
            grad_n = upstream * gamma
            mean_grad = tf.reduce_mean(grad_n, axis=-1, keepdims=True)  # (..., 1)
            mean_grad_n = tf.reduce_mean(grad_n * n, axis=-1, keepdims=True)  # (..., 1)
            grad_x = tf.cast(rstd * (grad_n - mean_grad - n * mean_grad_n), x.dtype)
            rows = tf.range(tf.rank(x) - 1)  # all axes but the last
            return grad_x, tf.reduce_sum(upstream * n, rows), tf.reduce_sum(upstream, rows)

        return tf.cast(tf.cast(normalized, tf.float32) * gamma + beta, x.dtype), gradient

    return normalize(x, gamma, beta)


@serializable
class LayerNormalization(ReferenceLayer):
    """`layer_normalization` with trainable gamma and beta.

    Args:
      epsilon: added to the variance.
    """

    def __init__(self, epsilon: float = EPSILON, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "epsilon": self.epsilon}

    def build(self, x_shape: tuple) -> None:
        """Creates gamma, all ones, and beta, all zeros, for inputs `[..., D]`."""
        self.d_model = x_shape[-1]
        options = {"shape": (self.d_model,), "dtype": "float32", "autocast": False}
        self.gamma = self.add_weight(initializer="ones", name="gamma", **options)
        self.beta = self.add_weight(initializer="zeros", name="beta", **options)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """`[..., D]` -> `[..., D]`."""
        gamma, beta = tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)
        return fused_layer_normalization(x, gamma, beta, self.epsilon)
