"""Search over small step functions, against exhaustive search."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.decoding.search import beam_search, greedy_search, length_penalty
from tf_transformer.special_tokens import END, PAD, START

V = 6  # padding, unknown, start, end, and two words


def markov(seed, sentences, scale=2.0):
    """Log-probabilities `[sentences, position, last word but one, last word, V]` of random chains."""
    logits = np.random.default_rng(seed).normal(size=(sentences, 12, V, V, V)) * scale
    return tf.nn.log_softmax(tf.constant(logits, tf.float32))


def step_of(table, beam_size):
    """A step function whose state is the number of each sentence and the word before each hypothesis' last: a wrong parent shows."""

    def step(ids, position, parents, state):
        sentence, before = state
        before = tf.gather(before, parents, batch_dims=1)
        sentences = tf.broadcast_to(sentence[:, tf.newaxis], tf.shape(ids))
        places = tf.stack([sentences, tf.fill(tf.shape(ids), position), before, ids], axis=2)
        return tf.gather_nd(table, places), (sentence, ids)

    sentences = table.shape[0]
    return step, (tf.range(sentences), tf.fill([sentences, beam_size], PAD))


def exhaustive(table, limit, alpha):
    """All hypotheses of one sentence by score: (score, ids with END)."""
    found = []
    words = [w for w in range(V) if w not in (PAD, START, END)]
    for length in range(1, limit + 1):
        for body in itertools.product(words, repeat=length - 1):
            ids = [PAD, START, *body, END]
            log_prob = sum(float(table[t, ids[t], ids[t + 1], ids[t + 2]]) for t in range(length))
            found.append((log_prob / float(length_penalty(length, alpha)), ids[2:]))
    return sorted(found, reverse=True)


