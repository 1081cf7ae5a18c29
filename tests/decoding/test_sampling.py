"""Sampling: frequencies against exact probabilities, and the same samples for the same seed."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf
from chains import V, make_problem, markov_chains, without_padding

from tf_transformer.config import SamplingConfig
from tf_transformer.decoding.beam_search import SearchProblem, greedy_search
from tf_transformer.decoding.sampling import sample
from tf_transformer.decoding.scores import length_penalty
from tf_transformer.special_tokens import END, PAD, START

SETTINGS = [
    SamplingConfig(),
    SamplingConfig(temperature=0.5),
    SamplingConfig(temperature=2.0, top_k=3),
    SamplingConfig(top_p=0.7),
    SamplingConfig(temperature=1.5, top_k=3, top_p=0.9),
]


def draw(table, max_lengths, number, sampling=SETTINGS[0], seed=1, first=0, prefix=None):
    """The samples `[B][number]` of each sentence, lists of tokens, and their scores."""
    seeds = tf.constant([[seed, first + i] for i in range(len(max_lengths))])
    problem = make_problem(table, 1, max_lengths, prefix=prefix)
    result = sample(problem, seeds, number, **dataclasses.asdict(sampling))
    samples = [[tuple(without_padding(ids)) for ids in row] for row in result.ids.numpy()]
    lengths = [[len(ids) for ids in row] for row in samples]
    np.testing.assert_array_equal(result.lengths, lengths)
    return samples, result.scores.numpy()


def next_probabilities(log_probs, sampling):
    """The distribution of the next token, from the definition of the settings."""
    p = np.exp(np.asarray(log_probs, np.float64) / sampling.temperature)
    p[[PAD, START]] = 0
    order = np.argsort(-p)
    p[order[sampling.top_k or V :]] = 0
    p /= p.sum()
    nucleus = 1 + next(i for i in range(V) if p[order[: i + 1]].sum() >= sampling.top_p - 1e-9)
    p[order[nucleus:]] = 0
    return p / p.sum()


def exact_probabilities(table, max_length, sampling):
    """The probability of each output of one sentence."""
    table = table.numpy()
    outputs = {}
    tokens = [token for token in range(V) if token not in (PAD, START, END)]
    for length in range(1, max_length + 1):
        for body in itertools.product(tokens, repeat=length - 1):
            ids = [PAD, START, *body, END]
            p = 1.0
            for t in range(length if length < max_length else length - 1):  # the last is certain
                p *= next_probabilities(table[t, ids[t], ids[t + 1]], sampling)[ids[t + 2]]
            outputs[tuple(ids[2:])] = p
    assert sum(outputs.values()) == pytest.approx(1)
    return outputs


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_frequencies_are_the_probabilities(sampling):
    """Pearson's chi-square of 5,000 samples; those that are impossible do not occur."""
    table = markov_chains(1, 1, scale=1.0)
    (samples,), _ = draw(table, [4], 5000, sampling)
    expected = exact_probabilities(table[0], 4, sampling)
    counts = {output: samples.count(output) for output in expected}
    assert sum(counts.values()) == 5000
    assert not [ids for ids, count in counts.items() if count and expected[ids] == 0]
    frequent = [output for output, p in expected.items() if 5000 * p >= 5]
    groups = [(counts[output], 5000 * expected[output]) for output in frequent]
    rare = 5000 - sum(p for _, p in groups)
    if rare > 1:
        groups.append((5000 - sum(count for count, _ in groups), rare))
    chi_square = sum((count - p) ** 2 / p for count, p in groups)
    degrees = len(groups) - 1
    assert degrees >= 3
    assert chi_square < degrees + 4 * np.sqrt(2 * degrees)


def test_scores_are_those_of_the_model():
    """Not those of the distribution that was sampled."""
    table = markov_chains(2, 3)
    samples, scores = draw(table, [6, 3, 5], 20, SamplingConfig(temperature=0.5, top_k=2))
    for chain, row, row_scores in zip(table.numpy(), samples, scores):
        for ids, score in zip(row, row_scores):
            ids = [PAD, START, *ids]
            log_prob = sum(chain[t, ids[t], ids[t + 1], ids[t + 2]] for t in range(len(ids) - 2))
            penalty = float(length_penalty(len(ids) - 2, 0.6))
            assert score == pytest.approx(log_prob / penalty, rel=1e-5)


