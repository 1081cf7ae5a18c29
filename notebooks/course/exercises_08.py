"""The exercises of notebook 08."""

import numpy as np

from course import Exercise

RANDOM = np.random.default_rng(8)
ROWS = np.array([[1.0, 0, 0, 0, 0, 0, 0, 0], [0.125] * 8, [0.5, 0.25, 0.125, 0.125, 0, 0, 0, 0]])
BITS = [0.0, 3.0, 1.75]
CROSS = np.array(
    [
        [[0.5, 0.1, 0.4], [0.1, 0.2, 0.7], [0.3, 0.1, 0.6]],
        [[0.1, 0.6, 0.3], [0.1, 0.3, 0.6], [0.4, 0.2, 0.4]],
    ]
)  # (H, T, S)
LAYERS = [RANDOM.dirichlet(np.ones(4), (3, 4)) for _ in range(3)]  # (H, S, S) each


def is_55(answer):
    """8.1: row t of a head may look at t + 1 places."""
    return float(answer) == 55


def gives_bits(entropy):
    """8.2: the entropies of one row, and of many at once."""
    cases = [
        (ROWS, BITS),
        (np.stack([ROWS, ROWS[::-1]]), [BITS, BITS[::-1]]),
        (ROWS[2], 1.75),
    ]
    for rows, bits in cases:
        answer = np.asarray(entropy(rows.copy()))
        if answer.shape != np.shape(bits) or not np.allclose(answer, bits, atol=1e-4):
            return False
    return True


def aligns(align):
    """8.3: the mean over the heads decides, and [END] is left out."""
    both_heads = np.asarray(align(CROSS.copy())).tolist()
    one_head = np.asarray(align(CROSS[:1].copy())).tolist()
    return both_heads == [1, 1, 0] and one_head == [0, 1, 0]


def rolls_out(rollout):
    """8.4: each layer is multiplied from the left."""
    for layers in (LAYERS, LAYERS[:1]):
        expected = np.eye(4)
        for weights in layers:
            expected = (weights.mean(axis=0) + np.eye(4)) / 2 @ expected
        answer = np.asarray(rollout([weights.copy() for weights in layers]))
        if answer.shape != (4, 4) or not np.allclose(answer, expected, atol=1e-5):
            return False
    return True


def first_layer_on_the_left(layers):
    """A wrong answer to 8.4: multiplies in the order of the list."""
    product = np.eye(4)
    for weights in layers:
        product = product @ (weights.mean(axis=0) + np.eye(4)) / 2
    return product


def without_residuals(layers):
    """A wrong answer to 8.4: leaves the residual connections out."""
    product = np.eye(4)
    for weights in layers:
        product = weights.mean(axis=0) @ product
    return product


def tells_causal(is_causal):
    """8.5: on functions that look back, ahead, far ahead, and at nothing."""
    functions = {
        np.cumsum: True,
        np.copy: True,
        np.zeros_like: True,
        (lambda x: np.append(0.0, x[:-1])): True,
        (lambda x: np.cumsum(x[::-1])[::-1]): False,
        (lambda x: np.append(x[1:], 0.0)): False,
        (lambda x: x + np.mean(x)): False,
        (lambda x: x + np.eye(len(x))[0] * x[2]): False,
        (lambda x: x + np.eye(len(x))[0] * x[-1]): False,
    }
    x = RANDOM.normal(size=6)
    for function, causal in functions.items():
        if bool(is_causal(function, x.copy())) is not causal:
            return False
    return True


def only_the_last(function, x):
    """A wrong answer to 8.5: changes the last input only."""
    changed = np.append(x[:-1], x[-1] + 1.0)
    return np.array_equal(np.asarray(function(changed))[:-1], np.asarray(function(x))[:-1])


EXERCISES = {
    "8.1": Exercise(
        test=is_55,
        hint="row t may look at the positions 0 to t; add them up over the 10 rows.",
        wrong=(100, 45, 50, 10, "half"),
    ),
    "8.2": Exercise(
        test=gives_bits,
        hint=(
            "sum over the last axis, take the logarithm to base 2, and make sure that a weight "
            "of 0 adds 0, not NaN."
        ),
        wrong=(
            3.0,
            lambda weights: -np.sum(weights * np.log(np.where(weights > 0, weights, 1.0)), axis=-1),
            lambda weights: -np.sum(weights * np.log2(np.where(weights > 0, weights, 1.0))),
            lambda weights: np.sum(weights * np.log2(np.where(weights > 0, weights, 1.0)), axis=-1),
        ),
    ),
    "8.3": Exercise(
        test=aligns,
        hint="first the mean over axis 0, then the largest of all columns but the last.",
        wrong=(
            [1, 1, 0],
            lambda weights: np.argmax(weights.mean(axis=0), axis=-1),
            lambda weights: np.argmax(weights[0, :, :-1], axis=-1),
            lambda weights: np.argmax(weights.mean(axis=0)[:, :-1], axis=0),
        ),
    ),
    "8.4": Exercise(
        test=rolls_out,
        hint=(
            "begin with the identity; each layer's half-and-half matrix is multiplied from the "
            "left."
        ),
        wrong=(
            0.5,
            without_residuals,
            lambda layers: np.mean([weights.mean(axis=0) for weights in layers], axis=0),
            lambda layers: layers[-1].mean(axis=0),
            first_layer_on_the_left,
        ),
    ),
    "8.5": Exercise(
        test=tells_causal,
        hint=(
            "change one input at a time, each of them, and compare the outputs before it with "
            "those of the unchanged input."
        ),
        wrong=(True, lambda function, x: True, lambda function, x: False, only_the_last),
    ),
}
