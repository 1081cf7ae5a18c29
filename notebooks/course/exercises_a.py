"""The exercises of notebook A."""

from course import Exercise

import numpy as np

RANDOM = np.random.default_rng(11)


def _softmax(scores):
    exponentials = np.exp(scores - np.max(scores))
    return exponentials / np.sum(exponentials)


def bidirectional(step_right, step_left, xs, h0, turn_back=True):
    """The answer to A.1; without `turn_back` the left states stay in reading order."""

    def read(step, words):
        states = []
        h = h0
        for x in words:
            h = step(x, h)
            states.append(h)
        return np.stack(states)

    left = read(step_left, xs[::-1])
    return np.concatenate([read(step_right, xs), left[::-1] if turn_back else left], axis=-1)


def _reads_both_ways(answer):
    cells = np.arctan2, np.subtract  # of x and h; these are no functions of the course
    for words in (1, 2, 7):
        xs = RANDOM.normal(size=(words, 3))
        h0 = RANDOM.normal(size=3)
        states = np.asarray(answer(*cells, xs, h0), dtype=float)
        expected = bidirectional(*cells, xs, h0)
        if states.shape != expected.shape or not np.allclose(states, expected, atol=1e-5):
            return False
    return True


def _only_right_to_right(step_right, step_left, xs, h0):
    """A wrong answer: reads from left to right with both cells."""
    return np.concatenate(
        [
            bidirectional(step_right, step_left, xs, h0)[:, : len(h0)],
            bidirectional(step_left, step_right, xs, h0)[:, : len(h0)],
        ],
        axis=-1,
    )


def attend(query, states, w, u, v, real, masked=True):
    """The answer to A.2; without `masked` padding gets weights too."""
    scores = np.tanh(query @ w + states @ u) @ v
    if masked:
        scores = np.where(real, scores, -1e9)
    return _softmax(scores) @ states


def _dot_attend(query, states, w, u, v, real):
    """A wrong answer: the dot-product score."""
    return _softmax(np.where(real, states @ query, -1e9)) @ states


def _masks_after_softmax(query, states, w, u, v, real):
    """A wrong answer: the weights of the real words do not sum to 1."""
    return (_softmax(np.tanh(query @ w + states @ u) @ v) * real) @ states


def _attends(answer):
    for words in (1, 5, 9):
        query, v = RANDOM.normal(size=4), 3 * RANDOM.normal(size=6)
        states = RANDOM.normal(size=(words, 4))
        w, u = RANDOM.normal(size=(2, 4, 6))
        real = np.arange(words) < max(1, words - 2)
        context = np.asarray(answer(query, states, w, u, v, real), dtype=float)
        expected = attend(query, states, w, u, v, real)
        if context.shape != expected.shape or not np.allclose(context, expected, atol=1e-5):
            return False
    return True


def local_weights(scores, p, window, inside_only=True, gaussian=True):
    """The answer to A.3, and two wrong forms of it."""
    positions = np.arange(len(scores))
    inside = np.abs(positions - p) <= window
    weights = np.zeros(len(scores))
    if inside_only:
        weights[inside] = _softmax(np.asarray(scores)[inside])
    else:
        weights = np.where(inside, _softmax(np.asarray(scores)), 0.0)
    if gaussian:
        weights = weights * np.exp(-((positions - p) ** 2) / (2 * (window / 2) ** 2))
    return weights


def _is_local(answer):
    for _ in range(10):
        words = int(RANDOM.integers(4, 15))
        scores = 2 * RANDOM.normal(size=words)
        p, window = RANDOM.integers(0, 2 * words - 1) / 2, int(RANDOM.integers(1, 5))
        weights = np.asarray(answer(scores, p, window), dtype=float)
        expected = local_weights(scores, p, window)
        if weights.shape != expected.shape or not np.allclose(weights, expected, atol=1e-5):
            return False
    return True


def layers_needed(sees):
    """The answer to A.4."""
    sees = np.asarray(sees, bool)
    depends = np.eye(len(sees), dtype=bool)
    for layers in range(len(sees) + 1):
        if depends.all():
            return layers
        depends = (sees.astype(int) @ depends.astype(int)) > 0
    return None


def _corner_only(sees):
    """A wrong answer: asks for the last and the first position only."""
    depends = np.eye(len(sees), dtype=bool)
    for layers in range(len(sees) + 1):
        if depends[-1, 0]:
            return layers
        depends = (np.asarray(sees, int) @ depends.astype(int)) > 0
    return None


def _counts_layers(answer):
    n = int(RANDOM.integers(6, 20))
    distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    permuted = RANDOM.permutation(n)
    cases = [distance <= reach for reach in (1, 2, 5)]
    cases += [
        np.ones((n, n), bool),
        np.tri(n, dtype=bool),
        (distance <= 1) | (np.arange(n) == 3),
        ((distance <= 1) | (distance == n - 1))[permuted][:, permuted],
        (distance <= 1)[permuted][:, permuted],
    ]
    for sees in cases:
        given, expected = answer(sees.copy()), layers_needed(sees)
        if (given is None) != (expected is None) or (expected is not None and given != expected):
            return False
    return True


EXERCISES = {
    "A.1": Exercise(
        test=_reads_both_ways,
        hint=(
            "Read xs[::-1] with step_left, then turn its states around again, so that row s "
            "belongs to word s in both halves."
        ),
        wrong=(
            lambda right, left, xs, h0: bidirectional(right, left, xs, h0, turn_back=False),
            lambda right, left, xs, h0: bidirectional(left, right, xs, h0),
            _only_right_to_right,
            lambda right, left, xs, h0: np.zeros((len(xs), 2 * len(h0))),
            [1, 2],
        ),
    ),
    "A.2": Exercise(
        test=_attends,
        hint=(
            "The scores are np.tanh(query @ w + states @ u) @ v. Give padding a very low score "
            "before the softmax, not a weight of 0 after it."
        ),
        wrong=(
            lambda *parts: attend(*parts, masked=False),
            _dot_attend,
            _masks_after_softmax,
            lambda query, states, w, u, v, real: states[real].mean(axis=0),
            0.5,
        ),
    ),
    "A.3": Exercise(
        test=_is_local,
        hint=(
            "Softmax over the scores inside the window only, then the product with the Gaussian; "
            "2 sigma^2 is D^2 / 2. Do not normalize again."
        ),
        wrong=(
            lambda scores, p, window: local_weights(scores, p, window, inside_only=False),
            lambda scores, p, window: local_weights(scores, p, window, gaussian=False),
            lambda scores, p, window: (
                local_weights(scores, p, window) / local_weights(scores, p, window).sum()
            ),
            lambda scores, p, window: local_weights(scores, p, window - 1e-9),  # open ends
            lambda scores, p, window: _softmax(scores),
            [0.2, 0.8],
        ),
    ),
    "A.4": Exercise(
        test=_counts_layers,
        hint=(
            "Begin with the identity: before any layer each position depends on itself. Each "
            "layer multiplies by sees from the left. If n layers do not suffice, none do."
        ),
        wrong=(
            _corner_only,
            lambda sees: len(sees) - 1,
            lambda sees: (layers_needed(sees) or 0) + 1,
            lambda sees: layers_needed(sees) or len(sees),
            3,
        ),
    ),
}
