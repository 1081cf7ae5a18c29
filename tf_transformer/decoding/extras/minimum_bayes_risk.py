"""Minimum Bayes risk decoding (Eikema and Aziz 2020): the most representative candidate.

Of N candidate translations h_1, ..., h_N of a source, the one is chosen whose mean utility, with
each of the others as its reference, is the highest:

    argmax_i  1 / (N - 1)  sum_{j != i} u(h_i, h_j).

With samples of the model as candidates, the mean estimates the expected utility under the model.
The utility u is sentence BLEU or chrF: see `evaluation.metrics.sentence_scorer`. The cost is
O(N^2): N (N - 1) sentence scores of a source; equal candidates are scored once.

This module does not import TensorFlow.
"""

import collections
from collections.abc import Callable, Sequence

Utility = Callable[[str, str], float]  # of a translation and a reference, 0 to 100


def mean_utilities(candidates: Sequence[str], utility_of: Utility) -> list[tuple[str, float]]:
    """Ranks the candidates of a source by their mean utility.

    Args:
      candidates: N texts; a text that occurs several times has more weight as a reference.
      utility_of: a function of a translation and a reference, such as one of `sentence_scorer`.
    Returns: pairs (candidate, mean utility against the other N - 1), the highest first; each text
      once. Where two are equal, the first candidate comes first. The utility of a single candidate
      is that against itself.
    """
    counts = collections.Counter(candidates)  # in the order of the candidates
    results = []
    for text in counts:
        others = counts.copy()
        if len(candidates) > 1:
            others[text] -= 1
        total = sum(number * utility_of(text, other) for other, number in others.items() if number)
        results.append((text, total / others.total()))
    return sorted(results, key=lambda pair: -pair[1])
