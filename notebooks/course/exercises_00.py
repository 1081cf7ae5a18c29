"""The exercises of notebook 00."""

from course import Exercise

import numpy as np


def softmax(scores):
    """The right answer of exercise 00.1."""
    exponentials = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def is_softmax(function):
    """Whether a function turns random scores into weights, also very large scores."""
    rng = np.random.default_rng(0)
    for shape in ((5,), (3, 4), (2, 6, 6)):
        for size in (1, 5, 1000):
            scores = size * rng.normal(size=shape)
            weights = np.asarray(function(scores.copy()), float)
            if not np.allclose(weights, softmax(scores), atol=1e-6):
                return False
    return True


def mask_of(keys, queries, look_ahead):
    """The right answer of exercise 00.2."""
    mask = np.zeros((queries, len(keys)))
    for i in range(queries):
        for j, key in enumerate(keys):
            if key == "[PAD]" or (look_ahead and j > i):
                mask[i, j] = 1
    return mask


def is_mask(function):
    """Whether a function returns the masks of random sentences with padding."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        keys = ["▁a"] * rng.integers(1, 7) + ["[PAD]"] * rng.integers(0, 4)
        for look_ahead in (False, True):
            queries = len(keys) if look_ahead else int(rng.integers(1, 9))
            mask = np.asarray(function(list(keys), queries, look_ahead), float)
            expected = mask_of(keys, queries, look_ahead)
            if mask.shape != expected.shape or not np.array_equal(mask, expected):
                return False
    return True


EXERCISES = {
    "00.1": Exercise(
        test=is_softmax,
        hint=(
            "Each row, along the last axis, must sum to 1. For scores near 1,000, exp "
            "overflows: first subtract the largest score of the row. keepdims=True keeps "
            "the shapes compatible."
        ),
        wrong=(
            lambda scores: np.exp(scores),
            lambda scores: np.exp(scores) / np.exp(scores).sum(-1, keepdims=True),
            lambda scores: softmax(scores.T).T,
            lambda scores: scores / scores.sum(-1, keepdims=True),
            lambda scores: softmax(scores / 2),
            0.5,
        ),
    ),
    "00.2": Exercise(
        test=is_mask,
        hint=(
            "1 hides. Row i is a query, column j a key. Columns of [PAD] are hidden from all "
            "rows. With the look-ahead mask, the columns after i are hidden from row i."
        ),
        wrong=(
            lambda keys, queries, look_ahead: 1 - mask_of(keys, queries, look_ahead),
            lambda keys, queries, look_ahead: mask_of(keys, queries, False),
            lambda keys, queries, look_ahead: mask_of(keys, queries, True),
            lambda keys, queries, look_ahead: mask_of(keys, queries, look_ahead).T,
            lambda keys, queries, look_ahead: np.triu(np.ones((queries, len(keys)))),
            np.zeros((4, 4)),
        ),
    ),
}
