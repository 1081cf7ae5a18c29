"""Words in, trees out: with a stand-in for the model, and with a model that knows nothing of trees."""

import pytest

from tf_transformer.data.pocket.treebank import generate
from tf_transformer.data.treebank import clean_tree, linearise
from tf_transformer.data.trees import read_trees
from tf_transformer.errors import UserError
from tf_transformer.parsing.parser import Parser, evaluate_parses, with_punctuation, words_of


def tree(text):
    return next(read_trees([text]))


class Oracle:
    """A stand-in for a `Translator` that knows some trees by heart."""

    def __init__(self, trees):
        self.known = {" ".join(one.words()): linearise(one) for one in trees}
        self.asked = []

    def n_best(self, texts, number, progress=False):
        self.asked.append(texts)
        return [[(self.known.get(text, ""), 0.0)] for text in texts]


@pytest.fixture(scope="module")
def gold():
    return [clean_tree(one) for one in read_trees(generate(100, seed=5))]


def test_right_outputs_score_100(gold):
    parser = Parser(Oracle(gold))
    sentences = [one.words() for one in gold]
    assert parser.parse(sentences) == parser.parse([" ".join(words) for words in sentences]) == gold
    found = evaluate_parses(gold, parser.outputs(sentences))
    assert found.trees == gold and found.ill_formed == 0
    assert str(found).startswith("F1 100.00  (recall 100.00, precision 100.00;")
    assert "whole trees right 100.00%, tags right 100.00%, 0 of 100 outputs ill-formed" in str(
        found
    )
    assert (
        "Bracketing FMeasure       = 100.00" in found.table
        and "Number of sentence        =    100" in found.table
    )


def test_scores_by_hand():
    """Of the gold brackets S, NP, VP, NP the first parse has S, VP and NP, and an NP that is wrong; of the second only S is left."""
    gold = [
        tree("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (NNP Anna))) (. .))"),
        tree("(S (NP (NNP Anna)) (VP (VBZ sleeps)))"),
    ]
    outputs = ["(S DT (NP NN ) (VP VBZ (NP NNP ) ) . )", "(S NNP NN"]
    found = evaluate_parses(gold, outputs)
    assert [str(one) for one in found.trees] == [
        "(S (DT the) (NP (NN dog)) (VP (VBZ sees) (NP (NNP Anna))) (. .))",
        "(S (NNP Anna) (NN sleeps))",
    ]
    assert found.ill_formed == 1
    assert [
        (r.matched, r.gold_brackets, r.test_brackets, r.words, r.correct_tags)
        for r in found.records
    ] == [
        (3, 4, 4, 4, 4),
        (1, 3, 1, 2, 1),
    ]
    assert str(found).startswith("F1 66.67  (recall 57.14, precision 80.00;")  # 4 of 7, 4 of 5
    assert (
        "whole trees right 0.00%, tags right 83.33%, 1 of 2 outputs ill-formed and repaired"
        in str(found)
    )


def test_wrong_punctuation_is_no_way_out():
    """EVALB alone would refuse these sentences, and score none of them."""
    gold = tree("(S (NP (NNP Anna)) (, ,) (VP (VBZ sleeps)) (. .))")
    found = evaluate_parses(
        [gold] * 2, ["(S (NP NNP ) NN (VP VBZ ) NN )", "(S (NP , ) , (VP VBZ ) . )"]
    )
    assert [str(tree) for tree in found.trees] == [
        "(S (NP (NNP Anna)) (NN ,) (VP (VBZ sleeps)) (NN .))",
        "(S (NP (, Anna)) (, ,) (VP (VBZ sleeps)) (. .))",
    ]
    scored = [str(with_punctuation(tree, gold)) for tree in found.trees]
    assert scored == [str(gold), "(S (NP (XX Anna)) (, ,) (VP (VBZ sleeps)) (. .))"]
    assert [(r.status, r.matched, r.words, r.correct_tags) for r in found.records] == [
        (0, 3, 2, 2),
        (0, 3, 2, 1),
    ]


def test_brackets_among_the_words_are_written_as_in_the_treebank():
    assert words_of("f(x) [ y ] {z}") == ["f-LRB-x-RRB-", "-LSB-", "y", "-RSB-", "-LCB-z-RCB-"]
    oracle = Oracle([])
    (found,) = Parser(oracle).parse(["a ( b"])
    assert oracle.asked == [["a -LRB- b"]] and str(found) == "(S (NN a) (NN -LRB-) (NN b))"
    assert tree(str(found)) == found


def test_no_words_no_tree():
    assert Parser(Oracle([])).parse(["", " ", [], "dog"])[:3] == [None, None, None]
    assert Parser(Oracle([])).parse([]) == []


@pytest.mark.parametrize("word", ["", " ", "living room"])
def test_words_with_blanks_are_refused(word):
    with pytest.raises(UserError, match="word 2 of a sentence"):
        Parser(Oracle([])).parse([["the", word]])


def test_what_cannot_be_scored(gold):
    with pytest.raises(UserError, match="1 parses, but 100 trees"):
        evaluate_parses(gold, [""])
    with pytest.raises(UserError, match="nothing to score"):
        evaluate_parses([], [])


def test_any_model_gives_trees_with_the_words(translator):
    """This one was trained to write German."""
    sentences = ["The dog sees the cat .", "", "Anna ( 漢字 ) sleeps"]
    found = Parser(translator).parse(sentences)
    assert found[1] is None
    assert [one.words() for one in (found[0], found[2])] == [
        words_of(sentences[0]),
        words_of(sentences[2]),
    ]
