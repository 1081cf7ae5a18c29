"""One layer of the encoder and one of the decoder (Sec. 3.1).

Each sub-layer's output goes through dropout, is added to the sub-layer's input, and is normalized:
LayerNorm(x + Dropout(SubLayer(x))), which is called post-norm today. With pre-norm
(`Variant.norm`), the sub-layer's input is normalized instead: x + Dropout(SubLayer(LayerNorm(x)))
(Xiong et al. 2020).

Shapes: B batch, S source, T target, H heads, D d_model.
"""

from typing import Any

import keras
import tensorflow as tf

from tf_transformer.model.attention import MultiHeadAttention
from tf_transformer.model.dense import Dense
from tf_transformer.model.dropout import Dropout
from tf_transformer.model.keras_compat import serializable
from tf_transformer.model.layer_norm import LayerNormalization
from tf_transformer.model.masks import create_look_ahead_mask
from tf_transformer.model.variant import PAPER, Variant, VariantLayer


@serializable
class FeedForwardNetwork(keras.Sequential):
    """A `Sequential` that hands on an implicit mask, also after it is loaded from a file."""

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        """Returns the mask of the inputs."""
        return previous_mask


def point_wise_feed_forward_network(
    d_model: int, dff: int, name: str | None = None, dtype: keras.DTypePolicy | None = None,
    activation: str = "relu",
) -> keras.Model:  # fmt: skip
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (Eq. 2).

    Args:
      d_model: width of the output.
      dff: d_ff, width of the inner layer.
      name, dtype: of the Keras model and its layers.
      activation: "relu", the max(0, x) of the equation, or another Keras activation.
    Returns: a Keras model `[B, S, D]` -> `[B, S, D]`.
    """
    return FeedForwardNetwork(
        [
            Dense(dff, activation=activation, dtype=dtype, name="inner"),  # (B, S, dff)
            Dense(d_model, dtype=dtype, name="outer"),  # (B, S, D)
        ],
        name=name,
    )


@serializable
class EncoderLayer(VariantLayer):
    """Self-attention, then the feed-forward network (Sec. 3.1, left half of Figure 1).

    Args:
      d_model, num_heads, dff: as in Table 3.
      rate: P_drop on each sub-layer's output.
      variant: a `Variant`; the paper's by default.
    """

    def __init__(
        self, d_model: int, num_heads: int, dff: int, rate: float = 0.1,
        variant: Variant = PAPER, **kwargs: object,
    ) -> None:  # fmt: skip
        super().__init__(d_model, num_heads, dff, rate, variant, **kwargs)
        dtype = self.dtype_policy
        heads = (d_model, num_heads, variant.key_dim, variant.value_dim)
        self.mha = MultiHeadAttention(*heads, dtype=dtype, name="mha")
        self.ffn = point_wise_feed_forward_network(d_model, dff, "ffn", dtype, variant.activation)
        self.layernorm1 = LayerNormalization(dtype=dtype, name="layernorm1")
        self.layernorm2 = LayerNormalization(dtype=dtype, name="layernorm2")
        self.dropout1 = Dropout(rate, dtype=dtype, name="dropout1")
        self.dropout2 = Dropout(rate, dtype=dtype, name="dropout2")

    def build(self, x_shape: tuple) -> None:
        """Creates the weights for inputs `[B, S, D]`."""
        for layer in (self.mha, self.ffn, self.layernorm1, self.layernorm2):
            layer.build(x_shape)

    def call(
        self, x: tf.Tensor, training: bool = False, mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Computes the two sub-layers.

        Args:
          x: `[B, S, D]`.
          mask: broadcasts to `[B, H, S, S]`, 1 = hidden; or a boolean mask of Keras. None for the
            implicit mask of x, if it has one.
        Returns: `[B, S, D]`.
        """
        out2, _ = self.with_attention_weights(x, training, mask)
        return out2

    def with_attention_weights(
        self, x: tf.Tensor, training: bool = False, mask: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """As `call`; returns the attention weights `[B, H, S, S]` too."""
        q = self.variant.pre_norm(self.layernorm1, x)  # (B, S, D)
        attn_output, attention_weights = self.mha(q, q, q, mask)  # (B, S, D)
        attn_output = self.dropout1(attn_output, training=training)
        out1 = self.variant.post_norm(self.layernorm1, x + attn_output)  # (B, S, D)

        ffn_output = self.ffn(self.variant.pre_norm(self.layernorm2, out1))  # (B, S, D)
        ffn_output = self.dropout2(ffn_output, training=training)
        out2 = self.variant.post_norm(self.layernorm2, out1 + ffn_output)  # (B, S, D)
        return out2, attention_weights


@serializable
class DecoderLayer(VariantLayer):
    """Masked self-attention, attention over the encoder's output, feed-forward (Sec. 3.1).

    Args: as of `EncoderLayer`.
    """

    def __init__(
        self, d_model: int, num_heads: int, dff: int, rate: float = 0.1,
        variant: Variant = PAPER, **kwargs: object,
    ) -> None:  # fmt: skip
        super().__init__(d_model, num_heads, dff, rate, variant, **kwargs)
        dtype = self.dtype_policy
        heads = (d_model, num_heads, variant.key_dim, variant.value_dim)
        self.mha1 = MultiHeadAttention(*heads, dtype=dtype, name="mha1")  # self-attention
        # Attention over the encoder's output.
        self.mha2 = MultiHeadAttention(*heads, dtype=dtype, name="mha2")
        self.ffn = point_wise_feed_forward_network(d_model, dff, "ffn", dtype, variant.activation)
        self.layernorm1 = LayerNormalization(dtype=dtype, name="layernorm1")
        self.layernorm2 = LayerNormalization(dtype=dtype, name="layernorm2")
        self.layernorm3 = LayerNormalization(dtype=dtype, name="layernorm3")
        self.dropout1 = Dropout(rate, dtype=dtype, name="dropout1")
        self.dropout2 = Dropout(rate, dtype=dtype, name="dropout2")
        self.dropout3 = Dropout(rate, dtype=dtype, name="dropout3")

    def build(self, x_shape: tuple, enc_output_shape: tuple = ()) -> None:
        """Creates the weights for inputs `[B, T, D]` and an encoder output `[B, S, D]`."""
        self.mha1.build(x_shape)
        self.mha2.build(enc_output_shape or x_shape, q_shape=x_shape)
        for layer in (self.ffn, self.layernorm1, self.layernorm2, self.layernorm3):
            layer.build(x_shape)

    def call(
        self, x: tf.Tensor, enc_output: tf.Tensor, training: bool = False,
        look_ahead_mask: tf.Tensor | None = None, padding_mask: tf.Tensor | None = None,
        x_mask: tf.Tensor | None = None, enc_output_mask: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:  # fmt: skip
        """Computes the three sub-layers. Each mask may also be a boolean mask of Keras.

        Args:
          x: `[B, T, D]`.
          enc_output: `[B, S, D]`.
          look_ahead_mask: broadcasts to `[B, H, T, T]`, 1 = hidden. None hides the later positions
            and what `x_mask` hides; 0.0 hides nothing.
          padding_mask: broadcasts to `[B, H, T, S]`, 1 = hidden; replaced by `enc_output_mask`
            where it is None.
          x_mask, enc_output_mask: bool `[B, T]` and `[B, S]`; Keras sets them to the implicit masks
            of x and enc_output.
        Returns: output `[B, T, D]`, the attention weights of the first block `[B, H, T, T]` and of
          the second block `[B, H, T, S]`.
        Raises: ValueError for a boolean look_ahead_mask `[B, T]`, which would show the future.
        """
        if look_ahead_mask is None:
            look_ahead_mask = create_look_ahead_mask(tf.shape(x)[1])  # (T, T)
            if x_mask is not None:
                hidden = 1 - tf.cast(x_mask, tf.float32)  # (B, T)
                padding = tf.expand_dims(tf.expand_dims(hidden, 1), 1)  # (B, 1, 1, T)
                look_ahead_mask = tf.maximum(look_ahead_mask, padding)  # (B, 1, T, T)
        elif getattr(look_ahead_mask, "dtype", None) == tf.bool and look_ahead_mask.ndim == 2:
            raise ValueError("a boolean look_ahead_mask is [B, T, T] or [B, H, T, T], not [B, T]")
        if padding_mask is None:
            padding_mask = enc_output_mask
        source = self.mha2.keys_values(enc_output, enc_output)
        return self.attend(x, self.keys_values(x), source, training, look_ahead_mask, padding_mask)

    def keys_values(self, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The keys and values of the self-attention for the layer's input x `[B, T, D]`."""
        k = self.variant.pre_norm(self.layernorm1, x)  # (B, T, D)
        return self.mha1.keys_values(k, k)

    def attend(
        self, x: tf.Tensor, target: tuple[tf.Tensor, tf.Tensor],
        source: tuple[tf.Tensor, tf.Tensor], training: bool = False,
        look_ahead_mask: tf.Tensor | None = None, padding_mask: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:  # fmt: skip
        """The three sub-layers, over given keys and values.

        Args:
          x: `[B, T, D]`.
          target: `keys_values` of x in training; of all tokens so far in a decoding step.
          source: keys and values of `mha2` for the encoder's output.
          training, look_ahead_mask, padding_mask: as for `call`.
        Returns: as `call`.
        """
        q = self.variant.pre_norm(self.layernorm1, x)  # (B, T, D)
        attn1, attn_weights_block1 = self.mha1.attend(q, *target, look_ahead_mask)  # (B, T, D)
        attn1 = self.dropout1(attn1, training=training)
        out1 = self.variant.post_norm(self.layernorm1, attn1 + x)  # (B, T, D)

        q = self.variant.pre_norm(self.layernorm2, out1)  # (B, T, D)
        attn2, attn_weights_block2 = self.mha2.attend(q, *source, padding_mask)  # (B, T, D)
        attn2 = self.dropout2(attn2, training=training)
        out2 = self.variant.post_norm(self.layernorm2, attn2 + out1)  # (B, T, D)

        ffn_output = self.ffn(self.variant.pre_norm(self.layernorm3, out2))  # (B, T, D)
        ffn_output = self.dropout3(ffn_output, training=training)
        out3 = self.variant.post_norm(self.layernorm3, ffn_output + out2)  # (B, T, D)
        return out3, attn_weights_block1, attn_weights_block2
