"""Bracket scoring of parses as the program EVALB does it (Sekine & Collins 1997): the F1 of Table 4 of the paper.

The rules are those of EVALB's README and, where that is silent, of what the program does (versions with an F-measure, 2006 and later):

- A pre-terminal is no bracket. One whose tag is to be deleted goes away with its word; of a phrase so labelled only the bracket goes.
  A bracket without words left is no bracket. "-SBJ", "=2" and the like are cut from the labels of phrases, not from tags.
- Equal brackets are matched one to one: of n in the gold tree and m in the test tree, the smaller number.
- A test bracket that crosses gold brackets counts once, however many it crosses.
- Tagging accuracy is over the words that are not deleted. The length of a sentence is in words of the gold tree, punctuation included.
- Status 1, an error: the words that are left differ in number, or one of them differs. Status 2, skipped: the test tree has no word
  left. Neither enters the scores.

What differs: the F-measure of no matched bracket is 0 where EVALB prints "nan"; EVALB's limits (200 words, 200 brackets, 5,000
characters a line) are not there; and text on which EVALB stumbles is a `UserError`.
"""

import dataclasses
import re

from tf_transformer.data.trees import Tree

OK, ERROR, SKIP = 0, 1, 2  # status of a sentence
QUOTE_WORDS = (
    "'",
    '"',
    "/",
)  # may be tagged as a quotation mark, and be deleted, in one tree but not in the other


@dataclasses.dataclass(frozen=True)
class Parameters:
    """What a parameter file says. The defaults are those of EVALB's COLLINS.prm, by which parsers are compared."""

    max_error: int = (
        10  # EVALB goes on for one sentence in error more than this, and gives up at the next
    )
    cutoff_len: int = 40  # words in the longest sentence of the second summary
    labeled: bool = True  # False: only where a bracket begins and ends counts
    delete_label: tuple[str, ...] = ("TOP", "-NONE-", ",", ":", "``", "''", ".")
    delete_label_for_length: tuple[str, ...] = ("-NONE-",)
    quote_label: tuple[str, ...] = ()  # tags of `QUOTE_WORDS`, right and wrong ones
    eq_label: tuple[tuple[str, str], ...] = (
        ("ADVP", "PRT"),
    )  # pairs that count as equal; of phrases and of tags
    eq_word: tuple[tuple[str, str], ...] = ()


COLLINS = Parameters()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """What is counted in a sentence or in many, and the scores that follow, 0 to 100."""

    matched: int = 0  # brackets that are in both trees
    gold_brackets: int = 0
    test_brackets: int = 0
    crossing: int = 0  # test brackets that cross one of the gold tree
    words: int = 0  # without deleted ones
    correct_tags: int = 0

    @property
    def recall(self):
        """Matched brackets among those of the gold tree."""
        return _percent(self.matched, self.gold_brackets)

    @property
    def precision(self):
        """Matched brackets among those of the test tree."""
        return _percent(self.matched, self.test_brackets)

    @property
    def f_measure(self):
        """The harmonic mean of precision and recall, F1."""
        return (
            2 * self.precision * self.recall / (self.precision + self.recall)
            if self.matched
            else 0.0
        )

    @property
    def tagging_accuracy(self):
        """Words with the right part-of-speech tag."""
        return _percent(self.correct_tags, self.words)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record(Counts):
    """One sentence. The counts are 0 where the status is not OK."""

    length: int  # words of the gold tree, without those of `delete_label_for_length`
    status: int = OK
    trouble: str = ""  # what the error is, in EVALB's words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary(Counts):
    """Many sentences: the sums of their counts, and shares of the valid ones, 0 to 100."""

    sentences: int
    errors: int
    skipped: int
    complete_match: float  # sentences without a wrong or a missing bracket
    average_crossing: float  # crossing brackets in a sentence; no share
    no_crossing: float  # sentences without crossing brackets
    two_or_less_crossing: float

    @property
    def valid(self):
        """The number of sentences that are scored."""
        return self.sentences - self.errors - self.skipped


def _percent(part, whole):
    return 100.0 * part / whole if whole else 0.0


def score_sentence(gold, test, parameters=COLLINS):
    """Compares two trees over a sentence.

    Args:
      gold: the right tree, a `Tree`. Also a tuple of trees side by side, or None, as a line of a file may hold.
      test: the parser's tree, likewise; None where it found none, which is skipped.
      parameters: `Parameters`.
    Returns: a `Record`.
    """
    gold, test = _Sentence(gold, parameters), _Sentence(test, parameters)
    if not test.leaves:
        return Record(length=gold.length, status=SKIP)
    if len(gold.leaves) != len(test.leaves):
        _restore_quotes(gold, test, parameters)
    if len(gold.leaves) != len(test.leaves):
        return Record(
            length=gold.length,
            status=ERROR,
            trouble=f"Length unmatch ({len(gold.leaves)}|{len(test.leaves)})",
        )
    for (_, word), (_, other) in zip(gold.leaves, test.leaves):
        if not _same(word, other, parameters.eq_word):
            return Record(
                length=gold.length, status=ERROR, trouble=f"Words unmatch ({word}|{other})"
            )
    gold_brackets, test_brackets = (
        gold.scored_brackets(parameters),
        test.scored_brackets(parameters),
    )
    return Record(
        length=gold.length,
        matched=_matched(gold_brackets, test_brackets, parameters),
        gold_brackets=len(gold_brackets),
        test_brackets=len(test_brackets),
        crossing=sum(
            any(_cross(bracket, other) for other in gold_brackets) for bracket in test_brackets
        ),
        words=len(gold.leaves),
        correct_tags=sum(
            _same(a.label, b.label, parameters.eq_label) for a, b in zip(gold.leaves, test.leaves)
        ),
    )


