"""Bracket scores: invariants, sentences with hand-computed counts, and the files of EVALB."""

import dataclasses
import logging
import pathlib
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

FILES = pathlib.Path(__file__).with_name("evalb")
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


def random_pairs(number):
    """Yields pairs of trees over the same words."""
    draw = random.Random(1)
    for _ in range(number):
        words = [f"word{i}" for i in range(draw.randint(1, 15))]
        leaves = [[Tree(draw.choice(TAGS), word) for word in words] for _ in range(2)]
        yield tuple(random_tree(draw, each) for each in leaves)


def phrases(tree):
    """The phrases below TOP, as matches in its text."""
    return list(re.finditer(r"\((\S+) (?=\()", str(tree)))[1:]


def bracket_counts(record):
    return record.matched, record.gold_brackets, record.test_brackets


def all_counts(record):
    return (*bracket_counts(record), record.crossing, record.words, record.correct_tags)


def test_a_tree_against_itself_and_with_a_wrong_label():
    """A wrong label costs one bracket."""
    draw = random.Random(1)
    for gold, _ in random_pairs(100):
        record = score_sentence(gold, gold)
        labels, words = phrases(gold), len(gold.words())
        number = len(labels)
        assert all_counts(record) == (number, number, number, 0, words, words)
        assert record.length == words and record.f_measure == record.tagging_accuracy == 100
        label = draw.choice(labels)
        text = str(gold)
        wrong = f"{text[: label.start(1)]}WRONG{text[label.end(1) :]}"
        record = score_sentence(gold, read_line(wrong, "test"))
        assert all_counts(record) == (number - 1, number, number, 0, words, words)


def test_exchanging_gold_and_test_exchanges_recall_and_precision():
    """The other scores do not change, except for the number of crossing brackets."""
    for gold, test in random_pairs(100):
        record, exchanged = score_sentence(gold, test), score_sentence(test, gold)
        assert (record.recall, record.precision) == (exchanged.precision, exchanged.recall)
        for name in ("matched", "f_measure", "correct_tags"):
            assert getattr(record, name) == getattr(exchanged, name)
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
        "(TOP (S (NP (DT The) (NN dog)) (. .)))", "(S (NP (DT The) (NN dog)) (. .))",
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
        "(S (A (X a) (X b)) (B (X c) (X d)))", "(S (X a) (A (X b) (X c)) (X d))",
        (1, 3, 2, 1, 4, 4),
    ),
    "two brackets cross": (
        "(S (A (X a) (X b)) (B (X c) (X d)) (C (X e) (X f)))",
        "(S (X a) (A (X b) (C (X c) (X d) (X e))) (X f))",
        (1, 4, 3, 2, 6, 6),
    ),
    "adjacent trees on a line": ("(X a) (Y b)", "(S (X a) (Z b))", (0, 0, 1, 0, 2, 1)),
    "an outer node without label is not TOP": (
        "( (S (X a)))", "(TOP (S (X a)))", (1, 2, 1, 0, 1, 1),
    ),
    'the label "-NONE-" of a phrase becomes ""': (
        "(S (NP-X (NN-Y a)) (-NONE- (X b)))", "(S (NP (NN a)) (NP (X b)))", (2, 3, 3, 0, 2, 1),
    ),
    "equal labels are equal tags": (
        "(S (PRT a) (NP b))", "(S (ADVP a) (NP b))", (1, 1, 1, 0, 2, 2),
    ),
}  # fmt: skip


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


def test_a_single_tree_no_parse_and_no_match():
    (gold,) = read_line(RAIN, "gold")
    assert score_sentence(gold, gold) == score(RAIN, RAIN)
    assert score_sentence(gold, None).status == SKIP
    assert score("(A (X a))", "(B (X a))").f_measure == 0
    assert summarise([])[0].f_measure == 0


