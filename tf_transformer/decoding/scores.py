"""The score that stands for "impossible"."""

from typing import Any

NEGATIVE_INFINITY = -1e9  # the log-probability of what cannot be; finite, so that sums are not NaN


def is_possible(score: Any) -> Any:
    """Whether a log-probability or score is that of a real hypothesis; number, array or tensor."""
    return score > NEGATIVE_INFINITY / 2
