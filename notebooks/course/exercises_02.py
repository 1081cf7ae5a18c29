"""The exercises of notebook 02."""

from course import Exercise

import numpy as np

TEMP_K = np.array([[10.0, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]])


def softmax(scores, axis=-1):
    """The softmax along an axis, in NumPy."""
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def attention(q, k, v, mask, scale=True, axis=-1):
    """Eq. 1 in NumPy, and two wrong forms: no scale, and another axis of the softmax."""
    scores = q @ k.T
    if scale:
        scores = scores / np.sqrt(k.shape[-1])
    if mask is not None:
        scores = scores + mask * -1e9
    return softmax(scores, axis) @ v


def overflowing(q, k, v, mask):
    """A wrong answer to 02.2: it does not subtract the largest score."""
    with np.errstate(all="ignore"):
        scores = q @ k.T / np.sqrt(k.shape[-1]) - 1e9 * (0 if mask is None else mask)
        weights = np.exp(scores)
        return weights / weights.sum(axis=-1, keepdims=True) @ v


def has_the_weights(query):
    """Whether a query has the weights on `TEMP_K` that exercise 02.1 asks for."""
    query = np.asarray(query, float).reshape(1, 3)
    weights = attention(query, TEMP_K, np.eye(4), None)
    return np.allclose(weights, [[0.5, 0, 0.25, 0.25]], atol=0.01)


def is_attention(function):
    """Whether a function computes Eq. 1, masks and large scores included."""
    rng = np.random.default_rng()
    for mask in (None, np.array([[0.0, 1, 0, 0, 1]]), np.triu(np.ones((3, 5)), 1)):
        for size in (1, 40):  # with 40, the scores are some thousands
            q = size * rng.normal(size=(3, 8))
            k = size * rng.normal(size=(5, 8))
            v = rng.normal(size=(5, 4))
            output = np.asarray(function(q, k, v, mask))
            expected = attention(q, k, v, mask)
            if output.shape != (3, 4) or not np.allclose(output, expected, atol=1e-4):
                return False
    return True


def jacobian(weights):
    """The Jacobian of the softmax: diag(w) - w w^T."""
    return np.diag(weights) - np.outer(weights, weights)


def is_jacobian(function):
    """Whether a function returns the Jacobian of the softmax."""
    rng = np.random.default_rng()
    for size in (2, 5, 9):
        weights = softmax(rng.normal(size=size))
        result = np.asarray(function(weights.copy()), float)
        if result.shape != (size, size) or not np.allclose(result, jacobian(weights)):
            return False
    return True


def contribution(z, w_o, i):
    """What head i adds to the output of multi-head attention."""
    depth = z.shape[-1]
    return z @ w_o[i * depth : (i + 1) * depth]


def is_contribution(function):
    """Whether a function returns the part of one head."""
    rng = np.random.default_rng()
    for heads, depth, length, d_model in ((4, 3, 2, 5), (8, 2, 6, 16), (2, 7, 3, 4)):
        w_o = rng.normal(size=(heads * depth, d_model))
        for i in range(heads):
            z = rng.normal(size=(length, depth))
            result = np.asarray(function(z, w_o, i))
            expected = contribution(z, w_o, i)
            if result.shape != expected.shape or not np.allclose(result, expected):
                return False
    return True


def layer_parameters(d_model, num_heads, d_k, d_v, biases=True):
    """The number of parameters of a multi-head attention layer."""
    matrices = 2 * d_model * num_heads * (d_k + d_v)
    return matrices + biases * (num_heads * (2 * d_k + d_v) + d_model)


def counts_parameters(function):
    """Whether a function returns the number of parameters of any layer."""
    rng = np.random.default_rng()
    for _ in range(5):
        sizes = [int(size) for size in rng.integers(1, 100, size=4)]
        if float(function(*sizes)) != layer_parameters(*sizes):
            return False
    return True


