"""The encoder, the decoder and the Transformer (Figure 1).

Shapes: B batch, S source, T target, H heads, D d_model, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tf_transformer.keras_compat import ReferenceCall, ReferenceLayer
from tf_transformer.model.dense import Dense, dense, leading_shape
from tf_transformer.model.dropout import Dropout
from tf_transformer.model.embedding import Embedding, Positions
from tf_transformer.model.layers import DecoderLayer, EncoderLayer
from tf_transformer.model.masks import create_masks
from tf_transformer.model.variant import PAPER, Variant


@keras.saving.register_keras_serializable(package="tf_transformer")
class Encoder(ReferenceLayer):
    """The left half of Figure 1: embedding and positional encoding, then N encoder layers.

    Args:
      num_layers (N), d_model, num_heads, dff: as in Table 3.
      input_vocab_size: sub-words of the source.
      maximum_position_encoding: longest source.
      rate: P_drop.
      variant: a `Variant`; that of the paper by default.
      embedding: an `Embedding` to share, or None to create one.
    """

    def __init__(
        self, num_layers: int, d_model: int, num_heads: int, dff: int, input_vocab_size: int,
        maximum_position_encoding: int, rate: float = 0.1, variant: Variant = PAPER,
        embedding: Embedding | None = None, **kwargs: object,
    ) -> None:  # fmt: skip
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.d_model = d_model
        self.num_heads = num_heads
        self.dff = dff
        self.input_vocab_size = input_vocab_size
        self.maximum_position_encoding = maximum_position_encoding
        self.rate = rate
        self.variant = variant
        dtype = self.dtype_policy
        self.embedding = embedding or Embedding(
            input_vocab_size, d_model, dtype=dtype, name="embedding"
        )
        self.pos_encoding = Positions(
            maximum_position_encoding, d_model, variant.positional_encoding, dtype=dtype,
            name="positions",
        )  # fmt: skip
        self.enc_layers = [
            EncoderLayer(d_model, num_heads, dff, rate, variant, dtype=dtype, name=f"layer{i + 1}")
            for i in range(num_layers)
        ]
        self.dropout = Dropout(rate, dtype=dtype, name="dropout")

    def build(self, x_shape: tuple) -> None:
        """Creates the weights; ids are `[B, S]`."""
        if not self.embedding.built:
            self.embedding.build()
        self.pos_encoding.build()
        for layer in self.enc_layers:
            layer.build((None, None, self.d_model))

    def call(
        self, x: tf.Tensor, training: bool = False, mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        """x ids `[B, S]`, mask broadcasting to `[B, H, S, S]` -> `[B, S, D]`."""
        x = self.embedding(x)  # (B, S, D), times sqrt(d_model)
        x = self.pos_encoding(x)
        x = self.dropout(x, training=training)
        for layer in self.enc_layers:
            x = layer(x, training, mask)  # (B, S, D)
        return x

    def attention_weights(
        self, x: tf.Tensor, mask: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """As `call`, for plots: returns a dict, `encoder_layer1` and so on -> `[B, H, S, S]`."""
        attention_weights = {}
        x = self.pos_encoding(self.embedding(x))  # (B, S, D)
        for i, layer in enumerate(self.enc_layers):
            x, weights = layer.with_attention_weights(x, mask=mask)  # (B, S, D)
            attention_weights[f"encoder_layer{i + 1}"] = weights
        return attention_weights


@keras.saving.register_keras_serializable(package="tf_transformer")
class Decoder(ReferenceLayer):
    """The right half of Figure 1 below the softmax: embedding, then N decoder layers.

    Args:
      num_layers (N), d_model, num_heads, dff: as in Table 3.
      target_vocab_size: sub-words of the target.
      maximum_position_encoding: longest target.
      rate: P_drop.
      variant: a `Variant`; that of the paper by default.
      embedding: an `Embedding` to share, or None to create one.
    """

    def __init__(
        self, num_layers: int, d_model: int, num_heads: int, dff: int, target_vocab_size: int,
        maximum_position_encoding: int, rate: float = 0.1, variant: Variant = PAPER,
        embedding: Embedding | None = None, **kwargs: object,
    ) -> None:  # fmt: skip
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.d_model = d_model
        self.num_heads = num_heads
        self.dff = dff
        self.target_vocab_size = target_vocab_size
        self.maximum_position_encoding = maximum_position_encoding
        self.rate = rate
        self.variant = variant
        dtype = self.dtype_policy
        self.embedding = embedding or Embedding(
            target_vocab_size, d_model, dtype=dtype, name="embedding"
        )
        self.pos_encoding = Positions(
            maximum_position_encoding, d_model, variant.positional_encoding, dtype=dtype,
            name="positions",
        )  # fmt: skip
        self.dec_layers = [
            DecoderLayer(d_model, num_heads, dff, rate, variant, dtype=dtype, name=f"layer{i + 1}")
            for i in range(num_layers)
        ]
        self.dropout = Dropout(rate, dtype=dtype, name="dropout")

    def build(self, x_shape: tuple) -> None:
        """Creates the weights; ids are `[B, T]`."""
        if not self.embedding.built:
            self.embedding.build()
        self.pos_encoding.build()
        for layer in self.dec_layers:
            layer.build((None, None, self.d_model))

    def call(
        self, x: tf.Tensor, enc_output: tf.Tensor, training: bool = False,
        look_ahead_mask: tf.Tensor | None = None, padding_mask: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:  # fmt: skip
        """x ids `[B, T]`, enc_output `[B, S, D]`.

        The masks broadcast to `[B, H, T, T]` and `[B, H, T, S]`.

        Returns: `[B, T, D]`, and a dict of attention weights: `decoder_layer1_block1`
          `[B, H, T, T]` over the target, `decoder_layer1_block2` `[B, H, T, S]` over the source,
          and so on for each layer.
        """
        attention_weights = {}
        x = self.embedding(x)  # (B, T, D), times sqrt(d_model)
        x = self.pos_encoding(x)
        x = self.dropout(x, training=training)
        for i, layer in enumerate(self.dec_layers):
            x, block1, block2 = layer(x, enc_output, training, look_ahead_mask, padding_mask)
            attention_weights[f"decoder_layer{i + 1}_block1"] = block1
            attention_weights[f"decoder_layer{i + 1}_block2"] = block2
        return x, attention_weights


@keras.saving.register_keras_serializable(package="tf_transformer")
class Transformer(ReferenceCall, keras.Model):
    """The Transformer (Figure 1).

    Args:
      num_layers (N of the encoder and of the decoder), d_model, num_heads, dff: as in Table 3.
      input_vocab_size, target_vocab_size: sub-words of the source and of the target.
      pe_input, pe_target: longest source and target.
      rate: P_drop.
      variant: a `Variant`; that of the paper by default.
      shared_embeddings: True for one matrix in both embeddings and in the pre-softmax projection
        (Sec. 3.4); False for two embeddings and a projection with a bias, as in the reference code.
    Raises: ValueError for sizes that do not fit together.
    """

    def __init__(
        self, num_layers: int, d_model: int, num_heads: int, dff: int, input_vocab_size: int,
        target_vocab_size: int, pe_input: int, pe_target: int, rate: float = 0.1,
        variant: Variant = PAPER, shared_embeddings: bool = False, **kwargs: object,
    ) -> None:  # fmt: skip
        super().__init__(**kwargs)
        if shared_embeddings and input_vocab_size != target_vocab_size:
            raise ValueError(
                "shared embeddings need one vocabulary, "
                f"not {input_vocab_size} and {target_vocab_size} sub-words"
            )
        self.num_layers = num_layers
        self.d_model = d_model
        self.num_heads = num_heads
        self.dff = dff
        self.input_vocab_size = input_vocab_size
        self.target_vocab_size = target_vocab_size
        self.pe_input = pe_input
        self.pe_target = pe_target
        self.rate = rate
        self.variant = variant
        self.shared_embeddings = shared_embeddings
        dtype = self.dtype_policy
        self.shared_embedding = None
        if shared_embeddings:
            self.shared_embedding = Embedding(
                input_vocab_size, d_model, dtype=dtype, name="embedding"
            )
        self.encoder = Encoder(
            num_layers, d_model, num_heads, dff, input_vocab_size, pe_input, rate, variant,
            self.shared_embedding, dtype=dtype, name="encoder",
        )  # fmt: skip
        self.decoder = Decoder(
            num_layers, d_model, num_heads, dff, target_vocab_size, pe_target, rate, variant,
            self.shared_embedding, dtype=dtype, name="decoder",
        )  # fmt: skip
        self.final_layer = None
        if not shared_embeddings:
            self.final_layer = Dense(target_vocab_size, dtype=dtype, name="final_layer")

    def build(self, inp_shape: tuple | None = None, tar_shape: tuple | None = None) -> None:
        """Creates all weights; ids are `[B, S]` and `[B, T]`."""
        if self.built:
            return
        if self.shared_embedding:
            self.shared_embedding.build()
        self.encoder.build((None, None))
        self.decoder.build((None, None))
        if self.final_layer:
            self.final_layer.build((None, None, self.d_model))

    def call(
        self, inp: tf.Tensor, tar: tf.Tensor | None = None, training: bool = False,
        enc_padding_mask: tf.Tensor | None = None, look_ahead_mask: tf.Tensor | None = None,
        dec_padding_mask: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:  # fmt: skip
        """Computes logits from source and target ids.

        Args:
          inp: `[B, S]`; or the pair `(inp, tar)`, the one input of `fit`.
          tar: `[B, T]`, the target shifted right: it begins with the start token.
          training: whether dropout is on.
          enc_padding_mask, look_ahead_mask, dec_padding_mask: of `create_masks`; None to create
            them from the padding ids.
        Returns: logits `[B, T, V]`, and the decoder's attention weights as `Decoder` returns them.
        """
        if tar is None:
            inp, tar = inp
        dec_output, attention_weights = self.decoder_output(
            inp, tar, training, enc_padding_mask, look_ahead_mask, dec_padding_mask
        )
        return self.logits(dec_output), attention_weights

    def decoder_output(
        self, inp: tf.Tensor, tar: tf.Tensor, training: bool = False,
        enc_padding_mask: tf.Tensor | None = None, look_ahead_mask: tf.Tensor | None = None,
        dec_padding_mask: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:  # fmt: skip
        """Computes everything but the logits; arguments as for `call`.

        Returns: `[B, T, D]`, and the decoder's attention weights.
        """
        masks = create_masks(inp, tar)
        enc_padding_mask = masks[0] if enc_padding_mask is None else enc_padding_mask
        look_ahead_mask = masks[1] if look_ahead_mask is None else look_ahead_mask
        dec_padding_mask = masks[2] if dec_padding_mask is None else dec_padding_mask

        enc_output = self.encoder(inp, training, enc_padding_mask)  # (B, S, D)
        return self.decoder(tar, enc_output, training, look_ahead_mask, dec_padding_mask)

    def logits(self, dec_output: tf.Tensor) -> tf.Tensor:
        """The pre-softmax linear transformation (Sec. 3.4): `[B, T, D]` -> `[B, T, V]`."""
        project, weights = self.output_projection()
        return project(dec_output, *weights)

    def output_projection(self) -> tuple[Callable[..., tf.Tensor], list[tf.Tensor]]:
        """The same transformation as a function of its weights, which differentiates them too.

        The table is transposed here, once for all steps of a search: a product of 32 rows with
        `transpose_b` takes twice as long.

        Returns: a function `project(x, *weights)`, and the list of its weights as tensors.
        """
        if self.final_layer is None:
            return project_tied, [tf.transpose(self.decoder.embedding.table)]
        return dense, [tf.convert_to_tensor(w) for w in self.final_layer.weights]

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Creates the model that `get_config` described, here or in version 0.2."""
        names = ("key_dim", "value_dim", "activation", "positional_encoding")
        if "variant" not in config and set(names) <= set(config):  # in 0.2 they were arguments
            config = dict(config)
            config["variant"] = Variant(**{name: config.pop(name) for name in names})
        return super().from_config(config)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None,
        training: bool = True,
    ) -> tf.Tensor:  # fmt: skip
        """The compiled loss of the logits; the attention weights have none."""
        return super().compute_loss(x, y, y_pred[0], sample_weight, training)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict:
        """The compiled metrics of the logits."""
        return super().compute_metrics(x, y, y_pred[0], sample_weight)


def project_tied(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """x `[..., D]` times the transposed embedding table `[D, V]`: `[..., V]` (Sec. 3.4).

    In bfloat16 the logits are rounded to 8 bits before the float32 loss. On the trained pocket
    model, whose logits reach 13, that changes the loss from 1.21536 to 1.21530 nats a token, so
    they are not computed in float32, which would double their memory.
    """
    flat = tf.reshape(x, (-1, x.shape[-1]))
    logits = tf.matmul(flat, tf.cast(kernel, x.dtype))
    return tf.reshape(logits, (*leading_shape(x), kernel.shape[1]))