@pytest.mark.parametrize(
    "sampling",
    [SamplingConfig(top_k=1), SamplingConfig(top_p=0.0), SamplingConfig(top_p=0.01)],
    ids=str,
)
def test_the_most_probable_token_alone_is_greedy_search(sampling):
    table = markov_chains(3, 10)
    max_lengths = [6, 9] * 5
    samples, scores = draw(table, max_lengths, 3, sampling)
    greedy = greedy_search(make_problem(table, 1, max_lengths))
    for i, row in enumerate(samples):
        assert row == [tuple(without_padding(greedy.ids[i, 0]))] * 3
        np.testing.assert_allclose(scores[i], [greedy.scores[i, 0]] * 3, rtol=1e-5)


def test_samples_depend_on_the_seed_and_not_on_the_batch():
    table = markov_chains(4, 8, scale=0.5)
    max_lengths = [3, 9, 5, 1, 7, 9, 2, 4]
    together, _ = draw(table, max_lengths, 4)
    assert together == draw(table, max_lengths, 4)[0]
    assert together != draw(table, max_lengths, 4, seed=2)[0]
    for i, max_length in enumerate(max_lengths):
        alone, _ = draw(table[i : i + 1], [max_length], 4, first=i)
        assert alone == [together[i]]


def test_prefixes_and_maximum_lengths():
    table = markov_chains(6, 3, scale=0.5)
    prefix = tf.constant([[4, 5, 1], [5, PAD, PAD], [PAD, PAD, PAD]])
    samples, _ = draw(table, [6, 3, 2], 50, prefix=prefix)
    assert {ids[:3] for ids in samples[0]} == {(4, 5, 1)}
    assert {ids[0] for ids in samples[1]} == {5}
    for row, max_length in zip(samples, [6, 3, 2]):
        assert max(map(len, row)) == max_length
        assert all(ids[-1] == END for ids in row)
        assert len(set(row)) > 1


def test_sampling_in_a_graph_and_with_logits_that_are_not_finite():
    def step(ids, position, beam_indices, state):
        return tf.fill([*ids.shape, V], float("nan")), state

    seeds = tf.constant([[1, 1], [1, 2]])
    problem = SearchProblem(step, tf.zeros([2, 1]), tf.constant([3, 5]))
    assert sample(problem, seeds, 2).ids.shape[-1] <= 5

    problem = make_problem(markov_chains(7, 2), 1, [1, 1])

    def search(max_lengths):
        return sample(problem._replace(max_lengths=max_lengths), seeds, 3, top_p=0.7).ids

    max_lengths = tf.constant([5, 6])
    np.testing.assert_array_equal(tf.function(search)(max_lengths), search(max_lengths))


def test_each_sentence_can_have_its_own_settings():
    table, max_lengths = markov_chains(8, 5), [6, 3, 7, 5, 6]
    seeds = tf.constant([[1, i] for i in range(5)])
    names = ("temperature", "top_k", "top_p")
    columns = {name: tf.constant([getattr(each, name) for each in SETTINGS]) for name in names}
    together = sample(make_problem(table, 1, max_lengths), seeds, 20, **columns)
    for i, settings in enumerate(SETTINGS):
        samples, scores = draw(table[i : i + 1], max_lengths[i : i + 1], 20, settings, first=i)
        assert [tuple(without_padding(ids)) for ids in together.ids[i]] == samples[0]
        np.testing.assert_allclose(together.scores[i], scores[0], rtol=1e-5)


def test_top_k_keeps_all_or_none_of_equal_logits():
    table = tf.math.log(tf.constant([0.0, 0.3, 0.0, 0.1, 0.3, 0.3])) * tf.ones([1, 12, V, V, 1])
    samples, _ = draw(table, [2], 300, SamplingConfig(top_k=2))
    assert {ids[0] for ids in samples[0]} == {1, 4, 5}
