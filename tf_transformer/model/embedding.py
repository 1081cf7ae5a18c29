"""Embeddings (Sec. 3.4) and positional encoding (Sec. 3.5).

Shapes: B batch, S source, T target, D d_model, V vocabulary.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.model.keras_compat import ReferenceLayer, serializable
from tf_transformer.special_tokens import PAD


def positional_encoding(position: int, d_model: int) -> tf.Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i+1) = cos(the same) (Sec. 3.5).

    Args:
      position: number of positions.
      d_model: width.
    Returns: float32 `[1, position, d_model]`, sines in even and cosines in odd columns.
    """
    pos = np.arange(position)[:, np.newaxis]  # (position, 1)
    two_i = np.arange(d_model)[np.newaxis, :] // 2 * 2  # (1, d_model)
    angles = pos / np.power(10000.0, two_i / d_model)  # (position, d_model)
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    return tf.constant(angles[np.newaxis], tf.float32)  # (1, position, d_model)


@serializable
class Embedding(ReferenceLayer):
    """A table of token embeddings, scaled by sqrt(d_model) (Sec. 3.4).

    The same table can be the pre-softmax projection (`transformer.project_tied`).

    Args:
      vocab_size: V, rows of the table.
      d_model: D, width.
      mask_zero: whether the output has an implicit mask for Keras, which hides the padding, as of
        `keras.layers.Embedding`. (`Encoder` and `Decoder` hide the padding anyway.)
    """

    def __init__(
        self, vocab_size: int, d_model: int, mask_zero: bool = False, **kwargs: object
    ) -> None:
        super().__init__(autocast=False, **kwargs)  # ids are never rounded
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.mask_zero = mask_zero

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(), "vocab_size": self.vocab_size, "d_model": self.d_model,
            "mask_zero": self.mask_zero,
        }  # fmt: skip

    def build(self, ids_shape: tuple | None = None) -> None:
        """Creates the table, drawn from N(0, 1 / d_model).

        A scaled row, and a logit of the tied projection, then have variance 1.
        """
        self.table = self.add_weight(
            shape=(self.vocab_size, self.d_model),
            initializer=keras.initializers.RandomNormal(stddev=self.d_model**-0.5),
            name="table",
            autocast=False,
        )

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """ids `[B, S]`, of any type of numbers -> `[B, S, D]`.

        Raises: ValueError, in eager mode, for an id outside the vocabulary.
        """
        if ids.dtype not in (tf.int32, tf.int64):
            ids = tf.cast(ids, tf.int32)
        if tf.executing_eagerly() and tf.size(ids):
            for id_ in (int(tf.reduce_min(ids)), int(tf.reduce_max(ids))):
                if not 0 <= id_ < self.vocab_size:
                    size = f"{self.vocab_size} sub-words"
                    raise ValueError(f"id {id_} is outside the vocabulary of {size}")
        # The reshape makes the gradient dense. Adam is wrong for a sparse gradient in which an id
        # occurs twice: it squares its parts instead of their sum.
        table = tf.reshape(self.table, (self.vocab_size, self.d_model))
        x = tf.gather(table, ids)  # (B, S, D)
        # The cast follows the lookup, so that the gradients of a row are summed in float32.
        x = tf.cast(x, self.compute_dtype)
        return x * tf.cast(self.d_model**0.5, x.dtype)

    def compute_mask(self, inputs: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor | None:
        """Returns the implicit mask of the output, bool `[B, S]`, False for padding; or None."""
        return keras.ops.not_equal(inputs, PAD) if self.mask_zero else None


@serializable
class PositionalEncoding(ReferenceLayer):
    """Adds the positional encoding to the embeddings (Sec. 3.5).

    Args:
      maximum_position_encoding: longest sequence.
      d_model: width.
      kind: "sinusoidal", or "learned" (Table 3, row E).
    Raises: ValueError for another kind.
    """

    def __init__(
        self, maximum_position_encoding: int, d_model: int, kind: str = "sinusoidal",
        **kwargs: object,
    ) -> None:  # fmt: skip
        super().__init__(**kwargs)
        if kind not in ("sinusoidal", "learned"):
            raise ValueError(f"positional_encoding is 'sinusoidal' or 'learned', not {kind!r}")
        self.maximum_position_encoding = maximum_position_encoding
        self.d_model = d_model
        self.kind = kind

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(), "d_model": self.d_model, "kind": self.kind,
            "maximum_position_encoding": self.maximum_position_encoding,
        }  # fmt: skip

    def build(self, x_shape: tuple | None = None) -> None:
        """Creates the table `[1, maximum_position_encoding, D]`: a constant, or a weight."""
        if self.kind == "learned":
            self.pos_encoding = self.add_weight(
                shape=(1, self.maximum_position_encoding, self.d_model),
                initializer=keras.initializers.RandomNormal(stddev=1.0),  # as a scaled embedding
                name="pos_encoding",
                autocast=False,
            )
        else:
            with tf.init_scope():  # a constant outside any graph in which the layer is built
                self.pos_encoding = positional_encoding(
                    self.maximum_position_encoding, self.d_model
                )

    def call(self, x: tf.Tensor, start: tf.Tensor | int = 0) -> tf.Tensor:
        """x `[B, T, D]` at the positions from `start` on -> `[B, T, D]`.

        Raises: ValueError for T above `maximum_position_encoding`; in a graph with unknown T,
          tf.errors.InvalidArgumentError.
        """
        length, maximum = x.shape[1], self.maximum_position_encoding
        if length is None:
            length = tf.shape(x)[1]
            message = "the sequence is longer than the positional encoding"
            check = tf.debugging.Assert(length <= maximum, [message, length])
            with tf.control_dependencies([check]):  # before the addition fails on its shapes
                length = tf.identity(length)
        elif length > maximum:
            raise ValueError(f"{length} positions, but the positional encoding has {maximum}")
        positions = tf.slice(self.pos_encoding, [0, start, 0], [1, length, self.d_model])
        # In float32, so that the gradient of learned positions is summed over the batch in float32.
        return tf.cast(tf.cast(x, tf.float32) + positions, x.dtype)  # (B, T, D)


@serializable
class Positions(PositionalEncoding):
    """`PositionalEncoding` in files of version 0.2, which find its weights by this name."""
