"""Encoder, Decoder and the whole Transformer (Figure 1).

Shapes: B batch, S source, T target, H heads, D d_model, K depth of a head, V vocabulary; K' hypotheses of a sentence, P places.
"""

import keras
import tensorflow as tf

from tf_transformer.dropout import Dropout
from tf_transformer.embedding import Embedding, Positions
from tf_transformer.layers import DecoderLayer, EncoderLayer, write_places
from tf_transformer.masks import create_masks
from tf_transformer.reference import ReferenceCall, ReferenceLayer

ROOM = 16  # words for which room is made at once when decoding: copying what is kept at each word would cost more and more


class _Stack(ReferenceLayer):
    """What both stacks have: embedding + position, dropout (Sec. 5.4), layers, and how these are saved."""

    layer_class, vocab_size_name = None, None

    def __init__(self, num_layers, d_model, num_heads, dff, vocab_size, maximum_position_encoding, rate, key_dim, value_dim,
                 positions, embedding, **kwargs):  # fmt: skip
        super().__init__(**kwargs)
        self.num_layers, self.d_model, self.num_heads, self.dff, self.rate = num_layers, d_model, num_heads, dff, rate
        self.vocab_size, self.maximum_position_encoding = vocab_size, maximum_position_encoding
        self.key_dim, self.value_dim, self.positions, self.shared = key_dim, value_dim, positions, embedding
        dtype = self.dtype_policy
        self.embedding = embedding or Embedding(vocab_size, d_model, dtype=dtype, name="embedding")
        self.pos_encoding = Positions(maximum_position_encoding, d_model, positions, dtype=dtype, name="positions")
        sizes = (d_model, num_heads, dff, rate, key_dim, value_dim)
        self.stack = [self.layer_class(*sizes, dtype=dtype, name=f"layer{i + 1}") for i in range(num_layers)]
        self.dropout = Dropout(rate, dtype=dtype, name="dropout")

    def build(self, x_shape):
        """Creates the weights; ids are `[B, T]`."""
        shape = (None, None, self.d_model)
        if not self.embedding.built:
            self.embedding.build()
        self.pos_encoding.build()
        for layer in self.stack:
            layer.build(shape)
        self.built = True

    def embed(self, x, start, training):
        """ids `[B, T]`, the first at position `start` -> dropout(embedding x sqrt(d_model) + position) `[B, T, D]`."""
        x = self.pos_encoding(self.embedding(x), start=start)  # (B, T, D)
        return self.dropout(x, training=training)

    def get_config(self):
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "d_model": self.d_model,
            "num_heads": self.num_heads,
            "dff": self.dff,
            self.vocab_size_name: self.vocab_size,
            "maximum_position_encoding": self.maximum_position_encoding,
            "rate": self.rate,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "positions": self.positions,
            "embedding": self.shared and keras.saving.serialize_keras_object(self.shared),
        }

    @classmethod
    def from_config(cls, config):
        """The layer that `get_config` described."""
        embedding = config["embedding"] and keras.saving.deserialize_keras_object(config["embedding"])
        return cls(**{**config, "embedding": embedding})


@keras.saving.register_keras_serializable(package="tf_transformer")
class Encoder(_Stack):
    """The left half of Figure 1: embedding + position, then N encoder layers.

    Args:
      num_layers: N.
      d_model, num_heads, dff: as in Table 3.
      input_vocab_size: sub-words of the source.
      maximum_position_encoding: longest source.
      rate: P_drop.
      key_dim, value_dim: depths of a head, None for d_model / num_heads.
      positions: "sinusoidal" or "learned".
      embedding: an `Embedding` to share, or None for one of its own.
    """

    layer_class, vocab_size_name = EncoderLayer, "input_vocab_size"

    def __init__(self, num_layers, d_model, num_heads, dff, input_vocab_size, maximum_position_encoding, rate=0.1,
                 key_dim=None, value_dim=None, positions="sinusoidal", embedding=None, **kwargs):  # fmt: skip
        super().__init__(num_layers, d_model, num_heads, dff, input_vocab_size, maximum_position_encoding, rate, key_dim,
                         value_dim, positions, embedding, **kwargs)  # fmt: skip

    def call(self, x, training=False, mask=None):
        """x ids `[B, S]`, mask broadcasting to `[B, H, S, S]` -> `[B, S, D]`."""
        x = self.embed(x, 0, training)  # (B, S, D)
        for layer in self.stack:
            x = layer(x, training, mask)  # (B, S, D)
        return x


