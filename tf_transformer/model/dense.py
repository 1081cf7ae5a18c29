"""The linear layer: the projections of Sec. 3.2.2 and 3.4, and the feed-forward network of 3.3."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tf_transformer.model.keras_compat import ReferenceLayer, serializable


def dense(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """x W + b.

    The gradient of b is a sum over all tokens. A sum of equal terms in bfloat16, which has 8
    significant bits, stops growing after 256 of them. So it is summed in float32. (Matrix products
    are summed in float32 in every precision.)

    Args:
      x: `[..., D]`.
      kernel: W, float32 `[D, units]`.
      bias: b, float32 `[units]`.
    Returns: `[..., units]` in the type of `x`.
    """
    if x.shape.rank > 2:  # one product for all rows; `tf.tensordot` computes its shapes on a GPU
        rows = tf.reshape(x, [-1, kernel.shape[0]])
        return tf.reshape(dense(rows, kernel, bias), [*leading_shape(x), kernel.shape[1]])
    return _add_bias(tf.matmul(x, tf.cast(kernel, x.dtype)), tf.convert_to_tensor(bias))


@tf.custom_gradient
def _add_bias(x: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    """x `[n, units]` + b, with a gradient of b that is summed in float32."""

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return upstream, tf.raw_ops.BiasAddGrad(out_backprop=tf.cast(upstream, tf.float32))

    return tf.nn.bias_add(x, tf.cast(bias, x.dtype)), gradient


def leading_shape(x: tf.Tensor) -> list[tf.Tensor | int]:
    """The shape of x without its last axis, as numbers where they follow from the graph.

    A small model spends much of a decoding step on the computation of shapes.
    """
    *sizes, _ = x.shape
    if sizes.count(None) <= 1:
        return [-1 if size is None else size for size in sizes]
    return tf.unstack(tf.shape(x)[:-1])


@serializable
class Dense(ReferenceLayer):
    """`dense` with trainable weights: `keras.layers.Dense` with a float32 sum in its gradient.

    Args:
      units: width of the output.
      activation: name of a Keras activation, such as "relu", or None.
    """

    def __init__(self, units: int, activation: str | None = None, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.activation = activation
        self.initializer = keras.initializers.GlorotUniform()

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "units": self.units, "activation": self.activation}

    def build(self, x_shape: tuple) -> None:
        """Creates W, Glorot uniform, and b, all zeros, for inputs `[..., D]`."""
        kernel_shape, bias_shape = (x_shape[-1], self.units), (self.units,)
        options = {"autocast": False}  # float32 in every precision
        self.kernel = self.add_weight(kernel_shape, self.initializer, name="kernel", **options)
        self.bias = self.add_weight(bias_shape, "zeros", name="bias", **options)
        self.input_spec = keras.layers.InputSpec(min_ndim=2, axes={-1: x_shape[-1]})

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """`[..., D]` -> `[..., units]`."""
        x = dense(x, self.kernel, self.bias)  # (..., units)
        return keras.activations.get(self.activation)(x)
