"""Files of EVALB: parameters and trees are read, and the output is identical to EVALB's."""

import gzip
import logging

import pytest

from tf_transformer.data.trees import read_line
from tf_transformer.errors import UserError
from tf_transformer.evaluation.evalb import COLLINS, Parameters, Record, score_sentence
from tf_transformer.evaluation.evalb_files import evalb_files, read_parameters, report

# The contents of COLLINS.prm.
COLLINS_FILE = """\
##------------------------------------------##
## Debug mode                               ##
DEBUG 0
MAX_ERROR 10

CUTOFF_LEN 40
LABELED 1                 \n\
DELETE_LABEL TOP
DELETE_LABEL -NONE-
DELETE_LABEL ,
DELETE_LABEL :
DELETE_LABEL ``
DELETE_LABEL ''
DELETE_LABEL .
DELETE_LABEL_FOR_LENGTH -NONE-
EQ_LABEL ADVP PRT

# EQ_WORD  Example example
"""
RAIN = "(S (NP (NN rain)) (VP (VBZ falls)))"
LONG = f"(S {'(X a) ' * 41})"
GOLD = [
    "( (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .)))",
    RAIN,
    RAIN,
    LONG,
    "(S (A (X a) (X b)) (B (X c) (X d)))",
]
TEST = [
    "( (S (NP (DT The) (NNP dog)) (VP (VP (VBZ barks))) (. .)))",
    "",
    "(S (NN rain) (VBZ fell))",
    LONG,
    "(S (X a) (A (X b) (X c)) (X d))",
]
# The output of EVALB for GOLD and TEST.
TEXT = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
============================================================================
   1    4    0  100.00  80.00     4      4    5      0      3     2    66.67
   2    2    2    0.00   0.00     0      0    0      0      0     0     0.00
   3    2    1    0.00   0.00     0      0    0      0      0     0     0.00
   4   41    0  100.00 100.00     1      1    1      0     41    41   100.00
   5    4    0   33.33  50.00     1      3    2      1      4     4   100.00
============================================================================
                 75.00  75.00      6     8     8      1     48    47    97.92
=== Summary ===

-- All --
Number of sentence        =      5
Number of Error sentence  =      1
Number of Skip  sentence  =      1
Number of Valid sentence  =      3
Bracketing Recall         =  75.00
Bracketing Precision      =  75.00
Bracketing FMeasure       =  75.00
Complete match            =  33.33
Average crossing          =   0.33
No crossing               =  66.67
2 or less crossing        = 100.00
Tagging accuracy          =  97.92

