"""English constituency parsing as translation (Sec. 6.3): trees as strings, and corpora of sentences with their trees.

The source is the words, the target the tree with a tag in the place of each word, as Vinyals et al. 2015, "Grammar as a Foreign
Language", write it:

    The dog barks .
    (S (NP DT NN ) (VP VBZ ) . )

Theirs closes with the label again, ")NP", and has one tag for all words; here the tags stay, so that they can be scored, and a closing
bracket is bare. Sub-words never join a bracket with letters, so "(NP" is two of them and ")" one: a constituent costs three
sub-words instead of four, and no output can close what it did not open. On the pocket treebank that is learnt faster, too. The blanks
keep ") )" two sub-words, one for each step of the tree.
"""

import functools
import itertools
import os
import pathlib
import re

from tf_transformer.data.corpus import Corpus, held_out
from tf_transformer.data.trees import TOP, Tree, read_trees
from tf_transformer.errors import UserError

TRACE = "-NONE-"  # the tag of what is not spoken
OUTER = (TOP, "ROOT", "S1", "")  # labels of nodes that only hold a tree
COMMONEST_TAG, UNKNOWN_LABEL, SENTENCE = (
    "NN",
    "X",
    "S",
)  # what `restore` gives where the text gives nothing

SECTION = re.compile(
    r"wsj_(\d\d)\d\d\.mrg", re.IGNORECASE
)  # of the Penn Treebank: train on 02-21, validate on 22, test on 23
SECTIONS = {"train": range(2, 22), "validation": range(22, 23), "test": range(23, 24)}
SPLIT_NAMES = {
    "train": ("train",),
    "validation": ("val", "dev"),
    "test": ("test",),
}  # beginnings of the names of files and folders

_SYMBOL = re.compile(r"\([^\s()]*|\)|[^\s()]+", re.ASCII)


def clean_tree(tree):
    """What a parser is to find of a treebank's tree.

    Functional tags and co-indices of phrases go, NP-SBJ-1 is NP (tags of words stay as they are: -LRB-); traces go, and with them the
    phrases that have no word left; TOP goes, unless there are several trees in it.

    Args:
      tree: a `Tree`.
    Returns: a `Tree`, or None where no word is left. A clean tree is its own clean tree.
    """
    opened = [("", [])]  # label and children of the phrases around the place, outermost first
    for node in _walk(tree):
        if node is None:
            label, children = opened.pop()
            if label in OUTER:
                opened[-1][1].extend(children)
            elif children:
                opened[-1][1].append(Tree(label, tuple(children)))
        elif not isinstance(node.children, str):
            opened.append((_without_function(node.label), []))
        elif node.label != TRACE:
            opened[-1][1].append(node)
    trees = opened[0][1]
    return trees[0] if len(trees) == 1 else Tree(TOP, tuple(trees)) if trees else None


def _without_function(label):
    return label if label.startswith("-") else re.split("[-=]", label, maxsplit=1)[0]


