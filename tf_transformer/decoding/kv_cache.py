"""Single-step decoding with a KV cache.

Without a cache, step t computes the decoder for all t tokens again, although the keys and values of
the first t - 1 have not changed: the look-ahead mask hides every later token from them. The cache
keeps the keys and values of each decoder layer, so a step computes one token per hypothesis.

**Slots.** Beam search keeps K hypotheses for a sentence. After each step, a hypothesis continues
one of the K hypotheses of the step before (`beam_indices`), which may be another one than its own.
The usual cache holds keys and values for each hypothesis, and copies all of them into the new order
at each step. Here the hypotheses of a sentence share one set of slots. A slot holds the key and the
value of one token of one hypothesis and is never moved. A mask says which slots a hypothesis does
not see. Reordering copies only the mask, P numbers per hypothesis instead of P x D per layer.

    K = 2 hypotheses, positions 0 to 2. Position 0 is the start token.

    step 0        slots       |[S]|[S]|        h0 sees slot 0
                              | 0 | 1 |        h1 sees slot 1

    step 1        slots       |[S]|[S]|The| A |
      h0 = [S] The            | x |   | x |   |
      h1 = [S] A              | x |   |   | x |        beam_indices = (0, 0): both continue h0

    step 2        slots       |[S]|[S]|The| A |dog|cat|
      h0 = [S] A dog          | x |   |   | x | x |   |
      h1 = [S] A cat          | x |   |   | x |   | x |        beam_indices = (1, 1)

At step 2, "The" and the second "[S]" are seen by no hypothesis: these slots are dropped when the
cache grows.

**One step** (`decode_step`), for every sentence at once:

    ids (B, K)           the last token of each hypothesis
      |  embedding x sqrt(d_model) + positional encoding of this position
      v
    x (B, K, D)          K new tokens stand where the full pass has T positions
      |
      |  for each layer:
      |    q, k, v = x W^Q, x W^K, x W^V          (B, H, K, depth)
      |    write k, v into the next K slots       cache (B, H, P, depth)
      |    attention of q over the P slots        mask (B, 1, K, P): slots of other hypotheses
      |    attention over the encoder's output    its keys and values are computed once
      |    feed-forward network
      v
    x (B, K, D) -> logits (B, K, V)

**Capacity.** The arrays grow by `CAPACITY_STEP` tokens per hypothesis at a time, because growing
copies them. Before growing, slots that no hypothesis sees are removed. The hypotheses of a sentence
mostly share a prefix, so P stays close to the length of one of them.

Shapes: B sentences, K hypotheses a sentence (the beam), P slots, S source, H heads, D d_model,
V vocabulary; `depth` is that of a head's keys, or of its values.
"""

import functools
from typing import NamedTuple

import tensorflow as tf
from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice

from tf_transformer.decoding.beam_search import StepFunction
from tf_transformer.model.attention import MultiHeadAttention, scaled_dot_product_attention
from tf_transformer.model.masks import create_padding_mask
from tf_transformer.model.transformer import Decoder, Transformer

CAPACITY_STEP = 16  # tokens per hypothesis by which the cache grows


class KVCache(NamedTuple):
    """Keys and values of the tokens decoded so far."""

    mask: tf.Tensor  # float32 [B, K, P], 1 = this hypothesis does not see this slot
    keys: list[tf.Tensor]  # for each layer [B, H, P, depth]
    values: list[tf.Tensor]  # for each layer [B, H, P, depth]


class DecodeState(NamedTuple):
    """What a decode step takes and returns beside ids; each tensor begins with dimension B."""

    cache: KVCache
    cross_keys: list[tf.Tensor]  # of the encoder's output, for each layer [B, H, S, depth]
    cross_values: list[tf.Tensor]  # for each layer [B, H, S, depth]
    padding_mask: tf.Tensor  # float32 [B, 1, 1, S]


def make_decode_step(
    model: Transformer, inp: tf.Tensor, beam_size: int, fixed_length: tf.Tensor | None = None
) -> tuple[StepFunction, DecodeState]:
    """Encodes the sources and makes the step function that `decoding.beam_search` calls.

    Args:
      model: a built `Transformer`.
      inp: source ids `[B, S]`, each ending with the end token, then padding.
      beam_size: K, hypotheses for each sentence.
      fixed_length: int32 scalar, steps for which the cache has slots from the start, so that no
        shape changes, as XLA needs it. None: the cache grows.
    Returns: `step(ids, position, beam_indices, state)`, which returns logits `[B, K, V]` and the
      new state; and the first `DecodeState`.
    """
    padding_mask = create_padding_mask(inp)  # (B, 1, 1, S)
    enc_output = model.encoder(inp, False, padding_mask)  # (B, S, D)
    cache = init_cache(model.decoder, tf.shape(inp)[0], beam_size, fixed_length)
    state = DecodeState(cache, *cross_keys_values(model.decoder, enc_output), padding_mask)

    def step(
        ids: tf.Tensor, position: tf.Tensor, beam_indices: tf.Tensor, state: DecodeState
    ) -> tuple[tf.Tensor, DecodeState]:
        grows = fixed_length is None
        x, state = decode_step(model.decoder, ids, position, beam_indices, state, grows)
        return tf.reshape(logits(model, x), [-1, beam_size, model.target_vocab_size]), state

    return step, state


