"""Bracket scores of parses, as computed by EVALB (Sekine & Collins 1997): the F1 of Table 4.

The rules are those of EVALB's README. Where the README gives no rule, they are those of the
program's code (versions that print an F-measure, 2006 and later):

- A pre-terminal is not a bracket. A pre-terminal with a deleted tag is removed with its word; a
  phrase with a deleted label loses its bracket only. A bracket over no remaining words does not
  count. Suffixes such as "-SBJ" and "=2" are removed from labels of phrases, not from tags.
- Equal brackets match one to one: for n in the gold tree and m in the test tree, min(n, m).
- A test bracket that crosses several gold brackets counts as one crossing bracket.
- Tagging accuracy counts the words that are not deleted. The length of a sentence is that of the
  gold tree in words, punctuation included.
- Status 1, error: the remaining words of the two trees differ in number or in form. Status 2,
  skipped: no words of the test tree remain. The scores exclude both.

Differences from EVALB: the F-measure is 0 where no bracket matches (EVALB prints "nan"); EVALB's
limits (200 words, 200 brackets, 5,000 characters a line) do not apply; and text that EVALB cannot
read raises a `UserError`.
"""

import collections
import dataclasses
import re
from collections.abc import Sequence

from tf_transformer.data.trees import Tree

OK = 0  # status of a sentence
ERROR = 1
SKIP = 2

# These words may have the tag of a quotation mark, and be deleted, in only one of the two trees.
QUOTE_WORDS = ("'", '"', "/")


@dataclasses.dataclass(frozen=True)
class Parameters:
    """The settings of a parameter file. The defaults are those of COLLINS.prm, the standard."""

    # EVALB continues after `max_error` + 1 sentences in error and stops at the next one.
    max_error: int = 10
    # The longest sentence, in words, of the second summary.
    cutoff_len: int = 40
    # False: brackets match by start and end, whatever their labels.
    labeled: bool = True
    delete_label: tuple[str, ...] = ("TOP", "-NONE-", ",", ":", "``", "''", ".")
    delete_label_for_length: tuple[str, ...] = ("-NONE-",)
    # Tags of `QUOTE_WORDS`: those of quotation marks and those given by mistake.
    quote_label: tuple[str, ...] = ()
    # Pairs of labels that count as equal, of phrases and of tags.
    eq_label: tuple[tuple[str, str], ...] = (("ADVP", "PRT"),)
    eq_word: tuple[tuple[str, str], ...] = ()


COLLINS = Parameters()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts of one or several sentences, and the scores computed from them, 0 to 100."""

    matched: int = 0  # brackets that are in both trees
    gold_brackets: int = 0
    test_brackets: int = 0
    crossing: int = 0  # test brackets that cross a gold bracket
    words: int = 0  # without deleted words
    correct_tags: int = 0

    @property
    def recall(self) -> float:
        """Matched brackets as a percentage of the gold brackets."""
        return _percent(self.matched, self.gold_brackets)

    @property
    def precision(self) -> float:
        """Matched brackets as a percentage of the test brackets."""
        return _percent(self.matched, self.test_brackets)

    @property
    def f_measure(self) -> float:
        """The harmonic mean of precision and recall, F1."""
        if not self.matched:
            return 0.0
        return 2 * self.precision * self.recall / (self.precision + self.recall)

    @property
    def tagging_accuracy(self) -> float:
        """The percentage of words with the right part-of-speech tag."""
        return _percent(self.correct_tags, self.words)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record(Counts):
    """The result of one sentence. Its counts are 0 unless the status is OK."""

    length: int  # words of the gold tree, without those of `delete_label_for_length`
    status: int = OK
    error: str = ""  # the reason for status ERROR, in EVALB's words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary(Counts):
    """The result of several sentences: sums of counts, and percentages of the valid sentences."""

    sentences: int
    errors: int
    skipped: int
    complete_match: float  # % of sentences without a wrong or missing bracket
    average_crossing: float  # crossing brackets per sentence, not a percentage
    no_crossing: float  # % of sentences without crossing brackets
    two_or_less_crossing: float  # % of sentences with at most two crossing brackets

    @property
    def valid(self) -> int:
        """The number of scored sentences."""
        return self.sentences - self.errors - self.skipped


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


# A line of a file: a tree, adjacent trees, or None for no tree.
Trees = Tree | tuple[Tree, ...] | None
Bracket = tuple[int, int, str]  # start and end, in leaves, and label


def score_sentence(gold: Trees, test: Trees, parameters: Parameters = COLLINS) -> Record:
    """Compares two trees of a sentence.

    Args:
      gold: the gold tree, a `Tree`; a tuple of adjacent trees or None, which a line of a file can
        hold, are also accepted.
      test: the tree of the parser, in the same forms; None, for no parse, is skipped.
      parameters: `Parameters`.
    Returns: a `Record`.
    """
    gold_sentence = _Sentence(gold, parameters)
    test_sentence = _Sentence(test, parameters)
    length = gold_sentence.length
    if not test_sentence.leaves:
        return Record(length=length, status=SKIP)
    if len(gold_sentence.leaves) != len(test_sentence.leaves):
        _restore_quotes(gold_sentence, test_sentence, parameters)
    if error := _difference_of_words(gold_sentence, test_sentence, parameters):
        return Record(length=length, status=ERROR, error=error)

    gold_brackets = gold_sentence.scored_brackets(parameters)
    test_brackets = test_sentence.scored_brackets(parameters)
    correct_tags = [
        leaf
        for leaf, test_leaf in zip(gold_sentence.leaves, test_sentence.leaves)
        if _equal(leaf.label, test_leaf.label, parameters.eq_label)
    ]
    return Record(
        length=length,
        matched=_count_matches(gold_brackets, test_brackets, parameters),
        gold_brackets=len(gold_brackets),
        test_brackets=len(test_brackets),
        crossing=_count_crossing(gold_brackets, test_brackets, len(gold_sentence.leaves)),
        words=len(gold_sentence.leaves),
        correct_tags=len(correct_tags),
    )


def _difference_of_words(gold: "_Sentence", test: "_Sentence", parameters: Parameters) -> str:
    """The first difference between the words of two sentences, in EVALB's words, or ""."""
    if len(gold.leaves) != len(test.leaves):
        return f"Length unmatch ({len(gold.leaves)}|{len(test.leaves)})"
    for leaf, test_leaf in zip(gold.leaves, test.leaves):
        if not _equal(_word(leaf), _word(test_leaf), parameters.eq_word):
            return f"Words unmatch ({_word(leaf)}|{_word(test_leaf)})"
    return ""