def _walk(tree):
    """Yields each node where it begins, and None where a phrase ends."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if node is not None and not isinstance(node.children, str):
            waiting += [None, *reversed(node.children)]


def linearise(tree):
    """Writes a tree without its words: "(S (NP DT NN ) (VP VBZ ) . )".

    Args:
      tree: a `Tree`, clean.
    Returns: a string, whose symbols have one blank between them.
    """
    return " ".join(
        ")" if node is None else node.label if isinstance(node.children, str) else f"({node.label}"
        for node in _walk(tree)
    )


def source_and_target(tree):
    """The sentence pair of a clean tree: its words joined by blanks, and the linearised tree."""
    return " ".join(tree.words()), linearise(tree)


def restore(text, words):
    """Reads what `linearise` writes, or a model in its place, and repairs it where it is not well-formed:

    - A closing bracket too many is passed over; so is one that would close the outermost phrase before the end. One too few is added at
      the end.
    - A phrase without words is left out. An opening bracket without a label opens an X.
    - Tags beyond the last word are passed over. Words beyond the last tag are NN, at the end of the outermost phrase.
    - What is not in one phrase gets an S around it; so do the words where there is nothing else.

    Args:
      text: any string.
      words: the words of the sentence, a list of strings.
    Returns: a `Tree` with exactly these words. `restore(linearise(tree), tree.words()) == tree` for each clean tree.
    """
    waiting, opened = list(reversed(words)), [("", [])]
    for symbol in _SYMBOL.findall(text):
        if symbol == ")":
            if len(opened) > 2:
                _close(opened)
        elif symbol.startswith("("):
            opened.append((symbol[1:] or UNKNOWN_LABEL, []))
        elif waiting:
            opened[-1][1].append(Tree(symbol, waiting.pop()))
    while len(opened) > 2:
        _close(opened)
    opened[-1][1].extend(Tree(COMMONEST_TAG, word) for word in reversed(waiting))
    if len(opened) > 1:
        _close(opened)
    trees = opened[0][1]
    is_whole = len(trees) == 1 and (not waiting or not isinstance(trees[0].children, str))
    return trees[0] if is_whole else Tree(SENTENCE, tuple(trees))


def _close(opened):
    label, children = opened.pop()
    if children:
        opened[-1][1].append(Tree(label, tuple(children)))


def is_well_formed(text, words):
    """Whether `restore` has nothing to repair.

    Args:
      text, words: as for `restore`.
    """
    return linearise(restore(text, words)).split(" ") == re.findall(r"\S+", text, re.ASCII)


class TreebankCorpus(Corpus):
    """The trees of a folder with `.mrg` files, searched in all its sub-folders, as pairs of sentence and linearised tree.

    The Penn Treebank is known by the names of its files, wsj_0200.mrg to wsj_2399.mrg, small or capital: sections 02-21 are for
    training, 22 for validation, 23 for testing, others are not used. In another folder, files or sub-folders whose names begin with
    "train", "val" or "dev", and "test" are what they say, and others are not used. Where no name tells, all trees are for training, but
    for the last 5% (1,000 at most), which are for validation, and as many before them, which are for testing; the split "all" is all
    of them. Where there are trees to train on and none for validation, the last 5% (1,000 at most) are held out for that.

    Args:
      folder: a path.
    Raises: UserError when it holds no `.mrg` file.
    """

    def __init__(self, folder):
        paths = tree_files(folder)
        if not paths:
            raise UserError(
                f"no .mrg file in the folder {folder} or below it: give a folder of trees in the form of the Penn Treebank"
            )
        self.name, self._files, self._held_out = (
            f"treebank {folder}",
            _split_files(folder, paths),
            [],
        )
        if not self._files:
            self._files, self._held_out = (
                {"train": [str(path) for path in paths]},
                ["test", "validation"],
            )
        elif "train" in self._files and "validation" not in self._files:
            self._held_out = ["validation"]
        if (used := sum(map(len, self._files.values()))) < len(paths):
            self.name += f" ({used:,} of its {len(paths):,} files)"
        self.splits = [
            split for split in SECTIONS if split in self._files or split in self._held_out
        ]
        self.splits += ["all"] * (self._held_out == ["test", "validation"])

    def trees(self, split):
        """Yields the clean trees of a split, in the order of `read`.

        Raises: UserError for an unknown split, or, with file and line, text that is no tree.
        """
        self.known(split)
        if not self._held_out or split not in ("train", *self._held_out):
            yield from _read_files(self._files["train" if split == "all" else split])
            return
        size = held_out(self._trees_in_train)
        ends = [
            self._trees_in_train - size * n for n in range(len(self._held_out), -1, -1)
        ]  # of train, and of each that is held out
        place = ["train", *self._held_out].index(split)
        yield from itertools.islice(
            _read_files(self._files["train"]), ends[place - 1] if place else 0, ends[place]
        )

    def read(self, split):
        """Yields (words joined by blanks, linearised tree) of a split. Raises: as `trees`."""
        yield from map(source_and_target, self.trees(split))

    def fingerprint(self, split):
        """A tuple that changes with the files' names, sizes and times."""
        files = self._files.get(split, self._files.get("train", ()))
        stats = [os.stat(path) for path in files]
        return (
            "trees",
            split,
            *self._held_out,
            *((os.path.abspath(p), s.st_size, s.st_mtime_ns) for p, s in zip(files, stats)),
        )

    def default_test(self, seen):
        """The split to evaluate on where none is named: test, or where there is none, validation; all, where no name tells.

        Args:
          seen: whether the model was trained on this corpus; then its training trees are no test.
        Raises: UserError where there is none of these.
        """
        for split in (
            ("test", "validation") if seen or "train" not in self._files else ("all", "test")
        ):
            if split in self.splits:
                return split
        raise UserError(
            f"{self.name} has no trees to test on: give --split, one of {', '.join(self.splits)}"
        )

    @functools.cached_property
    def _trees_in_train(self):
        number = sum(1 for _ in _read_files(self._files["train"]))
        if number <= len(self._held_out):
            raise UserError(
                f"{self.name} has {number} trees: there must be at least {len(self._held_out) + 1}, to train on and to hold out"
            )
        return number


def tree_files(folder):
    """The paths of the `.mrg` files of a folder and its sub-folders, sorted; empty where it is no folder of trees."""
    return sorted(
        path
        for path in pathlib.Path(folder).rglob("*")
        if path.suffix.lower() == ".mrg" and path.is_file()
    )


def _split_files(folder, paths):
    """Maps splits to their paths, strings, by the names of the files or of the folders; empty where no name tells."""
    found = {}
    for path in paths:
        if section := SECTION.fullmatch(path.name):
            for split in (
                split for split, sections in SECTIONS.items() if int(section[1]) in sections
            ):
                found.setdefault(split, []).append(str(path))
    for path in paths if not found else ():
        for name in path.relative_to(folder).parts:
            splits = [
                split
                for split, beginnings in SPLIT_NAMES.items()
                if name.lower().startswith(beginnings)
            ]
            if splits:
                found.setdefault(splits[0], []).append(str(path))
                break
    return found


def _read_files(files):
    for path in files:
        for tree in map(clean_tree, read_trees(path)):
            if tree is not None:
                yield tree
