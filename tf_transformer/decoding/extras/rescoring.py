"""Rescoring of n-best lists: a weighted sum of features chooses among given translations.

A line of a list is LINE NUMBER<tab>SCORE<tab>TRANSLATION, as `translate --n_best` writes it. The
features of a translation are its score in the list and the scores of further models. This module
does not import TensorFlow.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tf_transformer.data.text_files import read_lines
from tf_transformer.errors import UserError


class Hypothesis(NamedTuple):
    """A line of an n-best list."""

    line: int  # number of its source, from 1
    score: float
    text: str

    def __str__(self) -> str:
        return f"{self.line}\t{self.score:.4f}\t{self.text}"


def read_n_best(path: str | None, sources: int) -> list[Hypothesis]:
    """Reads an n-best list.

    Args:
      path: as for `read_lines`.
      sources: number of sources.
    Raises: UserError for a line in another form, and for a source without a translation.
    """
    hypotheses = []
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t", 2)
        where = f"{path or 'standard input'}:{number}"
        try:
            hypothesis = Hypothesis(int(columns[0]), float(columns[1]), columns[2])
        except (IndexError, ValueError):
            raise UserError(f"{where}: give LINE NUMBER<tab>SCORE<tab>TRANSLATION") from None
        if not 1 <= hypothesis.line <= sources:
            raise UserError(
                f"{where}: a translation of line {hypothesis.line} of {sources} sources"
            )
        hypotheses.append(hypothesis)
    missing = set(range(1, sources + 1)) - {hypothesis.line for hypothesis in hypotheses}
    if missing:
        raise UserError(
            f"{path or 'standard input'} has no translation of line {min(missing)}: give the "
            "sources of the list"
        )
    return hypotheses


def rescore(
    hypotheses: Sequence[Hypothesis], features: Sequence[Sequence[float]], weights: Sequence[float]
) -> list[list[Hypothesis]]:
    """Sorts the translations of each source by the weighted sum of their features.

    Args:
      hypotheses: N of an n-best list.
      features: for each of F features its N values; -inf for what a model cannot score.
      weights: F numbers. A feature of weight 0 has no effect, even where it is -inf.
    Returns: for each source, in the order of their numbers, its translations with the sums as
      scores, best first; the order of the list where sums are equal.
    """
    by_line: dict[int, list[Hypothesis]] = {}
    for hypothesis, *values in zip(hypotheses, *features):
        terms = [weight * value for weight, value in zip(weights, values) if weight]
        total = sum(terms) if all(map(math.isfinite, terms)) else -math.inf
        by_line.setdefault(hypothesis.line, []).append(hypothesis._replace(score=total))
    return [sorted(by_line[line], key=lambda each: -each.score) for line in sorted(by_line)]
