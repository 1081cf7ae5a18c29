"""Attention (Sec. 3.2).

Shapes: B batch, S source, T target, H heads, D d_model, K depth of a head, V vocabulary.
"""

import keras
import tensorflow as tf

from tf_transformer.reference import ReferenceLayer


def scaled_dot_product_attention(q, k, v, mask):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (Eq. 1).

    Args:
      q: queries `[..., T, K]`.
      k: keys `[..., S, K]`.
      v: values `[..., S, Kv]`.
      mask: None, or a tensor that broadcasts to `[..., T, S]`, 1 = hidden.
    Returns: output `[..., T, Kv]` in the type of `v`; attention_weights `[..., T, S]` in float32, each row summing to 1 (also a row
      in which everything is hidden: it is uniform, not NaN).
    """
    dk = tf.cast(tf.shape(k)[-1], q.dtype)
    scaled_q = q / tf.math.sqrt(dk)  # (..., T, K): before the product, which could pass float16's 65504
    # The softmax is taken in float32 whatever the precision of the model: -1e9 does not fit into float16.
    scaled_attention_logits = tf.cast(tf.matmul(scaled_q, k, transpose_b=True), tf.float32)  # (..., T, S)
    if mask is not None:
        scaled_attention_logits += tf.cast(mask, tf.float32) * -1e9
    attention_weights = tf.nn.softmax(scaled_attention_logits, axis=-1)  # (..., T, S)
    output = tf.matmul(tf.cast(attention_weights, v.dtype), v)  # (..., T, Kv)
    return output, attention_weights


@keras.saving.register_keras_serializable(package="tf_transformer")
class MultiHeadAttention(ReferenceLayer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (Sec. 3.2.2).

    Args:
      d_model: width of the output.
      num_heads: h.
      key_dim: d_k, the depth of a head's queries and keys; None for d_model / h (the paper).
      value_dim: d_v, the depth of a head's values; None for d_model / h (the paper).
    Raises: ValueError when d_model is not divisible by num_heads and a depth is not given.
    """

    def __init__(self, d_model, num_heads, key_dim=None, value_dim=None, **kwargs):
        super().__init__(**kwargs)
        if d_model % num_heads and not (key_dim and value_dim):
            raise ValueError(f"d_model {d_model} is not divisible by num_heads {num_heads}")
        self.d_model, self.num_heads = d_model, num_heads
        self.key_dim, self.value_dim = key_dim, value_dim
        self.depth = key_dim or d_model // num_heads
        self.value_depth = value_dim or d_model // num_heads
        dtype = self.dtype_policy
        self.wq = keras.layers.Dense(num_heads * self.depth, dtype=dtype, name="wq")
        self.wk = keras.layers.Dense(num_heads * self.depth, dtype=dtype, name="wk")
        self.wv = keras.layers.Dense(num_heads * self.value_depth, dtype=dtype, name="wv")
        self.dense = keras.layers.Dense(d_model, dtype=dtype, name="dense")  # W^O

    def build(self, v_shape, k_shape=None, q_shape=None):
        """Creates the four projections. Shapes: `[B, S, D]` of v and k, `[B, T, D]` of q."""
        self.wv.build(v_shape)
        self.wk.build(k_shape or v_shape)
        self.wq.build(q_shape or v_shape)
        self.dense.build((None, None, self.num_heads * self.value_depth))
        self.built = True

    def split_heads(self, x, depth):
        """`[B, S, H*K]` -> `[B, H, S, K]`."""
        x = tf.reshape(x, (tf.shape(x)[0], -1, self.num_heads, depth))  # (B, S, H, K)
        return tf.transpose(x, perm=[0, 2, 1, 3])  # (B, H, S, K)

    def queries(self, q):
        """Projects q `[B, T, D]` -> queries `[B, H, T, K]`."""
        return self.split_heads(self.wq(q), self.depth)

    def keys_values(self, v, k):
        """Projects what is attended to: v, k `[B, S, D]` -> keys `[B, H, S, K]`, values `[B, H, S, Kv]`. Decoding keeps these."""
        return self.split_heads(self.wk(k), self.depth), self.split_heads(self.wv(v), self.value_depth)

    def fused_projection(self):
        """W^Q, W^K and W^V side by side for each head: kernel `[D, H*(2K+Kv)]`, bias `[H*(2K+Kv)]`."""
        parts = [(self.wq, self.depth), (self.wk, self.depth), (self.wv, self.value_depth)]
        kernel = tf.concat([tf.reshape(layer.kernel, (self.d_model, self.num_heads, depth)) for layer, depth in parts], axis=2)
        bias = tf.concat([tf.reshape(layer.bias, (self.num_heads, depth)) for layer, depth in parts], axis=1)
        width = self.num_heads * (2 * self.depth + self.value_depth)
        return tuple(tf.cast(part, self.compute_dtype) for part in (tf.reshape(kernel, (self.d_model, width)), tf.reshape(bias, (width,))))

    def queries_keys_values(self, x, fused):
        """The three projections of x `[B, T, D]` by one product, which costs less than three for the few words of a decoding step.

        Args:
          fused: what `fused_projection` returned, made once for many steps.
        Returns: queries and keys `[B, H, T, K]`, values `[B, H, T, Kv]`.
        """
        kernel, bias = fused
        all_three = tf.nn.bias_add(tf.matmul(tf.reshape(x, (-1, self.d_model)), kernel), bias)  # (B*T, H*(2K+Kv))
        all_three = tf.reshape(all_three, (tf.shape(x)[0], -1, self.num_heads, 2 * self.depth + self.value_depth))  # (B, T, H, 2K+Kv)
        all_three = tf.transpose(all_three, perm=[0, 2, 1, 3])  # (B, H, T, 2K+Kv)
        depth = self.depth
        return all_three[..., :depth], all_three[..., depth : 2 * depth], all_three[..., 2 * depth :]

    def attend(self, queries, keys, values, mask):
        """Projected queries `[B, H, T, K]`, keys and values -> output `[B, T, D]`, attention_weights `[B, H, T, S]`."""
        scaled_attention, attention_weights = scaled_dot_product_attention(queries, keys, values, mask)  # (B, H, T, Kv)
        scaled_attention = tf.transpose(scaled_attention, perm=[0, 2, 1, 3])  # (B, T, H, Kv)
        width = self.num_heads * self.value_depth
        concat_attention = tf.reshape(scaled_attention, (tf.shape(queries)[0], -1, width))  # (B, T, H*Kv)
        return self.dense(concat_attention), attention_weights

    def call(self, v, k, q, mask=None):
        """v, k `[B, S, D]`, q `[B, T, D]`, mask broadcasting to `[B, H, T, S]`.

        Returns: output `[B, T, D]`, attention_weights `[B, H, T, S]`.
        """
        return self.attend(self.queries(q), *self.keys_values(v, k), mask)

    def get_config(self):
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
        }
