"""Bracket scores: invariants, sentences with hand-computed counts, and the files of EVALB."""

import dataclasses
import gzip
import logging
import random
import re

import pytest

from tf_transformer.data.trees import MAX_DEPTH, Tree, read_line
from tf_transformer.errors import UserError
from tf_transformer.evaluation.evalb import (
    COLLINS,
    ERROR,
    OK,
    SKIP,
    Parameters,
    Record,
    evalb_files,
    read_parameters,
    report,
    score_sentence,
    summarise,
)

PHRASES = ["S", "NP-SBJ", "NP", "VP", "PP=2", "SBAR"]
TAGS = ["DT", "NN", "VBZ", "IN"]
RAIN = "(S (NP (NN rain)) (VP (VBZ falls)))"


def score(gold, test, parameters=COLLINS):
    return score_sentence(read_line(gold, "gold"), read_line(test, "test"), parameters)


def random_tree(draw, leaves):
    """A tree over leaves, with unary chains."""
    nodes = list(leaves)
    for _ in range(2 * len(leaves)):
        first = draw.randrange(len(nodes))
        part = slice(first, first + draw.choice([1, 2, 3]))
        nodes[part] = [Tree(draw.choice(PHRASES), tuple(nodes[part]))]
    return Tree("TOP", (Tree("S", tuple(nodes)),))


def random_pairs(number, tags=TAGS):
    """Yields pairs of trees over the same words."""
    draw = random.Random(1)
    for _ in range(number):
        words = [f"word{i}" for i in range(draw.randint(1, 15))]
        yield tuple(
            random_tree(draw, [Tree(draw.choice(tags), word) for word in words]) for _ in range(2)
        )


def phrases(tree):
    """The phrases below TOP, as matches in its text."""
    return list(re.finditer(r"\((\S+) (?=\()", str(tree)))[1:]


def bracket_counts(record):
    return record.matched, record.gold_brackets, record.test_brackets


def all_counts(record):
    return (*bracket_counts(record), record.crossing, record.words, record.correct_tags)


def test_a_tree_against_itself():
    for tree, _ in random_pairs(100):
        record = score_sentence(tree, tree)
        assert (record.recall, record.precision) == (100, 100)
        assert (record.f_measure, record.tagging_accuracy) == (100, 100)
        assert record.matched == len(phrases(tree))
        assert record.crossing == 0
        assert record.length == record.words == len(tree.words())


def test_a_wrong_label_costs_one_bracket():
    draw = random.Random(1)
    for gold, _ in random_pairs(100):
        text = str(gold)
        label = draw.choice(phrases(gold))
        wrong = f"{text[: label.start(1)]}WRONG{text[label.end(1) :]}"
        record = score_sentence(gold, read_line(wrong, "test"))
        number = len(phrases(gold))
        assert bracket_counts(record) == (number - 1, number, number)
        assert record.crossing == 0


def test_exchanging_gold_and_test_exchanges_recall_and_precision():
    """The other scores do not change, except for the number of crossing brackets."""
    for gold, test in random_pairs(100):
        record = score_sentence(gold, test)
        exchanged = score_sentence(test, gold)
        assert record.recall == exchanged.precision
        assert record.precision == exchanged.recall
        assert record.matched == exchanged.matched
        assert record.f_measure == exchanged.f_measure
        assert record.correct_tags == exchanged.correct_tags
        assert bool(record.crossing) == bool(exchanged.crossing)


def test_deleted_words_change_the_length_only():
    """Wherever punctuation and traces are attached."""

    def without_deleted(tree):
        if isinstance(tree.children, str):
            return None if tree.label in COLLINS.delete_label else tree
        children = tuple(filter(None, map(without_deleted, tree.children)))
        return Tree(tree.label, children) if children else None

    with_crossing = 0
    draw = random.Random(1)
    for _ in range(100):
        leaves = [Tree(draw.choice([*TAGS, ",", ".", "-NONE-"]), f"word{i}") for i in range(8)]
        gold = random_tree(draw, leaves)
        test = random_tree(draw, leaves)
        if not without_deleted(gold):
            continue
        record = score_sentence(gold, test)
        assert record.length == sum(leaf.label != "-NONE-" for leaf in leaves)
        expected = score_sentence(without_deleted(gold), without_deleted(test))
        assert dataclasses.replace(record, length=record.words) == expected
        with_crossing += record.crossing > 0
    assert with_crossing > 10


