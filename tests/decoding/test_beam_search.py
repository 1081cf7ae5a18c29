"""Search over small step functions, compared with exhaustive search."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from chains import (
    V,
    assert_same_outputs,
    make_problem,
    markov_chains,
    outputs_of,
    ranked_outputs,
    without_padding,
)

from tf_transformer.decoding.beam_search import SearchProblem, beam_search, greedy_search
from tf_transformer.decoding.sampling import sample
from tf_transformer.decoding.scores import is_possible, length_penalty
from tf_transformer.special_tokens import END, PAD, START

PREFIXES = [[4, 1, 5], [1], [], [5, 5, 5, 4], [4, 4]]
PADDED_PREFIXES = [row + [PAD] * (4 - len(row)) for row in PREFIXES]
both_searches = pytest.mark.parametrize("beam_size", [1, 4])


def search(problem, beam_size, n_best=1):
    return greedy_search(problem) if beam_size == 1 else beam_search(problem, beam_size, n_best)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("prefixes", [None, PADDED_PREFIXES], ids=["free", "prefixes"])
def test_a_wide_beam_finds_the_optimum(alpha, prefixes):
    """Invariant 5, also among the outputs that begin with a prefix."""
    table, max_lengths = markov_chains(1, 5), [5, 4, 1, 5, 5]
    problem = make_problem(table, 100, max_lengths, alpha, prefixes and tf.constant(prefixes))
    result = beam_search(problem, 100, n_best=3)
    for i, max_length in enumerate(max_lengths):
        forced = PREFIXES[i] if prefixes else []
        outputs = ranked_outputs(table[i], max_length, alpha)
        outputs = [output for output in outputs if output[1][: len(forced)] == forced]
        assert_same_outputs(outputs_of(result, i), outputs[:3])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_of_one_is_greedy(alpha):
    """Invariant 5."""
    problem = make_problem(markov_chains(2, 40), 1, [6, 9] * 20, alpha)
    beam, greedy = beam_search(problem, 1), greedy_search(problem)
    np.testing.assert_array_equal(beam.ids, greedy.ids)
    np.testing.assert_allclose(beam.scores, greedy.scores, rtol=1e-5)
    np.testing.assert_array_equal(beam.lengths, greedy.lengths)
    np.testing.assert_array_equal(beam.truncated, greedy.lengths == np.array([[6], [9]] * 20))
    assert set(greedy.truncated.numpy().flat) == {False, True}


def test_greedy_takes_the_most_probable_token():
    table = markov_chains(3, 1)
    ids = [PAD, START]
    while ids[-1] != END:
        log_probs = table[0, len(ids) - 2, ids[-2], ids[-1]].numpy()
        log_probs[[PAD, START]] = -np.inf
        ids.append(int(log_probs.argmax()) if len(ids) < 9 else END)
    result = greedy_search(make_problem(table, 1, [8]))
    assert without_padding(result.ids[0, 0]) == ids[2:]


@pytest.mark.parametrize("beam_size, n_best", [(1, 1), (2, 1), (4, 2)])
def test_batch_independence(beam_size, n_best):
    """Invariant 2: a sentence alone gives its result in a batch with all other options.

    The sentences are done at different times, and leave the batch.
    """
    options = list(itertools.product([0.0, 2.0], [1, 7, 9], PADDED_PREFIXES[:4]))
    table = markov_chains(12, len(options), scale=0.7)
    alphas, max_lengths, prefixes = map(tf.constant, zip(*options))
    problem = make_problem(table, beam_size, max_lengths, alphas, prefixes)
    together = search(problem, beam_size, n_best)
    for i, (alpha, max_length, prefix) in enumerate(options):
        own = [max_length], alpha, tf.constant([prefix])
        problem = make_problem(table[i : i + 1], beam_size, *own)
        alone = search(problem, beam_size, n_best)
        assert_same_outputs(outputs_of(alone, 0), outputs_of(together, i))


@both_searches
def test_a_prefix_is_cut_at_the_maximum_length(beam_size):
    prefix = tf.constant([[4, 5, 1], [4, 5, 1]])
    result = search(make_problem(markov_chains(13, 2), beam_size, [3, 1], prefix=prefix), beam_size)
    assert [without_padding(ids[0]) for ids in result.ids] == [[4, 5, END], [END]]
    assert is_possible(result.scores[:, 0]).numpy().all()


def test_early_stopping_does_not_change_the_best_hypothesis():
    """With a smaller `n_best` the search stops earlier."""
    problem = make_problem(markov_chains(5, 30, scale=4.0), 4, [10] * 30)
    best, four_best = (beam_search(problem, 4, n_best) for n_best in (1, 4))
    for i in range(30):
        assert_same_outputs(outputs_of(best, i), outputs_of(four_best, i)[:1])


@both_searches
def test_every_output_ends_within_its_maximum_length(beam_size):
    table = markov_chains(6, 3)
    unlikely = tf.fill([*table.shape[:-1], 1], -50.0)
    never_end = tf.concat([table[..., :END], unlikely, table[..., END + 1 :]], axis=-1)
    result = search(make_problem(never_end, beam_size, [1, 2, 6]), beam_size)
    assert result.lengths[:, 0].numpy().tolist() == [1, 2, 6]
    assert result.truncated[:, 0].numpy().all()
    assert [without_padding(ids[0])[-1] for ids in result.ids] == [END] * 3


def test_length_penalty_by_hand():
    assert length_penalty(1, 0.6) == 1.0
    np.testing.assert_allclose(length_penalty(7, 1.0), 2.0)
    np.testing.assert_allclose(length_penalty(19, 0.5), 2.0)


def test_fewer_hypotheses_than_wanted():
    """One possible token beside END and a maximum length of 2: there are fewer than 4 outputs.

    The search ends, and the scores of the missing hypotheses are not possible ones.
    """
    excluded = tf.constant([0.0, -1e9, 0.0, 0.0, 0.0, -1e9])  # unknown and one more token
    problem = make_problem(markov_chains(7, 2) + excluded, 4, [1, 2])
    assert len(outputs_of(beam_search(problem, 4, n_best=4), 0)) == 1


@both_searches
def test_an_excluded_token_with_a_much_larger_logit(beam_size):
    """Where padding has nearly all probability, the others keep their own log-probabilities."""
    table = markov_chains(9, 3) + tf.constant([200.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    scores = search(make_problem(table, beam_size, [3, 4, 5], 0.0), beam_size).scores[:, 0].numpy()
    assert (scores < -190).all()
    assert np.isfinite(scores).all()


@both_searches
def test_search_ends_for_logits_that_are_not_finite(beam_size):
    def step(ids, position, beam_indices, state):
        return tf.fill([*ids.shape, V], float("nan")), state

    problem = SearchProblem(step, tf.zeros([2, 1]), tf.constant([3, 5]))
    for result in (search(problem, beam_size), sample(problem, tf.constant([[1, 1], [1, 2]]), 2)):
        assert result.ids.shape[-1] <= 5
