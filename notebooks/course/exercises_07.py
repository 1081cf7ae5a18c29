"""The exercises of notebook 07."""

from course import Exercise

import math

import numpy as np

RANDOM = np.random.default_rng(7)


def finds_the_crossing(crossing_alpha):
    """07.1: on random hypotheses."""
    for _ in range(20):
        length_1, length_2 = RANDOM.choice(np.arange(3, 40), 2, replace=False).tolist()
        log_prob_1, log_prob_2 = (-RANDOM.uniform(1, 9, 2)).tolist()
        alpha = float(crossing_alpha(length_1, log_prob_1, length_2, log_prob_2))
        scores = [
            log_prob / ((5 + length) / 6) ** alpha
            for length, log_prob in ((length_1, log_prob_1), (length_2, log_prob_2))
        ]
        if not math.isclose(*scores, rel_tol=1e-4):
            return False
    return True


def _crossing(length_1, log_prob_1, length_2, log_prob_2, offset=5):
    ratio = math.log(log_prob_2 / log_prob_1)
    return ratio / math.log((offset + length_2) / (offset + length_1))


def _nucleus(p, top_p, strict=False):
    order = np.argsort(p)[::-1]
    together = np.cumsum(p[order])
    size = np.searchsorted(together, top_p) + (0 if strict else 1)
    result = np.zeros(len(p))
    kept = order[: max(1, size)]
    result[kept] = p[kept] / p[kept].sum()
    return result


def is_nucleus(nucleus):
    """07.2: on random distributions."""
    for words in (5, 9, 50):
        for top_p in (0.3, 0.7, 0.95):
            p = RANDOM.dirichlet(np.full(words, 0.5))
            answer = np.asarray(nucleus(p.copy(), top_p), float)
            if answer.shape != p.shape or not np.allclose(answer, _nucleus(p, top_p), atol=1e-6):
                return False
    return True


def _not_divided(p, top_p):
    return np.where(_nucleus(p, top_p) > 0, p, 0)


def _first_words(p, top_p):
    kept = np.where(np.cumsum(p) - p < top_p, p, 0)
    return kept / kept.sum()


def _without_repeats(log_p, ids, n=3):
    log_p = np.array(log_p)
    for i in range(len(ids) - n + 1):
        if list(ids[i : i + n - 1]) == list(ids[len(ids) - n + 1 :]):
            log_p[ids[i + n - 1]] = -np.inf
    return log_p


def repeats_no_trigram(without_repeats):
    """07.3: on random ids of a small vocabulary; the argument must stay as it is."""
    for length in (0, 1, 2, 3, 8, 20, 40):
        ids = RANDOM.integers(0, 4, length).tolist()
        log_p = np.log(RANDOM.dirichlet(np.ones(5)))
        given = log_p.copy()
        answer = np.asarray(without_repeats(given, list(ids)), float)
        if not np.array_equal(answer, _without_repeats(log_p, ids)):
            return False
        if not np.array_equal(given, log_p):
            return False
    return True


def _changes_its_argument(log_p, ids):
    log_p[:] = _without_repeats(log_p, ids)
    return log_p


EXERCISES = {
    "07.1": Exercise(
        test=finds_the_crossing,
        hint=(
            "Both scores are equal when log_prob_2 / log_prob_1 = lp(length_2) / lp(length_1). "
            "Take the logarithm of both sides."
        ),
        wrong=(
            1.573,
            lambda length_1, log_prob_1, length_2, log_prob_2: 0.6,
            lambda *args: _crossing(*args, offset=0),
            lambda *args: -_crossing(*args),
            lambda length_1, log_prob_1, length_2, log_prob_2: log_prob_2 / log_prob_1,
        ),
    ),
    "07.2": Exercise(
        test=is_nucleus,
        hint=(
            "Sort p, the largest first, and add up: np.cumsum. A sub-word is kept if the better "
            "ones have less than top_p together. Divide by the sum of what is kept."
        ),
        wrong=(
            _not_divided,
            _first_words,
            lambda p, top_p: _nucleus(p, top_p, strict=True),
            lambda p, top_p: np.where(p >= top_p, p, 0),
            [1.0],
        ),
    ),
    "07.3": Exercise(
        test=repeats_no_trigram,
        hint=(
            "Compare the last two ids with each earlier pair of neighbors. Where they are equal, "
            "forbid the id after the pair. Change a copy of log_p."
        ),
        wrong=(
            lambda log_p, ids: log_p,
            lambda log_p, ids: _without_repeats(log_p, ids, n=2),
            lambda log_p, ids: _without_repeats(log_p, ids, n=4),
            _changes_its_argument,
            3,
        ),
    ),
}
