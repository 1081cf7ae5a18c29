"""Invariants of the model. Most bugs that users of Transformers report break one of them.

Invariant 5 (search) is in decoding/test_search.py, 6 (replicas) in training/test_distribution.py,
7 (resume) in training/test_resume.py, 8 (export) in serving/test_saved_model.py, and 9 (round trip)
in data/test_tokenizer.py, checkpoints/test_checkpoint.py and model/test_layers.py.
"""

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences

from tf_transformer.config import DecodeConfig
from tf_transformer.decoding.kv_cache import CAPACITY_STEP, make_decode_step
from tf_transformer.decoding.translator import search_translations
from tf_transformer.special_tokens import PAD, START

VARIANTS = {
    "shared": {},
    "separate": {"shared_embeddings": False, "target_vocab_size": 37},
    "learned positions": {"positional_encoding": "learned"},
    "depths": {"key_dim": 6, "value_dim": 10},
}


@pytest.fixture(scope="module", params=list(VARIANTS))
def model(request):
    return make_model(**VARIANTS[request.param])


def test_invariant_1_padding(model):
    """More padding changes no logit."""
    inp, tar = sentences(5, 9), sentences(5, 7, 1, start=True)
    logits, _ = model(inp, tar)
    wider, _ = model(np.pad(inp, [(0, 0), (0, 6)]), np.pad(tar, [(0, 0), (0, 4)]))
    np.testing.assert_allclose(wider[:, : tar.shape[1]], logits, atol=2e-6)


def test_invariant_2_batch_independence(model):
    """A sentence's logits do not depend on the batch it is in; rows that are all padding do no harm."""
    inp, tar = sentences(6, 9), sentences(6, 7, 1, start=True)
    inp[3], tar[3] = PAD, PAD
    logits = model(inp, tar)[0].numpy()
    assert np.isfinite(logits).all()
    for i in (0, 1, 2, 4, 5):
        s, t = (inp[i] != PAD).sum(), (tar[i] != PAD).sum()
        alone, _ = model(inp[i : i + 1, :s], tar[i : i + 1, :t])
        np.testing.assert_allclose(alone[0], logits[i, :t], atol=2e-6)


def test_invariant_2_batch_independence_in_translation(translator):
    texts = [
        "Anna sleeps.",
        "The old man sees the red ball in the garden.",
        "",
        "We buy twenty-one apples.",
        "x " * 20,
    ]
    together = translator.n_best(texts, 3)
    for text, found in zip(texts, together):
        alone = translator.n_best([text], 3)[0]
        assert [t for t, _ in alone] == [t for t, _ in found]
        np.testing.assert_allclose(
            [s for _, s in alone], [s for _, s in found], rtol=1e-4, atol=1e-5
        )


def test_invariant_3_causality(model):
    """A later target token changes no earlier logit, and does change later ones."""
    inp, tar = sentences(4, 9), sentences(4, 9, 1, start=True, shortest=9)
    logits = model(inp, tar)[0].numpy()
    for t in (1, 4, 8):
        changed = tar.copy()
        changed[:, t] = (changed[:, t] - 4 + 7) % 30 + 4
        again = model(inp, changed)[0].numpy()
        np.testing.assert_array_equal(again[:, :t], logits[:, :t])
        assert np.abs(again[:, t:] - logits[:, t:]).max() > 1e-3


@pytest.mark.parametrize("beam_size", [1, 3])
def test_invariant_4_kv_cache(model, beam_size):
    """Single-step decoding equals the full pass, whichever hypothesis each one continues."""
    random = np.random.default_rng(3)
    inp, length = sentences(4, 9), 2 * CAPACITY_STEP + 6
    tokens = random.integers(4, 37, (4, beam_size, length)).astype(np.int32)
    step, state = make_decode_step(model, tf.constant(inp), beam_size)
    prefixes = np.zeros((4, beam_size, 0), np.int32)
    for t in range(length):
        beam_indices = random.integers(0, beam_size, (4, beam_size)).astype(np.int32)
        prefixes = np.take_along_axis(prefixes, beam_indices[..., np.newaxis], axis=1)
        prefixes = np.concatenate([prefixes, tokens[:, :, t : t + 1]], axis=2)
        found, state = step(tokens[:, :, t], t, beam_indices, state)
        expected, _ = model(np.repeat(inp, beam_size, axis=0), prefixes.reshape(-1, t + 1))
        found = found.numpy().reshape(4 * beam_size, -1)
        np.testing.assert_allclose(found, expected[:, -1], atol=1e-5)

    # Slots that no hypothesis sees are removed when the cache grows: here for the third time.
    kept = state.cache.keys[0].shape[2] - CAPACITY_STEP * beam_size
    assert (
        2 * CAPACITY_STEP <= kept < (2 * CAPACITY_STEP + 1 if beam_size == 1 else 3 * CAPACITY_STEP)
    )


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_invariant_4_in_half_precision(precision, beam_size):
    """The search runs in it, and its scores are near those of the full pass in float32."""
    inp, decode = (
        sentences(5, 9),
        DecodeConfig(beam_size=beam_size, length_penalty=0.0, extra_decode_length=CAPACITY_STEP),
    )
    half, full = make_model(precision), make_model()
    result = search_translations(half, tf.constant(inp), decode)
    np.testing.assert_allclose(
        result.scores[:, 0], _scores(full, inp, result.ids[:, 0].numpy()), rtol=0.05
    )


def _scores(model, inp, ids):
    """The log-probabilities of given translations by the full pass."""
    tar = np.concatenate([np.full((len(ids), 1), START), ids], axis=1).astype(np.int32)
    log_probs = tf.nn.log_softmax(tf.cast(model(inp, tar[:, :-1])[0], tf.float32))
    chosen = tf.gather(log_probs, tar[:, 1:], batch_dims=2)
    return tf.reduce_sum(tf.where(tar[:, 1:] != PAD, chosen, 0.0), axis=1)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_invariant_4_search_scores_equal_the_full_pass(model, beam_size):
    """The score of a found translation is what the teacher-forced model gives it."""
    inp = sentences(5, 9)
    decode = DecodeConfig(beam_size=beam_size, length_penalty=0.0, extra_decode_length=4)
    result = search_translations(model, tf.constant(inp), decode)
    np.testing.assert_allclose(
        result.scores[:, 0], _scores(model, inp, result.ids[:, 0].numpy()), rtol=1e-4
    )
    limits = (inp != PAD).sum(1) - 1 + decode.extra_decode_length
    assert (result.lengths[:, 0].numpy() <= limits).all()
