"""The KV cache. That a step equals the full pass is invariant 4 (`tests/test_invariants.py`)."""

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences

from tf_transformer.decoding.kv_cache import make_decode_step

B, K = 3, 2


def run_steps(step, state, tokens, beam_indices):
    """The logits of each step, and the state after the last; arguments `[steps, B, K]`."""
    logits = []
    for t, (ids, indices) in enumerate(zip(tokens, beam_indices)):
        of_step, state = step(tf.constant(ids), tf.constant(t), tf.constant(indices), state)
        logits.append(of_step)
    return tf.stack(logits), state


@pytest.fixture
def hypotheses():
    """Random tokens and beam indices, int64 `[5, B, K]`."""
    random = np.random.default_rng(4)
    return random.integers(4, 37, (5, B, K)), random.integers(0, K, (5, B, K))


def test_shapes_of_the_state():
    """Each tensor begins with B, so that sentences can leave the batch."""
    model = make_model(key_dim=6, value_dim=10)
    step, state = make_decode_step(model, tf.constant(sentences(B, 9)), K)
    heads = model.num_heads
    for length in range(3):
        for keys, values in state.target:
            assert keys.shape == (B, K, heads, length, 6)
            assert values.shape == (B, K, heads, length, 10)
        for keys, values in state.source:
            assert (keys.shape, values.shape) == ((B, heads, 9, 6), (B, heads, 9, 10))
        ids = tf.fill([B, K], tf.constant(5, tf.int64))
        logits, state = step(ids, length, tf.zeros_like(ids), state)
        assert logits.shape == (B, K, model.target_vocab_size)


def test_a_cache_of_fixed_length_gives_the_same(hypotheses):
    """Unused room is hidden; XLA compiles such steps."""
    model, inp = make_model(), tf.constant(sentences(B, 9))
    expected, _ = run_steps(*make_decode_step(model, inp, K), *hypotheses)

    @tf.function(jit_compile=True)
    def compiled():
        return run_steps(*make_decode_step(model, inp, K, 8), *hypotheses)

    logits, state = compiled()
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    assert state.target[0][0].shape[3] == 8


def test_sentences_can_leave_between_steps(hypotheses):
    model, inp = make_model(), tf.constant(sentences(B, 9))
    tokens, indices = hypotheses
    step, state = make_decode_step(model, inp, K)
    expected, _ = run_steps(step, state, tokens, indices)
    _, state = run_steps(step, state, tokens[:4], indices[:4])
    rows = [2, 0]
    state = tf.nest.map_structure(lambda leaf: tf.gather(leaf, rows), state)
    logits, _ = step(tf.constant(tokens[4, rows]), 4, tf.constant(indices[4, rows]), state)
    np.testing.assert_allclose(logits, tf.gather(expected[4], rows), atol=1e-5)