@keras.saving.register_keras_serializable(package="tf_transformer")
class Decoder(_Stack):
    """The right half of Figure 1 below the softmax: embedding + position, then N decoder layers.

    Args:
      num_layers: N.
      d_model, num_heads, dff: as in Table 3.
      target_vocab_size: sub-words of the target.
      maximum_position_encoding: longest target.
      rate: P_drop.
      key_dim, value_dim: depths of a head, None for d_model / num_heads.
      positions: "sinusoidal" or "learned".
      embedding: an `Embedding` to share, or None for one of its own.
    """

    layer_class, vocab_size_name = DecoderLayer, "target_vocab_size"

    def __init__(self, num_layers, d_model, num_heads, dff, target_vocab_size, maximum_position_encoding, rate=0.1,
                 key_dim=None, value_dim=None, positions="sinusoidal", embedding=None, **kwargs):  # fmt: skip
        super().__init__(num_layers, d_model, num_heads, dff, target_vocab_size, maximum_position_encoding, rate, key_dim,
                         value_dim, positions, embedding, **kwargs)  # fmt: skip

    def call(self, x, enc_output, training=False, look_ahead_mask=None, padding_mask=None):
        """x ids `[B, T]`, enc_output `[B, S, D]`, masks broadcasting to `[B, H, T, T]` and `[B, H, T, S]`.

        Returns: `[B, T, D]`, and the attention weights: `decoder_layer1_block1` (on the target, `[B, H, T, T]`),
          `decoder_layer1_block2` (on the source, `[B, H, T, S]`), and so on for each layer.
        """
        attention_weights = {}
        x = self.embed(x, 0, training)  # (B, T, D)
        for i, layer in enumerate(self.stack):
            x, block1, block2 = layer(x, enc_output, training, look_ahead_mask, padding_mask)  # (B, T, D)
            attention_weights[f"decoder_layer{i + 1}_block1"] = block1
            attention_weights[f"decoder_layer{i + 1}_block2"] = block2
        return x, attention_weights

    def memory(self, enc_output):
        """Keys `[B, H, S, K]` and values `[B, H, S, Kv]` of the encoder's output for each layer, made once for each sentence."""
        return [layer.mha2.keys_values(enc_output, enc_output) for layer in self.stack]

    def fused_projections(self):
        """The weights of each layer's self-attention in the form that `step` takes."""
        return [layer.mha1.fused_projection() for layer in self.stack]

    def no_past(self, sentences, hypotheses):
        """The past of hypotheses that have no word yet.

        Args:
          sentences: B.
          hypotheses: K', of each sentence.
        Returns: what `step` keeps. First, which of the places P of a sentence each hypothesis may not see, `[B, K', P]`, 1 = hidden;
          then for each layer keys `[B, H, P, K]` and values `[B, H, P, Kv]`. A place is one word of one hypothesis; P is 0 here.
        """
        heads = [(layer.mha1.num_heads, layer.mha1.depth, layer.mha1.value_depth) for layer in self.stack]
        zeros = [[tf.zeros((sentences, h, 0, depth), self.compute_dtype) for depth in depths] for h, *depths in heads]
        return tf.zeros((sentences, hypotheses, 0)), [tuple(pair) for pair in zeros]

    def step(self, x, position, parents, past, memory, padding_mask, fused):
        """One word further for K' hypotheses of each sentence.

        Keys and values stay where they were written, until room is made for more. A hypothesis that goes on from another sees what
        that one saw: only the mask `hidden` is put in a new order. And all hypotheses of a sentence are queries on one set of keys.

        Args:
          x: ids `[B, K']`, the last word of each hypothesis.
          position: their position, an int32 scalar.
          parents: int32 `[B, K']`, which hypothesis of the step before each goes on from.
          past: as `no_past` or the step before returned it.
          memory, padding_mask: as of `memory`, and `[B, 1, 1, S]`.
          fused: as of `fused_projections`.
        Returns: `[B, K', D]`, and the past with the new words.
        """
        hypotheses = tf.shape(x)[1]
        hidden, kept = past
        past = tf.gather(hidden, parents, batch_dims=1), kept
        hidden, kept = tf.cond(position % ROOM == 0, lambda: _make_room(past), lambda: past)
        place = tf.shape(hidden)[2] - (ROOM - position % ROOM) * hypotheses  # of the first of the new words
        itself = tf.zeros(tf.shape(hidden)[:2])[..., tf.newaxis] + 1 - tf.eye(hypotheses)  # (B, K', K')
        hidden = write_places(hidden[..., tf.newaxis], itself[..., tf.newaxis], place)[..., 0]  # (B, K', P)
        words = tf.reshape(self.embed(tf.reshape(x, (-1, 1)), position, False), (-1, hypotheses, self.d_model))  # (B, K', D)
        new = []
        for layer, layer_past, layer_memory, layer_fused in zip(self.stack, kept, memory, fused):
            words, layer_past = layer.step(words, layer_past, place, hidden[:, tf.newaxis], layer_memory, padding_mask, layer_fused)
            new.append(layer_past)
        return words, (hidden, new)


