"""The exercises of notebook H."""

from course import Exercise

import math

import numpy as np


def batch_for(rate, fixed, each):
    """H.1: the smallest n with n / (fixed + each n) >= rate, in sentences per second and ms."""
    if 1000 / each <= rate:
        return None
    return math.ceil(rate * fixed / (1000 - rate * each) - 1e-9)


def is_batch_for(function):
    """Whether a function is `batch_for`."""
    cases = [
        (300, 40, 2),
        (20, 40, 2),
        (500, 40, 2),
        (700, 40, 2),
        (123, 17, 3.5),
        (90, 31, 1),
        (490, 40, 2),
    ]
    return all(function(*case) == batch_for(*case) for case in cases)


def latencies(arrivals, fixed, each):
    """H.2: latencies of a server that answers together all requests that wait, in ms."""
    done, now = [], 0.0
    while len(done) < len(arrivals):
        now = max(now, arrivals[len(done)])
        batch = [t for t in arrivals[len(done) :] if t <= now]
        now += fixed + each * len(batch)
        done += [now - t for t in batch]
    return done


def are_latencies(function):
    """Whether a function is `latencies`, on random arrivals."""
    rng = np.random.default_rng(3)
    for count in (1, 2, 10, 40):
        for gap in (2, 15, 60):
            arrivals = np.cumsum(rng.exponential(gap, count)).tolist()
            expected = latencies(arrivals, 20, 4)
            answer = function(list(arrivals), 20, 4)
            if len(answer) != count or not np.allclose(answer, expected, atol=1e-5):
                return False
    return True


def _one_at_a_time(arrivals, fixed, each):
    now, found = 0.0, []
    for arrival in arrivals:
        now = max(now, arrival) + fixed + each
        found.append(now - arrival)
    return found


def _without_waiting(arrivals, fixed, each):
    """The time in the server alone."""
    now, found = 0.0, []
    while len(found) < len(arrivals):
        now = max(now, arrivals[len(found)])
        count = sum(t <= now for t in arrivals[len(found) :])
        now += fixed + each * count
        found += [fixed + each * count] * count
    return found


def newest(names):
    """H.3: the folder that a server loads."""
    versions = [name for name in names if name.isascii() and name.isdigit()]
    return max(versions, key=int, default=None)


def is_newest(function):
    """Whether a function compares versions as numbers, and ignores other names."""
    cases = [
        ["1", "2", "10", "models.config"],
        ["tmp-11", "9", "30.broken", "08", "12.5"],
        ["7"],
        ["monitoring.config", "-5", ""],
        [],
    ]
    return all(function(list(names)) == newest(names) for names in cases)


def quantize(matrix):
    """H.4: 8-bit integers and the scale of each row."""
    matrix = np.asarray(matrix, float)
    scales = np.abs(matrix).max(axis=1) / 127
    scales[scales == 0] = 1
    return np.round(matrix / scales[:, np.newaxis]), scales


def is_quantize(function):
    """Whether a function is `quantize`, on random matrices."""
    rng = np.random.default_rng(1)
    for shape in ((3, 5), (8, 2), (1, 40)):
        matrix = rng.normal(size=shape) * rng.uniform(0.1, 9, size=(shape[0], 1))
        if len(matrix) > 3:
            matrix[2] = 0
        integers, scales = function(matrix.copy())
        expected, expected_scales = quantize(matrix)
        scales = np.where(matrix.any(axis=1), np.ravel(scales), 1)  # any scale for zeros
        if not np.allclose(scales, expected_scales):
            return False
        if not np.array_equal(np.asarray(integers, float), expected):
            return False
    return True


EXERCISES = {
    "H.1": Exercise(
        test=is_batch_for,
        hint=(
            "solve 1000 n / (fixed + each n) = rate for n and round up; no n reaches 1000 / each "
            "sentences per second"
        ),
        wrong=(
            lambda rate, fixed, each: math.ceil(rate * (fixed + each) / 1000),
            lambda rate, fixed, each: (
                math.ceil(rate * fixed / (1000 - rate * each)) if rate * each != 1000 else None
            ),
            lambda rate, fixed, each: 30,
        ),
    ),
    "H.2": Exercise(
        test=are_latencies,
        hint=(
            "a batch begins when the last one is done, or at the next arrival if that is later; it "
            "has all requests that arrived until then, and a latency counts from the arrival"
        ),
        wrong=(
            [24.0],
            _one_at_a_time,
            _without_waiting,
            lambda arrivals, fixed, each: [fixed + each] * len(arrivals),
        ),
    ),
    "H.3": Exercise(
        test=is_newest,
        hint=(
            'compare as numbers, not as text ("10" is less than "9" as text); str.isdigit tells '
            "which names are numbers"
        ),
        wrong=(
            "10",
            max,
            lambda names: max((name for name in names if name.isdigit()), default=None),
        ),
    ),
    "H.4": Exercise(
        test=is_quantize,
        hint="the scale of a row is its largest absolute value / 127; round row / scale",
        wrong=(
            lambda matrix: (np.round(matrix * 127), np.ones(len(matrix)) / 127),
            lambda matrix: (
                np.round(matrix / np.abs(matrix).max() * 127),
                np.full(len(matrix), np.abs(matrix).max() / 127),
            ),
            lambda matrix: (np.trunc(quantize(matrix)[0] * 0.99), quantize(matrix)[1]),
        ),
    ),
}
