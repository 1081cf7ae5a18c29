"""The laws that every part keeps. Most bugs that users of Transformers report break one of them.

Law 5 (search) is in test_search.py, law 6 (replicas) in test_replicas.py, law 7 (resume) in test_resume.py, and law 9 (round trip) in
test_tokenizer.py, test_checkpoint.py and test_layers.py.
"""

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences

from tf_transformer.config import PAD, START, DecodeConfig
from tf_transformer.masks import create_padding_mask
from tf_transformer.transformer import ROOM
from tf_transformer.translate import search_translations

VARIANTS = {
    "shared": {},
    "separate": {"shared_embeddings": False, "target_vocab_size": 37},
    "learned positions": {"positions": "learned"},
    "depths": {"key_dim": 6, "value_dim": 10},
}


@pytest.fixture(scope="module", params=list(VARIANTS))
def model(request):
    return make_model(**VARIANTS[request.param])


def test_law_1_padding(model):
    """More padding changes no logit."""
    inp, tar = sentences(5, 9), sentences(5, 7, 1, start=True)
    logits, _ = model(inp, tar)
    wider, _ = model(np.pad(inp, [(0, 0), (0, 6)]), np.pad(tar, [(0, 0), (0, 4)]))
    np.testing.assert_allclose(wider[:, : tar.shape[1]], logits, atol=2e-6)


def test_law_2_company(model):
    """A sentence's logits do not depend on the batch it is in; rows that are all padding do no harm."""
    inp, tar = sentences(6, 9), sentences(6, 7, 1, start=True)
    inp[3], tar[3] = PAD, PAD
    logits = model(inp, tar)[0].numpy()
    assert np.isfinite(logits).all()
    for i in (0, 1, 2, 4, 5):
        s, t = (inp[i] != PAD).sum(), (tar[i] != PAD).sum()
        alone, _ = model(inp[i : i + 1, :s], tar[i : i + 1, :t])
        np.testing.assert_allclose(alone[0], logits[i, :t], atol=2e-6)


def test_law_2_company_in_translation(translator):
    texts = ["Anna sleeps.", "The old man sees the red ball in the garden.", "", "We buy twenty-one apples.", "x " * 20]
    together = translator.n_best(texts, 3)
    for text, found in zip(texts, together):
        alone = translator.n_best([text], 3)[0]
        assert [t for t, _ in alone] == [t for t, _ in found]
        np.testing.assert_allclose([s for _, s in alone], [s for _, s in found], rtol=1e-4, atol=1e-5)


def test_law_3_causality(model):
    """A later target token changes no earlier logit, and does change later ones."""
    inp, tar = sentences(4, 9), sentences(4, 9, 1, start=True, shortest=9)
    logits = model(inp, tar)[0].numpy()
    for t in (1, 4, 8):
        changed = tar.copy()
        changed[:, t] = (changed[:, t] - 4 + 7) % 30 + 4
        again = model(inp, changed)[0].numpy()
        np.testing.assert_array_equal(again[:, :t], logits[:, :t])
        assert np.abs(again[:, t:] - logits[:, t:]).max() > 1e-3


@pytest.mark.parametrize("hypotheses", [1, 3])
def test_law_4_cache(model, hypotheses):
    """Step by step with kept keys and values equals the full pass, whichever hypothesis each one goes on from."""
    random, inp, length = np.random.default_rng(3), sentences(4, 9), 2 * ROOM + 6
    words = random.integers(4, 37, (4, hypotheses, length)).astype(np.int32)
    padding_mask = create_padding_mask(inp)
    memory = model.decoder.memory(model.encoder(inp, False, padding_mask))
    past, fused = model.decoder.no_past(4, hypotheses), model.decoder.fused_projections()
    so_far = np.zeros((4, hypotheses, 0), np.int32)
    for t in range(length):
        parents = random.integers(0, hypotheses, (4, hypotheses)).astype(np.int32)
        so_far = np.concatenate([np.take_along_axis(so_far, parents[..., np.newaxis], axis=1), words[:, :, t : t + 1]], axis=2)
        x, past = model.decoder.step(words[:, :, t], t, parents, past, memory, padding_mask, fused)
        logits, _ = model(np.repeat(inp, hypotheses, axis=0), so_far.reshape(-1, t + 1))
        np.testing.assert_allclose(model.logits(x).numpy().reshape(4 * hypotheses, -1), logits[:, -1], atol=1e-5)
    kept = past[1][0][0].shape[2] - ROOM * hypotheses  # when room was made for the third time
    assert kept == 2 * ROOM if hypotheses == 1 else 2 * ROOM <= kept < 3 * ROOM  # of up to three times 2 * ROOM


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_law_4_in_half_precision(precision, beam_size):
    """The search runs in it, and its scores are near those of the full pass in float32."""
    inp, decode = sentences(5, 9), DecodeConfig(beam_size=beam_size, alpha=0.0, extra_length=ROOM)
    half, full = make_model(precision), make_model()
    result = search_translations(half, tf.constant(inp), decode)
    np.testing.assert_allclose(result.scores[:, 0], _scores(full, inp, result.ids[:, 0].numpy()), rtol=0.05)


def _scores(model, inp, ids):
    """The log-probabilities of given translations by the full pass."""
    tar = np.concatenate([np.full((len(ids), 1), START), ids], axis=1).astype(np.int32)
    log_probs = tf.nn.log_softmax(tf.cast(model(inp, tar[:, :-1])[0], tf.float32))
    chosen = tf.gather(log_probs, tar[:, 1:], batch_dims=2)
    return tf.reduce_sum(tf.where(tar[:, 1:] != PAD, chosen, 0.0), axis=1)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_law_4_search_scores_equal_the_full_pass(model, beam_size):
    """The score of a found translation is what the teacher-forced model gives it."""
    inp = sentences(5, 9)
    decode = DecodeConfig(beam_size=beam_size, alpha=0.0, extra_length=4)
    result = search_translations(model, tf.constant(inp), decode)
    np.testing.assert_allclose(result.scores[:, 0], _scores(model, inp, result.ids[:, 0].numpy()), rtol=1e-4)
    limits = (inp != PAD).sum(1) - 1 + decode.extra_length
    assert (result.lengths[:, 0].numpy() <= limits).all()
