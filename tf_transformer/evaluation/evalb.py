"""Bracket scores of parses by the rules of EVALB (Sekine & Collins 1997): the F1 of Table 4.

The rules stand in EVALB's README, and the standard parameters in COLLINS.prm:

- A pre-terminal is not a bracket. The words with the tags of punctuation and traces do not count,
  nor do brackets over no remaining words, nor TOP. Suffixes such as "-SBJ" and "=2" are
  removed from labels of phrases, not from tags. ADVP and PRT are equal, as labels and as tags.
- Equal brackets match one to one: for n in the gold tree and m in the test tree, min(n, m).
- A sentence without remaining words is excluded from the scores.

Other than in EVALB, the tags of the gold tree say which words count (EVALB excludes a sentence in
which the trees differ in that), and F1 is 0 where no bracket matches. Lengths have no limits.
"""

import collections
import dataclasses
import itertools
import operator
import re
from collections.abc import Iterable, Iterator, Sequence

from tf_transformer.data.trees import TOP, TRACE, Tree
from tf_transformer.errors import UserError

DELETED = (TOP, TRACE, ",", ":", "``", "''", ".")  # labels and tags
EQUAL = {"PRT": "ADVP"}

Bracket = tuple[int, int, str]  # start and end, in words that count, and label


@dataclasses.dataclass(frozen=True)
class Counts:
    """The counts of one or several sentences, and the scores computed from them, 0 to 100."""

    matched: int = 0  # brackets that are in both trees
    gold_brackets: int = 0
    test_brackets: int = 0
    words: int = 0  # without deleted words
    correct_tags: int = 0

    @property
    def recall(self) -> float:
        """The percentage of the gold brackets that match."""
        return _percent(self.matched, self.gold_brackets)

    @property
    def precision(self) -> float:
        """Matched brackets as a percentage of the test brackets."""
        return _percent(self.matched, self.test_brackets)

    @property
    def f_measure(self) -> float:
        """The harmonic mean of precision and recall, F1."""
        return _percent(2 * self.matched, self.gold_brackets + self.test_brackets)

    @property
    def tagging_accuracy(self) -> float:
        """The percentage of words with the right part-of-speech tag."""
        return _percent(self.correct_tags, self.words)


def _percent(part: int, whole: int) -> float:
    """A part as a percentage; 0 of nothing."""
    return 100.0 * part / whole if whole else 0.0


def score_sentence(gold: Tree, test: Tree) -> Counts:
    """Compares a parse with the gold tree. Raises: UserError for other words."""
    if gold.words() != test.words():
        raise UserError(f"the trees have different words: {gold} and {test}")
    counts = [tag not in DELETED for _, tag in gold.tags()]
    tags, test_tags = (
        [EQUAL.get(tag, tag) for _, tag in itertools.compress(tree.tags(), counts)]
        for tree in (gold, test)
    )
    brackets, test_brackets = (
        collections.Counter(_brackets(tree, 0, iter(counts))[0]) for tree in (gold, test)
    )
    return Counts(
        matched=(brackets & test_brackets).total(),
        gold_brackets=brackets.total(),
        test_brackets=test_brackets.total(),
        words=len(tags),
        correct_tags=sum(map(operator.eq, tags, test_tags)),
    )


def _brackets(tree: Tree, start: int, counts: Iterator[bool]) -> tuple[list[Bracket], int]:
    """The brackets of a tree, and where it ends.

    Args:
      start: where it begins.
      counts: whether its words count, and those after them.
    """
    if isinstance(tree.children, str):
        return [], start + next(counts)
    found, end = [], start
    for child in tree.children:
        inner, end = _brackets(child, end, counts)
        found += inner
    label = re.split("[-=]", tree.label, maxsplit=1)[0]
    if start < end and label not in DELETED:
        found.append((start, end, EQUAL.get(label, label)))
    return found, end


def summarise(sentences: Iterable[Counts]) -> Counts:
    """The sums of the counts of sentences, for the scores of a corpus."""
    return Counts(*map(sum, zip(*map(dataclasses.astuple, sentences))))


def complete_match(sentences: Sequence[Counts]) -> float:
    """The percentage of the sentences without a wrong or missing bracket."""
    scored = [each for each in sentences if each.words]
    complete = [each for each in scored if each.matched == each.gold_brackets == each.test_brackets]
    return _percent(len(complete), len(scored))
