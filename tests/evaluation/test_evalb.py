"""Bracket scores: invariants, and sentences whose hand-computed counts are those of EVALB."""

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


def test_the_order_of_sentences_does_not_matter():
    records = [score_sentence(gold, test) for gold, test in random_pairs(60)]
    records += [score(RAIN, ""), score(RAIN, "(X a)")]
    shuffled = random.Random(2).sample(records, len(records))
    assert summarise(shuffled) == summarise(records)
    assert summarise(records)[0].errors == summarise(records)[0].skipped == 1


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


def test_the_second_summary_has_the_sentences_up_to_the_cutoff_length():
    records = mixed_records()
    assert summarise(records, Parameters(cutoff_len=2))[1] == Summary(
        sentences=2,
        errors=1,
        skipped=1,
        complete_match=0,
        average_crossing=0,
        no_crossing=0,
        two_or_less_crossing=0,
    )
    assert summarise(records, Parameters(cutoff_len=41))[1] == summarise(records)[0]


def test_percentages_of_valid_sentences():
    records = [
        Record(length=9, gold_brackets=4, test_brackets=4, matched=4 - n, crossing=n)
        for n in (0, 1, 2, 3)
    ]
    whole, _ = summarise([*records, Record(length=9, status=ERROR)])
    assert whole.complete_match == 25
    assert whole.no_crossing == 25
    assert whole.two_or_less_crossing == 75
    assert whole.average_crossing == 1.5


def test_the_f_measure_without_a_match_is_zero():
    assert score("(A (X a))", "(B (X a))").f_measure == 0
    assert summarise([])[0].f_measure == 0


def brackets(tree):
    """(start, end, label) of each phrase with words, in the order in which they open."""
    found = []

    def visit(node, start):
        if isinstance(node.children, str):
            return start + 1
        index = len(found)
        found.append(None)
        end = start
        for child in node.children:
            end = visit(child, end)
        found[index] = (start, end, re.split("[-=]", node.label)[0])
        return end

    visit(tree, 0)
    return [bracket for bracket in found if bracket[2] != "TOP"]


def greedy_matches(gold, test, equal_labels):
    """Matches each gold bracket with the first equal test bracket, by the definition."""
    unmatched = list(test)
    matches = 0
    for start, end, label in gold:
        for other in unmatched:
            labels = (label, other[2])
            is_equal = label == other[2] or labels in equal_labels or labels[::-1] in equal_labels
            if (start, end) == other[:2] and is_equal:
                unmatched.remove(other)
                matches += 1
                break
    return matches


@pytest.mark.parametrize("seed", range(30))
def test_counts_are_those_of_the_definitions(seed):
    """Each pair of brackets is compared. A test bracket crosses if it overlaps a gold bracket."""
    draw = random.Random(seed)
    leaves = [Tree(draw.choice(TAGS), f"w{i}") for i in range(draw.randint(1, 12))]
    gold_tree, test_tree = random_tree(draw, leaves), random_tree(draw, leaves)
    parameters = dataclasses.replace(COLLINS, eq_label=(("NP", "PP"), ("PP", "VP")))
    record = score_sentence(gold_tree, test_tree, parameters)
    gold, test = brackets(gold_tree), brackets(test_tree)
    crossing = [
        (start, end)
        for start, end, _ in test
        if any(a < start < b < end or start < a < end < b for a, b, _ in gold)
    ]
    assert record.crossing == len(crossing)
    assert record.matched == greedy_matches(gold, test, parameters.eq_label)
    spans = [[(start, end, "") for start, end, _ in side] for side in (gold, test)]
    unlabeled = score_sentence(gold_tree, test_tree, Parameters(labeled=False))
    assert unlabeled.matched == greedy_matches(*spans, ())


def test_deep_trees():
    """Deeper than Python's recursion."""
    depth = 1_200
    right = "(NP (X w) " * depth + "(X w)" + ")" * depth
    left = "(NP " * depth + "(X w)" + " (X w))" * depth
    unary = "(NP " * depth + "(X w)" + ")" * depth
    assert bracket_counts(score(right, right)) == (depth, depth, depth)
    assert bracket_counts(score(unary, unary)) == (depth, depth, depth)
    record = score(right, left)
    assert bracket_counts(record) == (1, depth, depth)
    assert record.crossing == depth - 1