class _Sentence:
    """What is compared of a tree: `leaves` (pre-terminals that are not deleted), `brackets` (of all phrases, in the order in which they
    open, each [start, end, label], in leaves), `length`, and `quotes`."""

    def __init__(self, tree, parameters):
        self.leaves, self.brackets, self.quotes, self.length = [], [], [], 0
        trees = (tree,) if isinstance(tree, Tree) else tree or ()
        opened, waiting = [], list(reversed(trees))
        while waiting:
            node = waiting.pop()
            if node is None:  # all children of the innermost open phrase are done
                self.brackets[opened.pop()][1] = len(self.leaves)
            elif isinstance(node.children, str):
                self.length += node.label not in parameters.delete_label_for_length
                if node.label in parameters.quote_label and node.children in QUOTE_WORDS:
                    self.quotes.append(
                        _Quote(node, len(self.leaves), len(self.brackets), tuple(opened))
                    )
                if node.label not in parameters.delete_label:
                    self.leaves.append(node)
            else:
                opened.append(len(self.brackets))
                self.brackets.append([len(self.leaves), None, node.label])
                waiting += [None, *reversed(node.children)]

    def restore(self, number):
        """Takes a deleted quotation mark back in."""
        quote = self.quotes[number]
        self.leaves.insert(quote.place, quote.leaf)
        for bracket in self.brackets[quote.opened_before :]:
            bracket[0] += 1
            bracket[1] += 1
        for i in quote.around:
            self.brackets[i][1] += 1
        for later in self.quotes[number:]:
            later.place += 1

    def scored_brackets(self, parameters):
        """The brackets that count, as (start, end, label)."""
        found = []
        for start, end, label in self.brackets:
            label = re.split("[-=]", label, maxsplit=1)[0]
            if start != end and not any(
                _same(label, other, parameters.eq_label) for other in parameters.delete_label
            ):
                found.append((start, end, label))
        return found


@dataclasses.dataclass
class _Quote:
    leaf: Tree
    place: int  # leaves before it
    opened_before: int  # phrases that open before it
    around: tuple[int, ...]  # phrases that it is in


def _restore_quotes(gold, test, parameters):
    """Where one tree deletes a quotation mark that the other tags as a word, takes it back in. In EVALB's order, its slips included: a mark
    taken back stays a candidate, one place further on, for the next mark of the test tree."""
    for number, quote in enumerate(test.quotes):
        place = quote.place
        for other_number, other in enumerate(gold.quotes):
            if other.place != place:
                continue
            deleted, other_deleted = (
                mark.leaf.label in parameters.delete_label for mark in (quote, other)
            )
            if other_deleted and not deleted:
                gold.restore(other_number)
            elif deleted and not other_deleted:
                test.restore(number)


def _same(one, other, equal_pairs):
    return one == other or (one, other) in equal_pairs or (other, one) in equal_pairs


def _matched(gold_brackets, test_brackets, parameters):
    """The number of gold brackets to each of which the first equal test bracket that is still free is given."""
    free = {}
    for start, end, label in test_brackets:
        free.setdefault((start, end), []).append(label)
    matched = 0
    for start, end, label in gold_brackets:
        labels = free.get((start, end), [])
        for i, other in enumerate(labels):
            if not parameters.labeled or _same(label, other, parameters.eq_label):
                del labels[i]
                matched += 1
                break
    return matched


def _cross(one, other):
    return one[0] < other[0] < one[1] < other[1] or other[0] < one[0] < other[1] < one[1]


def summarise(records, parameters=COLLINS):
    """Returns two `Summary`s of a list of `Record`s: of all, and of those not longer than `parameters.cutoff_len` words."""
    return _summary(records), _summary(
        [record for record in records if record.length <= parameters.cutoff_len]
    )


def _summary(records):
    valid = [record for record in records if record.status == OK]
    crossing = [record.crossing for record in valid]
    return Summary(
        **{
            field.name: sum(getattr(record, field.name) for record in valid)
            for field in dataclasses.fields(Counts)
        },
        sentences=len(records),
        errors=sum(record.status == ERROR for record in records),
        skipped=sum(record.status == SKIP for record in records),
        complete_match=_percent(
            sum(r.matched == r.gold_brackets == r.test_brackets for r in valid), len(valid)
        ),
        average_crossing=1.0 * sum(crossing) / len(valid) if valid else 0.0,
        no_crossing=_percent(sum(number == 0 for number in crossing), len(valid)),
        two_or_less_crossing=_percent(sum(number <= 2 for number in crossing), len(valid)),
    )
