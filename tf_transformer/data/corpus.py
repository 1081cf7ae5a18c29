"""The base class of all corpora."""

import functools
import hashlib
import itertools
import os
from collections.abc import Hashable, Iterator, Mapping, Sequence

from tf_transformer.errors import UserError

# Where a corpus has no validation text, the end of its training text is held out for validation:
# this fraction of the pairs or trees, up to this number.
HELD_OUT_FRACTION = 0.05
MAX_HELD_OUT = 1000

# Source, target, and the weight of the pair in the loss; None: the text has no weights.
WeightedPair = tuple[str, str, float | None]


class Corpus:
    """The base class of all corpora.

    A subclass defines `fingerprint(split)`, which changes when the text may have changed, and
    `read(split)`, which yields pairs of strings, or `read_weighted(split)`, which yields them with
    weights.

    Attributes:
      name: of the corpus, for messages.
      splits: the names of its splits.
      downloads: whether reading it can start a download.
      unit: what it consists of, for messages.
    """

    name: str = ""
    splits: list[str] = []
    downloads: bool = False
    unit: str = "pairs"

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
        """Yields the same pairs, with their weights: (source, target, weight)."""
        for source, target in self.read(split):
            yield source, target, None

    def fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes when the text of a split may have changed."""
        raise NotImplementedError

    def check(self) -> None:
        """Checks, before long work on the training text, that there is text for training.

        Raises: UserError when a side of all pairs of "train" or "validation" is blank, or when the
          validation text cannot be read.
        """
        self.check_split("train")
        self.check_split("validation", complete=True)

    def check_split(self, split: str, complete: bool = False) -> None:
        """Checks that a split has text; reads it up to the first usable pair, or completely.

        Raises: UserError when a side of all pairs is blank, or the text cannot be read.
        """
        usable = False
        for source, target in self.read(split):
            usable = usable or bool(source.strip() and target.strip())
            if usable and not complete:
                break
        if not usable:
            raise UserError(
                f"{self.name} has no {split} text: of each pair of {split}, at least one side is "
                "blank"
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


class HeldOutCorpus(Corpus):
    """The text of files, where splits without files are held out from the end of "train".

    A subclass defines `read_files`. Where text is held out, the split "all" has it and "train".

    Args:
      name: of the corpus, for messages.
      files: the paths of each split.
      held_out: the other splits, in their order.
    """

    def __init__(
        self, name: str, files: Mapping[str, Sequence[str]], held_out: Sequence[str]
    ) -> None:
        self.name = name
        self.files = files
        self._held_out = held_out
        self.splits = [*files, *held_out, *(["all"] if held_out else [])]

    def read_files(self, paths: Sequence[str]) -> Iterator[WeightedPair]:
        """Yields the pairs of the files of one split, with their weights."""
        raise NotImplementedError

    def read_weighted(self, split: str) -> Iterator[WeightedPair]:
        """Yields the pairs of a split: strings without line ends, and the weight.

        Raises: UserError for an unknown split, for what `read_files` cannot read, or where the text
          is too short to hold some out.
        """
        pairs = self.read_files(self.files.get(self.known(split), self.files.get("train", ())))
        if split in ("train", *self._held_out) and self._held_out:
            first, end = range_of_split(self, split, self._held_out, self._training_pairs)
            pairs = itertools.islice(pairs, first, end)
        yield from pairs

    @functools.cached_property
    def _training_pairs(self) -> int:
        """The number of pairs of the training files, held-out ones included."""
        return sum(1 for _ in self.read_files(self.files["train"]))

    def fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the paths, sizes and modification times of files."""
        paths = self.files.get(split, self.files.get("train", ()))
        return (split, bool(self._held_out), *map(file_fingerprint, paths))


def range_of_split(
    corpus: Corpus, split: str, held_out: Sequence[str], number: int
) -> tuple[int, int]:
    """Returns the range of the training text that a split has.

    Args:
      corpus: the corpus, whose name is in the error.
      split: "train", or one of those that are held out.
      held_out: the splits at the end of the training text, in their order.
      number: of all pairs or trees of the training text.
    Raises: UserError when these are too few.
    """
    if number <= len(held_out):
        raise UserError(
            f"{corpus.name} has {number} {corpus.unit}: there must be at least "
            f"{len(held_out) + 1}, to train on and to hold out for {' and '.join(held_out)}"
        )
    size = min(MAX_HELD_OUT, max(1, int(number * HELD_OUT_FRACTION)))
    end = number - ["train", *held_out][::-1].index(split) * size
    return (0 if split == "train" else end - size), end


def file_fingerprint(path: str | os.PathLike[str]) -> tuple[str, int, int]:
    """Returns a tuple that changes with the path, the size or the modification time of a file."""
    status = os.stat(path)
    return (os.path.abspath(path), status.st_size, status.st_mtime_ns)


def digest(*parts: Hashable) -> str:
    """Returns a short hash of strings, numbers, and tuples of them, for the names of files."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
