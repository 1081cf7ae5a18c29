"""The optimised operations of the KV cache equal the plain operations that they replace."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences

from tf_transformer.decoding.kv_cache import (
    CAPACITY_STEP,
    KVCache,
    attend,
    cross_keys_values,
    grow_cache,
    init_cache,
    logits,
    make_decode_step,
    split_heads,
    write_slots,
)
from tf_transformer.model.attention import MultiHeadAttention, scaled_dot_product_attention

B, K, D, H, P = 3, 2, 8, 2, 10
DEPTHS = [{}, {"key_dim": 3, "value_dim": 5}]
PRECISIONS = [("float32", 1e-6), ("mixed_bfloat16", 2e-2)]  # policy, tolerance


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(1)


def make_attention(depths, dtype="float32"):
    """A `MultiHeadAttention` with random kernels and biases."""
    mha = MultiHeadAttention(D, H, dtype=dtype, **depths)
    mha.build((None, None, D))
    for variable in mha.trainable_variables:
        variable.assign(tf.random.normal(variable.shape, stddev=0.5))
    return mha


def random_mask(*shape, fraction):
    """Float32, 1 = hidden, for a random fraction of the values."""
    return tf.cast(tf.random.uniform(shape) < fraction, tf.float32)


def assert_close(values, expected, tolerance):
    values = tf.cast(values, tf.float32)
    expected = tf.cast(expected, tf.float32)
    np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("slot", [0, 3, P - K])
@pytest.mark.parametrize("shape, n", [((B, H, P, 4), K), ((B, K, P, 1), K), ((B, P, 4), 1)])
def test_write_slots_equals_concat(shape, n, slot, dtype, in_graph):
    """x with some slots replaced by `new`, as the docstring of `write_slots` gives it."""
    x = tf.cast(tf.random.normal(shape), dtype)
    new = tf.cast(tf.random.normal((*shape[:-2], n, shape[-1])), dtype)
    before = tf.identity(x).numpy()
    write = tf.function(write_slots) if in_graph else write_slots
    expected = tf.concat([x[..., :slot, :], new, x[..., slot + n :, :]], axis=-2)
    np.testing.assert_array_equal(write(x, new, tf.constant(slot), tf.constant(P)), expected)
    np.testing.assert_array_equal(x, before)  # the argument keeps its values


@pytest.mark.parametrize("dtype, tolerance", PRECISIONS)
@pytest.mark.parametrize("depths", DEPTHS, ids=["d_model / num_heads", "other depths"])
def test_attend_equals_multi_head_attention(depths, dtype, tolerance):
    mha = make_attention(depths, dtype)
    x = tf.cast(tf.random.normal((B, P, D)), mha.compute_dtype)
    queries = tf.cast(tf.random.normal((B, K, D)), mha.compute_dtype)
    mask = random_mask(B, 1, K, P, fraction=0.4)
    q = mha.split_heads(mha.wq(queries), mha.depth)
    k = mha.split_heads(mha.wk(x), mha.depth)
    v = mha.split_heads(mha.wv(x), mha.value_depth)
    expected, _ = mha(x, x, queries, mask)  # (B, K, D)
    expected = tf.reshape(expected, [B * K, D])
    output = attend(mha, q, k, v, mask)
    assert output.dtype == expected.dtype
    assert_close(output, expected, tolerance)


@pytest.mark.parametrize("depths", DEPTHS, ids=["d_model / num_heads", "other depths"])
def test_split_heads_of_hypotheses_equals_that_of_the_layer(depths):
    mha = make_attention(depths)
    x = tf.random.normal((B, K, D))
    expected = mha.split_heads(mha.wk(x), mha.depth)  # (B, H, K, depth)
    assert_close(split_heads(mha, mha.wk(tf.reshape(x, [B * K, D])), K), expected, 1e-6)


@pytest.mark.parametrize("dtype, tolerance", PRECISIONS)
@pytest.mark.parametrize("shared", [True, False], ids=["shared table", "final layer"])
def test_logits_of_rows_equal_those_of_the_model(shared, dtype, tolerance):
    model = make_model(dtype, shared_embeddings=shared)
    x = tf.cast(tf.random.normal((B * K, model.d_model)), model.compute_dtype)
    expected = model.logits(x[tf.newaxis])[0]  # (B * K, V)
    assert_close(logits(model, x), expected, tolerance)


def test_cross_keys_values_equal_those_of_the_second_attention_block():
    decoder = make_model(key_dim=6, value_dim=10).decoder
    enc_output = tf.random.normal((B, 5, decoder.d_model))
    keys, values = cross_keys_values(decoder, enc_output)
    x = tf.random.normal((B, K, decoder.d_model))
    mask = random_mask(B, 1, 1, 5, fraction=0.4)
    for i, layer in enumerate(decoder.dec_layers):
        mha = layer.mha2
        q = mha.split_heads(mha.wq(x), mha.depth)
        expected, _ = mha(enc_output, enc_output, x, mask)
        output = attend(mha, q, keys[i], values[i], mask)  # (B * K, D)
        assert_close(output, tf.reshape(expected, output.shape), 1e-6)


def test_first_cache_is_empty():
    decoder = make_model(key_dim=6, value_dim=10).decoder
    cache = init_cache(decoder, B, K)
    assert cache.mask.shape == (B, K, 0)
    assert [keys.shape for keys in cache.keys] == [(B, 4, 0, 6)] * 2
    assert [values.shape for values in cache.values] == [(B, 4, 0, 10)] * 2


def random_cache():
    """A cache of one layer, and for each sentence the slots that some hypothesis sees.

    The sentences have 7, 4 and 6 such slots.
    """
    keys = tf.random.normal((B, H, P, 3))
    values = tf.random.normal((B, H, P, 5))
    seen_slots = [[0, 1, 3, 4, 6, 8, 9], [2, 3, 5, 7], [0, 1, 2, 5, 6, 9]]
    mask = np.ones((B, K, P), np.float32)
    for sentence, slots in enumerate(seen_slots):
        for i, slot in enumerate(slots):
            mask[sentence, i % K, slot] = 0  # some slots are seen by one hypothesis only,
            if i < 2:
                mask[sentence, :, slot] = 0  # and some by all
    return KVCache(tf.constant(mask), [keys], [values]), seen_slots


def cached_attention(cache, q):
    """Attention of queries `[B, H, K, depth]` over the slots that each hypothesis sees."""
    mask = cache.mask[:, tf.newaxis]  # (B, 1, K, P)
    output, _ = scaled_dot_product_attention(q, cache.keys[0], cache.values[0], mask)
    return output


def test_growth_does_not_change_what_a_hypothesis_sees():
    cache, _ = random_cache()
    q = tf.random.normal((B, H, K, 3))
    assert_close(cached_attention(grow_cache(cache), q), cached_attention(cache, q), 1e-6)


def test_growth_keeps_the_seen_slots_in_their_order_and_removes_the_others():
    cache, seen_slots = random_cache()
    grown = grow_cache(cache)
    kept = max(len(slots) for slots in seen_slots)  # of the sentence with the most
    assert grown.mask.shape == (B, K, kept + CAPACITY_STEP * K)
    assert grown.keys[0].shape == (B, H, kept + CAPACITY_STEP * K, 3)
    assert grown.values[0].shape == (B, H, kept + CAPACITY_STEP * K, 5)
    for i, slots in enumerate(seen_slots):
        n = len(slots)
        for grown_part, part in (
            (grown.keys[0], cache.keys[0]),
            (grown.values[0], cache.values[0]),
        ):
            np.testing.assert_array_equal(grown_part[i, :, :n], tf.gather(part[i], slots, axis=1))
            np.testing.assert_array_equal(grown_part[i, :, kept:], 0)
        np.testing.assert_array_equal(grown.mask[i, :, :n], tf.gather(cache.mask[i], slots, axis=1))
        np.testing.assert_array_equal(grown.mask[i, :, n:], 1)  # hidden from all hypotheses


def test_growth_of_an_empty_cache():
    decoder = make_model().decoder
    grown = grow_cache(init_cache(decoder, B, K))
    np.testing.assert_array_equal(grown.mask, np.ones((B, K, CAPACITY_STEP * K)))
    assert grown.keys[0].shape == (B, 4, CAPACITY_STEP * K, 8)


def test_a_step_reorders_the_mask_and_leaves_keys_and_values_in_place():
    """A step writes K new slots; it moves no key and no value, whatever the beam indices are."""
    beam_size = 3
    random = np.random.default_rng(4)
    step, state = make_decode_step(make_model(), tf.constant(sentences(B, 9)), beam_size)
    first = np.tile(np.arange(beam_size, dtype=np.int32), (B, 1))
    _, state = step(random.integers(4, 37, (B, beam_size)), 0, first, state)
    for position in range(1, 5):
        beam_indices = random.integers(0, beam_size, (B, beam_size)).astype(np.int32)
        ids = random.integers(4, 37, (B, beam_size)).astype(np.int32)
        old = state.cache
        _, state = step(ids, position, beam_indices, state)
        new = state.cache

        slot = position * beam_size
        unchanged = np.r_[0:slot, slot + beam_size : old.mask.shape[2]]
        assert new.mask.shape == old.mask.shape
        for part, old_part in zip([*new.keys, *new.values], [*old.keys, *old.values]):
            part = part.numpy()
            np.testing.assert_array_equal(part[:, :, unchanged], old_part.numpy()[:, :, unchanged])
            assert (part[:, :, slot : slot + beam_size] != 0).any(axis=(1, 3)).all()

        mask = new.mask.numpy()
        reordered = np.take_along_axis(old.mask.numpy(), beam_indices[..., np.newaxis], axis=1)
        np.testing.assert_array_equal(mask[:, :, unchanged], reordered[:, :, unchanged])
        own_token = np.broadcast_to(1 - np.eye(beam_size), (B, beam_size, beam_size))
        np.testing.assert_array_equal(mask[:, :, slot : slot + beam_size], own_token)
        assert ((mask == 0).sum(axis=2) == position + 1).all()  # one slot for each position
