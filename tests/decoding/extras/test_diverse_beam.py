"""Diverse beam search, compared with a search in Python."""

import numpy as np
import pytest
import tensorflow as tf
from chains import V, assert_same_outputs, make_problem, markov_chains, outputs_of

from tf_transformer.config import ControlConfig
from tf_transformer.decoding.beam_search import beam_search
from tf_transformer.decoding.extras.diverse_beam import diverse_beam_search
from tf_transformer.decoding.logits_processors import make_processors
from tf_transformer.decoding.scores import length_penalty
from tf_transformer.special_tokens import END, PAD, START


def search_in_python(table, max_length, beam_size, groups, strength, alpha):
    """All finished hypotheses of one sentence as pairs (score, tokens), best first.

    It has no early termination.
    """
    size = beam_size // groups
    alive = [[(0.0, [])] for _ in range(groups)]
    finished = [[] for _ in range(groups)]
    for t in range(max_length):
        taken = np.zeros(V)
        for group in range(groups):
            candidates = []
            for total, ids in alive[group]:
                history = [PAD, START, *ids]
                log_probs = table[t, history[-2], history[-1]] - strength * taken
                tokens = [END] if t + 1 == max_length else set(range(V)) - {PAD, START}
                candidates += [(total + log_probs[token], [*ids, token]) for token in tokens]
            candidates = sorted(candidates, reverse=True)[: 2 * size]
            ends = [each for each in candidates[:size] if each[1][-1] == END]
            if size > 1 or not finished[group]:
                penalty = float(length_penalty(t + 1, alpha))
                finished[group] += [(total / penalty, ids) for total, ids in ends]
            alive[group] = [each for each in candidates if each[1][-1] != END][:size]
            for _, ids in alive[group]:
                taken[ids[-1]] += 1
    return sorted(sum((sorted(group)[-size:] for group in finished), []), reverse=True)


@pytest.mark.parametrize("beam_size, groups", [(4, 2), (3, 3), (6, 3), (4, 1)])
@pytest.mark.parametrize("strength", [0.5, 3.0])
def test_a_search_in_python_finds_the_same(beam_size, groups, strength):
    table, max_lengths = markov_chains(31, 6), [6, 4, 1, 5, 6, 2]
    arguments = make_problem(table, beam_size, max_lengths), beam_size, groups, strength
    result = diverse_beam_search(*arguments, n_best=beam_size)
    best = diverse_beam_search(*arguments)
    assert best.ids.shape[2] == np.max(best.lengths)
    for i, max_length in enumerate(max_lengths):
        chain = table[i].numpy().astype(np.float64)
        expected = search_in_python(chain, max_length, beam_size, groups, strength, 0.6)
        assert_same_outputs(outputs_of(result, i)[: len(expected)], expected)
        assert_same_outputs(outputs_of(best, i), expected[:1])


@pytest.mark.parametrize("n_best", [1, 4])
def test_one_group_is_beam_search(n_best):
    prefix = tf.constant([[4, 5], [5, PAD], [PAD, PAD], [PAD, PAD], [4, PAD]] * 2)
    processors = make_processors(ControlConfig(no_repeat_ngram_size=2))
    options = {"prefix": prefix, "processors": processors}
    problem = make_problem(markov_chains(32, 10), 4, [7, 3, 9, 8, 5] * 2, **options)
    diverse = diverse_beam_search(problem, 4, 1, 2.0, n_best)
    for one, other in zip(diverse, beam_search(problem, 4, n_best)):
        np.testing.assert_array_equal(one, other)


def test_batch_independence():
    table, max_lengths = markov_chains(34, 8), [3, 9, 5, 1, 7, 9, 2, 4]
    together = diverse_beam_search(make_problem(table, 4, max_lengths), 4, 2, 1.0, n_best=2)
    for i, max_length in enumerate(max_lengths):
        problem = make_problem(table[i : i + 1], 4, [max_length])
        alone = diverse_beam_search(problem, 4, 2, 1.0, n_best=2)
        assert_same_outputs(outputs_of(alone, 0), outputs_of(together, i))
