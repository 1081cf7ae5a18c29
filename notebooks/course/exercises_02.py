"""The exercises of notebook 02."""

import numpy as np

from course import Exercise

TEMP_K = np.array([[10.0, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]])


def attention(q, k, v, mask, scale=True, axis=-1):
    """Eq. 1 in NumPy, and two wrong forms: without the scale, and with another softmax axis."""
    scores = q @ k.T
    if scale:
        scores = scores / np.sqrt(k.shape[-1])
    if mask is not None:
        scores = scores + mask * -1e9
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True) @ v


def has_the_weights(query):
    """Whether a query has the weights on `TEMP_K` that exercise 2.1 asks for."""
    query = np.asarray(query, float).reshape(1, 3)
    return np.allclose(attention(query, TEMP_K, np.eye(4), None), [[0.5, 0, 0.25, 0.25]], atol=0.01)


def is_attention(function):
    """Whether a function computes Eq. 1, masks included."""
    rng = np.random.default_rng(2)
    q = rng.normal(size=(3, 8))
    k = rng.normal(size=(5, 8))
    v = rng.normal(size=(5, 4))
    for mask in (None, np.array([[0.0, 1, 0, 0, 1]]), np.triu(np.ones((3, 5)), 1)):
        output = function(q, k, v, mask)
        if isinstance(output, tuple):  # output and weights, as the package's function returns them
            output = output[0]
        expected = attention(q, k, v, mask)
        if np.shape(output) != (3, 4) or not np.allclose(output, expected, atol=1e-4):
            return False
    return True


def is_local_mask(function):
    """Whether a function returns the masks of exercise 2.5."""
    for size, r in ((1, 0), (5, 1), (6, 2), (4, 9)):
        row, column = np.indices((size, size))
        if not np.array_equal(np.asarray(function(size, r), float), np.abs(row - column) > r):
            return False
    return True


EXERCISES = {
    "2.1": Exercise(
        test=has_the_weights,
        hint=(
            "The weights of key 1 and of key 3 are e^(10 q1 / √3) and e^(10 q3 / √3), up to a "
            "common factor. The first must be twice the second."
        ),
        wrong=(
            [10, 0, 10],
            [20, 0, 10],
            [0.5, 0, 0.25],
            [10 + np.log(2) / 10, 0, 10],
            [0, 0, 0],
            5,
        ),
    ),
    "2.2": Exercise(
        test=is_attention,
        hint=(
            "Scores, scale, mask * -1e9, softmax along the last axis, times v. Subtract the "
            "largest score of a row before exp."
        ),
        wrong=(
            lambda q, k, v, mask: attention(q, k, v, mask, scale=False),
            lambda q, k, v, mask: attention(q, k, v, mask, axis=0),
            lambda q, k, v, mask: attention(q, k, v, None),
            lambda q, k, v, mask: attention(q, k, v, None if mask is None else 1 - mask),
            3,
        ),
    ),
    "2.3": Exercise(
        test=lambda answer: abs(float(answer) - 1 / 64) < 1e-4,
        hint=(
            "A product of two independent numbers of mean 0 has the product of their variances. "
            "A score is the sum of 64 of these."
        ),
        wrong=(1 / 8, 64, 8, 1, "1/64 of something"),
    ),
    "2.4": Exercise(
        test=lambda answer: float(answer) == 656640,
        hint=(
            "Four products: two from 512 to 8·16, one from 512 to 8·64, one from 8·64 to 512. "
            "Each has a matrix and a bias."
        ),
        wrong=(655360, 1050624, 262656, "many"),
    ),
    "2.5": Exercise(
        test=is_local_mask,
        hint=(
            "Compare the number of the row with the number of the column (np.indices). Hidden "
            "is what is more than r away."
        ),
        wrong=(
            lambda size, r: np.triu(np.ones((size, size)), r + 1),
            lambda size, r: np.abs(np.subtract.outer(range(size), range(size))) <= r,
            lambda size, r: np.abs(np.subtract.outer(range(size), range(size))) >= r,
            np.zeros((5, 5)),
        ),
    ),
}
