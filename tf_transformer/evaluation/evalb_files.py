"""The text that EVALB reads and writes: parameter files, trees line by line, the table and the summary."""

import sys

from tf_transformer.data.corpus import read_lines
from tf_transformer.data.trees import read_line
from tf_transformer.errors import UserError
from tf_transformer.evaluation.evalb import COLLINS, ERROR, Parameters, score_sentence, summarise

NUMBERS = ("MAX_ERROR", "CUTOFF_LEN", "LABELED")
LABELS = ("DELETE_LABEL", "DELETE_LABEL_FOR_LENGTH", "QUOTE_LABEL")
PAIRS = ("EQ_LABEL", "EQ_WORD")
RULE = 76 * "="
HEAD = f"""\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
{RULE}
"""  # EVALB's own spelling, for the scripts that look for it


def _complain(line):
    print(line, file=sys.stderr)


def read_parameters(path, say=_complain):
    """Reads a parameter file, `.prm`: each line a keyword and its value, or a comment that begins with "#".

    As in EVALB, what a file does not say is not as in COLLINS.prm: no label is deleted, none equals another. DEBUG is passed over. So, and
    with a word to `say`, are keywords that EVALB does not know, and lines that begin with a blank, in which it sees such a keyword.

    Args:
      path: the file.
      say: a function that takes a line of text; by default it goes to standard error.
    Returns: `Parameters`.
    Raises: UserError, with the line number, for a keyword with too few or too many values, or a number that is none.
    """
    found = {keyword: [] for keyword in (*NUMBERS, *LABELS, *PAIRS)}
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith("#") or len(line.rstrip()) < 3:
            continue
        keyword, *values = line.split()
        if line[0].isspace() or keyword not in found:
            if keyword != "DEBUG":
                say(f"{path}:{number}: unknown keyword {keyword!r} is passed over")
            continue
        wanted = 2 if keyword in PAIRS else 1
        if len(values) != wanted:
            raise UserError(f"{path}:{number}: {keyword} has {len(values)} values: give {wanted}")
        try:
            found[keyword].append(
                int(values[0])
                if keyword in NUMBERS
                else tuple(values)
                if keyword in PAIRS
                else values[0]
            )
        except ValueError:
            raise UserError(
                f"{path}:{number}: {keyword} is {values[0]!r}: give a whole number"
            ) from None
    settings = {keyword.lower(): tuple(found[keyword]) for keyword in (*LABELS, *PAIRS)}
    settings |= {
        keyword.lower(): found[keyword][-1] for keyword in NUMBERS if found[keyword]
    }  # the last one counts
    return Parameters(**settings)


def report(records, parameters=COLLINS):
    """Lays out a table of sentences and a summary as EVALB does.

    Args:
      records: of the sentences, a list of `Record`.
      parameters: the `Parameters` by which they are scored.
    Returns: text of many lines.
    """
    whole, short = summarise(records, parameters)
    rows = [_row(number, record) for number, record in enumerate(records, start=1)]
    total = f"  {whole.words:5d} {whole.correct_tags:5d}   {whole.tagging_accuracy:6.2f}\n"
    if whole.gold_brackets and whole.test_brackets:
        brackets = f"{whole.matched:6d} {whole.gold_brackets:5d} {whole.test_brackets:5d}  {whole.crossing:5d}"
        total = f"{'':16}{whole.recall:6.2f} {whole.precision:6.2f} {brackets}{total}"
    summary = f"=== Summary ===\n\n-- All --\n{_summary(whole)}\n-- len<={parameters.cutoff_len} --\n{_summary(short)}"
    return f"{HEAD}{''.join(rows)}{RULE}\n{total}{summary}"


def _row(number, record):
    return (
        f"{number:4d}  {record.length:3d}    {record.status:d}  {record.recall:6.2f} {record.precision:6.2f}   {record.matched:3d}    "
        f"{record.gold_brackets:3d}  {record.test_brackets:3d}    {record.crossing:3d}   {record.words:4d}  {record.correct_tags:4d}   "
        f"{record.tagging_accuracy:6.2f}\n"
    )


def _summary(summary):
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
    return "".join(lines + [f"{name:25} = {number:6.2f}\n" for name, number in scores.items()])


def evalb_files(gold_path, test_path, parameters=COLLINS, say=_complain):
    """Scores a file of trees against another, each with a sentence's tree on each line, plain or `.gz`.

    An empty line of the test file, or a tree without a word, "(())", is a sentence without a parse, and skipped. As in EVALB and unlike in
    `read_trees`, an outer node without a label counts as a bracket, an empty node as none, and trees may stand side by side in a line.

    Args:
      gold_path: the file of the right trees.
      test_path: the file of the parser's trees, as many lines.
      parameters: `Parameters`.
      say: a function that takes a line of text; told of each sentence in error, as EVALB tells standard error.
    Returns: what EVALB prints, the table and the summary.
    Raises: UserError for files that cannot be read, are empty or not of the same number of lines; for malformed text (with the line
      number); for more sentences in error than EVALB would put up with, `parameters.max_error` + 1.
    """
    gold, test = (list(read_lines(path)) for path in (gold_path, test_path))
    if len(gold) != len(test):
        counts = f"{gold_path} has {len(gold):,} lines, but {test_path} has {len(test):,}"
        raise UserError(
            f"{counts}: give each sentence's tree on the same line of both, and an empty line where there is no parse"
        )
    if not gold:
        raise UserError(f"nothing to score: {gold_path} is empty")
    records, errors = [], 0
    for number, (gold_line, test_line) in enumerate(zip(gold, test), start=1):
        gold_trees, test_trees = (
            read_line(gold_line, f"{gold_path}:{number}"),
            read_line(test_line, f"{test_path}:{number}"),
        )
        records.append(score_sentence(gold_trees, test_trees, parameters))
        if records[-1].status == ERROR:
            errors += 1
            say(f"{number} : {records[-1].trouble}")
        if errors > parameters.max_error + 1:
            trouble = f"{errors} sentences by now whose words are not those of {gold_path}"
            raise UserError(
                f"{test_path}:{number}: {trouble}: see whether the lines belong together, or give a larger MAX_ERROR"
            )
    return report(records, parameters)
