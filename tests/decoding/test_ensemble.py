"""Ensembles: the mean of the probabilities of several models."""

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences

from tf_transformer.config import DecodeConfig
from tf_transformer.decoding.ensemble import Ensemble, average_probabilities
from tf_transformer.decoding.inference import (
    alternative_translations,
    sample_translations,
    search_translations,
    target_logits,
)
from tf_transformer.decoding.scores import length_penalty
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import END, PAD, START

INP = tf.constant(sentences(3, 5))
PREFIX = tf.constant([[5, 6], [7, PAD], [PAD, PAD]])
SEEDS = tf.constant([[1, 1], [1, 2], [1, 3]])


def decode_config(beam_size):
    return DecodeConfig(beam_size=beam_size, length_penalty=0.6, extra_decode_length=2)


@pytest.fixture(scope="module")
def models():
    """Two models of different sizes, whose outputs differ."""
    return make_model(), make_model(norm="pre", num_decoder_layers=1, dff=32, pe_target=32)


def mean_probabilities(models, inp, ids):
    """The mean of the probabilities of each token of `ids` [t], of full passes: float64 [t, V]."""
    tar_inp = tf.constant([[START, *ids[:-1]]])
    logits = [model(inp[np.newaxis], tar_inp)[0][0] for model in models]
    return np.mean(np.asarray(tf.nn.softmax(logits), np.float64), axis=0)


def scored_searches(model):
    forced = search_translations(model, INP, decode_config(3), 3, PREFIX)
    return forced, sample_translations(model, INP, decode_config(1), SEEDS, 4, PREFIX, top_k=9)


def searches(model):
    return [
        search_translations(model, INP, decode_config(1)),
        search_translations(model, INP, decode_config(3), 3),
        *scored_searches(model),
        alternative_translations(model, INP, decode_config(1), 3, PREFIX),
    ]


def test_an_ensemble_of_a_model_and_itself_is_the_model(models):
    for expected, result in zip(searches(models[0]), searches(Ensemble([models[0]] * 2))):
        np.testing.assert_array_equal(result[0], expected[0])
        np.testing.assert_allclose(result[1], expected[1], atol=1e-5)


def checked_scores(models, result):
    """Checks the score of the last hypothesis of each sentence.

    Yields: the source, the hypothesis, and the probabilities of its tokens, `[t, V]`.
    """
    for inp, rows, scores in zip(INP.numpy(), result.ids.numpy(), result.scores.numpy()):
        ids = rows[-1][rows[-1] != PAD]
        p = mean_probabilities(models, inp, ids)
        log_prob = np.log(p[np.arange(len(ids)), ids]).sum()
        assert scores[-1] * length_penalty(len(ids), 0.6) == pytest.approx(log_prob, abs=1e-4)
        yield inp, ids, p


def test_greedy_search_takes_the_most_probable_token_of_the_mean(models):
    result = search_translations(Ensemble(models), INP, decode_config(1))
    for inp, ids, p in checked_scores(models, result):
        p[:, [PAD, START]] = 0
        best = p.argmax(1)
        if len(ids) == np.count_nonzero(inp) + 1:  # the longest output
            best[-1] = END
        np.testing.assert_array_equal(ids, best)


def test_beam_and_sample_scores_are_those_of_the_mean(models):
    forced, samples = scored_searches(Ensemble(models))
    assert len([*checked_scores(models, forced), *checked_scores(models, samples)]) == 6
    prefix = PREFIX[:, tf.newaxis]
    assert np.all((forced.ids[:, :, :2] == prefix) | (prefix == PAD))


def test_the_mean_is_that_of_the_probabilities_by_hand(models):
    logits = average_probabilities([tf.math.log([0.9, 0.1]), tf.math.log([0.2, 0.8]) + 7])
    np.testing.assert_allclose(tf.exp(logits), [0.55, 0.45], rtol=1e-5)
    logits = average_probabilities([tf.constant([0.0, -1000.0]), tf.constant([0.0, -1000.0])])
    np.testing.assert_allclose(logits, [0.0, -1000.0])
    assert average_probabilities([logits]) is logits
    p = tf.nn.softmax(target_logits(Ensemble(models), INP[:1], INP[:1])[0])
    inp = INP[0].numpy()
    np.testing.assert_allclose(p, mean_probabilities(models, inp, inp), atol=1e-6)


def test_positions_are_those_that_all_models_have(models):
    pair = Ensemble(models)
    assert (pair.pe_input, pair.pe_target) == (64, 32)


def test_what_an_ensemble_cannot_do(model_dir):
    pair = Translator.load(f"{model_dir},{model_dir}")
    with pytest.raises(UserError, match="attention weights belong to one model"):
        pair.attention("Anna sleeps.", "Anna")
    with pytest.raises(UserError, match="pocket-en-de have different source vocabularies"):
        Translator.load(f"{model_dir},pocket-en-de")
