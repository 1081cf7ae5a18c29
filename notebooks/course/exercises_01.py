"""The exercises of notebook 01."""

import numpy as np

from course import Exercise


def _is(*numbers):
    """Returns a test for these numbers in this order: a tuple, a list, an array or a tensor."""

    def test(answer):
        given = np.ravel(np.asarray(answer, dtype=float))
        return given.shape == (len(numbers),) and bool(np.allclose(given, numbers))

    return test


def _softmax(scores):
    exponentials = np.exp(scores - np.max(scores))
    return exponentials / np.sum(exponentials)


def _attends(answer):
    """Whether a function returns softmax(keys query) values, for several numbers of words."""
    random = np.random.default_rng(3)
    for words in (1, 4, 9):
        query = random.normal(size=5).astype(np.float32)
        keys = random.normal(size=(words, 5)).astype(np.float32)
        values = random.normal(size=(words, 3)).astype(np.float32)
        context = np.asarray(answer(query, keys, values), dtype=float)
        expected = _softmax(keys @ query) @ values
        if context.size != 3 or not np.allclose(context.ravel(), expected, atol=1e-4):
            return False
    return True


def _hides(answer):
    """Whether a function returns the mask of restricted self-attention, 1 = hidden."""
    for n, r in ((6, 2), (9, 4), (3, 8)):
        mask = np.asarray(answer(n, r), dtype=float)
        distance = np.abs(np.arange(n)[:, np.newaxis] - np.arange(n))
        if mask.shape[-2:] != (n, n) or not np.array_equal(mask.reshape(n, n), distance > r / 2):
            return False
    return True


def _crossing(answer):
    # Where both are equal, or the first n after that.
    return int(answer) == float(answer) and int(answer) in (1024, 1025)


EXERCISES = {
    "1.1": Exercise(
        test=_is(512, 512 + 40 * 256),
        hint=(
            "h and c have 256 numbers each, whatever the sentence. The attention also reads one "
            "state h of 256 numbers for each word."
        ),
        wrong=((256, 256 * 40), (512, 40 * 256), (512 * 40, 512), 512, (512, 512)),
    ),
    "1.2": Exercise(
        test=_attends,
        hint=(
            "A score for each row of keys (its dot product with the query), softmax over the "
            "words, then the weighted sum of values."
        ),
        wrong=(
            lambda query, keys, values: values.mean(axis=0),
            lambda query, keys, values: values[np.argmax(keys @ query)],
            lambda query, keys, values: (keys @ query) @ values,
            lambda query, keys, values: _softmax(keys @ query),
            [0.2, 0.3, 0.5],
        ),
    ),
    "1.3": Exercise(
        test=_is(500, 7),
        hint=(
            "Call steps_between with n = 1000. Plain: back is 0, 1 or 2 in every step. Dilated: "
            "the function in KINDS."
        ),
        wrong=((500, 500), (7, 500), (999, 7), (500, 6), (333, 7), 500),
    ),
    "1.4": Exercise(
        test=_crossing,
        hint="Set 2 n^2 d + 4 n d^2 equal to 8 n d^2 and divide by 2 n d.",
        wrong=(512, 2048, 1023, "1024 words", (1024, 1025)),
    ),
    "1.5": Exercise(
        test=_hides,
        hint=(
            "Entry (i, j) is 1 where |i - j| is larger than r / 2 and 0 elsewhere: a band of "
            "zeros along the diagonal."
        ),
        wrong=(
            lambda n, r: np.zeros((n, n)),
            lambda n, r: np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= r / 2,
            lambda n, r: np.abs(np.subtract.outer(np.arange(n), np.arange(n))) > r,
            lambda n, r: np.triu(np.ones((n, n)), r // 2 + 1),
            [[0, 1], [1, 0]],
        ),
    ),
}
