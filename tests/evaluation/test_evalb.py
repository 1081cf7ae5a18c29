"""Bracket scores: invariants, sentences with hand-computed counts, and a result of EVALB."""

import pathlib
import random
import re

import pytest

from tf_transformer.data.trees import Tree, read_trees
from tf_transformer.errors import UserError
from tf_transformer.evaluation.evalb import Counts, complete_match, score_sentence, summarise

FILES = pathlib.Path(__file__).with_name("evalb")
PHRASES = ["S", "NP-SBJ", "NP", "VP", "PP=2", "SBAR"]
TAGS = ["DT", "NN", "VBZ", "IN"]
RAIN = "(S (NP (NN rain)) (VP (VBZ falls)))"


def score(gold, test):
    return score_sentence(*read_trees([gold]), *read_trees([test]))


def all_counts(record):
    brackets = record.matched, record.gold_brackets, record.test_brackets
    return (*brackets, record.words, record.correct_tags)


def test_a_tree_against_itself_and_with_a_wrong_label():
    """A wrong label costs one bracket. The trees are random, with unary chains."""
    draw = random.Random(1)
    for _ in range(100):
        nodes = [Tree(draw.choice(TAGS), f"word{i}") for i in range(draw.randint(1, 15))]
        words = len(nodes)
        for _ in range(2 * words):
            first = draw.randrange(len(nodes))
            part = slice(first, first + draw.choice([1, 2, 3]))
            nodes[part] = [Tree(draw.choice(PHRASES), tuple(nodes[part]))]
        gold = Tree("TOP", (Tree("S", tuple(nodes)),))
        record = score_sentence(gold, gold)
        labels = list(re.finditer(r"\((\S+) (?=\()", str(gold)))[1:]  # of phrases below TOP
        number = len(labels)
        assert all_counts(record) == (number, number, number, words, words)
        assert record.f_measure == record.tagging_accuracy == complete_match([record]) == 100
        label, text = draw.choice(labels), str(gold)
        record = score(text, f"{text[: label.start(1)]}WRONG{text[label.end(1) :]}")
        assert all_counts(record) == (number - 1, number, number, words, words)
        assert complete_match([record]) == 0


# gold, test, and EVALB's counts: matched, gold and test brackets, words, correct tags
EXAMPLES = {
    "TOP and punctuation": (
        "(TOP (S (NP (DT The) (NN dog)) (. .)))", "(S (NP (DT The) (NN dog)) (. .))",
        (2, 2, 2, 2, 2),
    ),
    "attachment": (
        "(S (NP-SBJ (PRP I)) (VP (VBD saw) (NP (NP (DT a) (NN man)) "
        "(PP (IN with) (NP (NNS glasses))))) (. .))",
        "(S (NP (PRP I)) (VP (VBD saw) (NP (DT a) (NN man)) "
        "(PP (IN with) (NP (NN glasses))) (. .)))",
        (6, 7, 6, 6, 5),
    ),
    "unary chains": (
        "(S (NP (NP (NP (NN rain)))) (VP (VBZ falls)))",
        "(S (NP (NP (NN rain))) (VP (VP (VBZ falls))))",
        (4, 5, 5, 2, 2),
    ),
    # A phrase over a trace only is not a bracket. ADVP and PRT are equal, in both directions.
    "trace, and equal labels": (
        "(S (NP=2 (PRP We)) (VP (VBD went) (PRT (RP out)) (NP (-NONE- *T*-1)) "
        "(, ,) (ADVP (RB then))))",
        "(S (NP (PRP We)) (VP (VBD went) (ADVP (RP out))) (-NONE- *T*-1) (, ,) (PRT (RB then)))",
        (4, 5, 5, 4, 4),
    ),
    "an outer node without label is not TOP": (
        "( (S (X a)))", "(TOP (S (X a)))", (1, 2, 1, 1, 1),
    ),
    'the label "-NONE-" of a phrase becomes ""': (
        "(S (NP-X (NN-Y a)) (-NONE- (X b)))", "(S (NP (NN a)) (NP (X b)))", (2, 3, 3, 2, 1),
    ),
    "equal labels are equal tags": (
        "(S (PRT a) (NP b))", "(S (ADVP a) (NP b))", (1, 1, 1, 2, 2),
    ),
    # EVALB would exclude the sentences.
    "a word tagged as punctuation": (RAIN, "(S (NP (, rain)) (VP (VBZ falls)))", (3, 3, 3, 2, 1)),
    "punctuation tagged as a word": (
        "(S (NP (NN rain)) (. .))", "(S (NP (NN rain)) (X (NN .)))", (2, 2, 2, 1, 1),
    ),
    "empty nodes": (RAIN, "(S (NP) (NP (NN rain)) (VP (VBZ falls) ()))", (3, 3, 3, 2, 2)),
    "no words remain": ("(S (. .))", "(S (. .))", (0, 0, 0, 0, 0)),
    "no match": ("(A (X a))", "(B (X a))", (0, 1, 1, 1, 1)),
}  # fmt: skip


@pytest.mark.parametrize("gold, test, counts", EXAMPLES.values(), ids=EXAMPLES)
def test_counts(gold, test, counts):
    assert all_counts(score(gold, test)) == counts


@pytest.mark.parametrize("test", [
    "(S (NN rain) (VBZ falls) (RB down))", "(S (NN rain))", "(S (NN Rain) (VBZ fell))", "(())",
])  # fmt: skip
def test_other_words(test):
    with pytest.raises(UserError, match="the trees have different words"):
        score(RAIN, test)


def test_no_sentences_and_no_match():
    no_match = score("(A (X a))", "(B (X a))")
    for counts in (Counts(), summarise([]), no_match):
        assert counts.f_measure == counts.recall == counts.precision == 0
    assert Counts().tagging_accuracy == complete_match([]) == 0
    assert complete_match([no_match, score(RAIN, RAIN), Counts()]) == 50  # one has no words


def test_a_result_of_evalb():
    """EVALB wrote `output` with COLLINS.prm; the sentences in error are left out."""
    output = (FILES / "output").read_text()
    rows = re.findall(r"^ +\d+ +\d+ +0 +(.*)", output, re.M)
    lines = [(FILES / name).read_text().splitlines() for name in ("gold", "test")]
    records = [score(*pair) for number, pair in enumerate(zip(*lines), 1) if number not in (2, 3)]
    for row, record in zip(rows, records, strict=True):
        recall, precision, *counts, accuracy = map(float, row.split())
        del counts[3]  # of brackets that cross
        assert tuple(counts) == all_counts(record)
        scores = record.recall, record.precision, record.tagging_accuracy
        assert scores == pytest.approx((recall, precision, accuracy), abs=0.005)
    of_all = output[output.index("-- All --") : output.index("-- len")]
    expected = {name.strip(): float(x) for name, x in re.findall(r"(.*)= +(\S+)", of_all)}
    total = summarise(records)
    assert complete_match(records) == pytest.approx(expected["Complete match"], abs=0.005)
    for name, value in {
        "Bracketing Recall": total.recall,
        "Bracketing Precision": total.precision,
        "Bracketing FMeasure": total.f_measure,
        "Tagging accuracy": total.tagging_accuracy,
    }.items():
        assert value == pytest.approx(expected[name], abs=0.005), name