def strip(row):
    return [int(i) for i in row if i != PAD]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_wide_beam_finds_the_optimum(alpha):
    """Law 5."""
    table, limits = markov(1, 5), [5, 4, 1, 2, 5]
    step, state = step_of(table, 100)
    result = beam_search(step, state, tf.constant(limits), 100, alpha, n_best=3)
    for i, limit in enumerate(limits):
        best = exhaustive(table[i], limit, alpha)[:3]
        for place, (score, ids) in enumerate(best):
            assert strip(result.ids[i, place]) == ids
            assert result.lengths[i, place] == len(ids)
            np.testing.assert_allclose(result.scores[i, place], score, rtol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_of_one_is_greedy(alpha):
    """Law 5."""
    table, limits = markov(2, 40), tf.constant([6, 9] * 20)
    step, state = step_of(table, 1)
    one, greedy = (
        beam_search(step, state, limits, 1, alpha),
        greedy_search(step, state, limits, alpha),
    )
    np.testing.assert_array_equal(one.ids, greedy.ids)
    np.testing.assert_allclose(one.scores, greedy.scores, rtol=1e-5)
    np.testing.assert_array_equal(one.lengths, greedy.lengths)


def test_greedy_takes_the_likeliest_word():
    table = markov(3, 1)
    step, state = step_of(table, 1)
    ids = [PAD, START]
    while ids[-1] != END:
        row = table[0, len(ids) - 2, ids[-2], ids[-1]].numpy()
        row[[PAD, START]] = -np.inf
        ids.append(int(row.argmax()) if len(ids) < 9 else END)
    assert strip(greedy_search(step, state, tf.constant([8])).ids[0, 0]) == ids[2:]


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_company(beam_size):
    """Law 2: each sentence alone gives what it gives among others, with other limits."""
    table, limits = markov(4, 8), [3, 9, 5, 1, 7, 9, 2, 4]
    together = beam_search(*step_of(table, beam_size), tf.constant(limits), beam_size, 0.6)
    for i, limit in enumerate(limits):
        alone = beam_search(
            *step_of(table[i : i + 1], beam_size), tf.constant([limit]), beam_size, 0.6
        )
        assert strip(alone.ids[0, 0]) == strip(together.ids[i, 0])
        np.testing.assert_allclose(alone.scores[0], together.scores[i], rtol=1e-6)


def test_stopping_early_changes_nothing():
    """The best hypothesis does not depend on how many are asked for, and so not on when the search may stop."""
    table, limits = markov(5, 30, scale=4.0), tf.fill([30], 10)
    results = [beam_search(*step_of(table, 4), limits, 4, 0.6, n_best=n) for n in (1, 4)]
    np.testing.assert_allclose(results[0].scores[:, 0], results[1].scores[:, 0], rtol=1e-6)
    for i in range(30):
        assert strip(results[0].ids[i, 0]) == strip(results[1].ids[i, 0])


def test_nothing_after_the_limit_and_always_an_end():
    table = markov(6, 3)
    never_end = tf.concat(
        [table[..., :END], tf.fill([*table.shape[:-1], 1], -50.0), table[..., END + 1 :]], axis=-1
    )
    for search in (greedy_search, beam_search):
        beam_size = 1 if search is greedy_search else 4
        result = search(*step_of(never_end, beam_size), tf.constant([1, 2, 6]))
        assert result.lengths[:, 0].numpy().tolist() == [1, 2, 6]
        assert [strip(row[0])[-1] for row in result.ids] == [END] * 3


def test_scores_fall_and_hypotheses_differ():
    result = beam_search(*step_of(markov(7, 10), 4), tf.fill([10], 8), 4, 0.6, n_best=4)
    assert (np.diff(result.scores.numpy(), axis=1) <= 0).all()
    for row in result.ids:
        assert len({tuple(strip(ids)) for ids in row}) == 4


def test_in_a_graph():
    table, limits = markov(8, 4), tf.constant([5, 6, 7, 8])
    for search, beam_size in ((greedy_search, 1), (beam_search, 4)):
        step, state = step_of(table, beam_size)
        graph = tf.function(
            lambda limits, search=search, step=step, state=state: search(step, state, limits)
        )(limits)
        np.testing.assert_array_equal(graph.ids, search(step, state, limits).ids)


def test_length_penalty_by_hand():
    assert length_penalty(1, 0.6) == 1.0
    np.testing.assert_allclose(length_penalty(7, 1.0), 2.0)
    np.testing.assert_allclose(length_penalty(19, 0.5), 2.0)


def test_fewer_hypotheses_than_wanted():
    """Two words and a limit of two leave 3 possible outputs: the search ends, and the fourth place stays empty."""
    table = markov(7, 2)
    allowed = tf.constant(
        [0.0, -1e9, 0.0, 0.0, 0.0, -1e9]
    )  # all but the unknown symbol and one of the words
    step, state = step_of(table + allowed, 4)
    found = beam_search(step, state, tf.constant([1, 2]), 4, n_best=4)
    assert np.sum(found.scores[0] > -1e8) == 1


def test_a_forbidden_word_far_above_the_others():
    """Padding that is likeliest by far leaves the others their own log-probabilities."""
    table = markov(9, 3) + tf.constant([200.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    for search, beam_size in ((greedy_search, 1), (beam_search, 4)):
        found = search(
            *step_of(table, beam_size),
            tf.constant([3, 4, 5]),
            *((beam_size, 0.0) if beam_size > 1 else (0.0,)),
        )
        assert (found.scores[:, 0] < -190).numpy().all() and np.isfinite(found.scores[:, 0]).all()


def test_logits_that_are_no_numbers_end_too():
    bad = lambda ids, position, parents, state: (tf.fill([*ids.shape, V], float("nan")), state)  # noqa: E731
    assert greedy_search(bad, tf.zeros([2, 1]), tf.constant([3, 5])).ids.shape[-1] <= 5
    assert beam_search(bad, tf.zeros([2, 1]), tf.constant([3, 5]), 2).ids.shape[-1] <= 5
