"""The base class of all corpora."""

import functools
import hashlib
import itertools
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from tf_transformer.data.tags import add_tag
from tf_transformer.errors import UserError

# Where a corpus has no validation text, the end of its training text is held out for validation:
# this fraction of the pairs or trees, up to this number.
HELD_OUT_FRACTION = 0.05
MAX_HELD_OUT = 1000

# Source, target, and the weight of the pair in the loss; None: the text has no weights.
WeightedPair = tuple[str, str, float | None]


class Corpus:
    """Sentence pairs in splits. A subclass defines `texts`, `read_text` and `text_fingerprint`.

    Without validation text, the end of "train" is held out for it, and the split "all" has both.

    Attributes:
      name: of the corpus, for messages.
      texts: what `read_text` needs of each split that has text of its own.
      tag: the tag before each source, such as "<2de>"; "" for none.
      holds_out_test: whether text is held out for a split "test" too.
    """

    name: str = ""
    texts: Mapping[str, Any] = {}
    tag: str = ""
    holds_out_test: bool = False

    def read_text(self, text: Any) -> Iterator[WeightedPair]:
        """Yields the pairs of one of `texts`, with their weights."""
        raise NotImplementedError

    def read_training_text(self, first: int, end: int) -> Iterator[WeightedPair]:
        """Yields the pairs `first` to `end`, without that at `end`, of the text of "train"."""
        return itertools.islice(self.read_text(self.texts["train"]), first, end)

    def text_fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes when the text of a split may have changed."""
        raise NotImplementedError

    @property
    def held_out(self) -> list[str]:
        """The splits that the end of "train" is held out for, in their order."""
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
        if self.known(split) in ("train", *self.held_out) and self.held_out:
            pairs = self.read_training_text(*self._bounds(split))
        else:
            pairs = self.read_text(self.texts.get(split, self.texts.get("train")))
        for source, target, weight in pairs:
            yield add_tag(self.tag, source), target, weight

    def _bounds(self, split: str) -> tuple[int, int]:
        """The range of the text of "train" that a split has, which is "train" or held out."""
        size = min(MAX_HELD_OUT, max(1, int(self.training_pairs * HELD_OUT_FRACTION)))
        after = ["train", *self.held_out][::-1].index(split)  # splits that are held out after it
        end = max(0, self.training_pairs - after * size)
        return (0 if split == "train" else max(0, end - size)), end

    @functools.cached_property
    def training_pairs(self) -> int:
        """The number of pairs of the text of "train", held-out ones included."""
        return sum(1 for _ in self.read_text(self.texts["train"]))

    def fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the tag, or when the text may have changed."""
        return (*([self.tag] if self.tag else []), *self.text_fingerprint(split))

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
                        "side is blank, or there are too few pairs"
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
      name: of the corpus, for messages.
      texts: the paths of the files of each split.
      read_files: a function that yields the pairs of such files.
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
        """Returns a tuple that changes with the paths, sizes and modification times of files."""
        paths = self.texts.get(split, self.texts.get("train", ()))
        states = [(os.path.abspath(path), os.stat(path)) for path in paths]
        files = ((path, state.st_size, state.st_mtime_ns) for path, state in states)
        return (split, bool(self.held_out), *files, *self._key)


def digest(*parts: Hashable) -> str:
    """Returns a short hash of strings, numbers, and tuples of them, for the names of files."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