def is_local_mask(function):
    """Whether a function returns the masks of exercise 02.6."""
    for size, r in ((1, 1), (5, 3), (6, 1), (7, 5), (4, 9)):
        row, column = np.indices((size, size))
        expected = np.abs(row - column) > (r - 1) / 2
        result = np.asarray(function(size, r), float)
        if result.shape != (size, size) or not np.array_equal(result, expected):
            return False
    return True


def distance(size):
    """The distance of each row from each column."""
    return np.abs(np.subtract.outer(range(size), range(size)))


EXERCISES = {
    "02.1": Exercise(
        test=has_the_weights,
        hint=(
            "Up to a common factor, the weights of key 1 and of key 3 are e^(10 q1 / √3) "
            "and e^(10 q3 / √3). The first must be twice the second. Key 2 must get no weight: "
            "q2 must be far below q1 and q3."
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
    "02.2": Exercise(
        test=is_attention,
        hint=(
            "Scores, scale, mask * -1e9, softmax along the last axis, times v. Subtract "
            "the largest score of a row before exp."
        ),
        wrong=(
            lambda q, k, v, mask: attention(q, k, v, mask, scale=False),
            lambda q, k, v, mask: attention(q, k, v, mask, axis=0),
            lambda q, k, v, mask: attention(q, k, v, None),
            lambda q, k, v, mask: attention(q, k, v, None if mask is None else 1 - mask),
            overflowing,
            3,
        ),
    ),
    "02.3": Exercise(
        test=is_jacobian,
        hint=(
            "Differentiate w_i = e^(s_i) / Σ e^(s_j). With i = j the result is "
            "w_i - w_i², otherwise it has only the second kind of term."
        ),
        wrong=(
            lambda weights: np.diag(weights * (1 - weights)),
            lambda weights: np.diag(weights) + np.outer(weights, weights),
            lambda weights: -jacobian(weights),
            lambda weights: weights * (1 - weights),
            np.eye(3),
        ),
    ),
    "02.4": Exercise(
        test=is_contribution,
        hint=(
            "In the concatenation, head i has the columns i·Kv to (i + 1)·Kv. They meet "
            "the rows of W^O with the same numbers. Kv is z.shape[-1]."
        ),
        wrong=(
            lambda z, w_o, i: z @ w_o[: z.shape[-1]],
            lambda z, w_o, i: z @ w_o[i : i + z.shape[-1]],
            lambda z, w_o, i: z @ w_o[i :: w_o.shape[0] // z.shape[-1]],
            lambda z, w_o, i: contribution(z, w_o, i - 1),
            0,
        ),
    ),
    "02.5": Exercise(
        test=counts_parameters,
        hint=(
            "Four products: two from d_model to h·d_k, one from d_model to h·d_v, one "
            "from h·d_v to d_model. Each has a matrix and a bias."
        ),
        wrong=(
            lambda d_model, num_heads, d_k, d_v: layer_parameters(
                d_model, num_heads, d_k, d_v, biases=False
            ),
            lambda d_model, num_heads, d_k, d_v: layer_parameters(d_model, 1, d_k, d_v),
            lambda d_model, num_heads, d_k, d_v: 4 * d_model * (d_model + 1),
            lambda d_model, num_heads, d_k, d_v: layer_parameters(d_model, num_heads, d_v, d_k),
            656640,
        ),
    ),
    "02.6": Exercise(
        test=is_local_mask,
        hint=(
            "Compare the number of the row with the number of the column (np.indices). A "
            "key is hidden if the two differ by more than (r - 1) / 2."
        ),
        wrong=(
            lambda size, r: np.triu(np.ones((size, size)), (r - 1) // 2 + 1),
            lambda size, r: distance(size) <= (r - 1) / 2,
            lambda size, r: distance(size) >= (r - 1) / 2,
            lambda size, r: distance(size) > r,
            np.zeros((5, 5)),
        ),
    ),
}