def _make_room(past):
    """The past without places that no hypothesis can see any more, and with places for `ROOM` words more of each, hidden as yet.

    Hypotheses of a sentence mostly differ in their last words only, so this leaves few more places than one of them has words.
    """
    hidden, kept = past
    left = tf.reduce_min(hidden, axis=1)  # (B, P), 1 where all have left
    number = tf.cast(tf.reduce_max(tf.reduce_sum(1 - left, axis=1)), tf.int32)
    seen = tf.argsort(left, stable=True)[:, :number]  # (B, P')
    room = [[0, 0], [0, 0], [0, ROOM * tf.shape(hidden)[1]]]
    kept = [tuple(tf.pad(tf.gather(part, seen, axis=2, batch_dims=1), [*room, [0, 0]]) for part in pair) for pair in kept]
    return tf.pad(tf.gather(hidden, seen, axis=2, batch_dims=1), room, constant_values=1.0), kept


@keras.saving.register_keras_serializable(package="tf_transformer")
class Transformer(ReferenceCall, keras.Model):
    """The Transformer (Figure 1).

    Args:
      num_layers: N, for the encoder and for the decoder.
      d_model, num_heads, dff: as in Table 3.
      input_vocab_size, target_vocab_size: sub-words of the source and of the target.
      pe_input, pe_target: longest source and target.
      rate: P_drop.
      key_dim, value_dim: depths of a head (Table 3, rows A and B), None for d_model / num_heads.
      positions: "sinusoidal" or "learned" (Table 3, row E).
      shared_embeddings: True for one matrix in both embeddings and the pre-softmax projection (Sec. 3.4); False for two embeddings
        and a projection with a bias, as in the reference code.
    Raises: ValueError for sizes that do not fit together.
    """

    def __init__(self, num_layers, d_model, num_heads, dff, input_vocab_size, target_vocab_size, pe_input, pe_target,
                 rate=0.1, key_dim=None, value_dim=None, positions="sinusoidal", shared_embeddings=False, **kwargs):  # fmt: skip
        super().__init__(**kwargs)
        if shared_embeddings and input_vocab_size != target_vocab_size:
            raise ValueError(f"shared embeddings need one vocabulary, not {input_vocab_size} and {target_vocab_size} sub-words")
        self.settings = {
            "num_layers": num_layers, "d_model": d_model, "num_heads": num_heads, "dff": dff,
            "input_vocab_size": input_vocab_size, "target_vocab_size": target_vocab_size, "pe_input": pe_input,
            "pe_target": pe_target, "rate": rate, "key_dim": key_dim, "value_dim": value_dim, "positions": positions,
            "shared_embeddings": shared_embeddings,
        }  # fmt: skip
        dtype = self.dtype_policy
        self.shared_embedding = Embedding(input_vocab_size, d_model, dtype=dtype, name="embedding") if shared_embeddings else None
        options = {"key_dim": key_dim, "value_dim": value_dim, "positions": positions, "embedding": self.shared_embedding, "dtype": dtype}
        sizes = (num_layers, d_model, num_heads, dff)
        self.encoder = Encoder(*sizes, input_vocab_size, pe_input, rate, name="encoder", **options)
        self.decoder = Decoder(*sizes, target_vocab_size, pe_target, rate, name="decoder", **options)
        self.final_layer = None if shared_embeddings else keras.layers.Dense(target_vocab_size, dtype=dtype, name="final_layer")

    def build(self, inp_shape=None, tar_shape=None):
        """Creates all weights; ids are `[B, S]` and `[B, T]`."""
        if self.built:
            return
        if self.shared_embedding:
            self.shared_embedding.build()
        for stack in (self.encoder, self.decoder):
            stack.build((None, None))
        if self.final_layer:
            self.final_layer.build((None, None, self.settings["d_model"]))
        self.built = True

    def call(self, inp, tar=None, training=False, enc_padding_mask=None, look_ahead_mask=None, dec_padding_mask=None):
        """Source and target ids in, logits out.

        Args:
          inp: `[B, S]`; or the pair `(inp, tar)`, as `fit` hands over its one input.
          tar: `[B, T]`, the target shifted right: it begins with the start symbol.
          training: whether dropout is on.
          enc_padding_mask, look_ahead_mask, dec_padding_mask: as `create_masks` makes them; made from the padding id where None.
        Returns: logits `[B, T, V]`, and the decoder's attention weights as `Decoder` returns them.
        """
        if tar is None:
            inp, tar = inp
        dec_output, attention_weights = self.dec_output(inp, tar, training, enc_padding_mask, look_ahead_mask, dec_padding_mask)
        return self.logits(dec_output), attention_weights

    def dec_output(self, inp, tar, training=False, enc_padding_mask=None, look_ahead_mask=None, dec_padding_mask=None):
        """All but the pre-softmax projection; arguments as of `call`. Returns: `[B, T, D]`, the decoder's attention weights."""
        masks = create_masks(inp, tar)
        given = (enc_padding_mask, look_ahead_mask, dec_padding_mask)
        enc_mask, look_ahead, dec_mask = (made if mask is None else mask for mask, made in zip(given, masks))
        enc_output = self.encoder(inp, training, enc_mask)  # (B, S, D)
        return self.decoder(tar, enc_output, training, look_ahead, dec_mask)  # (B, T, D)

    def logits(self, dec_output):
        """The pre-softmax linear transformation (Sec. 3.4): `[B, T, D]` -> `[B, T, V]`."""
        return self.shared_embedding.logits(dec_output) if self.final_layer is None else self.final_layer(dec_output)

    @property
    def logits_weights(self):
        """The variables of `logits`."""
        return (self.shared_embedding if self.final_layer is None else self.final_layer).trainable_variables

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The compiled loss on the logits; the attention weights have none."""
        return super().compute_loss(x, y, y_pred[0], sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """The compiled metrics on the logits."""
        return super().compute_metrics(x, y, y_pred[0], sample_weight)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), **self.settings}
