"""Bracket scoring: laws, then sentences whose numbers are counted by hand and are what the program EVALB prints for them."""

import dataclasses
import random
import re

import pytest

from tf_transformer.data.trees import Tree, read_line
from tf_transformer.evaluation.evalb import (
    COLLINS,
    ERROR,
    OK,
    SKIP,
    Parameters,
    Record,
    Summary,
    score_sentence,
    summarise,
)

PHRASES, TAGS = ["S", "NP-SBJ", "NP", "VP", "PP=2", "SBAR"], ["DT", "NN", "VBZ", "IN"]
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
    """Trees over the same words."""
    draw = random.Random(1)
    for _ in range(number):
        words = [f"word{i}" for i in range(draw.randint(1, 15))]
        yield tuple(
            random_tree(draw, [Tree(draw.choice(tags), word) for word in words]) for _ in range(2)
        )


def phrases(tree):
    """The phrases below TOP, where they are in its text."""
    return list(re.finditer(r"\((\S+) (?=\()", str(tree)))[1:]


def test_a_tree_against_itself():
    for tree, _ in random_pairs(100):
        record = score_sentence(tree, tree)
        assert (record.recall, record.precision, record.f_measure, record.tagging_accuracy) == (
            100,
            100,
            100,
            100,
        )
        assert (
            record.matched == len(phrases(tree))
            and record.crossing == 0
            and record.length == record.words == len(tree.words())
        )


def test_a_wrong_label_costs_one_bracket():
    draw = random.Random(1)
    for gold, _ in random_pairs(100):
        text, label = str(gold), draw.choice(phrases(gold))
        record = score_sentence(
            gold, read_line(f"{text[: label.start(1)]}WRONG{text[label.end(1) :]}", "test")
        )
        right = len(phrases(gold))
        assert (record.matched, record.gold_brackets, record.test_brackets, record.crossing) == (
            right - 1,
            right,
            right,
            0,
        )


def test_gold_and_test_exchanged():
    """Recall and precision change places, the rest but crossing stays."""
    for gold, test in random_pairs(100):
        one, other = score_sentence(gold, test), score_sentence(test, gold)
        assert (one.recall, one.precision) == (other.precision, other.recall)
        assert (one.matched, one.f_measure, one.correct_tags) == (
            other.matched,
            other.f_measure,
            other.correct_tags,
        )
        assert bool(one.crossing) == bool(other.crossing)


def test_deleted_words_are_as_never_there():
    """Wherever punctuation and traces hang; only the length tells that they were there."""

    def without(tree):
        if isinstance(tree.children, str):
            return None if tree.label in COLLINS.delete_label else tree
        children = tuple(filter(None, map(without, tree.children)))
        return Tree(tree.label, children) if children else None

    seen = 0
    draw = random.Random(1)
    for _ in range(100):
        leaves = [Tree(draw.choice([*TAGS, ",", ".", "-NONE-"]), f"word{i}") for i in range(8)]
        gold, test = (random_tree(draw, leaves) for _ in range(2))
        if without(gold):
            record = score_sentence(gold, test)
            assert record.length == sum(leaf.label != "-NONE-" for leaf in leaves)
            assert dataclasses.replace(record, length=record.words) == score_sentence(
                without(gold), without(test)
            )
            seen += record.crossing > 0
    assert seen > 10


def test_the_order_of_sentences_does_not_matter():
    records = [score_sentence(gold, test) for gold, test in random_pairs(60)] + [
        score(RAIN, ""),
        score(RAIN, "(X a)"),
    ]
    shuffled = random.Random(2).sample(records, len(records))
    assert summarise(shuffled) == summarise(records)
    assert summarise(records)[0].errors == summarise(records)[0].skipped == 1


