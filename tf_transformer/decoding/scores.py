"""Scores of hypotheses: the length penalty, and the score that stands for "impossible".

The functions take numbers, arrays and tensors; this module does not import TensorFlow.
"""

from typing import Any

NEGATIVE_INFINITY = -1e9  # the log-probability of what cannot be; finite, so that sums are not NaN


def is_possible(score: Any) -> Any:
    """Whether a log-probability or score belongs to a real hypothesis."""
    return score > NEGATIVE_INFINITY / 2


def length_penalty(length: Any, alpha: Any) -> Any:
    """lp(L) = ((5 + L) / 6)^alpha (Wu et al. 2016, Eq. 14); L counts the end token too."""
    return ((5.0 + length) / 6.0) ** alpha
