"""Constituency parsing with a trained model (Sec. 6.3, Table 4): words in, trees out, scored as EVALB does."""

import re
from typing import NamedTuple

from tf_transformer.data.treebank import is_well_formed, linearise, restore
from tf_transformer.data.trees import Tree
from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.evaluation.evalb import COLLINS, score_sentence, summarise
from tf_transformer.evaluation.evalb_files import report

BRACKETS = {
    "(": "-LRB-",
    ")": "-RRB-",
    "[": "-LSB-",
    "]": "-RSB-",
    "{": "-LCB-",
    "}": "-RCB-",
}  # as the Penn Treebank writes them

OTHER_TAG = "XX"  # of a word that was tagged as punctuation


class Parser:
    """Parses sentences.

    Args:
      translator: a `Translator` whose model was trained on a treebank. Sec. 6.3 has beam 21, alpha 0.3 and extra_decode_length 300.
    """

    def __init__(self, translator):
        self.translator = translator

    @classmethod
    def load(cls, model_dir, choice=None, **decode):
        """Reads a model folder; the arguments and errors are those of `Translator.load`."""
        return cls(Translator.load(model_dir, choice, **decode))

    def outputs(self, sentences, progress=False):
        """What the model writes for each sentence, a linearised tree or what it takes for one; the arguments are those of `parse`."""
        sources = [" ".join(words_of(sentence)) for sentence in sentences]
        return [best[0][0] for best in self.translator.n_best(sources, 1, progress)]

    def parse(self, sentences, progress=False):
        """Finds the tree of each sentence.

        Args:
          sentences: a list of strings, whose words have blanks between them ("The dog barks ."), or of lists of words. Brackets are
            written as the Penn Treebank does, -LRB- and -RRB-.
          progress: whether to show a progress bar on stderr.
        Returns: a list, for each sentence, of a `Tree` with its words, repaired where the output is not well-formed (see
          `treebank.restore`); None where there are no words.
        Raises: UserError when a sentence is longer than the model's positions, or a word in a list has a blank in it.
        """
        sentences = [words_of(sentence) for sentence in sentences]
        return [
            restore(text, words) if words else None
            for text, words in zip(self.outputs(sentences, progress), sentences)
        ]


def words_of(sentence):
    """The words of a sentence as a tree can hold them.

    Args:
      sentence: a string, whose words have blanks between them, or a list of words.
    Returns: a list of strings; brackets are as in the Penn Treebank.
    Raises: UserError for a word of a list that is empty or has a blank in it.
    """
    words = sentence.split() if isinstance(sentence, str) else list(sentence)
    for number, word in enumerate(words, start=1):
        if len(word.split()) != 1:
            raise UserError(f"word {number} of a sentence is {word!r}: give words without blanks")
    return [re.sub(r"[()\[\]{}]", lambda bracket: BRACKETS[bracket[0]], word) for word in words]


class Evaluation(NamedTuple):
    """How well parses match the treebank; `str` gives the scores for people to read."""

    trees: list[Tree]  # as they were parsed
    records: list  # of `evalb.score_sentence`
    ill_formed: int  # outputs that had to be repaired
    table: str  # a row for each sentence, and the summary, as EVALB prints them

    def __str__(self):
        whole, _ = summarise(self.records)
        return (
            f"F1 {whole.f_measure:.2f}  (recall {whole.recall:.2f}, precision {whole.precision:.2f}; "
            "EVALB with COLLINS.prm, punctuation tagged as in the treebank)\n"
            f"whole trees right {whole.complete_match:.2f}%, tags right {whole.tagging_accuracy:.2f}%, "
            f"{self.ill_formed:,} of {len(self.trees):,} outputs ill-formed and repaired"
        )


def with_punctuation(tree, gold, deleted=COLLINS.delete_label):
    """The tree with the right tags where the gold tree of the same words has one of `deleted`, and with none of these elsewhere."""
    right, symbols = iter(tag for _, tag in gold.tags()), linearise(tree).split(" ")
    for place, symbol in enumerate(symbols):
        if symbol != ")" and not symbol.startswith("("):
            tag = next(right)
            symbols[place] = tag if tag in deleted else OTHER_TAG if symbol in deleted else symbol
    return restore(" ".join(symbols), tree.words())


def evaluate_parses(gold_trees, outputs):
    """Scores a model's outputs against the right trees.

    EVALB takes away the words with the tags of punctuation, and refuses a sentence, which then counts for nothing, where that leaves the
    two trees with different words. So that a wrong tag is no way out of the score, punctuation has the right tags in the scored trees,
    and another word that was tagged as such is an XX.

    Args:
      gold_trees: clean trees, a list of `Tree`.
      outputs: of `Parser.outputs` for their words, as many strings.
    Returns: an `Evaluation`.
    Raises: UserError when the numbers differ or there are none.
    """
    if len(gold_trees) != len(outputs):
        raise UserError(
            f"{len(outputs):,} parses, but {len(gold_trees):,} trees: they must be of the same sentences"
        )
    if not gold_trees:
        raise UserError("nothing to score: there are no trees")
    sentences = [tree.words() for tree in gold_trees]
    trees = [restore(text, words) for text, words in zip(outputs, sentences)]
    records = [
        score_sentence(gold, with_punctuation(tree, gold)) for gold, tree in zip(gold_trees, trees)
    ]
    ill_formed = sum(not is_well_formed(text, words) for text, words in zip(outputs, sentences))
    return Evaluation(trees, records, ill_formed, report(records, COLLINS))