# gold, test, and of EVALB: matched, gold and test brackets, crossing, words, correct tags
EXAMPLES = [
    (
        "(TOP (S (NP (DT The) (NN dog)) (. .)))",
        "(S (NP (DT The) (NN dog)) (. .))",
        (2, 2, 2, 0, 2, 2),
    ),
    (
        "(S (NP-SBJ (PRP I)) (VP (VBD saw) (NP (NP (DT a) (NN man)) (PP (IN with) (NP (NNS glasses))))) (. .))",
        "(S (NP (PRP I)) (VP (VBD saw) (NP (DT a) (NN man)) (PP (IN with) (NP (NN glasses))) (. .)))",
        (6, 7, 6, 0, 6, 5),
    ),
    (
        "(S (NP (NP (NP (NN rain)))) (VP (VBZ falls)))",
        "(S (NP (NP (NN rain))) (VP (VP (VBZ falls))))",
        (4, 5, 5, 0, 2, 2),
    ),
    (  # a phrase over nothing but a trace is none; ADVP and PRT are equal, in both directions
        "(S (NP=2 (PRP We)) (VP (VBD went) (PRT (RP out)) (NP (-NONE- *T*-1)) (, ,) (ADVP (RB then))))",
        "(S (NP (PRP We)) (VP (VBD went) (ADVP (RP out))) (, ,) (PRT (RB then)))",
        (4, 5, 5, 0, 4, 4),
    ),
    (
        "(S (A (X a) (X b)) (B (X c) (X d)))",
        "(S (X a) (A (X b) (X c)) (X d))",
        (1, 3, 2, 1, 4, 4),
    ),  # crosses two, counts once
    (
        "(S (A (X a) (X b)) (B (X c) (X d)) (C (X e) (X f)))",
        "(S (X a) (A (X b) (C (X c) (X d) (X e))) (X f))",
        (1, 4, 3, 2, 6, 6),
    ),
    ("(X a) (Y b)", "(S (X a) (Z b))", (0, 0, 1, 0, 2, 1)),  # several trees on a line
    ("( (S (X a)))", "(TOP (S (X a)))", (1, 2, 1, 0, 1, 1)),  # no label at the outside: not TOP
    (
        "(S (NP-X (NN-Y a)) (-NONE- (X b)))",
        "(S (NP (NN a)) (NP (X b)))",
        (2, 3, 3, 0, 2, 1),
    ),  # "-NONE-" over a phrase is cut to ""
    (
        "(S (PRT a) (NP b))",
        "(S (ADVP a) (NP b))",
        (1, 1, 1, 0, 2, 2),
    ),  # equal labels are equal tags
]


@pytest.mark.parametrize("gold, test, counts", EXAMPLES)
def test_counts(gold, test, counts):
    record = score(gold, test)
    assert record.status == OK
    assert (
        record.matched,
        record.gold_brackets,
        record.test_brackets,
        record.crossing,
        record.words,
        record.correct_tags,
    ) == counts


@pytest.mark.parametrize(
    "gold, test, status, trouble",
    [
        (RAIN, "", SKIP, ""),
        (RAIN, "(S (, rain) (. falls))", SKIP, ""),  # no word is left
        ("", "", SKIP, ""),
        ("", RAIN, ERROR, "Length unmatch (0|2)"),
        (RAIN, "(S (NN rain) (VBZ falls) (RB down))", ERROR, "Length unmatch (2|3)"),
        (
            RAIN,
            "(S (NN rain) (, falls))",
            ERROR,
            "Length unmatch (2|1)",
        ),  # a word gone with its tag
        (RAIN, "(S (NN Rain) (VBZ fell))", ERROR, "Words unmatch (rain|Rain)"),
    ],
)
def test_what_is_not_scored(gold, test, status, trouble):
    record = score(gold, test)
    assert record == Record(length=len(gold and ["rain", "falls"]), status=status, trouble=trouble)


def test_trees_and_no_parse():
    (gold,) = read_line(RAIN, "gold")
    assert score_sentence(gold, gold) == score(RAIN, RAIN)
    assert score_sentence(gold, None).status == SKIP


