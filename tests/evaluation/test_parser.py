"""Parsing with a fake translator that returns known outputs, and with a translation model."""

import pytest

from tf_transformer.data.trees import linearise, read_trees
from tf_transformer.decoding.text_batches import Translation
from tf_transformer.evaluation.parser import Parser, evaluate_parses, words_of


def tree(text):
    return next(read_trees([text]))


class FakeTranslator:
    """Returns one output for all sentences."""

    def __init__(self, output):
        self.output, self.inputs = output, []

    def n_best(self, texts, number, progress=None, line_numbers=None):
        self.inputs.append(texts)
        return [[Translation((self.output, 0.0))] for _ in texts]


def test_scores_by_hand():
    """The gold brackets of the first sentence are S, NP, VP, NP; of the second S, NP, VP.

    The first parse has S, VP, NP and a wrong NP. The second parse has only S.
    """
    gold = [
        tree("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (NNP Anna))) (. .))"),
        tree("(S (NP (NNP Anna)) (VP (VBZ sleeps)))"),
    ]
    outputs = ["(S DT (NP NN ) (VP VBZ (NP NNP ) ) . )", "(S NNP NN"]
    evaluation = evaluate_parses(gold, outputs)
    assert [str(tree) for tree in evaluation.trees] == [
        "(S (DT the) (NP (NN dog)) (VP (VBZ sees) (NP (NNP Anna))) (. .))",
        "(S (NNP Anna) (NN sleeps))",
    ]
    assert evaluation.ill_formed == 1
    first, second = evaluation.records
    assert (first.matched, first.gold_brackets, first.test_brackets) == (3, 4, 4)
    assert (first.words, first.correct_tags) == (4, 4)
    assert (second.matched, second.gold_brackets, second.test_brackets) == (1, 3, 1)
    assert (second.words, second.correct_tags) == (2, 1)
    text = str(evaluation)
    assert text.startswith("F1 66.67  (recall 57.14, precision 80.00;")  # 4 of 7, 4 of 5
    assert "complete match 0.00%, tagging accuracy 83.33%, 1 of 2 outputs ill-formed" in text


@pytest.mark.parametrize("sentence", ["a ( b", ["a", "(", "b"]])
def test_brackets_among_the_words_are_written_as_in_the_treebank(sentence):
    assert words_of("f(x) [ y ] {z}") == ["f-LRB-x-RRB-", "-LSB-", "y", "-RSB-", "-LCB-z-RCB-"]
    gold = tree("(S (NP (DT a) (-LRB- -LRB-)) (NN b))")
    translator = FakeTranslator(linearise(gold))
    assert Parser(translator).parse([sentence]) == [gold]
    assert translator.inputs == [["a -LRB- b"]]
    perfect = str(evaluate_parses([gold], [translator.output]))
    assert perfect.startswith("F1 100.00  (recall 100.00, precision 100.00;")
    assert "complete match 100.00%, tagging accuracy 100.00%, 0 of 1 outputs" in perfect


def test_any_model_gives_trees_with_the_words(translator):
    """The model of this fixture was trained to translate to German."""
    sentences = ["The dog sees the cat .", "", "Anna ( 漢字 ) sleeps"]
    first, empty, last = Parser(translator).parse(sentences)
    assert empty is None
    assert first.words() == words_of(sentences[0])
    assert last.words() == words_of(sentences[2])
