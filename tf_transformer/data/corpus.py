"""The base class of all corpora."""

import functools
import hashlib
import heapq
import itertools
import logging
import operator
import os
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tf_transformer.config import HOLD_OUT_END, HOLD_OUT_SOURCES
from tf_transformer.data.tags import add_tag
from tf_transformer.errors import UserError

logger = logging.getLogger(__name__)

# Where a corpus has no validation text, a part of its training text is held out for validation:
# this fraction of the pairs or trees, up to this number.
HELD_OUT_FRACTION = 0.05
MAX_HELD_OUT = 1000

# Source, target, and the weight of the pair in the loss; None: the text has no weights.
WeightedPair = tuple[str, str, float | None]


class Corpus:
    """Sentence pairs in splits. A subclass defines `texts`, `read_text` and `text_fingerprint`.

    Without validation text, a part of "train" is held out for it, and the split "all" has both.

    Attributes:
      name: of the corpus, for messages.
      texts: what `read_text` needs of each split that has text of its own.
      tag: the tag before each source, such as "<2de>"; "" for none.
      holds_out_test: whether text is held out for a split "test" too.
      hold_out: what is held out, as the setting `hold_out`.
      others: corpora that are trained on together with this one. Their validation and test text is
        not in "train" of this one.
    """

    name: str = ""
    texts: Mapping[str, Any] = {}
    tag: str = ""
    holds_out_test: bool = False
    hold_out: str = HOLD_OUT_SOURCES
    others: Sequence["Corpus"] = ()

    def read_text(self, text: Any) -> Iterator[WeightedPair]:
        """Yields the pairs of one of `texts`, with their weights."""
        raise NotImplementedError

    def text_fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes when the text of a split may have changed."""
        raise NotImplementedError

    @property
    def held_out(self) -> list[str]:
        """The splits that a part of "train" is held out for, in their order."""
        if "train" not in self.texts or "validation" in self.texts:
            return []
        return ["test", "validation"] if self.holds_out_test else ["validation"]

    @property
    def splits(self) -> list[str]:
        """The names of all splits."""
        return [*self.texts, *self.held_out, *(["all"] if self.held_out else [])]

    def parts(self, split: str) -> list["Corpus"]:
        """Returns the corpora whose text a split has, each of which is encoded alone."""
        return [self]

    def describe(self, split: str) -> str:
        """Returns a split and the names of its corpora, for messages: "test of folder data"."""
        return f"{split} of {' and '.join(part.name for part in self.parts(split))}"

    def read(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields the (source, target) strings of a split."""
        for source, target, _ in self.read_weighted(split):
            yield source, target

    def read_weighted(self, split: str) -> Iterator[WeightedPair]:
        """Yields the pairs of a split, as strings without line ends, and their weights.

        Raises: UserError for an unknown split, and for text that cannot be read.
        """
        self.known(split)
        pairs: Iterable[WeightedPair]
        pairs = self.read_text(self.texts.get(split, self.texts.get("train")))
        shares_train = self.held_out and split in ("train", *self.held_out)
        if shares_train and self.hold_out == HOLD_OUT_END:
            pairs = itertools.islice(pairs, *self._bounds(split))
        elif split in self.held_out:
            pairs = self._held_out_pairs(split, pairs)
        elif split == "train":
            pairs = self._kept_pairs(pairs)
        for source, target, weight in pairs:
            yield add_tag(self.tag, source), target, weight

    def _held_out_pairs(self, split: str, pairs: Iterable[WeightedPair]) -> list[WeightedPair]:
        """The pairs that are held out for a split.

        They are sorted by their hashes, so that the first ones are a sample of all of them.
        """
        hashed = ((_key(pair[0]), pair) for pair in pairs)
        own = (each for each in hashed if self.held_out_sources.get(each[0]) == split)
        return [pair for _, pair in sorted(own, key=operator.itemgetter(0))]

    def _kept_pairs(self, pairs: Iterable[WeightedPair]) -> Iterator[WeightedPair]:
        """The pairs whose source is not held out here, and no side of them is to score another."""
        own = self.held_out_sources
        others = set().union(*(other.scored_sources for other in self.others))
        left_out = 0
        for pair in pairs:
            source = _key(pair[0]) if own or others else b""
            if source in own:
                continue
            if others and (source in others or _key(pair[1]) in others):
                left_out += 1
            else:
                yield pair
        if left_out:
            logger.info(
                f"{left_out:,} pairs of {self.name} are left out: a side of them is in the "
                "validation or test text of another corpus"
            )

    @functools.cached_property
    def held_out_sources(self) -> Mapping[bytes, str]:
        """The hashes of the sources that are held out, with their splits.

        A split gets the sources with the smallest hashes, so that no source is in two splits,
        wherever its translations are in the text. Pairs with a blank side do not count.
        """
        if not self.held_out or self.hold_out == HOLD_OUT_END:
            return {}
        pairs = 0  # without blank sides

        def hashes() -> Iterator[bytes]:
            nonlocal pairs
            for source, target, _ in self.read_text(self.texts["train"]):
                if source.strip() and target.strip():
                    pairs += 1
                    yield _key(source)

        smallest = heapq.nsmallest(MAX_HELD_OUT * len(self.held_out), hashes())
        size = _held_out_size(pairs)
        found: dict[bytes, str] = {}
        for index, each in enumerate(smallest[: size * len(self.held_out)]):
            found.setdefault(each, self.held_out[index // size])
        return found

    @property
    def _scored_splits(self) -> list[str]:
        """The splits for validation and tests that have text of their own."""
        return [split for split in self.texts if split == "validation" or split.startswith("test")]

    @functools.cached_property
    def scored_sources(self) -> set[bytes]:
        """The hashes of the sources for validation and tests, held-out ones and others."""
        if self.hold_out == HOLD_OUT_END:
            return set()
        texts = (self.read_text(self.texts[split]) for split in self._scored_splits)
        sources = (source for source, *_ in itertools.chain.from_iterable(texts))
        return {*self.held_out_sources, *(_key(source) for source in sources if source.strip())}

    def _bounds(self, split: str) -> tuple[int, int]:
        """The range of the text of "train" that a split has where its end is held out."""
        size = _held_out_size(self._training_pairs)
        after = ["train", *self.held_out][::-1].index(split)  # splits that are held out after it
        end = max(0, self._training_pairs - after * size)
        return (0 if split == "train" else max(0, end - size)), end

    @functools.cached_property
    def _training_pairs(self) -> int:
        """The number of pairs of the text of "train", held-out ones included."""
        return sum(1 for _ in self.read_text(self.texts["train"]))

    def fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the tag, or when the text may have changed."""
        held_out: list[Hashable] = []
        if self.hold_out == HOLD_OUT_SOURCES and split in ("train", *self.held_out):
            for each in self.others:
                splits = [*(["train"] if each.held_out else []), *each._scored_splits]
                held_out += map(each.text_fingerprint, splits)
            held_out += [HOLD_OUT_SOURCES] if self.held_out or held_out else []
        return (*([self.tag] if self.tag else []), *self.text_fingerprint(split), *held_out)

    def check(self) -> None:
        """Checks, before long work on the training text, that there is text for training.

        "train" is read up to the first usable pair, "validation" completely.

        Raises: UserError when a side of all pairs is blank, or the text cannot be read.
        """
        for split in ("train", "validation"):
            for part in self.parts(split):
                usable = (bool(s.strip() and t.strip()) for s, t in part.read(split))
                if not (any(usable) if split == "train" else sum(usable)):
                    raise UserError(
                        f"{part.name} has no {split} text: of each pair of {split}, at least one "
                        "side is blank, or there are too few different sources: give validation "
                        "text, or --hold_out=end"
                    )

    def default_test(self, seen: bool) -> str:
        """Returns the split to evaluate on where the user gives none.

        Args:
          seen: whether the model was trained on this corpus. If so, the split "all" is not a test.
        Raises: UserError when the corpus has several test sets or none.
        """
        tests = [split for split in self.splits if split.startswith("test")]
        if "test" in tests:
            return "test"
        substitute = "validation" if seen else "all"
        if not tests and substitute in self.splits:
            return substitute
        if len(tests) == 1:
            return tests[0]
        raise UserError(
            f"{self.name} has several test sets or none: give --split, one of "
            f"{', '.join(self.splits)}"
        )

    def known(self, split: str) -> str:
        """Returns the name of a split. Raises: UserError when the corpus has no such split."""
        if split not in self.splits:
            raise UserError(f"{self.name} has no split {split!r}: it has {', '.join(self.splits)}")
        return split


class FileCorpus(Corpus):
    """The text of files.

    Args:
      name: for messages.
      texts: the paths of the files of each split.
      read_files: yields the pairs of such files.
      key: what its pairs depend on besides the files.
    """

    def __init__(
        self,
        name: str,
        texts: Mapping[str, Sequence[str]],
        read_files: Callable[[Sequence[str]], Iterator[WeightedPair]],
        key: tuple[Hashable, ...] = (),
    ) -> None:
        self.name = name
        self.texts = texts
        self._read_files = read_files
        self._key = key

    def read_text(self, text: Sequence[str]) -> Iterator[WeightedPair]:
        """Yields the pairs of the files `text`, with their weights."""
        return self._read_files(text)

    def text_fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the names and the content of files.

        A job can copy its text to another folder: the text that is encoded stays valid.
        """
        paths = self.texts.get(split, self.texts.get("train", ()))
        files = [_content(os.path.abspath(path), os.stat(path).st_mtime_ns) for path in paths]
        return (split, bool(self.held_out), *files, *self._key)


@functools.cache  # the files of one split are asked for several times
def _content(path: str, modified: int) -> tuple[str, int, int]:
    """The name of a file of this time, its size, and its CRC-32: 1 GB takes about a second."""
    sum_ = 0
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            sum_ = zlib.crc32(chunk, sum_)
        return os.path.basename(path), file.tell(), sum_


def digest(*parts: Hashable) -> str:
    """Returns a short hash of strings, numbers, and tuples of them, for the names of files."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _key(sentence: str) -> bytes:
    """A hash of 64 bits for the choice of the held-out sentences; blanks around do not count."""
    text = " ".join(sentence.split())
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _held_out_size(pairs: int) -> int:
    return min(MAX_HELD_OUT, max(1, int(pairs * HELD_OUT_FRACTION)))