def init_cache(
    decoder: Decoder, batch_size: tf.Tensor, beam_size: int, fixed_length: tf.Tensor | None = None
) -> KVCache:
    """An empty cache, P = 0, or with P = K x `fixed_length` hidden slots.

    Args:
      decoder: a built `Decoder`.
      batch_size: B, int32 scalar.
      beam_size: K.
      fixed_length: as for `make_decode_step`.
    """
    slots = 0 if fixed_length is None else fixed_length * beam_size  # P
    keys, values = [], []
    for mha in (layer.mha1 for layer in decoder.dec_layers):
        shape = (batch_size, mha.num_heads, slots)
        keys.append(tf.zeros((*shape, mha.depth), decoder.compute_dtype))
        values.append(tf.zeros((*shape, mha.value_depth), decoder.compute_dtype))
    return KVCache(tf.ones((batch_size, beam_size, slots)), keys, values)


def cross_keys_values(
    decoder: Decoder, enc_output: tf.Tensor
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """The keys and values of the encoder's output, computed once for each sentence.

    Args:
      decoder: a built `Decoder`.
      enc_output: `[B, S, D]`.
    Returns: two lists with a tensor `[B, H, S, depth]` for each layer.
    """
    blocks = [layer.mha2 for layer in decoder.dec_layers]
    keys = [mha.split_heads(mha.wk(enc_output), mha.depth) for mha in blocks]
    values = [mha.split_heads(mha.wv(enc_output), mha.value_depth) for mha in blocks]
    return keys, values


def decode_step(
    decoder: Decoder,
    ids: tf.Tensor,
    position: tf.Tensor,
    beam_indices: tf.Tensor,
    state: DecodeState,
    grows: bool = True,
) -> tuple[tf.Tensor, DecodeState]:
    """Computes the decoder for one token of each hypothesis (invariant 4: equals the full pass).

    The rows of x are the hypotheses of all sentences: a product with a matrix is one operation.

    Args:
      decoder: a built `Decoder`.
      ids: int64 `[B, K]`, the last token of each hypothesis; K is known before the graph runs.
      position: int32 scalar, their position; 0 for the start token.
      beam_indices: int64 `[B, K]`, which hypothesis of the step before each one continues.
      state: a `DecodeState`, as of `make_decode_step` or of the step before.
      grows: whether the cache grows; False: it has a slot for each step and hypothesis.
    Returns: the decoder's output `[B * K, D]`, and the new `DecodeState`.
    """
    beam_size = ids.shape[1]  # K
    mask, keys, values = state.cache
    cache = KVCache(tf.gather(mask, beam_indices, batch_dims=1), keys, values)
    if grows:
        cache = tf.cond(position % CAPACITY_STEP == 0, lambda: grow_cache(cache), lambda: cache)
        slots = tf.shape(cache.mask)[2]  # P
        slot = slots - (CAPACITY_STEP - position % CAPACITY_STEP) * beam_size  # the first to write
        write = functools.partial(write_slots, slot=slot, slots=slots)
    else:
        write = functools.partial(replace_slots, slot=position * beam_size)

    # Each hypothesis sees its own new token and not those of the others.
    others = tf.zeros_like(ids, tf.float32)[:, :, tf.newaxis] + 1 - tf.eye(beam_size)  # (B, K, K)
    mask = write(cache.mask[..., tf.newaxis], others[..., tf.newaxis])[..., 0]
    look_ahead_mask = mask[:, tf.newaxis]  # (B, 1, K, P)

    x = decoder.embedding(tf.reshape(ids, [-1]))  # (B * K, D), times sqrt(d_model)
    pos_encoding = decoder.pos_encoding.pos_encoding[0, position]  # (D)
    x = tf.cast(tf.cast(x, tf.float32) + pos_encoding, x.dtype)  # in float32, as in `Positions`
    keys, values = [], []
    for i, layer in enumerate(decoder.dec_layers):
        mha1, mha2 = layer.mha1, layer.mha2
        q = split_heads(mha1, mha1.wq(x), beam_size)  # (B, H, K, depth)
        new_keys = split_heads(mha1, mha1.wk(x), beam_size)  # (B, H, K, depth)
        new_values = split_heads(mha1, mha1.wv(x), beam_size)  # (B, H, K, depth)
        keys.append(write(cache.keys[i], new_keys))
        values.append(write(cache.values[i], new_values))
        out1 = layer.layernorm1(attend(mha1, q, keys[i], values[i], look_ahead_mask) + x)

        q = split_heads(mha2, mha2.wq(out1), beam_size)  # (B, H, K, depth)
        cross = state.cross_keys[i], state.cross_values[i], state.padding_mask
        out2 = layer.layernorm2(attend(mha2, q, *cross) + out1)  # (B * K, D)

        inner, outer = layer.ffn.layers  # the Keras model of both takes three dimensions only
        x = layer.layernorm3(outer(inner(out2)) + out2)  # (B * K, D)
    return x, state._replace(cache=KVCache(mask, keys, values))


def split_heads(mha: MultiHeadAttention, x: tf.Tensor, beam_size: int) -> tf.Tensor:
    """`[B * K, H * depth]` -> `[B, H, K, depth]`."""
    x = tf.reshape(x, [-1, beam_size, mha.num_heads, x.shape[1] // mha.num_heads])
    return tf.transpose(x, [0, 2, 1, 3])


def attend(
    mha: MultiHeadAttention, q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """What `MultiHeadAttention` does after its three projections.

    Args:
      mha: a `MultiHeadAttention`.
      q, k, v: `[B, H, K, depth]` and twice `[B, H, S, depth]`.
      mask: broadcasts to `[B, H, K, S]`, 1 = hidden.
    Returns: `[B * K, D]`.
    """
    scaled_attention, _ = scaled_dot_product_attention(q, k, v, mask)  # (B, H, K, depth)
    x = tf.transpose(scaled_attention, [0, 2, 1, 3])  # (B, K, H, depth)
    return mha.dense(tf.reshape(x, [-1, mha.num_heads * mha.value_depth]))


def logits(model: Transformer, x: tf.Tensor) -> tf.Tensor:
    """`Transformer.logits` of a small number of rows: `[n, D]` -> `[n, V]`.

    Here, the table is multiplied by the transposed rows. With TensorFlow's own matrix product, with
    which our server computes small models, a step of the `pocket` model takes 1.3 times as long
    when the rows are multiplied by the transposed table. With oneDNN's, both take about the same
    time.
    """
    if model.final_layer is not None:
        return model.final_layer(x)
    table = tf.cast(model.decoder.embedding.table, x.dtype)  # (V, D)
    return tf.transpose(tf.matmul(table, x, transpose_b=True))


def grow_cache(cache: KVCache) -> KVCache:
    """Removes the slots that no hypothesis sees, and adds `CAPACITY_STEP` x K hidden ones.

    The sentences of a batch keep the same number of slots, that of the sentence with the most.
    """
    unseen = tf.reduce_min(cache.mask, axis=1)  # (B, P), 1 where no hypothesis sees the slot
    kept = tf.cast(tf.reduce_max(tf.reduce_sum(1 - unseen, axis=1)), tf.int32)
    slots = tf.cast(tf.argsort(unseen, stable=True), tf.int64)[:, :kept]  # (B, kept)
    new = [[0, 0], [0, 0], [0, CAPACITY_STEP * tf.shape(cache.mask)[1]]]

    def move(x: tf.Tensor) -> tf.Tensor:
        return tf.pad(tf.gather(x, slots, axis=2, batch_dims=1), [*new, [0, 0]])

    mask = tf.gather(cache.mask, slots, axis=2, batch_dims=1)
    mask = tf.pad(mask, new, constant_values=1.0)
    return KVCache(mask, [move(x) for x in cache.keys], [move(x) for x in cache.values])


def write_slots(x: tf.Tensor, new: tf.Tensor, slot: tf.Tensor, slots: tf.Tensor) -> tf.Tensor:
    """Writes into consecutive slots: x `[B, ..., P, depth]` with new `[B, ..., n, depth]`.

    The result uses the memory of `x` where no other operation needs `x`. A matrix of B x ... rows
    takes a faster path of TensorFlow's kernel than a tensor of higher rank. In plain operations:
    `tf.concat([x[..., :slot, :], new, x[..., slot + n :, :]], axis=-2)`, which copies all of `x`.
    Beam search with base sizes takes 16% longer with that (32 sentences of 50 tokens, two cores;
    `benchmarks/kernels.py --decoding`).

    Args:
      x: all dimensions but B and P are known before the graph runs, by `new`.
      slot: int32 scalar, the first slot.
      slots: int32 scalar, P.
    """
    *others, number, depth = new.shape[1:]
    flat = tf.raw_ops.TensorStridedSliceUpdate(
        input=tf.reshape(x, [-1, slots * depth]),
        begin=tf.stack([0, slot * depth]),
        end=tf.stack([0, (slot + number) * depth]),
        strides=[1, 1],
        value=tf.reshape(new, [-1, number * depth]),
        begin_mask=1,
        end_mask=1,
    )
    return tf.reshape(flat, [-1, *others, slots, depth])


def replace_slots(x: tf.Tensor, new: tf.Tensor, slot: tf.Tensor) -> tf.Tensor:
    """The same as `write_slots`, for XLA, which compiles no slice update from a computed place.

    Args:
      x: `[B, ..., P, depth]`.
      new: `[B, ..., n, depth]`.
      slot: int32 scalar, the first slot.
    """
    return dynamic_update_slice(x, new, tf.stack([0] * (len(x.shape) - 2) + [slot, 0]))
