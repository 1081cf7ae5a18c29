"""Single-step decoding with a KV cache.

Without a cache, step t computes the decoder for all t tokens again, although the keys and values of
the first t - 1 have not changed: the look-ahead mask hides every later token from them. The cache
keeps the keys and values of each decoder layer, so a step computes one token per hypothesis.

Beam search keeps K hypotheses for a sentence. After each step, a hypothesis continues one of the K
hypotheses of the step before (`beam_indices`), which may be another one than its own. So the cache
is brought into the new order, and the key and value of the new token are appended:

    ids (B * K, 1)       the last token of each hypothesis
      |  embedding x sqrt(d_model) + positional encoding of this position
      v
    x (B * K, 1, D)      one new token stands where the full pass has T positions
      |
      |  for each layer:
      |    k, v = x W^K, x W^V                    (B * K, H, 1, depth)
      |    cache in the order of beam_indices, then k, v    (B * K, H, P, depth)
      |    attention of x over the P tokens so far
      |    attention over the encoder's output    its keys and values are computed once
      |    feed-forward network
      v
    x (B * K, 1, D) -> logits (B, K, V)

The full pass has the same layer (`DecoderLayer.attend`).

Shapes: B sentences, K hypotheses a sentence (the beam), P tokens so far, S source, H heads,
D d_model, V vocabulary; `depth` is the size of a head's keys, or of its values.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from tf_transformer.decoding.beam_search import StepFunction
from tf_transformer.model.masks import create_padding_mask
from tf_transformer.model.transformer import Transformer

KeysValues = tuple[tf.Tensor, tf.Tensor]


class DecodeState(NamedTuple):
    """What the decoder keeps between steps. The first dimension of each tensor is B."""

    target: list[KeysValues]  # of the tokens so far, for each layer: twice [B, K, H, P, depth]
    source: list[KeysValues]  # of the encoder's output, for each layer: twice [B, H, S, depth]
    padding_mask: tf.Tensor  # float32 [B, 1, 1, S]


def make_decode_step(
    model: Transformer, inp: tf.Tensor, beam_size: int, fixed_length: tf.Tensor | None = None
) -> tuple[StepFunction, DecodeState]:
    """Encodes the sources and makes the step function, as `decoding.beam_search` describes it.

    Invariant 4: its logits equal the logits of the full pass.

    Args:
      model: a built one.
      inp: source ids `[B, S]`, each ending with the end token, then padding.
      beam_size: K.
      fixed_length: int32 scalar, tokens for which the cache has room from the start, so that no
        shape changes, as XLA needs it. None: the cache grows.
    Returns: `step(ids, position, beam_indices, state)`, which returns logits `[B, K, V]` and the
      new state; and the first `DecodeState`.
    """
    decoder = model.decoder
    project, weights = model.output_projection()
    padding_mask = create_padding_mask(inp)  # (B, 1, 1, S)
    enc_output = model.encoder(inp, False, padding_mask)  # (B, S, D)
    source = [layer.mha2.keys_values(enc_output, enc_output) for layer in decoder.dec_layers]

    def empty(heads: int, depth: int) -> tf.Tensor:
        length = 0 if fixed_length is None else fixed_length
        return tf.zeros((tf.shape(inp)[0], beam_size, heads, length, depth), model.compute_dtype)

    layers = [layer.mha1 for layer in decoder.dec_layers]
    target = [(empty(x.num_heads, x.depth), empty(x.num_heads, x.value_depth)) for x in layers]

    def step(
        ids: tf.Tensor, position: tf.Tensor, beam_indices: tf.Tensor, state: DecodeState
    ) -> tuple[tf.Tensor, DecodeState]:
        length, look_ahead_mask = position + 1, None  # P with the new token
        if fixed_length is not None:  # hides the room for later tokens
            length = fixed_length
            look_ahead_mask = tf.cast(tf.range(fixed_length) > position, tf.float32)

        def append(cache: tf.Tensor, new: tf.Tensor) -> KeysValues:
            """The cache in the order of the beam, with the new token `[B * K, H, 1, depth]`.

            Returns: it as `[B, K, H, P, depth]`, and as `[B * K, H, P, depth]`.
            """
            _, heads, _, depth = new.shape
            if beam_size > 1:
                cache = tf.gather(cache, beam_indices, batch_dims=1)
            new = tf.reshape(new, (-1, beam_size, heads, 1, depth))
            if fixed_length is not None:
                cache = keras.ops.slice_update(cache, (0, 0, 0, position, 0), new)
            else:
                cache = tf.concat([cache, new], axis=3)
            return cache, tf.reshape(cache, (-1, heads, length, depth))

        x = decoder.embedding(tf.reshape(ids, [-1, 1]))  # (B * K, 1, D), times sqrt(d_model)
        x = decoder.pos_encoding(x, position)
        target = []
        for layer, cache, source in zip(decoder.dec_layers, state.target, state.source):
            cache, keys_values = zip(*map(append, cache, layer.keys_values(x)))
            masks = look_ahead_mask, state.padding_mask
            x, _, _ = layer.attend(x, keys_values, source, False, *masks)  # (B * K, 1, D)
            target.append(cache)
        if decoder.layernorm:
            x = decoder.layernorm(x)
        logits = tf.reshape(project(x, *weights), [-1, beam_size, model.target_vocab_size])
        return logits, state._replace(target=target)

    return step, DecodeState(target, source, padding_mask)