def _word(leaf: Tree) -> str:
    """The word of a pre-terminal."""
    assert isinstance(leaf.children, str)
    return leaf.children


class _Sentence:
    """The parts of a tree that are compared.

    Attributes:
      leaves: the pre-terminals that are not deleted.
      brackets: the `_Phrase`s, in the order in which they open.
      quotes: the `_Quote`s.
      length: the number of words without those of `delete_label_for_length`.
    """

    def __init__(self, tree: Trees, parameters: Parameters) -> None:
        self.leaves: list[Tree] = []
        self.brackets: list[_Phrase] = []
        self.quotes: list[_Quote] = []
        self.length = 0
        trees = (tree,) if isinstance(tree, Tree) else tree or ()
        open_phrases: list[int] = []  # indices into `brackets`, outermost first
        stack: list[Tree | None] = list(reversed(trees))
        while stack:
            node = stack.pop()
            if node is None:  # the end of the innermost open phrase
                self.brackets[open_phrases.pop()].end = len(self.leaves)
            elif isinstance(node.children, str):
                self._add_leaf(node, open_phrases, parameters)
            else:
                open_phrases.append(len(self.brackets))
                self.brackets.append(_Phrase(len(self.leaves), len(self.leaves), node.label))
                stack += [None, *reversed(node.children)]

    def _add_leaf(self, node: Tree, open_phrases: list[int], parameters: Parameters) -> None:
        if node.label not in parameters.delete_label_for_length:
            self.length += 1
        if node.label in parameters.quote_label and node.children in QUOTE_WORDS:
            quote = _Quote(node, len(self.leaves), len(self.brackets), tuple(open_phrases))
            self.quotes.append(quote)
        if node.label not in parameters.delete_label:
            self.leaves.append(node)

    def restore(self, index: int) -> None:
        """Restores a deleted quotation mark, given as an index into `quotes`."""
        quote = self.quotes[index]
        self.leaves.insert(quote.position, quote.leaf)
        for bracket in self.brackets[quote.phrases_before :]:
            bracket.start += 1
            bracket.end += 1
        for i in quote.enclosing:
            self.brackets[i].end += 1
        for later in self.quotes[index:]:
            later.position += 1

    def scored_brackets(self, parameters: Parameters) -> list[Bracket]:
        """The brackets that count."""
        scored = []
        for bracket in self.brackets:
            label = re.split("[-=]", bracket.label, maxsplit=1)[0]
            is_deleted = any(
                _equal(label, deleted, parameters.eq_label) for deleted in parameters.delete_label
            )
            if bracket.start != bracket.end and not is_deleted:
                scored.append((bracket.start, bracket.end, label))
        return scored


@dataclasses.dataclass
class _Phrase:
    start: int  # number of leaves before it
    end: int  # number of leaves up to its end
    label: str


@dataclasses.dataclass
class _Quote:
    leaf: Tree
    position: int  # number of leaves before it
    phrases_before: int  # number of phrases that open before it
    enclosing: tuple[int, ...]  # indices of the phrases that contain it