# gold, test, and EVALB's counts: matched, gold and test brackets, crossing, words, correct tags
EXAMPLES = {
    "TOP and punctuation": (
        "(TOP (S (NP (DT The) (NN dog)) (. .)))",
        "(S (NP (DT The) (NN dog)) (. .))",
        (2, 2, 2, 0, 2, 2),
    ),
    "attachment": (
        "(S (NP-SBJ (PRP I)) (VP (VBD saw) (NP (NP (DT a) (NN man)) "
        "(PP (IN with) (NP (NNS glasses))))) (. .))",
        "(S (NP (PRP I)) (VP (VBD saw) (NP (DT a) (NN man)) "
        "(PP (IN with) (NP (NN glasses))) (. .)))",
        (6, 7, 6, 0, 6, 5),
    ),
    "unary chains": (
        "(S (NP (NP (NP (NN rain)))) (VP (VBZ falls)))",
        "(S (NP (NP (NN rain))) (VP (VP (VBZ falls))))",
        (4, 5, 5, 0, 2, 2),
    ),
    # A phrase over a trace only is not a bracket. ADVP and PRT are equal, in both directions.
    "trace, and equal labels": (
        "(S (NP=2 (PRP We)) (VP (VBD went) (PRT (RP out)) (NP (-NONE- *T*-1)) "
        "(, ,) (ADVP (RB then))))",
        "(S (NP (PRP We)) (VP (VBD went) (ADVP (RP out))) (, ,) (PRT (RB then)))",
        (4, 5, 5, 0, 4, 4),
    ),
    "crosses two brackets, counts once": (
        "(S (A (X a) (X b)) (B (X c) (X d)))",
        "(S (X a) (A (X b) (X c)) (X d))",
        (1, 3, 2, 1, 4, 4),
    ),
    "two brackets cross": (
        "(S (A (X a) (X b)) (B (X c) (X d)) (C (X e) (X f)))",
        "(S (X a) (A (X b) (C (X c) (X d) (X e))) (X f))",
        (1, 4, 3, 2, 6, 6),
    ),
    "adjacent trees on a line": ("(X a) (Y b)", "(S (X a) (Z b))", (0, 0, 1, 0, 2, 1)),
    "an outer node without label is not TOP": (
        "( (S (X a)))",
        "(TOP (S (X a)))",
        (1, 2, 1, 0, 1, 1),
    ),
    'the label "-NONE-" of a phrase becomes ""': (
        "(S (NP-X (NN-Y a)) (-NONE- (X b)))",
        "(S (NP (NN a)) (NP (X b)))",
        (2, 3, 3, 0, 2, 1),
    ),
    "equal labels are equal tags": (
        "(S (PRT a) (NP b))",
        "(S (ADVP a) (NP b))",
        (1, 1, 1, 0, 2, 2),
    ),
}


@pytest.mark.parametrize("gold, test, counts", EXAMPLES.values(), ids=EXAMPLES)
def test_counts(gold, test, counts):
    record = score(gold, test)
    assert record.status == OK
    assert all_counts(record) == counts


@pytest.mark.parametrize(
    "gold, test, status, error",
    [
        (RAIN, "", SKIP, ""),
        (RAIN, "(S (, rain) (. falls))", SKIP, ""),  # no words remain
        ("", "", SKIP, ""),
        ("", RAIN, ERROR, "Length unmatch (0|2)"),
        (RAIN, "(S (NN rain) (VBZ falls) (RB down))", ERROR, "Length unmatch (2|3)"),
        (RAIN, "(S (NN rain) (, falls))", ERROR, "Length unmatch (2|1)"),  # a word is deleted
        (RAIN, "(S (NN Rain) (VBZ fell))", ERROR, "Words unmatch (rain|Rain)"),
    ],
)
def test_sentences_without_scores(gold, test, status, error):
    length = 2 if gold else 0
    assert score(gold, test) == Record(length=length, status=status, error=error)


def test_a_single_tree_and_no_parse():
    (gold,) = read_line(RAIN, "gold")
    assert score_sentence(gold, gold) == score(RAIN, RAIN)
    assert score_sentence(gold, None).status == SKIP


def test_parameters():
    gold = "(S (NP (NN This)) (VP (VBZ (X is))))"
    test = "(S (VP (NN this)) (S1 (VP (VBZ (X is)))))"
    assert score(gold, test).error == "Words unmatch (This|this)"

    equal_words = Parameters(eq_word=(("this", "This"),))
    record = score(gold, test, equal_words)
    assert (record.matched, record.test_brackets) == (3, 5)

    unlabelled = dataclasses.replace(equal_words, labeled=False, delete_label=("S1",))
    record = score(gold, test, unlabelled)
    assert (record.matched, record.test_brackets) == (4, 4)

    # A label that equals a deleted label is deleted too.
    equal_labels = dataclasses.replace(equal_words, eq_label=(("VP", "NP"),), delete_label=("NP",))
    record = score(gold, test, equal_labels)
    assert (record.gold_brackets, record.test_brackets) == (2, 3)

    lengths = Parameters(delete_label_for_length=("NN", "X"))
    assert score(gold, test, lengths).length == 0


QUOTES = Parameters(quote_label=("``", "''", "POS", "NN"))


