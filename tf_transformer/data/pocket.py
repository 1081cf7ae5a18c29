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

from tf_transformer.config import TREES, WORDS
from tf_transformer.data.corpus import Corpus, WeightedPair
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
    """Reads the "validation", "test" and "train" pairs of a built-in corpus, in this order.

    Args:
      name: "pocket", for pairs of English and German sentences, or "pocket-trees", for pairs of
        the words of a sentence and its linearised tree.
    Raises: UserError when the file is not the one that the package was published with.
    """
    path = FOLDER / f"{name}.tsv.xz"
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != CHECKSUMS[name]:
        raise UserError(f"{path} is damaged: install tf_transformer again")
    for line in io.TextIOWrapper(lzma.LZMAFile(io.BytesIO(data)), "utf-8", newline="\n"):
        source, _, target = line.removesuffix("\n").partition("\t")
        yield source, target


class PocketCorpus(Corpus):
    """A built-in corpus.

    Args:
      file: "pocket", whose pairs have either direction, or "pocket-trees".
      source, target: its languages.
    Raises: UserError for other languages.
    """

    def __init__(self, file: str, source: str, target: str) -> None:
        languages = ("en", "de") if file == "pocket" else (WORDS, TREES)
        if {source, target} != set(languages):
            raise UserError(
                f"the corpus {file} has {' and '.join(languages)}, not {source} and {target}: give "
                f"--source={languages[0]} --target={languages[1]}"
            )
        self.name = "the pocket corpus" if file == "pocket" else "the pocket treebank"
        self._file = file
        self._flip = source != languages[0]
        ends = itertools.accumulate(SPLIT_SIZES[file].values())
        ranges = dict(zip(SPLIT_SIZES[file], itertools.pairwise((0, *ends))))
        self.texts = {split: ranges[split] for split in ("train", "validation", "test")}

    def read_text(self, text: tuple[int, int]) -> Iterator[WeightedPair]:
        """Yields the pairs of a range of the file."""
        for pair in itertools.islice(read_pairs(self._file), *text):
            source, target = pair[::-1] if self._flip else pair
            yield source, target, None

    def text_fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the text."""
        return (self._file, CHECKSUMS[self._file], self._flip, split)