def _restore_quotes(gold: _Sentence, test: _Sentence, parameters: Parameters) -> None:
    """Restores quotation marks that only one of the two trees deletes.

    The order is that of EVALB, which includes an error of the program: a restored mark remains a
    candidate, one position later, for the next mark of the test tree.
    """
    for test_index, test_quote in enumerate(test.quotes):
        position = test_quote.position
        test_deleted = test_quote.leaf.label in parameters.delete_label
        for gold_index, gold_quote in enumerate(gold.quotes):
            if gold_quote.position != position:
                continue
            gold_deleted = gold_quote.leaf.label in parameters.delete_label
            if gold_deleted and not test_deleted:
                gold.restore(gold_index)
            elif test_deleted and not gold_deleted:
                test.restore(test_index)


def _equal(a: str, b: str, equal_pairs: tuple[tuple[str, str], ...]) -> bool:
    return a == b or (a, b) in equal_pairs or (b, a) in equal_pairs


def _count_matches(
    gold_brackets: list[Bracket], test_brackets: list[Bracket], parameters: Parameters
) -> int:
    """Matches each gold bracket with the first equal test bracket that is not matched yet."""
    unmatched: dict[Bracket, collections.deque[int]] = {}  # -> indices of test brackets
    for i, (start, end, label) in enumerate(test_brackets):
        key = (start, end, label if parameters.labeled else "")
        unmatched.setdefault(key, collections.deque()).append(i)
    matches = 0
    for start, end, label in gold_brackets:
        labels = _equal_labels(label, parameters) if parameters.labeled else {""}
        candidates = [
            unmatched[start, end, key] for key in labels if (start, end, key) in unmatched
        ]
        candidates = [indices for indices in candidates if indices]
        if candidates:
            min(candidates, key=lambda indices: indices[0]).popleft()
            matches += 1
    return matches


def _equal_labels(label: str, parameters: Parameters) -> set[str]:
    """The labels that count as equal to a label, itself included."""
    return {
        label,
        *(b for a, b in parameters.eq_label if a == label),
        *(a for a, b in parameters.eq_label if b == label),
    }


def _count_crossing(gold_brackets: list[Bracket], test_brackets: list[Bracket], words: int) -> int:
    """Counts the test brackets that overlap a gold bracket where neither contains the other.

    Such a gold bracket has words on both sides of one end of the test bracket, and of all gold
    brackets that have, the innermost is the first to overlap. So it suffices to compare the test
    bracket with the innermost gold bracket around each of its ends.
    """
    innermost = _innermost(gold_brackets, words)
    crossing = 0
    for start, end, _ in test_brackets:
        at_start, at_end = innermost[start], innermost[end]
        crosses_start = at_start is not None and at_start[1] < end
        crosses_end = at_end is not None and at_end[0] > start
        crossing += crosses_start or crosses_end
    return crossing


def _innermost(brackets: list[Bracket], words: int) -> list[Bracket | None]:
    """The innermost bracket with words on both sides of each position from 0 to `words`.

    Args:
      brackets: of a tree, in the order in which they open.
      words: number of words.
    """
    innermost: list[Bracket | None] = []
    still_open: list[Bracket] = []
    following = collections.deque(brackets)
    for position in range(words + 1):
        while still_open and still_open[-1][1] <= position:
            still_open.pop()
        innermost.append(still_open[-1] if still_open else None)
        while following and following[0][0] == position:
            still_open.append(following.popleft())
    return innermost


def summarise(
    records: Sequence[Record], parameters: Parameters = COLLINS
) -> tuple[Summary, Summary]:
    """Sums up sentences.

    Args:
      records: a list of `Record`s.
      parameters: `Parameters`.
    Returns: the `Summary` of all sentences, and that of the sentences of at most
      `parameters.cutoff_len` words.
    """
    short = [record for record in records if record.length <= parameters.cutoff_len]
    return _summary(records), _summary(short)


def _summary(records: Sequence[Record]) -> Summary:
    valid = [record for record in records if record.status == OK]
    crossing = [record.crossing for record in valid]
    complete = [r for r in valid if r.matched == r.gold_brackets == r.test_brackets]
    sums = {
        field.name: sum(getattr(record, field.name) for record in valid)
        for field in dataclasses.fields(Counts)
    }
    return Summary(
        **sums,
        sentences=len(records),
        errors=sum(record.status == ERROR for record in records),
        skipped=sum(record.status == SKIP for record in records),
        complete_match=_percent(len(complete), len(valid)),
        average_crossing=sum(crossing) / len(valid) if valid else 0.0,
        no_crossing=_percent(sum(number == 0 for number in crossing), len(valid)),
        two_or_less_crossing=_percent(sum(number <= 2 for number in crossing), len(valid)),
    )