-- len<=40 --
Number of sentence        =      4
Number of Error sentence  =      1
Number of Skip  sentence  =      1
Number of Valid sentence  =      2
Bracketing Recall         =  71.43
Bracketing Precision      =  71.43
Bracketing FMeasure       =  71.43
Complete match            =   0.00
Average crossing          =   0.50
No crossing               =  50.00
2 or less crossing        = 100.00
Tagging accuracy          =  85.71
"""


def write(path, lines):
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_the_default_is_collins(tmp_path, caplog):
    path = write(tmp_path / "COLLINS.prm", COLLINS_FILE.splitlines())
    assert read_parameters(path) == COLLINS == Parameters()
    assert warnings(caplog) == []


def test_settings_that_are_missing_from_a_file(tmp_path, caplog):
    """Numbers have defaults. No label is deleted, and no labels are equal."""
    parameters = read_parameters(write(tmp_path / "a.prm", ["# nothing", "", "x"]))
    assert parameters == Parameters(delete_label=(), delete_label_for_length=(), eq_label=())
    assert warnings(caplog) == []


def test_every_keyword(tmp_path, caplog):
    lines = [
        "EQ_WORD  This\tthis ",
        "QUOTE_LABEL POS",
        "LABELED 0",
        "CUTOFF_LEN\t70",
        "MAX_ERROR 3",
        "MAX_ERROR 4",
        "DELETE_LABEL_FOR_LENGTH ,",
    ]
    assert read_parameters(write(tmp_path / "a.prm", lines)) == Parameters(
        max_error=4,
        cutoff_len=70,
        labeled=False,
        delete_label=(),
        delete_label_for_length=(",",),
        quote_label=("POS",),
        eq_label=(),
        eq_word=(("This", "this"),),
    )
    assert warnings(caplog) == []


def test_unknown_keywords_are_logged(tmp_path, caplog):
    lines = ["DELETE_LABELS TOP", "CUTOFF_LEN 3", " DELETE_LABEL TOP", "NEW"]
    path = write(tmp_path / "a.prm", lines)
    assert read_parameters(path) == Parameters(
        max_error=10,
        cutoff_len=3,
        labeled=True,
        delete_label=(),
        delete_label_for_length=(),
        quote_label=(),
        eq_label=(),
    )
    assert warnings(caplog) == [
        f"{path}:{number}: unknown keyword {keyword!r} is ignored"
        for number, keyword in ((1, "DELETE_LABELS"), (3, "DELETE_LABEL"), (4, "NEW"))
    ]
    assert {record.name for record in caplog.records} == {"tf_transformer.evaluation.evalb_files"}


@pytest.mark.parametrize(
    "line, message",
    [
        ("DELETE_LABEL", "DELETE_LABEL has 0 values: give 1"),
        ("DELETE_LABEL A B", "DELETE_LABEL has 2 values: give 1"),
        ("EQ_LABEL A", "EQ_LABEL has 1 values: give 2"),
        ("CUTOFF_LEN forty", "CUTOFF_LEN is 'forty': give a whole number"),
    ],
)
def test_invalid_parameters(tmp_path, line, message):
    path = write(tmp_path / "a.prm", ["# first", line])
    with pytest.raises(UserError, match=f"^{path}:2: {message}"):
        read_parameters(path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_text(tmp_path, suffix, caplog):
    gold = write(tmp_path / f"gold{suffix}", GOLD)
    test = write(tmp_path / f"test{suffix}", TEST)
    assert evalb_files(gold, test, COLLINS) == TEXT
    assert warnings(caplog) == ["3 : Words unmatch (falls|fell)"]


def test_the_report_of_records():
    """The parser is scored without files. A total lacks the brackets where one side has none."""
    records = [
        score_sentence(read_line(gold, "gold"), read_line(test, "test"))
        for gold, test in zip(GOLD[1:], TEST[1:])
    ]
    lines = report(records).splitlines()
    expected = TEXT.splitlines()[4:7]
    assert lines[3:6] == [f"{number:4d}{line[4:]}" for number, line in enumerate(expected, start=1)]
    record = Record(length=2, test_brackets=1, words=2, correct_tags=1)
    assert report([record]).splitlines()[5] == "      2     1    50.00"
    assert "-- len<=7 --" in report(records, Parameters(cutoff_len=7))


def test_the_f_measure_without_a_match_is_zero(tmp_path):
    gold = write(tmp_path / "gold", ["(A (X a))"])
    test = write(tmp_path / "test", ["(B (X a))"])
    assert evalb_files(gold, test).count("Bracketing FMeasure       =   0.00\n") == 2


def test_empty_nodes(tmp_path):
    """Trees and brackets without words are skipped; the expected numbers are EVALB's."""
    trees_without_words = ["(())", "()", "(TOP)", "(TOP ())"]
    trees_with_empty_nodes = [
        "(S (NP) (NP (NN rain)) (VP (VBZ falls)))",
        "(S (NP (NN rain)) (VP (VBZ falls) ()))",
    ]
    gold = write(tmp_path / "gold", [RAIN] * 6)
    test = write(tmp_path / "test", [*trees_without_words, *trees_with_empty_nodes])
    lines = evalb_files(gold, test, Parameters()).splitlines()
    rows = [line.split() for line in lines[3:9]]
    assert [row[2] for row in rows] == ["2"] * 4 + ["0"] * 2
    for row in rows[4:]:
        assert row[3:8] == ["100.00", "100.00", "3", "3", "3"]


def test_too_many_errors(tmp_path, caplog):
    """EVALB accepts one error more than MAX_ERROR."""
    gold = write(tmp_path / "gold", [RAIN] * 5)
    test = write(tmp_path / "test", [RAIN] * 2 + ["(X a)"] * 3)
    assert "Error sentence  =      3" in evalb_files(gold, test, Parameters(max_error=2))
    assert warnings(caplog) == [f"{number} : Length unmatch (2|1)" for number in (3, 4, 5)]
    with pytest.raises(UserError, match=r"test:5: the words of 3 sentences so far .*MAX_ERROR"):
        evalb_files(gold, test, Parameters(max_error=1))


def test_invalid_files(tmp_path):
    gold = write(tmp_path / "gold", [RAIN, RAIN])
    with pytest.raises(UserError, match="gold has 2 lines, but .*short has 1"):
        evalb_files(gold, write(tmp_path / "short", [RAIN]))
    with pytest.raises(UserError, match="broken:2: the tree .* lacks 1"):
        evalb_files(gold, write(tmp_path / "broken", [RAIN, RAIN[:-1]]))
    with pytest.raises(UserError, match="cannot read .*none"):
        evalb_files(gold, str(tmp_path / "none"))
    empty = write(tmp_path / "empty", [])
    with pytest.raises(UserError, match="nothing to score: .*empty"):
        evalb_files(empty, write(tmp_path / "empty2", []))