THIS_IS = "(S (NP (NN This)) (VP (VBZ (X is))))", "(S (VP (NN this)) (S1 (VP (VBZ (X is)))))"


@pytest.mark.parametrize("settings, counts", [  # matched, gold and test brackets
    ({}, (3, 4, 5)),
    ({"labeled": False, "delete_label": ("S1",)}, (4, 4, 4)),
    # A label that equals a deleted label is deleted too.
    ({"eq_label": (("VP", "NP"),), "delete_label": ("NP",)}, (2, 2, 3)),
])  # fmt: skip
def test_parameters(settings, counts):
    assert score(*THIS_IS).error == "Words unmatch (This|this)"
    parameters = Parameters(eq_word=(("this", "This"),), **settings)
    assert bracket_counts(score(*THIS_IS, parameters)) == counts
    assert score(RAIN, RAIN, Parameters(delete_label_for_length=("NN", "X"))).length == 1


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


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


NOTHING = Parameters(delete_label=(), delete_label_for_length=(), eq_label=())
LINES = [
    "EQ_WORD  This\tthis ", "LABELED 0", "CUTOFF_LEN 3", "CUTOFF_LEN\t70", "MAX_ERROR 3",
]  # fmt: skip
SETTINGS = {
    "eq_word": (("This", "this"),), "labeled": False, "cutoff_len": 70,
}  # fmt: skip


@pytest.mark.parametrize("lines, expected, unknown", [
    (["# nothing", "", "x"], NOTHING, []),  # numbers have defaults
    (LINES, dataclasses.replace(NOTHING, **SETTINGS), []),
    (
        ["DELETE_LABELS TOP", "CUTOFF_LEN 3", " DELETE_LABEL TOP"],
        dataclasses.replace(NOTHING, cutoff_len=3), ["1: unknown keyword", "3: unknown keyword"],
    ),
])  # fmt: skip
def test_parameter_files(tmp_path, caplog, lines, expected, unknown):
    """Unknown keywords are logged."""
    path = write(tmp_path / "a.prm", lines)
    assert read_parameters(path) == expected
    assert [message.removeprefix(f"{path}:")[:18] for message in warnings(caplog)] == unknown


@pytest.mark.parametrize("line, advice", [
    ("DELETE_LABEL", "give one label"),
    ("DELETE_LABEL A B", "give one label"),
    ("EQ_LABEL A", "give two labels"),
    ("CUTOFF_LEN forty", "give a whole number"),
])  # fmt: skip
def test_invalid_parameters(tmp_path, line, advice):
    path = write(tmp_path / "a.prm", ["# first", line])
    with pytest.raises(UserError, match=f"^{path}:2: '{line}': {advice}"):
        read_parameters(path)


def test_the_text(caplog):
    """`output` is that of EVALB for `gold`, `test` and `COLLINS.prm`, with all its settings."""
    gold, test, parameters = (str(FILES / name) for name in ("gold", "test", "COLLINS.prm"))
    found = evalb_files(gold, test, read_parameters(parameters))
    assert found == (FILES / "output").read_text()
    assert read_parameters(parameters) == COLLINS
    assert warnings(caplog) == ["3 : Words unmatch (falls|fell)"]


def test_a_total_lacks_the_brackets_where_one_side_has_none():
    record = Record(length=2, test_brackets=1, words=2, correct_tags=1)
    assert report([record]).splitlines()[5] == "      2     1    50.00"
    assert "-- len<=7 --" in report([record], Parameters(cutoff_len=7))


def test_empty_nodes():
    """Trees and brackets without words are skipped; the expected numbers are EVALB's."""
    for tree in ("(())", "()", "(TOP)", "(TOP ())"):
        assert score(RAIN, tree).status == SKIP
    for tree in (RAIN.replace("(NP (", "(NP) (NP ("), RAIN.replace("falls)", "falls) ()")):
        assert tree != RAIN
        assert bracket_counts(score(RAIN, tree)) == (3, 3, 3)


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
