"""Invariants of the model.

Where the other invariants are tested: 5 (search) in decoding/test_beam_search.py, 6 (replicas) in
training/test_distribution.py, 7 (exact resume) in training/test_resume.py, 8 (export) in
export/test_saved_model.py, and 9 (round trip) in data/test_tokenizer.py,
checkpoints/test_checkpoint.py and model/test_every_layer.py.
"""

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences

from tf_transformer.config import DecodeConfig
from tf_transformer.decoding.inference import search_translations
from tf_transformer.decoding.kv_cache import make_decode_step
from tf_transformer.special_tokens import PAD, START

VARIANTS = {
    "shared": {},
    "separate": {"shared_embeddings": False, "target_vocab_size": 37},
    "learned positions": {"positional_encoding": "learned"},
    "depths": {"key_dim": 6, "value_dim": 10},
    "pre-norm": {"norm": "pre", "num_encoder_layers": 3, "num_decoder_layers": 1},
}


@pytest.fixture(scope="module", params=list(VARIANTS))
def model(request):
    return make_model(**VARIANTS[request.param])


def test_invariant_1_padding(model):
    """More padding changes no logit."""
    inp = sentences(5, 9)
    tar = sentences(5, 7, 1, start=True)
    logits, _ = model(inp, tar)
    wider, _ = model(np.pad(inp, [(0, 0), (0, 6)]), np.pad(tar, [(0, 0), (0, 4)]))
    np.testing.assert_allclose(wider[:, : tar.shape[1]], logits, atol=2e-6)


def test_invariant_2_batch_independence(model):
    """A sentence's logits do not depend on its batch, even with a row that is all padding."""
    inp = sentences(6, 9)
    tar = sentences(6, 7, 1, start=True)
    inp[3] = PAD
    tar[3] = PAD
    logits = model(inp, tar)[0].numpy()
    assert np.isfinite(logits).all()
    for i in (0, 1, 2, 4, 5):
        source_length = (inp[i] != PAD).sum()
        target_length = (tar[i] != PAD).sum()
        alone, _ = model(inp[i : i + 1, :source_length], tar[i : i + 1, :target_length])
        np.testing.assert_allclose(alone[0], logits[i, :target_length], atol=2e-6)


def test_invariant_2_batch_independence_in_translation(translator):
    texts = [
        "Anna sleeps.",
        "The old man sees the red ball in the garden.",
        "",
        "We buy twenty-one apples.",
        "x " * 20,
    ]
    for text, in_batch in zip(texts, translator.n_best(texts, 3)):
        (alone,) = translator.n_best([text], 3)
        (translations, scores), (expected, of_batch) = zip(*alone), zip(*in_batch)
        assert translations == expected
        np.testing.assert_allclose(scores, of_batch, rtol=1e-4, atol=1e-5)


def test_invariant_3_causality(model):
    """Changing a target token changes no earlier logit, and changes later ones."""
    inp = sentences(4, 9)
    tar = sentences(4, 9, 1, start=True, shortest=9)
    logits = model(inp, tar)[0].numpy()
    for t in (1, 4, 8):
        changed_tar = tar.copy()
        changed_tar[:, t] = (tar[:, t] - 4 + 7) % 30 + 4
        changed_logits = model(inp, changed_tar)[0].numpy()
        np.testing.assert_array_equal(changed_logits[:, :t], logits[:, :t])
        assert np.abs(changed_logits[:, t:] - logits[:, t:]).max() > 1e-3


@pytest.mark.parametrize("beam_size", [1, 3])
def test_invariant_4_kv_cache(model, beam_size):
    """Single-step decoding equals the full pass, for any beam indices."""
    random = np.random.default_rng(3)
    inp = sentences(4, 9)
    length = 12
    tokens = random.integers(4, 37, (4, beam_size, length)).astype(np.int32)
    step, state = make_decode_step(model, tf.constant(inp), beam_size)
    prefixes = np.zeros((4, beam_size, 0), np.int32)
    for t in range(length):
        beam_indices = random.integers(0, beam_size, (4, beam_size)).astype(np.int32)
        prefixes = np.take_along_axis(prefixes, beam_indices[..., np.newaxis], axis=1)
        prefixes = np.concatenate([prefixes, tokens[:, :, t : t + 1]], axis=2)
        logits, state = step(tokens[:, :, t], t, beam_indices, state)  # (4, K, V)
        expected, _ = model(np.repeat(inp, beam_size, axis=0), prefixes.reshape(-1, t + 1))
        logits = logits.numpy().reshape(4 * beam_size, -1)
        np.testing.assert_allclose(logits, expected[:, -1], atol=1e-5)


@pytest.mark.parametrize(("precision", "beam_size"), [("mixed_bfloat16", 4), ("mixed_float16", 1)])
def test_invariant_4_in_half_precision(precision, beam_size):
    """The search runs in half precision; its scores are close to those of a float32 full pass."""
    inp = sentences(5, 9)
    decode = DecodeConfig(beam_size=beam_size, length_penalty=0.0, extra_decode_length=16)
    result = search_translations(make_model(precision), tf.constant(inp), decode)
    expected = _log_probs(make_model(), inp, result.ids[:, 0].numpy())
    np.testing.assert_allclose(result.scores[:, 0], expected, rtol=0.05)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_invariant_4_search_scores_equal_the_full_pass(model, beam_size):
    """The score of a translation equals its log-probability under teacher forcing."""
    inp = sentences(5, 9)
    decode = DecodeConfig(beam_size=beam_size, length_penalty=0.0, extra_decode_length=4)
    result = search_translations(model, tf.constant(inp), decode)
    expected = _log_probs(model, inp, result.ids[:, 0].numpy())
    np.testing.assert_allclose(result.scores[:, 0], expected, rtol=1e-4)
    max_lengths = (inp != PAD).sum(1) - 1 + decode.extra_decode_length
    assert (result.lengths[:, 0].numpy() <= max_lengths).all()


def _log_probs(model, inp, ids):
    """The log-probabilities `[B]` of translations `ids [B, T]`, computed by the full pass."""
    start = np.full((len(ids), 1), START)
    tar = np.concatenate([start, ids], axis=1).astype(np.int32)
    logits, _ = model(inp, tar[:, :-1])
    log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))
    chosen = tf.gather(log_probs, tar[:, 1:], batch_dims=2)
    return tf.reduce_sum(tf.where(tar[:, 1:] != PAD, chosen, 0.0), axis=1)
