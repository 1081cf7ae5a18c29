"""The exercises of notebook J."""

from course import Exercise

import math

import numpy as np

RANDOM = np.random.default_rng(33)


def _integers(*bounds):
    """Random integers, one for each pair (low, high) of inclusive bounds."""
    return [int(RANDOM.integers(low, high + 1)) for low, high in bounds]


def _agrees(expected, *bounds):
    """Returns a test that compares a function with another one on random integers."""

    def test(answer):
        cases = [_integers(*bounds) for _ in range(30)]
        return all(float(answer(*case)) == expected(*case) for case in cases)

    return test


def crossover(d, k):
    """The smallest integer n above (k - 4) d / 2."""
    return (k - 4) * d // 2 + 1


def dilated_layers(n, k):
    """The answer to J.2."""
    layers = 0
    while k**layers < n:
        layers += 1
    return layers


def _counts_dilated(answer):
    cases = [(k**power + more, k) for k in range(2, 10) for power in range(5) for more in (0, 1)]
    cases += [_integers((1, 3000), (2, 9)) for _ in range(30)]
    return all(float(answer(*case)) == dilated_layers(*case) for case in cases)


def weight_bytes(layers, heads, batch, source, target):
    """The answer to J.3."""
    return 4 * layers * heads * batch * (source**2 + target**2 + target * source)


def restricted_operations(n, d, r):
    """The answer to J.4, for odd r."""
    seen = sum(min(n - 1, i + r // 2) - max(0, i - r // 2) + 1 for i in range(n))
    return 2 * d * seen


def _counts_restricted(answer):
    for _ in range(30):
        n, d, half = _integers((1, 60), (1, 40), (1, 30))
        if float(answer(n, d, 2 * half + 1)) != restricted_operations(n, d, 2 * half + 1):
            return False
    return True


EXERCISES = {
    "J.1": Exercise(
        test=_agrees(crossover, (1, 99), (5, 30)),
        hint=(
            "Set 2 n^2 d + 4 n d^2 equal to k n d^2 and solve for n. At that n both are equal; "
            "the answer is the next integer above it."
        ),
        wrong=(
            lambda d, k: (k - 4) * d / 2,
            lambda d, k: (k - 4) * d // 2,
            lambda d, k: k * d // 2 + 1,
            lambda d, k: 2 * d + 1,
            1025,
        ),
    ),
    "J.2": Exercise(
        test=_counts_dilated,
        hint=(
            "L layers reach back (k - 1)(1 + k + ... + k^(L - 1)) = k^L - 1 positions. The first "
            "of n positions is n - 1 positions before the last. For n = 1 no layer is needed. "
            "A logarithm in floats can be wrong by one where n is a power of k."
        ),
        wrong=(
            lambda n, k: np.ceil((n - 1) / (k - 1)),
            lambda n, k: np.floor(np.log(n) / np.log(k)),
            lambda n, k: np.floor(np.log(n) / np.log(k)) + 1,
            lambda n, k: np.ceil(math.log(n, k)),
            lambda n, k: dilated_layers(n, k) + 1,
            lambda n, k: n - 1,
            7,
        ),
    ),
    "J.3": Exercise(
        test=_agrees(weight_bytes, (1, 8), (1, 16), (1, 64), (1, 100), (1, 100)),
        hint=(
            "In each pair of layers there are three tables of weights: source x source, "
            "target x target and target x source, for each head and each sentence pair. A float32 "
            "has 4 bytes."
        ),
        wrong=(
            lambda layers, heads, batch, s, t: layers * heads * batch * (s**2 + t**2 + s * t),
            lambda layers, heads, batch, s, t: 4 * layers * heads * batch * (s**2 + t**2),
            lambda layers, heads, batch, s, t: 4 * layers * batch * (s**2 + t**2 + s * t),
            lambda layers, heads, batch, s, t: 12 * layers * heads * batch * s * t,
            10**6,
        ),
    ),
    "J.4": Exercise(
        test=_counts_restricted,
        hint=(
            "Add up over i how many positions i sees; the ends see fewer, and r may be larger "
            "than n. Each seen position takes d multiply-adds for its score and d for its value."
        ),
        wrong=(
            lambda n, d, r: 2 * n * r * d,
            lambda n, d, r: 2 * n * (r + 1) * d,
            lambda n, d, r: restricted_operations(n, d, r) / 2,
            lambda n, d, r: 2 * n * min(n, r) * d,
            1024,
        ),
    ),
}
