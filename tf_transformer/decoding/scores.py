"""Scores of hypotheses: the length penalty, and the score that stands for "impossible".

The searches compute with these, and so do those who read their results. This module does not
import TensorFlow: its functions take numbers, arrays and tensors.
"""

from typing import Any

NEGATIVE_INFINITY = -1e9  # the log-probability of what cannot be; finite, so that sums are not NaN


def is_possible(score: Any) -> Any:
    """Whether a log-probability or score belongs to a real hypothesis."""
    return score > NEGATIVE_INFINITY / 2


def length_penalty(length: Any, alpha: Any) -> Any:
    """lp(L) = ((5 + L) / 6)^alpha (Wu et al. 2016, Eq. 14).

    Args:
      length: L, tokens with the end token; a tensor is float32.
      alpha: 0 for no penalty.
    """
    return ((5.0 + length) / 6.0) ** alpha
