"""Choosing among given translations of a source, by minimum Bayes risk or by further models.

**Minimum Bayes risk decoding** (Eikema and Aziz 2020) chooses the most representative one of N
candidates h_1, ..., h_N: the one whose mean utility, with each of the others as its reference, is
the highest:

    argmax_i  1 / (N - 1)  sum_{j != i} u(h_i, h_j).

With samples of the model as candidates, the mean estimates the expected utility under the model.
The utility u is sentence BLEU or chrF: see `evaluation.metrics.sentence_scorer`. A source costs
N (N - 1) sentence scores; equal candidates are scored once.

**Rescoring** sorts the translations of n-best lists by a weighted sum of features: their scores in
the list and the scores of further models. A line of a list, as `translate --n_best` writes it, is
LINE NUMBER<tab>SCORE<tab>TRANSLATION, then the columns of --print_length and --print_alignment.
"""

import collections
import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tf_transformer.data.text_files import read_lines
from tf_transformer.errors import UserError

TEXT_AND_COLUMNS = r"(.*?)((?:\t\d+\+?)?(?:\t(?:\d+-\d+(?: \d+-\d+)*)?)?)"
Utility = Callable[[str, str], float]  # of a translation and a reference, 0 to 100


def mean_utilities(candidates: Sequence[str], utility_of: Utility) -> list[tuple[str, float]]:
    """Ranks the candidates of a source by their mean utility.

    Args:
      candidates: N texts; a text that occurs several times has more weight as a reference.
    Returns: pairs (candidate, mean utility against the other N - 1), the highest first; each text
      once, in the order of the candidates where two are equal. The utility of a single candidate is
      that against itself.
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


class Hypothesis(NamedTuple):
    """A line of an n-best list."""

    line: int  # number of its source, from 1
    score: float
    text: str
    columns: str = ""  # of --print_length and --print_alignment, each after a tab

    def __str__(self) -> str:
        return f"{self.line}\t{self.score:.4f}\t{self.text}{self.columns}"


def read_n_best(path: str | None, sources: int) -> list[Hypothesis]:
    """Reads an n-best list.

    Args:
      path: as for `read_lines`.
      sources: number of sources.
    Raises: UserError for a line in another form, and for a source without a translation.
    """
    hypotheses, file = [], path or "standard input"
    for number, row in enumerate(read_lines(path), start=1):
        try:
            line, score, rest = row.split("\t", 2)
            text, columns = re.fullmatch(TEXT_AND_COLUMNS, rest).groups()  # type: ignore[union-attr]
            hypotheses.append(Hypothesis(int(line), float(score), text, columns))
        except ValueError:
            message = f"{file}:{number}: give LINE NUMBER<tab>SCORE<tab>TRANSLATION"
            raise UserError(message) from None
        if not 1 <= int(line) <= sources:
            raise UserError(f"{file}:{number}: a translation of line {line} of {sources} sources")
    if missing := set(range(1, sources + 1)) - {each.line for each in hypotheses}:
        raise UserError(
            f"{file} has no translation of line {min(missing)}: give the sources of the list"
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
