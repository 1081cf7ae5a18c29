"""Bracket scores of parses, as computed by EVALB (Sekine & Collins 1997): the F1 of Table 4.

`score_sentence` and `summarise` compute them, and `evalb_files` reads and writes EVALB's files.

The rules are those of EVALB's README. Where the README gives no rule, they are those of the
program's code (versions that print an F-measure, 2006 and later):

- A pre-terminal is not a bracket. A pre-terminal with a deleted tag is removed with its word; a
  phrase with a deleted label loses its bracket only. A bracket over no remaining words does not
  count. Suffixes such as "-SBJ" and "=2" are removed from labels of phrases, not from tags.
- Equal brackets match one to one: for n in the gold tree and m in the test tree, min(n, m).
- A test bracket that crosses several gold brackets counts as one crossing bracket.
- Tagging accuracy counts the words that are not deleted. The length of a sentence is that of the
  gold tree in words, punctuation included.
- Status 1, error: the remaining words of the two trees differ in number or in form. Status 2,
  skipped: no words of the test tree remain. The scores exclude both.

Differences from EVALB: the F-measure is 0 where no bracket matches (EVALB prints "nan"); EVALB's
limits (200 words, 200 brackets, 5,000 characters a line) do not apply; text that EVALB cannot read
raises a `UserError`; all sentences are read, whatever MAX_ERROR is; and QUOTE_LABEL, which
COLLINS.prm does not have, is not known.
"""

import dataclasses
import itertools
import logging
import re
from collections.abc import Sequence
from typing import Any

from tf_transformer.data.text_files import read_lines
from tf_transformer.data.trees import Tree, read_line
from tf_transformer.errors import UserError

logger = logging.getLogger(__name__)

OK = 0  # status of a sentence
ERROR = 1
SKIP = 2


@dataclasses.dataclass(frozen=True)
class Parameters:
    """The settings of a parameter file. The defaults are those of COLLINS.prm, the standard."""

    # The longest sentence, in words, of the second summary.
    cutoff_len: int = 40
    # False: brackets match by start and end, whatever their labels.
    labeled: bool = True
    delete_label: tuple[str, ...] = ("TOP", "-NONE-", ",", ":", "``", "''", ".")
    delete_label_for_length: tuple[str, ...] = ("-NONE-",)
    # Pairs of labels that count as equal, of phrases and of tags.
    eq_label: tuple[tuple[str, str], ...] = (("ADVP", "PRT"),)
    eq_word: tuple[tuple[str, str], ...] = ()


