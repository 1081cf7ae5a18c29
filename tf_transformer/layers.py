"""One layer of each stack (Sec. 3.1): sub-layers, each followed by dropout, a residual connection and layer normalisation.

Shapes: B batch, S source, T target, H heads, D d_model, K depth of a head; K' hypotheses of a sentence, P places.
"""

import keras
import tensorflow as tf

from tf_transformer.attention import MultiHeadAttention
from tf_transformer.dropout import Dropout
from tf_transformer.normalization import LayerNormalization
from tf_transformer.reference import ReferenceLayer

LAYER_NORM_EPSILON = 1e-6  # as the reference code has it; the paper names none


def point_wise_feed_forward_network(d_model, dff, name=None, dtype=None):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (Eq. 2).

    Args:
      d_model: width of the output.
      dff: d_ff, width of the inner layer.
      name: of the Keras model.
      dtype: precision of its layers, None for the global one.
    Returns: a Keras model `[B, S, D]` -> `[B, S, D]`.
    """
    return keras.Sequential(
        [
            keras.layers.Dense(dff, activation="relu", dtype=dtype, name="inner"),  # (B, S, dff)
            keras.layers.Dense(d_model, dtype=dtype, name="outer"),  # (B, S, D)
        ],
        name=name,
    )


class _StackLayer(ReferenceLayer):
    """What both kinds of layer have: their sizes, and how these are saved."""

    def __init__(self, d_model, num_heads, dff, rate=0.1, key_dim=None, value_dim=None, **kwargs):
        super().__init__(**kwargs)
        self.d_model, self.num_heads, self.dff, self.rate = d_model, num_heads, dff, rate
        self.key_dim, self.value_dim = key_dim, value_dim

    def _attention(self, name):
        return MultiHeadAttention(self.d_model, self.num_heads, self.key_dim, self.value_dim, dtype=self.dtype_policy, name=name)

    def _feed_forward(self):
        return point_wise_feed_forward_network(self.d_model, self.dff, name="ffn", dtype=self.dtype_policy)

    def _layer_norm(self, name):
        return LayerNormalization(epsilon=LAYER_NORM_EPSILON, dtype=self.dtype_policy, name=name)

    def _dropout(self, name):
        return Dropout(self.rate, dtype=self.dtype_policy, name=name)

    def get_config(self):
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "num_heads": self.num_heads,
            "dff": self.dff,
            "rate": self.rate,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
        }


@keras.saving.register_keras_serializable(package="tf_transformer")
class EncoderLayer(_StackLayer):
    """x = LayerNorm(x + SelfAttention(x)); x = LayerNorm(x + FFN(x)) (Sec. 3.1).

    Args:
      d_model: D.
      num_heads: h.
      dff: d_ff.
      rate: P_drop on each sub-layer's output.
      key_dim, value_dim: depths of a head, None for d_model / h.
    """

    def __init__(self, d_model, num_heads, dff, rate=0.1, key_dim=None, value_dim=None, **kwargs):
        super().__init__(d_model, num_heads, dff, rate, key_dim, value_dim, **kwargs)
        self.mha = self._attention("mha")
        self.ffn = self._feed_forward()
        self.layernorm1, self.layernorm2 = self._layer_norm("layernorm1"), self._layer_norm("layernorm2")
        self.dropout1, self.dropout2 = self._dropout("dropout1"), self._dropout("dropout2")

    def build(self, x_shape):
        """Creates the weights for inputs `[B, S, D]`."""
        self.mha.build(x_shape)
        for layer in (self.ffn, self.layernorm1, self.layernorm2):
            layer.build(x_shape)
        self.built = True

    def call(self, x, training=False, mask=None):
        """x `[B, S, D]`, mask broadcasting to `[B, H, S, S]` -> `[B, S, D]`."""
        attn_output, _ = self.mha(x, x, x, mask)  # (B, S, D)
        attn_output = self.dropout1(attn_output, training=training)
        out1 = self.layernorm1(x + attn_output)  # (B, S, D)

        ffn_output = self.ffn(out1)  # (B, S, D)
        ffn_output = self.dropout2(ffn_output, training=training)
        return self.layernorm2(out1 + ffn_output)  # (B, S, D)


@keras.saving.register_keras_serializable(package="tf_transformer")
class DecoderLayer(_StackLayer):
    """Masked self-attention, attention on the encoder's output, feed-forward; each as LayerNorm(x + SubLayer(x)) (Sec. 3.1).

    Args:
      d_model: D.
      num_heads: h.
      dff: d_ff.
      rate: P_drop on each sub-layer's output.
      key_dim, value_dim: depths of a head, None for d_model / h.
    """

    def __init__(self, d_model, num_heads, dff, rate=0.1, key_dim=None, value_dim=None, **kwargs):
        super().__init__(d_model, num_heads, dff, rate, key_dim, value_dim, **kwargs)
        self.mha1, self.mha2 = self._attention("mha1"), self._attention("mha2")
        self.ffn = self._feed_forward()
        self.layernorm1, self.layernorm2 = self._layer_norm("layernorm1"), self._layer_norm("layernorm2")
        self.layernorm3 = self._layer_norm("layernorm3")
        self.dropout1, self.dropout2 = self._dropout("dropout1"), self._dropout("dropout2")
        self.dropout3 = self._dropout("dropout3")

    def build(self, x_shape, enc_output_shape=None):
        """Creates the weights for inputs `[B, T, D]` and an encoder output `[B, S, D]`."""
        self.mha1.build(x_shape)
        self.mha2.build(enc_output_shape or x_shape, q_shape=x_shape)
        for layer in (self.ffn, self.layernorm1, self.layernorm2, self.layernorm3):
            layer.build(x_shape)
        self.built = True

    def call(self, x, enc_output, training=False, look_ahead_mask=None, padding_mask=None):
        """x `[B, T, D]`, enc_output `[B, S, D]`, masks broadcasting to `[B, H, T, T]` and `[B, H, T, S]`.

        Returns: output `[B, T, D]`, attention weights of the first block `[B, H, T, T]` and of the second `[B, H, T, S]`.
        """
        queries_keys_values = self.mha1.queries(x), *self.mha1.keys_values(x, x)
        memory = self.mha2.keys_values(enc_output, enc_output)
        return self._sub_layers(x, queries_keys_values, memory, training, look_ahead_mask, padding_mask)

    def step(self, x, past, place, hidden, memory, padding_mask, fused):
        """The same for one new word of K' hypotheses of each sentence, with the keys and values of what came before kept (law 4).

        Args:
          x: `[B, K', D]`.
          past: keys `[B, H, P, K]` and values `[B, H, P, Kv]`, with room for the new words.
          place: where in P the first of them belongs.
          hidden: `[B, 1, K', P]`, the places that each hypothesis may not see.
          memory: keys and values of the encoder's output, `[B, H, S, K]` and `[B, H, S, Kv]`.
          padding_mask: `[B, 1, 1, S]`.
          fused: the projections of `mha1`, as `fused_projection` returned them.
        Returns: output `[B, K', D]`, past with the new words.
        """
        queries, *new = self.mha1.queries_keys_values(x, fused)
        past = tuple(write_places(old, one, place) for old, one in zip(past, new))
        out, _, _ = self._sub_layers(x, (queries, *past), memory, False, hidden, padding_mask)
        return out, past

    def _sub_layers(self, x, queries_keys_values, memory, training, look_ahead_mask, padding_mask):
        attn1, attn_weights_block1 = self.mha1.attend(*queries_keys_values, look_ahead_mask)  # (B, T, D)
        attn1 = self.dropout1(attn1, training=training)
        out1 = self.layernorm1(attn1 + x)  # (B, T, D)

        attn2, attn_weights_block2 = self.mha2.attend(self.mha2.queries(out1), *memory, padding_mask)  # (B, T, D)
        attn2 = self.dropout2(attn2, training=training)
        out2 = self.layernorm2(attn2 + out1)  # (B, T, D)

        ffn_output = self.ffn(out2)  # (B, T, D)
        ffn_output = self.dropout3(ffn_output, training=training)
        out3 = self.layernorm3(ffn_output + out2)  # (B, T, D)
        return out3, attn_weights_block1, attn_weights_block2


def write_places(x, new, place):
    """x `[B, ..., P, K]` with `new` `[B, ..., n, K]` from `place` on; in x's own memory where nothing else needs that.

    As a matrix of B*... rows, for which TensorFlow has a quicker way than for many dimensions.
    """
    depth = tf.shape(x)[-1]
    rows = tf.reduce_prod(tf.shape(x)[:-2])
    begin, end = [0, place * depth], [0, (place + tf.shape(new)[-2]) * depth]
    flat, flat_new = tf.reshape(x, [rows, -1]), tf.reshape(new, [rows, -1])
    flat = tf.raw_ops.TensorStridedSliceUpdate(
        input=flat, begin=tf.stack(begin), end=tf.stack(end), strides=[1, 1], value=flat_new, begin_mask=1, end_mask=1
    )
    return tf.reshape(flat, tf.shape(x))