@pytest.mark.parametrize(
    "gold, test, counts",
    [  # matched, gold and test brackets, words, correct tags
        (
            "(S (NP (NNS dogs) (POS ')) (VP (VBP bark)))",
            "(S (NP (NNS dogs)) ('' ') (VP (VBP bark)))",
            (2, 3, 3, 3, 2),
        ),
        (
            "(S (NP (NNS dogs)) ('' ') (VP (VBP bark)))",
            "(S (NP (NNS dogs) (POS ')) (VP (VBP bark)))",
            (2, 3, 3, 3, 2),
        ),
        (
            "(S (`` ') ('' ') (X a))",
            "(S (POS ') (NN ') (X a))",
            (1, 1, 1, 3, 1),
        ),
        (
            "(S (X (`` \") (NP (NN a))) ('' \"))",
            "(S (X (NN \") (NP (NN a))) ('' \"))",
            (3, 3, 3, 2, 1),
        ),
    ],
)
def test_a_quotation_mark_that_one_tree_deletes_is_restored(gold, test, counts):
    assert score(gold, test).status == ERROR
    record = score(gold, test, QUOTES)
    assert (*bracket_counts(record), record.words, record.correct_tags) == counts


def test_the_first_of_two_quotation_marks_is_restored_twice():
    """An error of EVALB, which this module reproduces; the second mark would be right."""
    record = score("(S (`` ') ('' \") (X a))", "(S (POS ') (NN \") (X a))", QUOTES)
    assert record.error == "Words unmatch ('|\")"


@pytest.mark.parametrize("word, gold, words_left", [("``", "(`` ``)", 1), ("'", "(, ')", 1)])
def test_other_marks_are_not_restored(word, gold, words_left):
    record = score(f"(S {gold} (X a))", f"(S (NN {word}) (X a))", QUOTES)
    assert record.error == f"Length unmatch ({words_left}|2)"


def mixed_records():
    """Sentences of 41 words and of 3, one in error, and one that is skipped."""
    long = "(S " + "(X a) " * 41 + ")"
    return [
        score(long, f"(S (B {long}))"),
        score("(S (A (X a) (X b)) (Y c))", "(S (X a) (B (X b) (X c)))"),
        score(RAIN, "(S (X a))"),
        score(RAIN, ""),
    ]


def test_summary():
    whole, short = summarise(mixed_records())
    assert (whole.sentences, whole.errors, whole.skipped, whole.valid) == (4, 1, 1, 2)
    assert bracket_counts(whole) == (2, 3, 5)
    assert (whole.recall, whole.precision) == (200 / 3, 40.0)
    assert whole.f_measure == pytest.approx(50)
    assert whole.complete_match == 0
    assert whole.average_crossing == 0.5
    assert whole.no_crossing == 50
    assert whole.two_or_less_crossing == 100
    assert whole.tagging_accuracy == 100 * 43 / 44
    assert (short.sentences, short.errors, short.skipped, short.valid) == (3, 1, 1, 1)
    assert short.matched == 1


def test_the_f_measure_without_a_match_is_zero():
    assert score("(A (X a))", "(B (X a))").f_measure == 0
    assert summarise([])[0].f_measure == 0


def test_deep_trees():
    """As deep as trees may be."""
    depth = MAX_DEPTH - 1
    right = "(NP (X w) " * depth + "(X w)" + ")" * depth
    left = "(NP " * depth + "(X w)" + " (X w))" * depth
    unary = "(NP " * depth + "(X w)" + ")" * depth
    assert bracket_counts(score(right, right)) == (depth, depth, depth)
    assert bracket_counts(score(unary, unary)) == (depth, depth, depth)
    record = score(right, left)
    assert bracket_counts(record) == (1, depth, depth)
    assert record.crossing == depth - 1


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
    assert read_parameters(path).cutoff_len == 3
    assert read_parameters(path).delete_label == ()
    assert warnings(caplog)[:3] == [
        f"{path}:{number}: unknown keyword {keyword!r} is ignored"
        for number, keyword in ((1, "DELETE_LABELS"), (3, "DELETE_LABEL"), (4, "NEW"))
    ]


@pytest.mark.parametrize(
    "line, message",
    [
        ("DELETE_LABEL", "'DELETE_LABEL': give one label"),
        ("DELETE_LABEL A B", "'DELETE_LABEL A B': give one label"),
        ("EQ_LABEL A", "'EQ_LABEL A': give two labels"),
        ("CUTOFF_LEN forty", "'CUTOFF_LEN forty': give a whole number"),
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


def test_a_total_lacks_the_brackets_where_one_side_has_none():
    record = Record(length=2, test_brackets=1, words=2, correct_tags=1)
    assert report([record]).splitlines()[5] == "      2     1    50.00"
    assert "-- len<=7 --" in report([record], Parameters(cutoff_len=7))


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
