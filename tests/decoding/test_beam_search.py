"""Search over small step functions, compared with exhaustive search."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from chains import V, make_problem, markov_chains, without_padding

from tf_transformer.decoding.beam_search import SearchProblem, beam_search, greedy_search
from tf_transformer.decoding.scores import is_possible, length_penalty
from tf_transformer.special_tokens import END, PAD, START


def exhaustive_search(table, max_length, alpha):
    """All hypotheses of one sentence as pairs (score, tokens with END), best first."""
    hypotheses = []
    tokens = [token for token in range(V) if token not in (PAD, START, END)]
    for length in range(1, max_length + 1):
        for body in itertools.product(tokens, repeat=length - 1):
            ids = [PAD, START, *body, END]
            log_prob = sum(float(table[t, ids[t], ids[t + 1], ids[t + 2]]) for t in range(length))
            score = log_prob / float(length_penalty(length, alpha))
            hypotheses.append((score, ids[2:]))
    return sorted(hypotheses, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_wide_beam_finds_the_optimum(alpha):
    """Invariant 5."""
    table = markov_chains(1, 5)
    max_lengths = [5, 4, 1, 2, 5]
    result = beam_search(make_problem(table, 100, max_lengths, alpha), 100, n_best=3)
    for i, max_length in enumerate(max_lengths):
        best = exhaustive_search(table[i], max_length, alpha)[:3]
        for rank, (score, tokens) in enumerate(best):
            assert without_padding(result.ids[i, rank]) == tokens
            assert result.lengths[i, rank] == len(tokens)
            np.testing.assert_allclose(result.scores[i, rank], score, rtol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_of_one_is_greedy(alpha):
    """Invariant 5."""
    table = markov_chains(2, 40)
    problem = make_problem(table, 1, [6, 9] * 20, alpha)
    beam, greedy = beam_search(problem, 1), greedy_search(problem)
    np.testing.assert_array_equal(beam.ids, greedy.ids)
    np.testing.assert_allclose(beam.scores, greedy.scores, rtol=1e-5)
    np.testing.assert_array_equal(beam.lengths, greedy.lengths)


def test_greedy_takes_the_most_probable_token():
    table = markov_chains(3, 1)
    ids = [PAD, START]
    while ids[-1] != END:
        log_probs = table[0, len(ids) - 2, ids[-2], ids[-1]].numpy()
        log_probs[[PAD, START]] = -np.inf
        ids.append(int(log_probs.argmax()) if len(ids) < 9 else END)
    result = greedy_search(make_problem(table, 1, [8]))
    assert without_padding(result.ids[0, 0]) == ids[2:]


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_batch_independence(beam_size):
    """Invariant 2: a sentence alone gives its result in a batch with other maximum lengths."""
    table = markov_chains(4, 8)
    max_lengths = [3, 9, 5, 1, 7, 9, 2, 4]
    in_batch = beam_search(make_problem(table, beam_size, max_lengths), beam_size)
    for i, max_length in enumerate(max_lengths):
        alone = beam_search(make_problem(table[i : i + 1], beam_size, [max_length]), beam_size)
        assert without_padding(alone.ids[0, 0]) == without_padding(in_batch.ids[i, 0])
        np.testing.assert_allclose(alone.scores[0], in_batch.scores[i], rtol=1e-6, atol=1e-6)


PREFIXES = [[4, 1, 5], [1], [], [5, 5, 5, 4], [4, 4]]
PADDED_PREFIXES = [row + [PAD] * (4 - len(row)) for row in PREFIXES]


def test_each_sentence_can_have_its_own_options():
    """Sentences with all combinations in one batch, and a search with the options of each."""
    options = list(itertools.product([0.0, 0.6, 2.0], [3, 7], PADDED_PREFIXES[:3]))
    table = markov_chains(12, len(options), scale=0.7)
    alphas, max_lengths, prefixes = map(tf.constant, zip(*options))
    together = beam_search(make_problem(table, 4, max_lengths, alphas, prefixes), 4, 2)
    for i, (alpha, max_length, prefix) in enumerate(options):
        problem = make_problem(table[i : i + 1], 4, [max_length], alpha, tf.constant([prefix]))
        alone = beam_search(problem, 4, 2)
        np.testing.assert_allclose(together.scores[i], alone.scores[0], rtol=1e-5)
        for rank in range(2):
            ids = without_padding(alone.ids[0, rank])
            assert without_padding(together.ids[i, rank]) == ids


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_prefix_gives_the_optimum_among_the_outputs_that_begin_with_it(alpha):
    table = markov_chains(10, 5)
    max_lengths = [5, 4, 4, 5, 5]
    problem = make_problem(table, 100, max_lengths, alpha, tf.constant(PADDED_PREFIXES))
    result = beam_search(problem, 100, 3)
    for i, forced in enumerate(PREFIXES):
        outputs = exhaustive_search(table[i], max_lengths[i], alpha)
        outputs = [(score, ids) for score, ids in outputs if ids[: len(forced)] == forced]
        assert is_possible(result.scores[i]).numpy().sum() == min(3, len(outputs))
        for rank, (score, tokens) in enumerate(outputs[:3]):
            assert without_padding(result.ids[i, rank]) == tokens
            np.testing.assert_allclose(result.scores[i, rank], score, rtol=1e-5)


def search_with_prefix(table, prefix, max_lengths, beam_size):
    """The ids and the score of the best output of each sentence."""
    prefix = tf.constant(prefix, tf.int32)
    problem = make_problem(table, beam_size, max_lengths, prefix=prefix)
    result = greedy_search(problem) if beam_size == 1 else beam_search(problem, beam_size)
    return [without_padding(ids[0]) for ids in result.ids], result.scores[:, 0].numpy()


@pytest.mark.parametrize("beam_size", [1, 4])
def test_batch_independence_with_prefixes(beam_size):
    """The sentences are done at different times, and leave the batch."""
    table = markov_chains(11, 20)
    prefixes, max_lengths = PADDED_PREFIXES * 4, [9, 6, 5, 7, 8] * 4
    ids, scores = search_with_prefix(table, prefixes, max_lengths, beam_size)
    for i in range(20):
        forced = PREFIXES[i % 5]
        assert ids[i][: len(forced)] == forced
        alone = search_with_prefix(table[i : i + 1], [forced], max_lengths[i : i + 1], beam_size)
        assert alone[0] == [ids[i]]
        np.testing.assert_allclose(alone[1], scores[i], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("beam_size", [1, 100])
def test_the_prefixes_of_the_best_output_do_not_change_it(beam_size):
    table = markov_chains(12, 6)
    max_lengths = [5] * 6
    free = search_with_prefix(table, np.zeros([6, 0], np.int32), max_lengths, beam_size)
    for length in range(1, 5):
        prefix = [[*ids[:-1], PAD, PAD, PAD, PAD][:length] for ids in free[0]]
        found = search_with_prefix(table, prefix, max_lengths, beam_size)
        assert found[0] == free[0]
        np.testing.assert_allclose(found[1], free[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_prefix_is_cut_at_the_maximum_length(beam_size):
    prefixes = [[4, 5, 1], [4, 5, 1]]
    ids, scores = search_with_prefix(markov_chains(13, 2), prefixes, [3, 1], beam_size)
    assert ids == [[4, 5, END], [END]]
    assert is_possible(scores).all()


def test_early_stopping_does_not_change_the_best_hypothesis():
    """With a smaller `n_best` the search stops earlier."""
    table = markov_chains(5, 30, scale=4.0)
    problem = make_problem(table, 4, [10] * 30)
    best, four_best = (beam_search(problem, 4, n_best) for n_best in (1, 4))
    np.testing.assert_allclose(best.scores[:, 0], four_best.scores[:, 0], rtol=1e-6, atol=1e-6)
    for i in range(30):
        assert without_padding(best.ids[i, 0]) == without_padding(four_best.ids[i, 0])


@pytest.mark.parametrize("search, beam_size", [(greedy_search, 1), (beam_search, 4)])
def test_every_output_ends_within_its_maximum_length(search, beam_size):
    table = markov_chains(6, 3)
    unlikely = tf.fill([*table.shape[:-1], 1], -50.0)
    never_end = tf.concat([table[..., :END], unlikely, table[..., END + 1 :]], axis=-1)
    result = search(make_problem(never_end, beam_size, [1, 2, 6]))
    assert result.lengths[:, 0].numpy().tolist() == [1, 2, 6]
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
    result = beam_search(problem, 4, n_best=4)
    assert np.sum(is_possible(result.scores[0])) == 1


@pytest.mark.parametrize("search, beam_size", [(greedy_search, 1), (beam_search, 4)])
def test_an_excluded_token_with_a_much_larger_logit(search, beam_size):
    """Where padding has nearly all probability, the others keep their own log-probabilities."""
    table = markov_chains(9, 3) + tf.constant([200.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    result = search(make_problem(table, beam_size, [3, 4, 5], 0.0))
    scores = result.scores[:, 0].numpy()
    assert (scores < -190).all()
    assert np.isfinite(scores).all()


def test_search_ends_for_logits_that_are_not_finite():
    def step(ids, position, beam_indices, state):
        return tf.fill([*ids.shape, V], float("nan")), state

    problem = SearchProblem(step, tf.zeros([2, 1]), tf.constant([3, 5]))
    assert greedy_search(problem).ids.shape[-1] <= 5
    assert beam_search(problem, 2).ids.shape[-1] <= 5
