"""The exercises of notebook 03."""

import numpy as np

from course import Exercise


def encoding(positions, d_model):
    """PE of these positions, `[positions, d_model]`, in double precision."""
    two_i = np.arange(d_model) // 2 * 2
    angles = np.asarray(positions)[:, np.newaxis] / 10000.0 ** (two_i / d_model)
    return np.where(np.arange(d_model) % 2, np.cos(angles), np.sin(angles))


def is_shift(function):
    """Whether a function returns the matrices of exercise 3.3, for steps ahead and back."""
    for k, d_model in ((1, 4), (2, 8), (5, 64), (-3, 16)):
        matrix = np.asarray(function(k, d_model), float)
        positions = np.arange(3, 200)
        if matrix.shape != (d_model, d_model):
            return False
        shifted = encoding(positions, d_model) @ matrix.T
        if not np.allclose(shifted, encoding(positions + k, d_model), atol=1e-2):
            return False
    return True


def reads_positions(function):
    """Whether a function finds the position of noisy encodings."""
    rng = np.random.default_rng(3)
    for position in (0, 1, 17, 300, 301, 999):
        vector = encoding([position], 64)[0] + 0.1 * rng.normal(size=64)
        if int(function(vector.astype(np.float32))) != position:
            return False
    return True


def rotate_backwards(k, d_model):
    """A wrong answer to 3.3: the transposed matrix, which shifts in the other direction."""
    angles = k / 10000 ** (np.arange(0, d_model, 2) / d_model)
    matrix = np.zeros((d_model, d_model))
    for i, angle in enumerate(angles):
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [
            [np.cos(angle), -np.sin(angle)],
            [np.sin(angle), np.cos(angle)],
        ]
    return matrix


EXERCISES = {
    "3.1": Exercise(
        test=lambda answer: abs(float(answer) - np.cos(0.7)) < 1e-3,
        hint=(
            "Column 3 is 2i + 1 with i = 1: the cosine of hand 1, whose angle at position 7 is "
            "7 / 10000^(2/8)."
        ),
        wrong=(np.sin(0.7), np.cos(7 / 10000 ** (3 / 8)), np.cos(0.07), 0.7, "cos 0.7"),
    ),
    "3.2": Exercise(
        test=lambda answer: float(answer) == 154,
        hint=(
            "Solve 2π · 10000^(2i/512) > 100 for 2i, or count in an array of all wavelengths. "
            "The column is 2i, not i."
        ),
        wrong=(77, 152, 153, 155, 308, "154th"),
    ),
    "3.3": Exercise(
        test=is_shift,
        hint=(
            "For each hand a 2 × 2 block on the diagonal: cos, sin above -sin, cos. The angle "
            "is k / 10000^(2i/d_model)."
        ),
        wrong=(
            rotate_backwards,
            lambda k, d_model: np.eye(d_model),
            lambda k, d_model: np.eye(d_model + 2),
            np.eye(8),
        ),
    ),
    "3.4": Exercise(
        test=reads_positions,
        hint=(
            "The encoding that is most similar to the vector has the largest dot product with "
            "it: compute all 1000 of them and take the argmax."
        ),
        wrong=(
            lambda vector: 0,
            lambda vector: np.argmax(vector),
            lambda vector: np.arcsin(np.clip(vector[0], -1, 1)),
            17,
        ),
    ),
    "3.5": Exercise(
        test=lambda answer: abs(float(answer) - (925696 + 3 * 256000) / (925696 + 256000)) < 0.006,
        hint=(
            "A matrix has 2,000 · 128 numbers. Divide all weights with three of them by all "
            "weights with one."
        ),
        wrong=(3, 512000, 1.22, 1181696, "twice"),
    ),
}
