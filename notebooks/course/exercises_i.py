"""The exercises of notebook I."""

from course import Exercise

import numpy as np


def combine(gradients, tokens):
    """The gradient of the mean over all tokens, from gradients of the replicas' means."""
    present = np.asarray(tokens) > 0
    gradients, tokens = np.asarray(gradients)[present], np.asarray(tokens)[present]
    return (gradients * tokens[:, np.newaxis]).sum(axis=0) / tokens.sum()


def is_combine(answer):
    """Whether a function is `combine`."""
    random = np.random.default_rng()
    for empty in (False, True):
        tokens = random.integers(1, 400, 5).astype(float)
        gradients = random.normal(size=(5, 6))
        if empty:
            tokens[2], gradients[2] = 0, np.nan
        result = np.asarray(answer(gradients.copy(), tokens.copy()))
        expected = combine(gradients, tokens)
        if result.shape != (6,) or not np.allclose(result, expected, rtol=1e-5):
            return False
    return True


def micro_batches(rows, length, replicas, limit):
    """Micro-batches of each replica."""
    rows_at_once = max(1, limit // length)
    rows_of_replica = -(-rows // replicas)
    return -(-rows_of_replica // rows_at_once)


def is_micro_batches(answer):
    """Whether a function is `micro_batches`."""
    random = np.random.default_rng()
    cases = [[int(random.integers(1, most)) for most in (500, 80, 9, 3000)] for _ in range(40)]
    cases += [[64, 100, 2, 50], [1, 10, 8, 4096], [65, 16, 8, 128]]
    return all(int(answer(*case)) == micro_batches(*case) for case in cases)


def looks_ahead(shift):
    """A function whose output t depends on input t + shift, and on those before t."""

    def function(x):
        x = np.asarray(x, np.float64)
        result = np.cumsum(x)
        result[: len(x) - shift] += x[shift:]
        return result

    return function


def only_last_leaks(x):
    """Causal but for output 0, which depends on the last input."""
    result = np.cumsum(np.asarray(x, np.float64))
    result[0] += 0.5 * x[-1]
    return result


def only_first_leaks(x):
    """Output 0 also depends on input 1, if this is positive."""
    result = np.cumsum(np.asarray(x, np.float64))
    result[0] += max(x[1], 0)
    return result


def only_middle_leaks(x):
    """Output 1 also depends on input 2, if this is negative."""
    result = np.cumsum(np.asarray(x, np.float64))
    result[1] += min(x[2], 0)
    return result


CAUSAL = (
    lambda x: np.cumsum(x),
    lambda x: np.maximum.accumulate(np.asarray(x)),
    lambda x: np.asarray(x) ** 2,
    lambda x: np.concatenate([[0.0], x[:-1]]),
)
NOT_CAUSAL = (
    lambda x: np.cumsum(x[::-1])[::-1],
    lambda x: np.asarray(x) - np.mean(x),
    looks_ahead(1),
    looks_ahead(3),
    only_last_leaks,
    only_first_leaks,
    only_middle_leaks,
)


def is_causality_test(answer):
    """Whether a function tells causal functions from others."""
    for length in (4, 7):
        if not all(bool(answer(function, length)) for function in CAUSAL):
            return False
        if any(bool(answer(function, length)) for function in NOT_CAUSAL):
            return False
    return True


def compares_last_only(function, length):
    """Wrong: changes the last input only."""
    x = np.random.default_rng(0).normal(size=length)
    y = x.copy()
    y[-1] += 1
    return np.allclose(function(x)[:-1], function(y)[:-1])


EXERCISES = {
    "I.1": Exercise(
        test=is_combine,
        hint=(
            "Each gradient counts as often as it has tokens: turn means into sums, add, "
            "divide once. 0 times nan is nan, so leave such a replica out first."
        ),
        wrong=(
            lambda gradients, tokens: np.mean(gradients, axis=0),
            lambda gradients, tokens: np.nanmean(gradients, axis=0),
            lambda gradients, tokens: tokens @ gradients / tokens.sum(),
            lambda gradients, tokens: np.nansum(gradients, axis=0),
            1.0,
        ),
    ),
    "I.2": Exercise(
        test=is_micro_batches,
        hint=(
            "How many rows fit into one micro-batch? How many rows has the replica with "
            "the most rows? Round up where a rest needs a micro-batch of its own."
        ),
        wrong=(
            lambda rows, length, replicas, limit: -(-rows * length // (replicas * limit)),
            lambda rows, length, replicas, limit: rows * length // replicas // limit + 1,
            lambda rows, length, replicas, limit: 8,
            8,
        ),
    ),
    # own_code is off: the functions given to the answer are code of the course.
    "I.3": Exercise(
        test=is_causality_test,
        hint=(
            "Change one input s, and compare the outputs before s. Do this for every s, up "
            "and down: a leak may be in one place and for one sign only."
        ),
        wrong=(
            compares_last_only,
            lambda function, length: True,
            lambda function, length: False,
            True,
        ),
        own_code=False,
    ),
}
