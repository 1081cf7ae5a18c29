"""The exercises of notebook G."""

from course import Exercise

import numpy as np


def parallel_layer(x, norm, attention, feed_forward):
    """G.1: the layer of GPT-J and PaLM."""
    normal = norm(x)
    return x + attention(normal) + feed_forward(normal)


def is_parallel_layer(function):
    """Whether a function computes `parallel_layer`, with functions of NumPy as sub-layers."""
    rng = np.random.default_rng(11)
    for parts in ((np.arctan, np.sin, np.exp), (np.tanh, np.cos, np.square)):
        x = rng.normal(size=(4, 6))
        if not np.allclose(function(x.copy(), *parts), parallel_layer(x, *parts)):
            return False
    return True


def rotate_halves(vector, position, base=10000.0):
    """G.2: rotary positions, where number i and number i + K / 2 are a pair."""
    first, second = np.split(np.asarray(vector, float), 2)
    angles = position * base ** (-np.arange(len(first)) / len(first))
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin])


def rotate_pairs(vector, position, base=10000.0):
    """A wrong answer to G.2: numbers 2i and 2i + 1 are a pair."""
    vector = np.asarray(vector, float)
    angles = position * base ** (-np.arange(0, len(vector), 2) / len(vector))
    cos, sin = np.cos(angles), np.sin(angles)
    result = np.empty_like(vector)
    result[0::2] = vector[0::2] * cos - vector[1::2] * sin
    result[1::2] = vector[1::2] * cos + vector[0::2] * sin
    return result


def is_rotate_halves(function):
    """Whether a function computes `rotate_halves`."""
    rng = np.random.default_rng(12)
    for depth, position in ((4, 0), (4, 3), (8, 17), (64, 200), (2, 5)):
        vector = rng.normal(size=depth)
        result = np.asarray(function(vector, position), float)
        if result.shape != (depth,):
            return False
        if not np.allclose(result, rotate_halves(vector, position), atol=1e-5):
            return False
    return True


def reached(mask, layers):
    """G.3: which inputs can change which outputs after some layers."""
    return np.linalg.matrix_power(1 - np.asarray(mask, int), layers) > 0


def is_reached(function):
    """Whether a function computes `reached`, on random masks."""
    rng = np.random.default_rng(15)
    for size, layers in ((1, 1), (5, 1), (6, 2), (9, 3), (12, 5)):
        mask = (rng.random((size, size)) < 0.8) & ~np.eye(size, dtype=bool)
        result = np.asarray(function(mask.astype(float), layers))
        if result.shape != mask.shape or not np.array_equal(result, reached(mask, layers)):
            return False
    return True


EXERCISES = {
    "G.1": Exercise(
        test=is_parallel_layer,
        hint="both sub-layers read the same normalized x, and x is added once",
        wrong=(
            lambda x, norm, attention, ffn: norm(x + attention(x) + ffn(x)),
            lambda x, norm, attention, ffn: attention(norm(x)) + ffn(norm(x)),
            lambda x, norm, attention, ffn: (
                x + attention(norm(x)) + ffn(norm(x + attention(norm(x))))
            ),
        ),
    ),
    "G.2": Exercise(
        test=is_rotate_halves,
        hint=(
            "split the vector into halves; pair i has the angle "
            "position x 10000^(-2 i / K); rotate (first[i], second[i]) by it"
        ),
        wrong=(
            rotate_pairs,
            lambda vector, position: np.asarray(vector),
            lambda vector, position: rotate_halves(vector, -position),
        ),
    ),
    "G.3": Exercise(
        test=is_reached,
        hint=(
            "after two layers, row i knows about column j if it sees some k that saw j: the "
            "product of two matrices, compared with 0"
        ),
        wrong=(
            lambda mask, layers: mask == 0,
            lambda mask, layers: reached(mask, layers + 1),
            lambda mask, layers: reached(mask, layers).T,
            lambda mask, layers: ~reached(mask, layers),
        ),
    ),
}
