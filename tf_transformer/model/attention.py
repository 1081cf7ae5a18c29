"""Attention (Sec. 3.2).

Shapes: B batch, S source, T target, H heads, D d_model, K depth of a head.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_transformer.model.dense import Dense, leading_shape
from tf_transformer.model.keras_compat import ReferenceLayer, functional, serializable
from tf_transformer.model.masks import float_mask


@functional
def scaled_dot_product_attention(
    q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, mask: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (Eq. 1).

    Args:
      q: queries `[..., T, K]`.
      k: keys `[..., S, K]`.
      v: values `[..., S, Kv]`.
      mask: None, or a tensor that broadcasts to `[..., T, S]`, 1 = hidden; a boolean one is as in
        `masks.float_mask`.
    Returns: output `[..., T, Kv]` in the type of `v`; attention_weights `[..., T, S]` in float32.
      Each row of the weights sums to 1. A row in which everything is hidden is uniform, not NaN.
    """
    # Scale the queries before the product, which could exceed the range of float16.
    dk = tf.cast(tf.shape(k)[-1], q.dtype)
    scaled_q = q / tf.math.sqrt(dk)  # (..., T, K)
    scaled_attention_logits = tf.matmul(scaled_q, k, transpose_b=True)  # (..., T, S)

    # The softmax is computed in float32 in every precision: -1e9 does not fit into float16.
    scaled_attention_logits = tf.cast(scaled_attention_logits, tf.float32)
    if mask is not None:
        scaled_attention_logits += float_mask(mask, scaled_attention_logits.shape) * -1e9

    attention_weights = tf.nn.softmax(scaled_attention_logits, axis=-1)  # (..., T, S)
    output = tf.matmul(tf.cast(attention_weights, v.dtype), v)  # (..., T, Kv)
    return output, attention_weights


@serializable
class MultiHeadAttention(ReferenceLayer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (Sec. 3.2.2).

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Args:
      d_model: width of the output.
      num_heads: h.
      key_dim: d_k, depth of a head's queries and keys; None for d_model / h (the paper).
      value_dim: d_v, depth of a head's values; None for d_model / h (the paper).
    Raises: ValueError when d_model is not divisible by num_heads and a depth is not given.
    """

    def __init__(
        self, d_model: int, num_heads: int, key_dim: int | None = None,
        value_dim: int | None = None, **kwargs: object,
    ) -> None:  # fmt: skip
        super().__init__(**kwargs)
        if d_model % num_heads and not (key_dim and value_dim):
            raise ValueError(f"d_model {d_model} is not divisible by num_heads {num_heads}")
        self.d_model = d_model
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.depth = key_dim or d_model // num_heads
        self.value_depth = value_dim or d_model // num_heads
        dtype = self.dtype_policy
        self.wq = Dense(num_heads * self.depth, dtype=dtype, name="wq")
        self.wk = Dense(num_heads * self.depth, dtype=dtype, name="wk")
        self.wv = Dense(num_heads * self.value_depth, dtype=dtype, name="wv")
        self.dense = Dense(d_model, dtype=dtype, name="dense")  # W^O

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(), "d_model": self.d_model, "num_heads": self.num_heads,
            "key_dim": self.key_dim, "value_dim": self.value_dim,
        }  # fmt: skip

    def build(self, v_shape: tuple, k_shape: tuple = (), q_shape: tuple = ()) -> None:
        """Creates the weights. Shapes: `[B, S, D]` of v and k, `[B, T, D]` of q."""
        self.wv.build(v_shape)
        self.wk.build(k_shape or v_shape)
        self.wq.build(q_shape or v_shape)
        self.dense.build((None, None, self.num_heads * self.value_depth))

    def split_heads(
        self, x: tf.Tensor, depth: int, shape: Sequence[tf.Tensor | int] | None = None
    ) -> tf.Tensor:
        """`[B, S, H*K]` -> `[B, H, S, K]`. `shape` is another (B, S) than x has."""
        x = tf.reshape(x, (*(shape or leading_shape(x)), self.num_heads, depth))  # (B, S, H, K)
        return tf.transpose(x, perm=[0, 2, 1, 3])  # (B, H, S, K)

    def merge_heads(
        self, x: tf.Tensor, shape: Sequence[tf.Tensor | int] | None = None
    ) -> tf.Tensor:
        """`[B, H, T, Kv]` -> `[B, T, H*Kv]`, the concatenation of the heads; `shape` is (B, T)."""
        x = tf.transpose(x, perm=[0, 2, 1, 3])  # (B, T, H, Kv)
        return tf.reshape(x, (*(shape or leading_shape(x)[:2]), self.num_heads * self.value_depth))

    def keys_values(self, v: tf.Tensor, k: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Projects v and k `[B, S, D]` -> keys `[B, H, S, K]` and values `[B, H, S, Kv]`."""
        keys = self.split_heads(self.wk(k), self.depth)  # (B, H, S, K)
        values = self.split_heads(self.wv(v), self.value_depth)  # (B, H, S, Kv)
        return keys, values

    def attend(
        self, q: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, mask: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Attends to given keys and values, for example to the cache of a decoding step.

        Args:
          q: `[B, T, D]`. Several rows of q can share a row of keys: B is a multiple of theirs.
          mask: None, or a tensor that broadcasts to `[B, H, T, S]`, 1 = hidden.
        Returns: output `[B, T, D]`, attention_weights `[B, H, T, S]`.
        """
        shape = leading_shape(q)
        q = self.split_heads(self.wq(q), self.depth, (tf.shape(keys)[0], -1))  # (B, H, T, K)
        scaled_attention, attention_weights = scaled_dot_product_attention(q, keys, values, mask)
        concat_attention = self.merge_heads(scaled_attention, shape)  # (B, T, H*Kv)
        output = self.dense(concat_attention)  # (B, T, D)
        return output, attention_weights

    def call(
        self, v: tf.Tensor, k: tf.Tensor, q: tf.Tensor, mask: tf.Tensor | None = None,
        k_mask: tf.Tensor | None = None, q_mask: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:  # fmt: skip
        """Attends from each position of q to all positions of v that the mask shows.

        Args:
          v, k: `[B, S, D]`.
          q: `[B, T, D]`.
          mask: broadcasts to `[B, H, T, S]`, 1 = hidden; or a boolean mask of Keras.
          k_mask: replaces mask None; Keras sets it to the implicit mask of k.
          q_mask: the implicit mask of q, which Keras sets, and of the output.
        Returns: output `[B, T, D]`, attention_weights `[B, H, T, S]`.
        """
        keys, values = self.keys_values(v, k)
        output, weights = self.attend(q, keys, values, k_mask if mask is None else mask)
        output._keras_mask = q_mask
        return output, weights

    def compute_mask(self, inputs: tf.Tensor, mask: tf.Tensor | None = None) -> None:
        """Returns None: `call` sets the mask of the output, since Keras gives only v here."""
        return None
