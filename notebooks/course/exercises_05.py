"""The exercises of notebook 05."""

import numpy as np

from course import Exercise
from tf_transformer.special_tokens import END, START


def shifts(answer):
    """5.3: whether a function returns the three rows of a pair."""
    for source, target in (([7, 8], [9, 10, 11]), ([5], [6, 6]), ([4, 4, 4], [])):
        rows = answer(list(source), list(target))
        rows = [np.asarray(row).reshape(-1).tolist() for row in rows]
        if rows != [[*source, END], [START, *target], [*target, END]]:
            return False
    return True


def measures_buckets(answer):
    """5.4: whether a function returns the non-padding fraction."""
    cases = [
        ([3, 4, 8], [4, 8], 15 / 16),
        ([5, 5, 5], [5], 1.0),
        ([1, 9, 10, 11], [2, 10, 20], 31 / 42),
        ([2], [7, 9], 2 / 7),
    ]
    for lengths, buckets, fraction in cases:
        if abs(float(answer(lengths, buckets)) - fraction) >= 1e-6:
            return False
    return True


EXERCISES = {
    "5.1": Exercise(
        test=lambda answer: float(answer) == 16,
        hint=(
            "print the splits after each further merge, and count from the first merge of all, "
            "not from the tenth."
        ),
        wrong=(6, 10, 11, 12, "all"),
    ),
    "5.2": Exercise(
        test=lambda answer: float(answer) == 6,
        hint="`tokenizer.pieces(tokenizer.encode(['🙂'])[0])` shows each of them.",
        wrong=(1, 2, 4, 5, "four"),
    ),
    "5.3": Exercise(
        test=shifts,
        hint=(
            "the source ends with 3; the decoder reads 2 and then the target; what it must "
            "write is the target and then 3."
        ),
        wrong=(
            lambda source, target: (source, target, target),
            lambda source, target: ([*source, 3], [2, *target, 3], target),
            [2, 3],
        ),
    ),
    "5.4": Exercise(
        test=measures_buckets,
        hint=(
            "np.searchsorted(buckets, lengths) finds each sentence's bucket; then divide the "
            "words by the words and the padding."
        ),
        wrong=(
            lambda lengths, buckets: 1.0,
            lambda lengths, buckets: sum(lengths) / (len(lengths) * max(buckets)),
            0.9,
        ),
    ),
    "5.5": Exercise(
        test=lambda answer: abs(float(answer) - 100_000 * 25_000 * 0.9 / (4.5e6 * 28)) < 0.2,
        hint=(
            "the tokens in all updates that are not padding, over the tokens of one pass "
            "through all pairs."
        ),
        wrong=(1, 19.84, 16.1, 35.7, 555.6),
    ),
}
