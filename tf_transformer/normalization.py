"""Layer normalisation (Ba et al. 2016), which follows each sub-layer and its residual connection (Sec. 3.1)."""

import keras
import tensorflow as tf


def layer_normalization(x, gamma, beta, epsilon=1e-6):
    """LayerNorm(x) = gamma (x - mean(x)) / sqrt(variance(x) + epsilon) + beta, over the last axis (Ba et al. 2016, Eq. 4).

    Computed in float32, but the normalised values are kept, and so rounded, in the type of x. Its gradient is written down, because
    TensorFlow's own would pass over the values, and keep them, twice as often.

    Args:
      x: `[..., D]`.
      gamma, beta: float32 `[D]`.
      epsilon: added to the variance.
    Returns: `[..., D]` in the type of `x`.
    """

    @tf.custom_gradient
    def normalize(x, gamma, beta):
        wide = tf.cast(x, tf.float32)
        centred = wide - tf.reduce_mean(wide, axis=-1, keepdims=True)
        scale = tf.math.rsqrt(tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True) + epsilon)  # (..., 1)
        normal = tf.cast(centred * scale, x.dtype)

        def gradient(upstream):
            upstream, n = tf.cast(upstream, tf.float32), tf.cast(normal, tf.float32)
            of_n, rows = upstream * gamma, tf.range(tf.rank(x) - 1)
            # What is left of a gradient when its share along the two directions that normalising removes is taken away.
            mean, along_n = (tf.reduce_mean(part, axis=-1, keepdims=True) for part in (of_n, of_n * n))  # (..., 1)
            of_x = tf.cast(scale * (of_n - mean - n * along_n), x.dtype)
            return of_x, tf.reduce_sum(upstream * n, rows), tf.reduce_sum(upstream, rows)

        return tf.cast(tf.cast(normal, tf.float32) * gamma + beta, x.dtype), gradient

    return normalize(x, gamma, beta)


@keras.saving.register_keras_serializable(package="tf_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """`layer_normalization` with the weights of `keras.layers.LayerNormalization`.

    Args:
      epsilon: added to the variance.
    """

    def __init__(self, epsilon=1e-6, **kwargs):
        super().__init__(epsilon=epsilon, **kwargs)
        if not (self.center and self.scale) or self.rms_scaling or self.axis not in (-1, [-1]):
            raise ValueError("this LayerNormalization is over the last axis, with gamma and beta: for others use that of Keras")

    def call(self, x):
        """`[..., D]` -> `[..., D]`."""
        return layer_normalization(x, tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta), self.epsilon)
