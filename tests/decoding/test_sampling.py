"""Sampling: frequencies against exact probabilities, and the same samples for the same seed."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from chains import V, exhaustive_outputs, make_problem, markov_chains, outputs_of, without_padding

from tf_transformer.config import SamplingConfig
from tf_transformer.decoding.beam_search import greedy_search
from tf_transformer.decoding.sampling import sample
from tf_transformer.special_tokens import END, PAD, START

SETTINGS = [
    SamplingConfig(),
    SamplingConfig(temperature=0.5),
    SamplingConfig(temperature=2.0, top_k=3),
    SamplingConfig(top_p=0.7),
    SamplingConfig(temperature=1.5, top_k=3, top_p=0.9),
]


def draw(table, max_lengths, number, sampling=SETTINGS[0], first=0, prefix=None):
    """The samples `[B][number]` of each sentence, lists of tokens, and their scores."""
    seeds = tf.constant([[1, first + i] for i in range(len(max_lengths))])
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
    for tokens in exhaustive_outputs(max_length):
        ids, p = [PAD, START, *tokens], 1.0
        for t, token in enumerate(tokens[: max_length - 1]):  # the last one is certain
            p *= next_probabilities(table[t, ids[t], ids[t + 1]], sampling)[token]
        outputs[tuple(tokens)] = p
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
    """Also where each sentence has its own settings."""
    table, max_lengths = markov_chains(4, 10, scale=0.5), [3, 9, 5, 1, 7, 9, 2, 4, 6, 6]
    every = SETTINGS * 2
    names = ("temperature", "top_k", "top_p")
    columns = {name: tf.constant([getattr(each, name) for each in every]) for name in names}
    results = []
    for seed in (1, 1, 2):
        seeds = tf.constant([[seed, i] for i in range(10)])
        results.append(sample(make_problem(table, 1, max_lengths), seeds, 20, **columns))
    np.testing.assert_array_equal(results[0].ids, results[1].ids)
    assert outputs_of(results[0], 5) != outputs_of(results[2], 5)
    for i, settings in enumerate(every):
        samples, scores = draw(table[i : i + 1], max_lengths[i : i + 1], 20, settings, first=i)
        assert [tuple(ids) for _, ids in outputs_of(results[0], i)] == samples[0]
        np.testing.assert_allclose(results[0].scores[i], scores[0], rtol=1e-5)


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


def test_top_k_keeps_all_or_none_of_equal_logits():
    table = tf.math.log(tf.constant([0.0, 0.3, 0.0, 0.1, 0.3, 0.3])) * tf.ones([1, 12, V, V, 1])
    samples, _ = draw(table, [2], 300, SamplingConfig(top_k=2))
    assert {ids[0] for ids in samples[0]} == {1, 4, 5}
