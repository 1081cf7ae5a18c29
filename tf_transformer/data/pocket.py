"""The built-in corpora: the pocket corpus, English and German, and the pocket treebank.

No download is needed: they are files of the package, which the grammar in `tools/pocket` of the
source code wrote. Each sentence occurs once, so that no two splits share one.

    Yesterday at half past six my aunt got up.
    Gestern um halb sieben ist meine Tante aufgestanden.

The vocabulary is small, but a word-for-word translation is wrong: a model has to learn German word
order, agreement, negation, numbers, clock times, and names to copy. The grammar determines the
translation in both directions, and the tree of a sentence, so that a model can reach 100%.
"""

import hashlib
import io
import itertools
import lzma
import pathlib
from collections.abc import Hashable, Iterator

from tf_transformer.data.corpus import Corpus
from tf_transformer.data.trees import Tree, restore
from tf_transformer.errors import UserError

FOLDER = pathlib.Path(__file__).with_name("built_in")
# Of the compressed files. `tools/write_pocket.py` writes the files and prints these.
CHECKSUMS = {
    "pocket": "9ceaaa106f0bb85000ef92a0815be09bbb7862f77a2044532aae9ce6571e158d",
    "pocket-trees": "80575ca18ff6eb71e9ca251f365b0ac2549387879f7f79fe6b8b77607d1e77ef",
}
# The number of pairs of each split, in the order of the lines of a file.
SPLIT_SIZES = {
    "pocket": {"validation": 1_000, "test": 1_000, "train": 200_000},
    "pocket-trees": {"validation": 1_000, "test": 1_000, "train": 40_000},
}


def read_pairs(name: str = "pocket") -> Iterator[tuple[str, str]]:
    """Reads all pairs of a built-in corpus: those of "validation", of "test", and of "train".

    Args:
      name: "pocket", for pairs of English and German sentences, or "pocket-trees", for pairs of
        the words of a sentence and its linearised tree.
    Yields: pairs of strings.
    Raises: UserError when the file is not the one that the package was published with.
    """
    path = FOLDER / f"{name}.tsv.xz"
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != CHECKSUMS[name]:
        raise UserError(f"{path} is damaged: install tf_transformer again")
    for line in io.TextIOWrapper(lzma.LZMAFile(io.BytesIO(data)), "utf-8", newline="\n"):
        source, _, target = line.removesuffix("\n").partition("\t")
        yield source, target


class BuiltInCorpus(Corpus):
    """A corpus that is a file of the package.

    Args:
      file: a key of `SPLIT_SIZES`.
      name: of the corpus, for messages.
      flip: whether the second text of each pair is the source.
    """

    def __init__(self, file: str, name: str, flip: bool = False) -> None:
        self.name = name
        self.splits = ["train", "validation", "test"]
        self._file = file
        self._flip = flip

    def read(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields the pairs of a split. Raises: UserError for an unknown split."""
        self.known(split)
        first = 0
        for name, size in SPLIT_SIZES[self._file].items():
            if name == split:
                for pair in itertools.islice(read_pairs(self._file), first, first + size):
                    yield pair[::-1] if self._flip else pair
            first += size

    def fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the text."""
        return (self._file, CHECKSUMS[self._file], self._flip, split)


class PocketCorpus(BuiltInCorpus):
    """The built-in English-German corpus, in either direction.

    Args:
      source: "en" or "de".
      target: the other language.
    Raises: UserError for other languages.
    """

    def __init__(self, source: str, target: str) -> None:
        if {source, target} != {"en", "de"}:
            raise UserError(f"the pocket corpus has en and de, not {source} and {target}")
        super().__init__("pocket", "the pocket corpus", flip=source == "de")


class PocketTreebank(BuiltInCorpus):
    """The built-in treebank."""

    def __init__(self) -> None:
        super().__init__("pocket-trees", "the pocket treebank")

    def trees(self, split: str) -> Iterator[Tree]:
        """Yields the trees of a split, in the order of `read`. Raises: as `read`."""
        for words, target in self.read(split):
            yield restore(target, words.split(" "))
