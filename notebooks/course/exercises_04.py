"""The exercises of notebook 04."""

import numpy as np

from course import Exercise

# The mask of 4.3: a word sees itself and the word before it.
SEES_TWO = 1 - np.eye(5) - np.eye(5, k=-1)


def is_absolute_value(answer):
    """4.1: whether four arrays are the weights of a feed-forward network that computes |x|."""
    w_1, b_1, w_2, b_2 = (np.asarray(part, float) for part in answer)
    if (w_1.shape, b_1.shape, w_2.shape, b_2.shape) != ((1, 2), (2,), (2, 1), (1,)):
        raise ValueError(f"the shapes are {w_1.shape}, {b_1.shape}, {w_2.shape}, {b_2.shape}")
    x = np.linspace(-7, 7, 29)[:, np.newaxis]
    return np.allclose(np.maximum(0, x @ w_1 + b_1) @ w_2 + b_2, np.abs(x), atol=1e-4)


def undoes_layer_norm(answer):
    """4.2: whether LayerNorm with this gain and bias maps (2, 4, 4, 6) to itself."""
    gamma, beta = (float(part) for part in answer)
    x = np.array([2.0, 4.0, 4.0, 6.0])
    return np.allclose(gamma * (x - x.mean()) / np.sqrt(x.var() + 1e-6) + beta, x, atol=1e-2)


def is_mask_of_two(answer):
    """4.3: whether it is the mask, also with leading axes of length 1."""
    mask = np.asarray(answer, float)
    if mask.size != 25 or mask.shape[-2:] != (5, 5):
        return False
    return np.array_equal(mask.reshape(5, 5), SEES_TWO)


EXERCISES = {
    "4.1": Exercise(
        test=is_absolute_value,
        hint=(
            "one inner number can be x where x is positive, another one -x where x is negative; "
            "the second matrix adds them."
        ),
        wrong=(
            [[[1, 1]], [0, 0], [[1], [1]], [0]],
            [[[1, -1]], [0, 0], [[1], [-1]], [0]],
            [1, 0, 1, 0],
            1,
        ),
    ),
    "4.2": Exercise(
        test=undoes_layer_norm,
        hint="the gain must restore what LayerNorm divides by, the bias what it subtracts.",
        wrong=((1, 0), (2, 4), (4, 2), 4, (0, [2, 4, 4, 6])),
    ),
    "4.3": Exercise(
        test=is_mask_of_two,
        hint=(
            "row t is what word t sees: two zeros in each row but the first. "
            "tf.linalg.band_part or np.eye(5, k=-1) may help."
        ),
        wrong=(np.triu(np.ones((5, 5)), 1), 1 - SEES_TWO, SEES_TWO.T, 1 - np.eye(5), 5),
    ),
    "4.4": Exercise(
        test=lambda answer: float(answer) == 3,
        hint="each layer carries what a word knows one position further, and no more.",
        wrong=(1, 2, 4, 5, "three"),
    ),
    "4.5": Exercise(
        test=lambda answer: float(answer) == 2766,
        hint=(
            "a loop over d_ff and `ModelConfig(num_layers=5, dff=d_ff).parameters()`; the first "
            "that reaches base's number."
        ),
        wrong=(2048, 2458, 2765, 2767, 4096, "2766 or so"),
    ),
}
