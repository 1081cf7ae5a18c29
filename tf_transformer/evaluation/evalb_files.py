"""The text that EVALB reads and writes: parameter files, files of trees, table and summary."""

import logging
from collections.abc import Sequence
from typing import Any

from tf_transformer.data.text_files import read_lines
from tf_transformer.data.trees import read_line
from tf_transformer.errors import UserError
from tf_transformer.evaluation.evalb import (
    COLLINS,
    ERROR,
    Parameters,
    Record,
    Summary,
    score_sentence,
    summarise,
)

logger = logging.getLogger(__name__)

NUMBERS = ("MAX_ERROR", "CUTOFF_LEN", "LABELED")
LABELS = ("DELETE_LABEL", "DELETE_LABEL_FOR_LENGTH", "QUOTE_LABEL")
PAIRS = ("EQ_LABEL", "EQ_WORD")
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
    labels are equal. DEBUG is ignored. Keywords that EVALB does not know are ignored with a
    warning, and so are lines that begin with a blank, which EVALB reads as an unknown keyword.

    Args:
      path: the file.
    Returns: `Parameters`.
    Raises: UserError, with the line number, for a keyword with too few or too many values, or an
      invalid number.
    """
    values_of: dict[str, list[Any]] = {keyword: [] for keyword in (*NUMBERS, *LABELS, *PAIRS)}
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith("#") or len(line.rstrip()) < 3:
            continue
        where = f"{path}:{number}"
        keyword, *values = line.split()
        if line[0].isspace() or keyword not in values_of:
            if keyword != "DEBUG":
                logger.warning("%s: unknown keyword %r is ignored", where, keyword)
            continue
        values_of[keyword].append(_parse(keyword, values, where))
    settings: dict[str, Any] = {
        keyword.lower(): tuple(values_of[keyword]) for keyword in (*LABELS, *PAIRS)
    }
    for keyword in NUMBERS:
        if values_of[keyword]:
            settings[keyword.lower()] = values_of[keyword][-1]  # the last line counts
    return Parameters(**settings)


def _parse(keyword: str, values: list[str], where: str) -> tuple[str, ...] | str | int:
    """The value of one line of a parameter file: a number, a pair of labels, or a label."""
    count = 2 if keyword in PAIRS else 1
    if len(values) != count:
        raise UserError(f"{where}: {keyword} has {len(values)} values: give {count}")
    if keyword in PAIRS:
        return tuple(values)
    if keyword in LABELS:
        return values[0]
    try:
        return int(values[0])
    except ValueError:
        raise UserError(f"{where}: {keyword} is {values[0]!r}: give a whole number") from None


def report(records: Sequence[Record], parameters: Parameters = COLLINS) -> str:
    """Formats the table of sentences and the summary as EVALB does.

    Args:
      records: a list of `Record`s, one for each sentence.
      parameters: the `Parameters` with which the records were computed.
    Returns: text of several lines.
    """
    whole, short = summarise(records, parameters)
    rows = [_row(number, record) for number, record in enumerate(records, start=1)]
    return "".join(
        [
            HEAD,
            *rows,
            f"{RULE}\n",
            _total(whole),
            "=== Summary ===\n",
            f"\n-- All --\n{_summary(whole)}",
            f"\n-- len<={parameters.cutoff_len} --\n{_summary(short)}",
        ]
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


def _summary(summary: Summary) -> str:
    counts = {
        "Number of sentence": summary.sentences,
        "Number of Error sentence": summary.errors,
        "Number of Skip  sentence": summary.skipped,
        "Number of Valid sentence": summary.valid,
    }
    scores = {
        "Bracketing Recall": summary.recall,
        "Bracketing Precision": summary.precision,
        "Bracketing FMeasure": summary.f_measure,
        "Complete match": summary.complete_match,
        "Average crossing": summary.average_crossing,
        "No crossing": summary.no_crossing,
        "2 or less crossing": summary.two_or_less_crossing,
        "Tagging accuracy": summary.tagging_accuracy,
    }
    lines = [f"{name:25} = {number:6d}\n" for name, number in counts.items()]
    lines += [f"{name:25} = {number:6.2f}\n" for name, number in scores.items()]
    return "".join(lines)


def evalb_files(gold_path: str, test_path: str, parameters: Parameters = COLLINS) -> str:
    """Scores a file of trees against another one, with one tree on each line, plain or `.gz`.

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
      for malformed text, with the line number; for more than `parameters.max_error` + 1 sentences
      in error, where EVALB stops.
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
    records = []
    errors = 0
    for number, (gold_line, test_line) in enumerate(zip(gold, test), start=1):
        gold_trees = read_line(gold_line, f"{gold_path}:{number}")
        test_trees = read_line(test_line, f"{test_path}:{number}")
        record = score_sentence(gold_trees, test_trees, parameters)
        records.append(record)
        if record.status == ERROR:
            errors += 1
            logger.warning("%d : %s", number, record.error)
        if errors > parameters.max_error + 1:
            raise UserError(
                f"{test_path}:{number}: the words of {errors} sentences so far differ from those "
                f"of {gold_path}: check that the lines correspond, or give a larger MAX_ERROR"
            )
    return report(records, parameters)
