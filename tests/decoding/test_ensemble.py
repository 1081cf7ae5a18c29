"""Ensembles: the mean of the probabilities of several models."""

import types

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences

from tf_transformer.config import DecodeConfig
from tf_transformer.decoding import ensemble
from tf_transformer.decoding.ensemble import Ensemble, average_logits, copy_model, load_models
from tf_transformer.decoding.inference import (
    alternative_translations,
    forced_logits,
    sample_translations,
    search_translations,
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
    return make_model(), make_model(num_layers=1, dff=32, pe_target=32)


def mean_probabilities(models, inp, ids):
    """p(next token) of the mean after the tokens `ids` [t], of full passes: float64 [V]."""
    tar_inp = tf.constant([[START, *ids]])
    p = [tf.nn.softmax(model(inp[tf.newaxis], tar_inp)[0][0, -1]).numpy() for model in models]
    return np.mean(np.asarray(p, np.float64), axis=0)


def searches(model):
    greedy, beam = decode_config(1), decode_config(3)
    return [
        search_translations(model, INP, greedy),
        search_translations(model, INP, beam, 3),
        search_translations(model, INP, beam, 3, PREFIX),
        sample_translations(model, INP, greedy, SEEDS, 4, PREFIX, top_k=9),
        alternative_translations(model, INP, greedy, 3, PREFIX),
    ]


def test_an_ensemble_of_one_model_is_the_model(models):
    once, twice = (searches(Ensemble([models[0]] * number)) for number in (1, 2))
    for expected, *results in zip(searches(models[0]), once, twice):
        for result in results:
            np.testing.assert_array_equal(result[0], expected[0])
            np.testing.assert_allclose(result[1], expected[1], atol=1e-5)


def test_greedy_search_takes_the_most_probable_token_of_the_mean(models):
    result = search_translations(Ensemble(models), INP, decode_config(1))
    for inp, ids, score in zip(INP, result.ids.numpy()[:, 0], result.scores.numpy()[:, 0]):
        longest = int(tf.reduce_sum(tf.cast(inp != PAD, tf.int32))) - 1 + 2
        expected, log_prob = [], 0.0
        while END not in expected:
            p = mean_probabilities(models, inp, expected)
            free = np.where(np.isin(np.arange(len(p)), [PAD, START]), 0, p)
            expected.append(END if len(expected) + 1 == longest else int(free.argmax()))
            log_prob += np.log(p[expected[-1]])
        penalty = float(length_penalty(len(expected), 0.6))
        assert ids[ids != PAD].tolist() == expected
        assert score * penalty == pytest.approx(log_prob, abs=1e-4)


def test_beam_and_sample_scores_are_those_of_the_mean(models):
    _, _, forced, samples, _ = searches(Ensemble(models))
    for result in (forced, samples):
        for inp, rows, scores in zip(INP, result.ids.numpy(), result.scores.numpy()):
            ids = rows[-1][rows[-1] != PAD].tolist()
            p = [mean_probabilities(models, inp, ids[:t])[ids[t]] for t in range(len(ids))]
            penalty = float(length_penalty(len(ids), 0.6))
            assert scores[-1] * penalty == pytest.approx(np.log(p).sum(), abs=1e-4)
    prefix = PREFIX.numpy()
    rows = forced.ids.numpy()[:, :, :2]
    assert np.all((rows == prefix[:, np.newaxis]) | (prefix[:, np.newaxis] == PAD))


def test_the_mean_is_that_of_the_probabilities_by_hand(models):
    logits = average_logits([tf.math.log([0.9, 0.1]), tf.math.log([0.2, 0.8]) + 7])
    np.testing.assert_allclose(tf.exp(logits), [0.55, 0.45], rtol=1e-5)
    logits = average_logits([tf.constant([0.0, -1000.0]), tf.constant([0.0, -1000.0])])
    np.testing.assert_allclose(logits, [0.0, -1000.0])
    assert average_logits([logits]) is logits
    p = tf.nn.softmax(forced_logits(Ensemble(models), INP, INP)[0, 2])
    ids = INP[0, :2].numpy().tolist()
    np.testing.assert_allclose(p, mean_probabilities(models, INP[0], ids), atol=1e-6)


def test_positions_are_those_that_all_models_have_and_a_copy_is_equal(models):
    pair = Ensemble(models)
    assert (pair.pe_input, pair.pe_target) == (64, 32)
    copy = copy_model(pair)
    decode = decode_config(2)
    one, other = (search_translations(model, INP, decode) for model in (pair, copy))
    np.testing.assert_array_equal(one.ids, other.ids)
    assert copy.models[0] is not models[0]


def test_models_with_other_vocabularies_are_refused(monkeypatch):
    def load(folder, checkpoint):
        names = {"a": ("x", "y"), "b": ("x", "z"), "c": ("x", "y")}[folder]
        return folder, [types.SimpleNamespace(fingerprint=name) for name in names], folder

    monkeypatch.setattr(ensemble, "load_model", load)
    monkeypatch.setattr(ensemble, "Ensemble", list)
    model, _, config = load_models("a,c")
    assert (model, config) == (["a", "c"], "a")
    with pytest.raises(UserError, match="^a and b have different target vocabularies"):
        load_models("a,c,b")


def test_a_translator_of_checkpoints(model_dir, translator):
    pair = Translator.load(f"{model_dir},{model_dir}")
    texts = ["Anna sleeps.", "", "The dog sees the cat."]
    for one, other in zip(translator.n_best(texts, 2), pair.n_best(texts, 2)):
        assert [text for text, _ in one] == [text for text, _ in other]
    (hypothesis,) = pair.n_best(texts[:1], 1)
    score = pair.score([(texts[0], hypothesis[0][0])])[0]
    expected = translator.score([(texts[0], hypothesis[0][0])])[0]
    assert score.log_prob == pytest.approx(expected.log_prob, abs=1e-4)
    with pytest.raises(UserError, match="attention weights are those of one model"):
        pair.attention("Anna sleeps.")