COLLINS = Parameters()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts of one or several sentences, and the scores computed from them, 0 to 100."""

    matched: int = 0  # brackets that are in both trees
    gold_brackets: int = 0
    test_brackets: int = 0
    crossing: int = 0  # test brackets that cross a gold bracket
    words: int = 0  # without deleted words
    correct_tags: int = 0

    @property
    def recall(self) -> float:
        """Matched brackets as a percentage of the gold brackets."""
        return _percent(self.matched, self.gold_brackets)

    @property
    def precision(self) -> float:
        """Matched brackets as a percentage of the test brackets."""
        return _percent(self.matched, self.test_brackets)

    @property
    def f_measure(self) -> float:
        """The harmonic mean of precision and recall, F1."""
        if not self.matched:
            return 0.0
        return 2 * self.precision * self.recall / (self.precision + self.recall)

    @property
    def tagging_accuracy(self) -> float:
        """The percentage of words with the right part-of-speech tag."""
        return _percent(self.correct_tags, self.words)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record(Counts):
    """The result of one sentence. Its counts are 0 unless the status is OK."""

    length: int  # words of the gold tree, without those of `delete_label_for_length`
    status: int = OK
    error: str = ""  # the reason for status ERROR, in EVALB's words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary(Counts):
    """The result of several sentences: sums of counts, and percentages of the valid sentences."""

    sentences: int
    errors: int
    skipped: int
    complete_match: float  # % of sentences without a wrong or missing bracket
    average_crossing: float  # crossing brackets per sentence, not a percentage
    no_crossing: float  # % of sentences without crossing brackets
    two_or_less_crossing: float  # % of sentences with at most two crossing brackets


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


# A line of a file: a tree, adjacent trees, or None for no tree.
Trees = Tree | tuple[Tree, ...] | None
Bracket = tuple[int, int, str]  # start and end, in leaves, and label


def score_sentence(gold: Trees, test: Trees, parameters: Parameters = COLLINS) -> Record:
    """Compares two trees of a sentence.

    Args:
      gold: the gold tree.
      test: the tree of the parser; None, for no parse, is skipped.
      parameters: `Parameters`.
    Returns: a `Record`.
    """
    gold_leaves, gold_brackets = _leaves_and_brackets(gold, parameters)
    test_leaves, test_brackets = _leaves_and_brackets(test, parameters)
    length = sum(leaf.label not in parameters.delete_label_for_length for leaf in gold_leaves)
    gold_words, test_words = (
        [leaf for leaf in leaves if leaf.label not in parameters.delete_label]
        for leaves in (gold_leaves, test_leaves)
    )
    if not test_words:
        return Record(length=length, status=SKIP)
    if len(gold_words) != len(test_words):
        error = f"Length unmatch ({len(gold_words)}|{len(test_words)})"
        return Record(length=length, status=ERROR, error=error)
    correct_tags = 0
    for (tag, word), (test_tag, test_word) in zip(gold_words, test_words):
        if not _equal(str(word), str(test_word), parameters.eq_word):
            error = f"Words unmatch ({word}|{test_word})"
            return Record(length=length, status=ERROR, error=error)
        correct_tags += _equal(tag, test_tag, parameters.eq_label)
    return Record(
        length=length,
        matched=_count_matches(gold_brackets, test_brackets, parameters),
        gold_brackets=len(gold_brackets),
        test_brackets=len(test_brackets),
        crossing=_count_crossing(gold_brackets, test_brackets),
        words=len(gold_words),
        correct_tags=correct_tags,
    )


def _leaves_and_brackets(trees: Trees, parameters: Parameters) -> tuple[list[Tree], list[Bracket]]:
    """The pre-terminals of a sentence, and the brackets that count, in the order of opening."""
    leaves: list[Tree] = []
    phrases: list[list[Any]] = []  # first leaf, leaf after the last, label

    def add(node: Tree) -> None:
        if isinstance(node.children, str):
            leaves.append(node)
            return
        phrase = [len(leaves), 0, re.split("[-=]", node.label, maxsplit=1)[0]]
        phrases.append(phrase)
        for child in node.children:
            add(child)
        phrase[1] = len(leaves)

    for tree in (trees,) if isinstance(trees, Tree) else trees or ():
        add(tree)
    counts = (leaf.label not in parameters.delete_label for leaf in leaves)
    before = [0, *itertools.accumulate(counts)]  # leaves that count before a leaf
    brackets = [
        (before[first], before[last], label)
        for first, last, label in phrases
        if before[first] != before[last]
        and not any(_equal(label, each, parameters.eq_label) for each in parameters.delete_label)
    ]
    return leaves, brackets


def _equal(a: str, b: str, equal_pairs: tuple[tuple[str, str], ...]) -> bool:
    return a == b or (a, b) in equal_pairs or (b, a) in equal_pairs


def _count_matches(gold: list[Bracket], test: list[Bracket], parameters: Parameters) -> int:
    """Matches each gold bracket with the first equal test bracket that is not matched yet."""
    unmatched = list(test)
    for start, end, label in gold:
        for i, (test_start, test_end, test_label) in enumerate(unmatched):
            if (start, end) == (test_start, test_end) and (
                not parameters.labeled or _equal(label, test_label, parameters.eq_label)
            ):
                del unmatched[i]
                break
    return len(test) - len(unmatched)


def _count_crossing(gold: list[Bracket], test: list[Bracket]) -> int:
    """Counts the test brackets that overlap a gold bracket where neither contains the other."""
    return sum(
        any(a < start < b < end or start < a < end < b for a, b, _ in gold)
        for start, end, _ in test
    )


def summarise(
    records: Sequence[Record], parameters: Parameters = COLLINS
) -> tuple[Summary, Summary]:
    """Returns the `Summary` of all sentences, and that of those up to the cutoff length."""
    short = [record for record in records if record.length <= parameters.cutoff_len]
    return _summary(records), _summary(short)


def _summary(records: Sequence[Record]) -> Summary:
    valid = [record for record in records if record.status == OK]
    crossing = [record.crossing for record in valid]
    complete = [r for r in valid if r.matched == r.gold_brackets == r.test_brackets]
    sums = {
        field.name: sum(getattr(record, field.name) for record in valid)
        for field in dataclasses.fields(Counts)
    }
    return Summary(
        **sums,
        sentences=len(records),
        errors=sum(record.status == ERROR for record in records),
        skipped=sum(record.status == SKIP for record in records),
        complete_match=_percent(len(complete), len(valid)),
        average_crossing=sum(crossing) / len(valid) if valid else 0.0,
        no_crossing=_percent(sum(number == 0 for number in crossing), len(valid)),
        two_or_less_crossing=_percent(sum(number <= 2 for number in crossing), len(valid)),
    )


NUMBER, LABEL, PAIR = "a whole number", "one label", "two labels"
KEYWORDS = {  # of a parameter file, with their values
    "CUTOFF_LEN": NUMBER, "LABELED": NUMBER,
    "DELETE_LABEL": LABEL, "DELETE_LABEL_FOR_LENGTH": LABEL, "EQ_LABEL": PAIR, "EQ_WORD": PAIR,
}  # fmt: skip
RULE = 76 * "="
# The spelling is EVALB's, for scripts that search for it.
HEAD = f"""\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
{RULE}
"""


def read_parameters(path: str) -> Parameters:
    """Reads a parameter file, `.prm`.

    Each line holds a keyword and its value, or is a comment that begins with "#". As in EVALB,
    missing settings do not default to COLLINS.prm: without lines for it, no label is deleted and no
    labels are equal. DEBUG and MAX_ERROR are ignored. Unknown keywords are ignored with a warning,
    and so are lines that begin with a blank, which EVALB reads as an unknown keyword.

    Raises: UserError, with the line number, for a keyword with wrong values.
    """
    settings: dict[str, Any] = {
        name.lower(): () for name, value in KEYWORDS.items() if value != NUMBER
    }
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith("#") or len(line.rstrip()) < 3:
            continue
        keyword, *values = line.split()
        name, kind = keyword.lower(), KEYWORDS.get(keyword)
        if line[0].isspace() or kind is None:
            if keyword not in ("DEBUG", "MAX_ERROR"):
                logger.warning("%s:%d: unknown keyword %r is ignored", path, number, keyword)
            continue
        try:
            if len(values) != (2 if kind == PAIR else 1):
                raise ValueError
            if kind == NUMBER:
                settings[name] = int(values[0])  # the last line counts
            else:
                settings[name] += (tuple(values) if kind == PAIR else values[0],)
        except ValueError:
            raise UserError(f"{path}:{number}: {line.strip()!r}: give {kind}") from None
    return Parameters(**settings)


def report(records: Sequence[Record], parameters: Parameters = COLLINS) -> str:
    """Formats the table of sentences and the summary as EVALB does."""
    whole, short = summarise(records, parameters)
    rows = "".join(_row(number, record) for number, record in enumerate(records, start=1))
    return (
        f"{HEAD}{rows}{RULE}\n{_total(whole)}=== Summary ===\n"
        f"\n-- All --\n{_summary_text(whole)}"
        f"\n-- len<={parameters.cutoff_len} --\n{_summary_text(short)}"
    )


def _row(number: int, record: Record) -> str:
    return (
        f"{number:4d}  {record.length:3d}    {record.status:d}  "
        f"{record.recall:6.2f} {record.precision:6.2f}   {record.matched:3d}    "
        f"{record.gold_brackets:3d}  {record.test_brackets:3d}    {record.crossing:3d}   "
        f"{record.words:4d}  {record.correct_tags:4d}   {record.tagging_accuracy:6.2f}\n"
    )


def _total(summary: Summary) -> str:
    """The last row of the table; EVALB leaves out the brackets where one side has none."""
    tags = f"{summary.words:5d} {summary.correct_tags:5d}   {summary.tagging_accuracy:6.2f}"
    if not (summary.gold_brackets and summary.test_brackets):
        return f"  {tags}\n"
    return (
        f"{'':16}{summary.recall:6.2f} {summary.precision:6.2f} "
        f"{summary.matched:6d} {summary.gold_brackets:5d} {summary.test_brackets:5d}  "
        f"{summary.crossing:5d}  {tags}\n"
    )


def _summary_text(summary: Summary) -> str:
    return f"""\
