"""The exercises of notebook 02."""

from course import Exercise

import keras
import numpy as np
import tensorflow as tf

from tf_transformer import MultiHeadAttention

TEMP_K = np.array([[10.0, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]])


def softmax(scores):
    """The softmax of each row, in NumPy."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def attention(q, k, v, mask):
    """Eq. 1 in NumPy."""
    scores = q @ k.T / np.sqrt(k.shape[-1])
    if mask is not None:
        scores = scores + mask * -1e9
    return softmax(scores) @ v


def has_the_weights(query):
    """Whether a query has the weights on `TEMP_K` that exercise 02.1 asks for."""
    query = np.asarray(query, float).reshape(1, 3)
    weights = attention(query, TEMP_K, np.eye(4), None)
    return np.allclose(weights, [[0.5, 0, 0.25, 0.25]], atol=0.01)


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


def is_local_mask(function):
    """Whether a function returns the masks of exercise 02.4."""
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


def is_the_layer_of_keras(function):
    """02.5: whether a function copies weights into the layer of Keras, on random ones."""
    rng = np.random.default_rng()
    v, k = tf.constant(rng.normal(size=(2, 3, 5, 12)), tf.float32)  # (B, S, D) each
    q = tf.constant(rng.normal(size=(3, 4, 12)), tf.float32)  # (B, T, D)
    mask = tf.constant(np.triu(np.ones((4, 5)), 2), tf.float32)  # (T, S), 1 hides
    ours = MultiHeadAttention(12, 3)
    ours(v, k, q, mask)
    ours.set_weights([rng.normal(size=weight.shape) for weight in ours.get_weights()])
    layer = function(ours.get_weights(), 3)
    if not isinstance(layer, keras.layers.MultiHeadAttention):
        return False
    result = layer(q, v, k, attention_mask=mask == 0)
    return np.allclose(result, ours(v, k, q, mask)[0], rtol=1e-3, atol=1e-4)


def copied(weights, num_heads, order):
    """A wrong answer to 02.5: the arrays in another order, or cut in another way."""
    layer = keras.layers.MultiHeadAttention(num_heads, len(weights[0]) // num_heads)
    layer.build((None, None, len(weights[0])), (None, None, len(weights[0])))
    shapes = [weight.shape for weight in layer.get_weights()]
    layer.set_weights([order(i, weights).reshape(shape) for i, shape in enumerate(shapes)])
    return layer


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
    "02.3": Exercise(
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
    "02.4": Exercise(
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
    "02.5": Exercise(
        test=is_the_layer_of_keras,
        hint=(
            "layer.build(shape, shape) creates the weights, and layer.set_weights takes them in "
            "the order of layer.get_weights(). Cut the columns of wq, wk and wv into heads, and "
            "the rows of dense: each is one reshape."
        ),
        wrong=(
            lambda weights, heads: keras.layers.MultiHeadAttention(heads, 4),
            lambda weights, heads: copied(
                weights, heads, lambda i, w: w[(i + 2) % 6 if i < 6 else i]
            ),
            lambda weights, heads: copied(weights, heads, lambda i, w: w[i].T),
            lambda weights, heads: copied(weights, 1, lambda i, w: w[i]),
            5,
        ),
        own_code=False,  # the layer of Keras is the answer
    ),
}
