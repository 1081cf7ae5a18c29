"""Embeddings (Sec. 3.4) and positions (Sec. 3.5)."""

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.reference import ReferenceLayer


def positional_encoding(position, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i / d_model)) (Sec. 3.5).

    Args:
      position: number of positions.
      d_model: width.
    Returns: float32 `[1, position, d_model]`, sines in the even and cosines in the odd columns.
    """
    pos = np.arange(position)[:, np.newaxis]  # (position, 1)
    two_i = np.arange(d_model)[np.newaxis, :] // 2 * 2  # (1, d_model)
    angles = pos / np.power(10000.0, two_i / d_model)  # (position, d_model)
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    return tf.constant(angles[np.newaxis], tf.float32)  # (1, position, d_model)


@keras.saving.register_keras_serializable(package="tf_transformer")
class Embedding(ReferenceLayer):
    """A table of word vectors, times sqrt(d_model), that can also be the pre-softmax projection (Sec. 3.4).

    Args:
      vocab_size: V, rows of the table.
      d_model: D, width.
    """

    def __init__(self, vocab_size, d_model, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size, self.d_model = vocab_size, d_model

    def build(self, ids_shape=None):
        """Creates the table, drawn from N(0, 1 / d_model), so that a scaled row has variance 1 and a logit too."""
        initializer = keras.initializers.RandomNormal(stddev=self.d_model**-0.5)
        self.table = self.add_weight(shape=(self.vocab_size, self.d_model), initializer=initializer, name="table")
        self.built = True

    def call(self, ids):
        """ids `[B, S]` -> `[B, S, D]`. Raises, when not in a graph: ValueError for an id outside the vocabulary."""
        if tf.executing_eagerly() and tf.size(ids):
            low, high = int(tf.reduce_min(ids)), int(tf.reduce_max(ids))
            if low < 0 or high >= self.vocab_size:
                wrong = low if low < 0 else high
                raise ValueError(f"id {wrong} is outside the vocabulary of {self.vocab_size} sub-words")
        # The reshape changes nothing but the gradient: dense, since Keras' Adam is wrong on slices when an id comes twice.
        table = tf.reshape(tf.cast(self.table, self.compute_dtype), (self.vocab_size, self.d_model))  # (V, D)
        x = tf.gather(table, ids)  # (B, S, D)
        return x * tf.cast(self.d_model**0.5, x.dtype)

    def logits(self, x):
        """x `[B, T, D]` -> `[B, T, V]`: the same table, transposed."""
        table = tf.cast(self.table, x.dtype)  # (V, D)
        flat = tf.reshape(x, (-1, self.d_model))  # (B*T, D)
        logits = tf.matmul(flat, table, transpose_b=True)  # (B*T, V)
        return tf.reshape(logits, (tf.shape(x)[0], -1, self.vocab_size))  # (B, T, V)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "vocab_size": self.vocab_size, "d_model": self.d_model}


@keras.saving.register_keras_serializable(package="tf_transformer")
class Positions(ReferenceLayer):
    """Adds the position of each word to its vector (Sec. 3.5).

    Args:
      maximum_position_encoding: longest sequence.
      d_model: width.
      kind: "sinusoidal", or "learned" (Table 3, row E).
    """

    def __init__(self, maximum_position_encoding, d_model, kind="sinusoidal", **kwargs):
        super().__init__(**kwargs)
        if kind not in ("sinusoidal", "learned"):
            raise ValueError(f"positions are 'sinusoidal' or 'learned', not {kind!r}")
        self.maximum_position_encoding, self.d_model, self.kind = maximum_position_encoding, d_model, kind

    def build(self, x_shape=None):
        """Creates the table: a constant, or a weight when learned."""
        shape = (1, self.maximum_position_encoding, self.d_model)
        if self.kind == "learned":
            initializer = keras.initializers.RandomNormal(stddev=1.0)  # the size of a scaled word vector
            self.pos_encoding = self.add_weight(shape=shape, initializer=initializer, name="pos_encoding")
        else:
            with tf.init_scope():  # a real tensor, also when the layer is built inside a graph
                self.pos_encoding = positional_encoding(*shape[1:])
        self.built = True

    def call(self, x, start=0):
        """x `[B, T, D]`, whose first word stands at position `start` -> `[B, T, D]`.

        Raises: ValueError (in a graph with unknown lengths: tf.errors.InvalidArgumentError) when the positions pass the table's end.
        """
        end = start + (tf.shape(x)[1] if x.shape[1] is None else x.shape[1])
        if tf.is_tensor(end) and not tf.executing_eagerly():
            check = tf.debugging.assert_less_equal(end, self.maximum_position_encoding, "longer than the table of positions")
            with tf.control_dependencies([check]):  # or the sum below may fail first, on its shapes
                end = tf.identity(end)
        elif end > self.maximum_position_encoding:
            raise ValueError(f"{int(end)} positions, but the table of positions ends at {self.maximum_position_encoding}")
        return x + tf.cast(self.pos_encoding[:, start:end], x.dtype)

    def get_config(self):
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "maximum_position_encoding": self.maximum_position_encoding,
            "d_model": self.d_model,
            "kind": self.kind,
        }