Number of sentence        = {summary.sentences:6d}
Number of Error sentence  = {summary.errors:6d}
Number of Skip  sentence  = {summary.skipped:6d}
Number of Valid sentence  = {summary.sentences - summary.errors - summary.skipped:6d}
Bracketing Recall         = {summary.recall:6.2f}
Bracketing Precision      = {summary.precision:6.2f}
Bracketing FMeasure       = {summary.f_measure:6.2f}
Complete match            = {summary.complete_match:6.2f}
Average crossing          = {summary.average_crossing:6.2f}
No crossing               = {summary.no_crossing:6.2f}
2 or less crossing        = {summary.two_or_less_crossing:6.2f}
Tagging accuracy          = {summary.tagging_accuracy:6.2f}
"""


def evalb_files(gold_path: str, test_path: str, parameters: Parameters = COLLINS) -> str:
    """Scores a file of trees against another one, with one tree on each line, plain or compressed.

    An empty line of the test file, or a tree without words such as "(())", means that there is no
    parse; the sentence is skipped. As in EVALB, and unlike `read_trees`, an outer node without a
    label counts as a bracket, an empty node does not, and a line may hold adjacent trees. A
    sentence in error is logged as a warning, in the words that EVALB writes to standard error.

    Args:
      gold_path: the file of gold trees.
      test_path: the file of the parser's trees, with the same number of lines.
      parameters: `Parameters`.
    Returns: the output of EVALB: table and summary.
    Raises: UserError for files that cannot be read, are empty, or differ in their number of lines;
      for malformed text, with the line number.
    """
    gold = list(read_lines(gold_path))
    test = list(read_lines(test_path))
    if len(gold) != len(test):
        raise UserError(
            f"{gold_path} has {len(gold):,} lines, but {test_path} has {len(test):,}: give the "
            "trees of a sentence on the same line of both files, and an empty line for no parse"
        )
    if not gold:
        raise UserError(f"nothing to score: {gold_path} is empty")
    records: list[Record] = []
    for number, (gold_line, test_line) in enumerate(zip(gold, test), start=1):
        gold_trees = read_line(gold_line, f"{gold_path}:{number}")
        test_trees = read_line(test_line, f"{test_path}:{number}")
        records.append(score_sentence(gold_trees, test_trees, parameters))
        if records[-1].status == ERROR:
            logger.warning("%d : %s", number, records[-1].error)
    return report(records, parameters)
