"""Writes the built-in corpora, and prints their checksums: `python tools/write_pocket.py`.

The checksums are `CHECKSUMS` in `tf_transformer/data/pocket.py`. After a change of the grammar,
`make pretrained` trains the built-in model again.
"""

import hashlib
import lzma
import pathlib

from pocket import corpus, treebank

from tf_transformer.data.pocket import FOLDER, SPLIT_SIZES
from tf_transformer.data.trees import clean_tree, read_trees, source_and_target

Pair = tuple[str, str]


def pocket_pairs(number: int) -> list[Pair]:
    """Returns the first pairs of the pocket corpus."""
    return corpus.generate(number)


def treebank_pairs(number: int) -> list[Pair]:
    """Returns the first pairs of the pocket treebank: words, and linearised tree."""
    return [source_and_target(clean_tree(tree)) for tree in read_trees(treebank.generate(number))]


GENERATORS = {"pocket": pocket_pairs, "pocket-trees": treebank_pairs}


def write(folder: pathlib.Path) -> None:
    """Writes the files of all pairs into a folder, which must exist."""
    for name, generate in GENERATORS.items():
        pairs = generate(sum(SPLIT_SIZES[name].values()))
        text = "".join(f"{source}\t{target}\n" for source, target in pairs)
        data = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
        (folder / f"{name}.tsv.xz").write_bytes(data)
        print(f'    "{name}": "{hashlib.sha256(data).hexdigest()}",')


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    write(FOLDER)
