"""The exercises of notebook 03."""

from course import Exercise

import numpy as np


def encoding(positions, d_model):
    """PE of these positions, `[positions, d_model]`, in double precision."""
    two_i = np.arange(d_model) // 2 * 2
    angles = np.asarray(positions)[:, np.newaxis] / 10000.0 ** (two_i / d_model)
    return np.where(np.arange(d_model) % 2, np.cos(angles), np.sin(angles))


def in_halves(matrix):
    """The columns of an encoding in two halves: all sines, then all cosines."""
    return np.concatenate([matrix[:, 0::2], matrix[:, 1::2]], axis=-1)


def first_column(length, d_model):
    """The first even column with a wavelength above `length`."""
    two_i = np.arange(0, d_model, 2)
    return two_i[2 * np.pi * 10000 ** (two_i / d_model) > length][0]


def finds_columns(function):
    """Whether a function returns the columns of exercise 03.2."""
    rng = np.random.default_rng()
    for d_model in (8, 64, 128, 512):
        for length in (1, 50, 100, *rng.integers(7, 2000, size=3)):
            result = float(function(int(length), d_model))
            if result != first_column(length, d_model):
                return False
    return True


def is_shift(function):
    """Whether a function returns the matrices of exercise 03.3."""
    for k, d_model in ((1, 4), (2, 8), (5, 64), (-3, 16)):
        matrix = np.asarray(function(k, d_model), float)
        positions = np.arange(3, 200)
        if matrix.shape != (d_model, d_model):
            return False
        shifted = in_halves(encoding(positions, d_model)) @ matrix.T
        expected = in_halves(encoding(positions + k, d_model))
        if not np.allclose(shifted, expected, atol=1e-2):
            return False
    return True


def shift(k, d_model, sign=1.0):
    """The matrix of exercise 03.3; with sign -1 it shifts in the other direction."""
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    cos, sin = np.diag(np.cos(angles)), sign * np.diag(np.sin(angles))
    return np.block([[cos, sin], [-sin, cos]])


def interleaved_shift(k, d_model):
    """A wrong answer to 03.3: for the interleaved layout."""
    order = np.argsort(in_halves(np.arange(d_model)[np.newaxis])[0])
    return shift(k, d_model)[np.ix_(order, order)]


def reads_positions(function):
    """Whether a function finds the position of noisy encodings."""
    rng = np.random.default_rng()
    for position in (0, 1, 999, *rng.integers(2, 999, size=5)):
        vector = encoding([position], 64)[0] + 0.1 * rng.normal(size=64)
        if int(function(vector.astype(np.float32))) != position:
            return False
    return True


def tied_gradient(table, id_, target, output=True, embedding=True, scale=True):
    """The gradient of exercise 03.5; without one of its parts, or without the factor."""
    factor = table.shape[1] ** 0.5 if scale else 1.0
    x = factor * table[id_]
    logits = table @ x
    error = np.exp(logits - logits.max())
    error /= error.sum()
    error[target] -= 1
    gradient = np.zeros_like(table)
    if output:
        gradient += np.outer(error, x)
    if embedding:
        gradient[id_] += factor * table.T @ error
    return gradient


def is_tied_gradient(function):
    """Whether a function returns the gradient of exercise 03.5."""
    rng = np.random.default_rng()
    for size, width, id_, target in ((5, 3, 1, 4), (8, 4, 0, 7), (6, 2, 3, 3)):
        table = rng.normal(size=(size, width)) * width**-0.5
        result = np.asarray(function(table.copy(), id_, target), float)
        expected = tied_gradient(table, id_, target)
        if result.shape != table.shape or not np.allclose(result, expected, atol=1e-6):
            return False
    return True


EXERCISES = {
    "03.1": Exercise(
        test=lambda answer: abs(float(answer) - np.cos(0.7)) < 1e-3,
        hint=(
            "Column 3 is 2i + 1 with i = 1: the cosine of pair 1, whose angle at position "
            "7 is 7 / 10000^(2/8)."
        ),
        wrong=(
            np.sin(0.7),
            np.cos(7 / 10000 ** (3 / 8)),
            np.cos(0.07),
            0.7,
            "cos 0.7",
        ),
    ),
    "03.2": Exercise(
        test=finds_columns,
        hint=(
            "Solve 2π · 10000^(2i/d_model) > length for 2i, or search an array of all "
            "wavelengths. The column is 2i, not i. "
            "For a short length it is column 0."
        ),
        wrong=(
            lambda length, d_model: first_column(length, d_model) // 2,
            lambda length, d_model: first_column(length, d_model) + 1,
            lambda length, d_model: first_column(length / (2 * np.pi), d_model),
            lambda length, d_model: 154,
            154,
        ),
    ),
    "03.3": Exercise(
        test=is_shift,
        hint=(
            "The sine of pair i is in row i and its cosine in row d_model/2 + i. So M_k "
            "has four diagonal blocks: cos and sin above -sin and cos."
        ),
        wrong=(
            interleaved_shift,
            lambda k, d_model: shift(k, d_model, sign=-1.0),
            lambda k, d_model: np.eye(d_model),
            lambda k, d_model: np.eye(d_model + 2),
            np.eye(8),
        ),
    ),
    "03.4": Exercise(
        test=reads_positions,
        hint=(
            "All encodings have the same length. The one that is most similar to the "
            "vector has the largest dot product with it: compute all 1000."
        ),
        wrong=(
            lambda vector: 0,
            lambda vector: np.argmax(vector),
            lambda vector: np.arcsin(np.clip(vector[0], -1, 1)),
            17,
        ),
    ),
    "03.5": Exercise(
        test=is_tied_gradient,
        hint=(
            "E occurs twice. As the matrix of the logits, its gradient is the outer "
            "product of p - one-hot(target) and x. As the embedding, only row id_ has "
            "one: √D · Eᵀ(p - one-hot). Add both."
        ),
        wrong=(
            lambda table, id_, target: tied_gradient(table, id_, target, embedding=False),
            lambda table, id_, target: tied_gradient(table, id_, target, output=False),
            lambda table, id_, target: tied_gradient(table, id_, target, scale=False),
            lambda table, id_, target: -tied_gradient(table, id_, target),
            0,
        ),
    ),
}