def test_parameters():
    gold, test = "(S (NP (NN This)) (VP (VBZ (X is))))", "(S (VP (NN this)) (S1 (VP (VBZ (X is)))))"
    assert score(gold, test).trouble == "Words unmatch (This|this)"
    words = Parameters(eq_word=(("this", "This"),))
    assert (score(gold, test, words).matched, score(gold, test, words).test_brackets) == (3, 5)
    unlabelled = dataclasses.replace(words, labeled=False, delete_label=("S1",))
    assert (score(gold, test, unlabelled).matched, score(gold, test, unlabelled).test_brackets) == (
        4,
        4,
    )
    same = dataclasses.replace(
        words, eq_label=(("VP", "NP"),), delete_label=("NP",)
    )  # what equals a deleted label is deleted too
    assert (score(gold, test, same).gold_brackets, score(gold, test, same).test_brackets) == (2, 3)
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
        ("(S (`` ') ('' ') (X a))", "(S (POS ') (NN ') (X a))", (1, 1, 1, 3, 1)),
        (
            "(S (X (`` \") (NP (NN a))) ('' \"))",
            "(S (X (NN \") (NP (NN a))) ('' \"))",
            (3, 3, 3, 2, 1),
        ),
    ],
)
def test_a_quotation_mark_tagged_as_a_word(gold, test, counts):
    """It is taken back where the other tree deletes it."""
    assert score(gold, test).status == ERROR
    record = score(gold, test, QUOTES)
    assert (
        record.matched,
        record.gold_brackets,
        record.test_brackets,
        record.words,
        record.correct_tags,
    ) == counts


def test_the_first_of_two_quotation_marks_is_taken_back_twice():
    """So it is in EVALB; its second mark would be right."""
    assert (
        score("(S (`` ') ('' \") (X a))", "(S (POS ') (NN \") (X a))", QUOTES).trouble
        == "Words unmatch ('|\")"
    )


@pytest.mark.parametrize("word, gold, left", [("``", "(`` ``)", 1), ("'", "(, ')", 1)])
def test_other_marks_are_not_taken_back(word, gold, left):
    assert (
        score(f"(S {gold} (X a))", f"(S (NN {word}) (X a))", QUOTES).trouble
        == f"Length unmatch ({left}|2)"
    )


def test_summary():
    """By hand: of 41 words and of 3; an error and a skipped one of 2."""
    long = "(S " + "(X a) " * 41 + ")"
    records = [
        score(long, f"(S (B {long}))"),
        score("(S (A (X a) (X b)) (Y c))", "(S (X a) (B (X b) (X c)))"),
        score(RAIN, "(S (X a))"),
        score(RAIN, ""),
    ]
    whole, short = summarise(records)
    assert (whole.sentences, whole.errors, whole.skipped, whole.valid) == (4, 1, 1, 2)
    assert (whole.matched, whole.gold_brackets, whole.test_brackets) == (2, 3, 5)
    assert (whole.recall, whole.precision) == (200 / 3, 40.0) and whole.f_measure == pytest.approx(
        50
    )
    assert (
        whole.average_crossing,
        whole.no_crossing,
        whole.two_or_less_crossing,
        whole.complete_match,
    ) == (0.5, 50, 100, 0)
    assert whole.tagging_accuracy == 100 * 43 / 44
    assert (short.sentences, short.errors, short.skipped, short.valid, short.matched) == (
        3,
        1,
        1,
        1,
        1,
    )
    assert summarise(records, Parameters(cutoff_len=2))[1] == Summary(
        sentences=2,
        errors=1,
        skipped=1,
        complete_match=0,
        average_crossing=0,
        no_crossing=0,
        two_or_less_crossing=0,
    )
    assert summarise(records, Parameters(cutoff_len=41))[1] == whole


def test_shares_of_valid_sentences():
    records = [
        Record(length=9, gold_brackets=4, test_brackets=4, matched=4 - n, crossing=n)
        for n in (0, 1, 2, 3)
    ]
    whole, _ = summarise([*records, Record(length=9, status=ERROR)])
    assert (
        whole.complete_match,
        whole.no_crossing,
        whole.two_or_less_crossing,
        whole.average_crossing,
    ) == (25, 25, 75, 1.5)


def test_nothing_matched_is_zero():
    assert score("(A (X a))", "(B (X a))").f_measure == 0
    assert summarise([])[0].f_measure == 0
