"""The built-in corpus and treebank as sources of training data."""

import functools
import hashlib
import pathlib
from collections.abc import Hashable, Iterable, Iterator

from tf_transformer.data.corpus import Corpus
from tf_transformer.data.pocket import corpus, treebank
from tf_transformer.data.treebank import clean_tree, source_and_target
from tf_transformer.data.trees import Tree, read_trees
from tf_transformer.errors import UserError

DATA = pathlib.Path(__file__).parents[1]  # the subpackage `data`
GRAMMAR_FILES = [DATA / "trees.py", DATA / "treebank.py", *sorted((DATA / "pocket").glob("*.py"))]
SPLITS = ["train", "validation", "test"]


def grammar_hash(files: Iterable[pathlib.Path] = GRAMMAR_FILES) -> str:
    """Returns a hash of the source code that generates the text.

    It is part of each corpus's fingerprint, so that a changed grammar invalidates cached token ids.
    """
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


class PocketCorpus(Corpus):
    """The built-in English-German corpus, in either direction.

    Args:
      source: "en" or "de".
      target: the other language.
    Raises: UserError for other languages.
    """

    def __init__(self, source: str, target: str) -> None:
        if {source, target} != {"en", "de"}:
            raise UserError(f"the pocket corpus has en and de, not {source} and {target}")
        self.name = "the pocket corpus"
        self.splits = list(SPLITS)
        self._flip = source == "de"
        self._generate = functools.cache(corpus.split)  # the training split takes some seconds

    def read(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields (source, target) sentences of a split. Raises: UserError for an unknown split."""
        for english, german in self._generate(self.known(split)):
            yield (german, english) if self._flip else (english, german)

    def fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the grammar."""
        return ("pocket", grammar_hash(), self._flip, split)


class PocketTreebank(Corpus):
    """The built-in treebank."""

    def __init__(self) -> None:
        self.name = "the pocket treebank"
        self.splits = list(SPLITS)
        self._generate = functools.cache(treebank.split)  # the training split takes some seconds

    def trees(self, split: str) -> Iterator[Tree]:
        """Yields the clean trees of a split, in the order of `read`.

        Raises: UserError for an unknown split.
        """
        self.known(split)
        yield from map(clean_tree, read_trees(self._generate(split), self.name))

    def read(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields (words joined by blanks, linearised tree) of a split. Raises: as `trees`."""
        yield from map(source_and_target, self.trees(split))

    def fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the grammar."""
        return ("pocket-trees", grammar_hash(), split)
