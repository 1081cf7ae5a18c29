"""Constituency parsing with a trained model (Sec. 6.3, Table 4), scored as EVALB does."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tf_transformer.config import DEFAULT_GENERATION
from tf_transformer.data.trees import Tree, is_well_formed, parse_output
from tf_transformer.decoding.translator import Progress, Translator
from tf_transformer.evaluation.evalb import Counts, complete_match, score_sentence, summarise

# How the Penn Treebank writes brackets in a sentence.
BRACKETS = str.maketrans(
    {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
)

# With blanks between the words, or a list of words without blanks.
Sentence = str | Sequence[str]


class Parser:
    """Parses sentences.

    Args:
      translator: a `Translator` with a model that was trained on a treebank. Sec. 6.3 has a beam of
        21, length penalty 0.3 and `extra_decode_length` 300.

    Attributes:
      truncated: the lines of the outputs so far that are cut off at the longest output.
    """

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self.truncated: list[int] = []

    @classmethod
    def load(cls, model_dir: str, checkpoint: str | None = None, **decode: Any) -> "Parser":
        """Loads a model folder. For arguments and errors, see `Translator.load`."""
        return cls(Translator.load(model_dir, checkpoint, DEFAULT_GENERATION, **decode))

    def outputs(
        self,
        sentences: Sequence[Sentence],
        progress: Progress | None = None,
        first_line: int = 1,
    ) -> list[str]:
        """The outputs of the model: linearised trees, which may be ill-formed; see `parse`."""
        sources = [" ".join(words_of(sentence)) for sentence in sentences]
        line_numbers = range(first_line, first_line + len(sources))
        results = self.translator.n_best(sources, 1, progress, line_numbers)
        self.truncated += [n for n, best in zip(line_numbers, results) if best[0].truncated]
        return [best[0][0] for best in results]

    def parse(
        self,
        sentences: Sequence[Sentence],
        progress: Progress | None = None,
        first_line: int = 1,
    ) -> list[Tree | None]:
        """Parses sentences.

        Args:
          sentences: with blanks between the words ("The dog barks ."), or lists of words. Brackets
            are written as in the Penn Treebank, such as -LRB-.
          progress: is called with the number of sentences of each finished batch.
          first_line: the line number of the first sentence, for messages.
        Returns: for each sentence a `Tree` with its words, where an ill-formed output is repaired
          (see `trees.parse_output`); None for a sentence without words.
        Raises: UserError for a sentence with more sub-words than the model has positions.
        """
        words_of_each = [words_of(sentence) for sentence in sentences]
        pairs = zip(self.outputs(words_of_each, progress, first_line), words_of_each)
        return [parse_output(text, words) if words else None for text, words in pairs]


def words_of(sentence: Sentence) -> list[str]:
    """The words of a sentence, with brackets as in the Penn Treebank."""
    words = sentence.split() if isinstance(sentence, str) else sentence
    return [word.translate(BRACKETS) for word in words]


class Evaluation(NamedTuple):
    """The scores of parses against a treebank; `str` formats the main ones."""

    trees: list[Tree]  # the parses
    records: list[Counts]  # of `evalb.score_sentence`
    ill_formed: int  # number of repaired outputs

    def __str__(self) -> str:
        whole = summarise(self.records)
        return (
            f"F1 {whole.f_measure:.2f}  "
            f"(recall {whole.recall:.2f}, precision {whole.precision:.2f}; "
            "EVALB, punctuation tagged as in the treebank)\n"
            f"complete match {complete_match(self.records):.2f}%, "
            f"tagging accuracy {whole.tagging_accuracy:.2f}%, "
            f"{self.ill_formed:,} of {len(self.trees):,} outputs ill-formed and repaired"
        )


def evaluate_parses(gold_trees: Sequence[Tree], outputs: Sequence[str]) -> Evaluation:
    """Scores the outputs of a model against gold trees.

    Args:
      gold_trees: clean ones.
      outputs: of `Parser.outputs` for their words.
    """
    sentences = [tree.words() for tree in gold_trees]
    trees = [parse_output(text, words) for text, words in zip(outputs, sentences, strict=True)]
    records = [score_sentence(gold, tree) for gold, tree in zip(gold_trees, trees)]
    ill_formed = sum(not is_well_formed(text, words) for text, words in zip(outputs, sentences))
    return Evaluation(trees, records, ill_formed)
