"""The attention weights of a sentence, with the queries and keys that they are computed from.

Shapes: B batch, S source, T target, H heads, D d_model, K depth of a head.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_transformer.decoding.ensemble import single_model
from tf_transformer.decoding.translator import Translator
from tf_transformer.model.attention import MultiHeadAttention
from tf_transformer.model.masks import create_masks
from tf_transformer.model.transformer import Transformer
from tf_transformer.special_tokens import PAD, START


class AttentionExample(NamedTuple):
    """An example for `AttentionView`. Its first three fields are those of `Translator.attention`.

    Fields:
      source: S sub-words.
      target: T sub-words.
      weights: attention weights by name, such as `encoder_layer1 [H, S, S]`.
      queries_and_keys: by the same names, the queries `[H, T, K]` and the keys `[H, S, K]`.
    """

    source: list[str]
    target: list[str]
    weights: dict[str, np.ndarray]
    queries_and_keys: dict[str, tuple[np.ndarray, np.ndarray]]


def attention_example(
    translator: Translator, text: str, translation: str | None = None, padding: int = 0
) -> AttentionExample:
    """Computes the attention weights of a sentence and its translation, with queries and keys.

    Args:
      translator: a `Translator`.
      text: a string.
      translation: a string; None for the model's own translation.
      padding: the number of padding positions after each of the two sides, as in a batch that
        contains a longer sentence.
    Returns: an `AttentionExample`. Its weights are those of the model with all masks.
    """
    translation = translator(text) if translation is None else translation
    inp = _pad(translator.source.encode([text]).to_tensor(), padding)  # (1, S)
    tar = _pad(translator.target.encode([translation]).to_tensor(), padding)  # (1, T)
    tar_inp = tf.concat([[[START]], tar[:, :-1]], axis=1)  # (1, T), the target shifted right
    attention = _attention(single_model(translator.model), inp, tar_inp)
    return AttentionExample(
        translator.source.pieces(inp[0]),
        translator.target.pieces(tar[0]),
        {name: weights[0].numpy() for name, (weights, _, _) in attention.items()},
        {name: (q[0].numpy(), k[0].numpy()) for name, (_, q, k) in attention.items()},
    )


def longest_jump(weights: np.ndarray, target: list[str]) -> tuple[int, int]:
    """Finds the row whose largest weight is farthest from the diagonal.

    Args:
      weights: of a head of the encoder-decoder attention, `[T, S]`.
      target: T sub-words; rows that predict a full stop or [END] do not count.
    Returns: the row, and the key with its largest weight.
    """
    keys = weights.argmax(axis=-1)  # [T]
    distances = np.abs(keys - np.arange(len(target)))  # [T]
    distances[[piece in (".", "[END]") for piece in target]] = -1
    row = int(distances.argmax())
    return row, int(keys[row])


def _attention(
    model: Transformer, inp: tf.Tensor, tar: tf.Tensor
) -> dict[str, tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
    """Computes the attention weights, the queries and the keys of each attention sub-layer.

    The softmax of Q K^T / sqrt(d_k), with the masks of `create_masks`, gives the weights.

    Args:
      model: a built `Transformer`.
      inp: source ids `[B, S]`.
      tar: decoder input ids `[B, T]`; they begin with the start token.
    Returns: a dict of triples (weights, q, k): `encoder_layer1` `[B, H, S, S]`, `[B, H, S, K]`,
      `[B, H, S, K]`; `decoder_layer1_block1` `[B, H, T, T]`, `[B, H, T, K]`, `[B, H, T, K]`;
      `decoder_layer1_block2` `[B, H, T, S]`, `[B, H, T, K]`, `[B, H, S, K]`; and so on for each
      layer.
    """
    enc_padding_mask, look_ahead_mask, dec_padding_mask = create_masks(inp, tar)
    attention = {}

    x = model.encoder.pos_encoding(model.encoder.embedding(inp))  # (B, S, D)
    for i, layer in enumerate(model.encoder.enc_layers, start=1):
        q = layer.variant.pre_norm(layer.layernorm1, x)  # (B, S, D)
        queries_and_keys = _project(layer.mha, q, q)
        x, weights = layer.with_attention_weights(x, False, enc_padding_mask)  # (B, S, D)
        attention[f"encoder_layer{i}"] = (weights, *queries_and_keys)
    enc_output = model.encoder(inp, False, enc_padding_mask)  # (B, S, D)

    x = model.decoder.pos_encoding(model.decoder.embedding(tar))  # (B, T, D)
    for i, layer in enumerate(model.decoder.dec_layers, start=1):
        q = layer.variant.pre_norm(layer.layernorm1, x)  # (B, T, D)
        attn1, _ = layer.mha1(q, q, q, look_ahead_mask)  # (B, T, D)
        out1 = layer.variant.post_norm(layer.layernorm1, attn1 + x)  # (B, T, D)
        first = _project(layer.mha1, q, q)
        second = _project(layer.mha2, layer.variant.pre_norm(layer.layernorm2, out1), enc_output)
        x, block1, block2 = layer(x, enc_output, False, look_ahead_mask, dec_padding_mask)
        attention[f"decoder_layer{i}_block1"] = (block1, *first)
        attention[f"decoder_layer{i}_block2"] = (block2, *second)
    return attention


def _project(
    mha: MultiHeadAttention, query_input: tf.Tensor, key_input: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the queries `[B, H, T, K]` and the keys `[B, H, S, K]` of a sub-layer."""
    q = mha.split_heads(mha.wq(query_input), mha.depth)
    k = mha.split_heads(mha.wk(key_input), mha.depth)
    return q, k


def _pad(ids: tf.Tensor, padding: int) -> tf.Tensor:
    """Ids `[1, S]` -> `[1, S + padding]`."""
    return tf.pad(ids, [[0, 0], [0, padding]], constant_values=PAD)
