"""The exercises of notebook 06."""

from course import Exercise

import math

import numpy as np

RANDOM = np.random.default_rng(7)


def _similarity(a, b):
    """Not symmetric: the part of the letters of a that are in b."""
    return sum(letter in b for letter in a) / len(a)


def _mean(texts, similarity, i):
    """The mean similarity of text i to the others."""
    return np.mean([similarity(texts[i], t) for j, t in enumerate(texts) if j != i])


def _consensus(texts, similarity, best=max):
    return texts[best(range(len(texts)), key=lambda i: _mean(texts, similarity, i))]


def is_consensus(function):
    """06.1: on random words of a few letters, some of them twice."""
    for _ in range(30):
        texts = ["".join(RANDOM.choice(list("abcdefgh"), 5)) for _ in range(7)]
        texts += texts[:2]
        answer = function(texts.copy(), _similarity)
        means = [_mean(texts, _similarity, i) for i in range(len(texts))]
        if answer not in texts or not math.isclose(means[texts.index(answer)], max(means)):
            return False
    return True


def _nucleus(p, top_p, strict=False):
    order = np.argsort(p)[::-1]
    together = np.cumsum(p[order])
    size = np.searchsorted(together, top_p) + (0 if strict else 1)
    result = np.zeros(len(p))
    kept = order[: max(1, size)]
    result[kept] = p[kept] / p[kept].sum()
    return result


def is_nucleus(nucleus):
    """06.2: on random distributions."""
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
    """06.3: on random ids of a small vocabulary; the argument must stay as it is."""
    for length in (0, 1, 2, 3, 8, 20, 40, 200):
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
    "06.1": Exercise(
        test=is_consensus,
        hint=(
            "For each place i, the mean of similarity(texts[i], texts[j]) over all j but i; "
            "then the text of the largest mean. Compare places, not texts."
        ),
        wrong=(
            lambda texts, similarity: texts[0],
            lambda texts, similarity: _consensus(texts, similarity, best=min),
            lambda texts, similarity: _consensus(texts, lambda a, b: similarity(b, a)),
            lambda texts, similarity: max(texts, key=texts.count),
            0.5,
        ),
        own_code=False,  # it calls the similarity of this file
    ),
    "06.2": Exercise(
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
    "06.3": Exercise(
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
