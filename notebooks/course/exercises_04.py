"""The exercises of notebook 04."""

from course import Exercise

import numpy as np


def is_absolute_value(answer):
    """04.1: whether four arrays are the weights of a feed-forward network of |x|."""
    w_1, b_1, w_2, b_2 = (np.asarray(part, float) for part in answer)
    if (w_1.shape, b_1.shape, w_2.shape, b_2.shape) != ((1, 2), (2,), (2, 1), (1,)):
        shapes = f"{w_1.shape}, {b_1.shape}, {w_2.shape}, {b_2.shape}"
        raise ValueError(f"the shapes are {shapes}")
    x = np.linspace(-7, 7, 29)[:, np.newaxis]
    y = np.maximum(0, x @ w_1 + b_1) @ w_2 + b_2
    return np.allclose(y, np.abs(x), atol=1e-4)


def mask_of_packed(segments):
    """The mask of 04.2: (B, T) -> (B, 1, T, T)."""
    length = segments.shape[1]
    same = segments[:, :, np.newaxis] == segments[:, np.newaxis, :]
    past = np.tril(np.ones((length, length), bool))
    shown = same & past & (segments[:, np.newaxis, :] != 0)
    return 1.0 - shown[:, np.newaxis]


def random_segments(rng):
    """Rows such as 1 1 2 2 2 3 0 0."""
    rows = []
    for _ in range(3):
        lengths = rng.integers(1, 4, 3)
        row = np.repeat([1, 2, 3], lengths)
        rows.append(np.concatenate([row, np.zeros(10 - len(row), int)]))
    return np.array(rows, "int32")


def is_packed_mask(answer):
    """04.2: whether a function makes the mask of packed sentences."""
    for seed in range(5):
        segments = random_segments(np.random.default_rng(seed))
        mask = np.asarray(answer(segments), float)
        expected = mask_of_packed(segments)
        if mask.shape != expected.shape:
            raise ValueError(f"the shape is {mask.shape}, not {expected.shape}")
        if not np.array_equal(mask, expected):
            return False
    return True


def contributions(heads, kernel):
    """What each head adds to the output, 04.3: (B, H, T, K), (D, D) -> (B, H, T, D)."""
    parts = np.split(np.asarray(kernel), heads.shape[1])  # H arrays (K, D)
    return np.stack([heads[:, i] @ part for i, part in enumerate(parts)], axis=1)


def are_contributions(answer):
    """04.3: whether a function computes what each head adds to the output."""
    for seed, num_heads in enumerate((2, 3, 4)):
        rng = np.random.default_rng(seed)
        heads = rng.normal(size=(2, num_heads, 5, 4)).astype("float32")
        kernel = rng.normal(size=(num_heads * 4, num_heads * 4)).astype("float32")
        result = np.asarray(answer(heads, kernel))
        expected = contributions(heads, kernel)
        if result.shape != expected.shape:
            raise ValueError(f"the shape is {result.shape}, not {expected.shape}")
        if not np.allclose(result, expected, atol=1e-4):
            return False
    return True


def _wrong_masks():
    """Functions that forget one of the three conditions of 04.2."""

    def sees_other_sentences(segments):
        length = segments.shape[1]
        future = np.triu(np.ones((length, length)), 1)
        return np.maximum(future, (segments == 0)[:, np.newaxis, np.newaxis])

    def sees_the_future(segments):
        other = segments[:, :, np.newaxis] != segments[:, np.newaxis, :]
        return np.maximum(other, (segments == 0)[:, np.newaxis])[:, np.newaxis]

    def sees_padding(segments):
        length = segments.shape[1]
        other = segments[:, :, np.newaxis] != segments[:, np.newaxis, :]
        return np.maximum(other, np.triu(np.ones((length, length)), 1))[:, np.newaxis]

    def inverted(segments):
        return 1 - mask_of_packed(segments)

    def without_heads(segments):
        return mask_of_packed(segments)[:, 0]

    return (
        sees_other_sentences,
        sees_the_future,
        sees_padding,
        inverted,
        without_heads,
        5,
    )


def _wrong_contributions():
    """Plausible wrong answers to 04.3."""

    def columns(heads, kernel):
        parts = np.split(kernel, heads.shape[1], axis=1)  # (D, K): of the outputs
        rows = [heads[:, i] @ part[: heads.shape[-1]] for i, part in enumerate(parts)]
        return np.stack(rows, axis=1)

    def interleaved(heads, kernel):
        count = heads.shape[1]
        rows = [heads[:, i] @ kernel[i::count] for i in range(count)]
        return np.stack(rows, axis=1)

    def summed(heads, kernel):
        return contributions(heads, kernel).sum(1)

    def averaged(heads, kernel):
        return contributions(heads, kernel) / heads.shape[1]

    return columns, interleaved, summed, averaged, 3


EXERCISES = {
    "04.1": Exercise(
        test=is_absolute_value,
        hint=(
            "one inner number can be x where x is positive, and another one -x where x "
            "is negative; the second matrix adds them."
        ),
        wrong=(
            [[[1, 1]], [0, 0], [[1], [1]], [0]],
            [[[1, -1]], [0, 0], [[1], [-1]], [0]],
            [1, 0, 1, 0],
            1,
        ),
    ),
    "04.2": Exercise(
        test=is_packed_mask,
        hint=(
            "three conditions hide a position: it is in another sentence, in the future, "
            "or padding. segments[:, :, np.newaxis] != segments[:, np.newaxis, :] "
            "compares all pairs."
        ),
        wrong=_wrong_masks(),
    ),
    "04.3": Exercise(
        test=are_contributions,
        hint=(
            "head i is at columns i K to (i + 1) K of the concatenation, so it meets "
            "rows i K to (i + 1) K of W^O."
        ),
        wrong=_wrong_contributions(),
    ),
}
