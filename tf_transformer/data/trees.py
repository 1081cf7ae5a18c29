"""Constituency parsing as translation (Sec. 6.3): trees, trees as strings, and corpora of trees.

Trees are read in the bracketed format of the Penn Treebank (Marcus et al. 1993). The source is the
sentence. The target is its tree, in which a part-of-speech tag replaces each word, as in Vinyals et
al. 2015, "Grammar as a Foreign Language":

    The dog barks .
    (S (NP DT NN ) (VP VBZ ) . )

Two details differ from their format. A closing bracket has no label (theirs: ")NP"), so an output
cannot close a phrase with the wrong label. The tags are kept (theirs has one tag for all words), so
that they can be scored. A sub-word never joins a bracket and letters: "(NP" is two sub-words and
")" is one, so a phrase costs three sub-words instead of four. On the pocket treebank, training is
also faster. The blank in ") )" keeps the two brackets in separate sub-words.
"""

import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tf_transformer.data.corpus import FileCorpus, WeightedPair
from tf_transformer.data.text_files import read_lines, uncompressed
from tf_transformer.errors import UserError

TOP = "TOP"  # the label of a node that holds several trees
TRACE = "-NONE-"  # the tag of a trace, an element that is not pronounced
OUTER = (TOP, "ROOT", "S1", "VROOT", "")  # labels of nodes that only contain a tree
# The beginnings of lines between trees: of the Penn Treebank's notice, and of SGML as in the
# Chinese Treebank.
_NOTICE = ("*x*", "<")
_FEATURES = re.compile("(?<=.)##.*")  # after a label in treebanks of SPMRL: "NC##lem=chat|n=s##"
_DISCONTINUOUS = re.compile(r"\d+=.")  # "0=The"
ENDINGS = (".mrg", ".parse", ".ptb", ".fid")  # of the names of files with trees

MAX_DEPTH = 300  # open brackets; trees of the Penn Treebank have less than 50

# What `parse_output` inserts where the text has no tag or label.
DEFAULT_TAG = "NN"
DEFAULT_LABEL = "X"
DEFAULT_ROOT = "S"

# The sections of the Penn Treebank of each split, and the beginnings of names in other treebanks.
SECTIONS = {"train": range(2, 22), "validation": range(22, 23), "test": range(23, 24)}
NAMES = {"train": "train", "val": "validation", "dev": "validation", "test": "test"}
_SPLITS = NAMES | {f"{n:02}": split for split, numbers in SECTIONS.items() for n in numbers}
_PENN = re.compile(r"(?:^|/)wsj_(\d\d)\d\d\.[^/]*$")
_NAMED = re.compile(f"(?:^|/)({'|'.join(NAMES)})")

# Only ASCII blanks separate tokens; a no-break space is part of its word.
_BRACKET_OR_WORD = re.compile(r"[()]|[^\s()]+", re.ASCII)
_LINEARISED = re.compile(r"\([^\s()]*|\)|[^\s()]+", re.ASCII)
_OpenNode = tuple[str, list[Any]]  # where it begins; its label, words and children
_OpenPhrase = tuple[str, list["Tree"]]  # label, children


class Tree(NamedTuple):
    """A node of a tree: a phrase, or a pre-terminal, which is a part-of-speech tag with its word.

    `str` gives the tree on one line: "(S (NP (DT The) (NN dog)) (VP (VBZ barks)))".
    """

    label: str
    children: "tuple[Tree, ...] | str"  # a word when the node is a pre-terminal

    def pre_terminals(self) -> "list[Tree]":
        """The pre-terminals, from left to right."""
        if isinstance(self.children, str):
            return [self]
        return list(itertools.chain.from_iterable(map(Tree.pre_terminals, self.children)))

    def words(self) -> list[str]:
        """The words, including traces such as "*T*-1"."""
        return [str(word) for _, word in self.pre_terminals()]

    def tags(self) -> list[tuple[str, str]]:
        """A list of (word, part-of-speech tag)."""
        return [(str(word), tag) for tag, word in self.pre_terminals()]

    def __str__(self) -> str:
        inside = [self.children] if isinstance(self.children, str) else map(str, self.children)
        return f"({' '.join([self.label, *inside])})"


def read_trees(lines: Iterable[str], name: str = "line") -> Iterator[Tree]:
    """Reads bracketed text such as the `.mrg` files of the Penn Treebank.

    A tree can extend over several lines, and a line can hold several trees. A node without a label,
    such as the outer one of "( (S ...))", has the label "". Lines between trees that begin with
    "*x*" (a notice) or "<" (as in "<S ID=1>" of the Chinese Treebank) are skipped.

    Args:
      lines: of a file.
      name: of the file, for messages.
    Raises: UserError, with the line number, for unbalanced brackets, or a word that is not the only
      child of its tag, "(NN the dog)".
    """
    stack: list[_OpenNode] = []
    for number, line in enumerate(lines, start=1):
        if stack or not line.lstrip().startswith(_NOTICE):
            yield from _parse_line(stack, line, f"{name}:{number}")
    if stack:
        raise UserError(
            f"{stack[0][0]}: the tree that begins here is not closed, it lacks {len(stack)} of "
            "its ')': add them"
        )


def _parse_line(stack: list[_OpenNode], line: str, where: str) -> Iterator[Tree]:
    """Yields the trees that a line closes. `stack` has the open nodes, outermost first."""
    for token in _BRACKET_OR_WORD.findall(line):
        if token == "(":
            if len(stack) == MAX_DEPTH:
                raise UserError(f"{where}: more than {MAX_DEPTH} brackets are open")
            stack.append((where, []))
            continue
        if not stack:
            raise UserError(
                f"{where}: {token!r} is outside the brackets: correct the tree here or the one "
                "before"
            )
        if token != ")":
            stack[-1][1].append(token)
            continue
        _, parts = stack.pop()
        label = parts.pop(0) if parts and isinstance(parts[0], str) else ""
        words = [part for part in parts if not isinstance(part, Tree)]
        if words and len(parts) > 1:
            raise UserError(
                f"{where}: the word {words[0]!r} is not alone under its tag, in ({label} ...): "
                "write each word as (TAG WORD)"
            )
        tree = Tree(label, words[0] if words else tuple(parts))
        if stack:
            stack[-1][1].append(tree)
        else:
            yield tree


def clean_tree(tree: Tree) -> Tree | None:
    """Converts a tree of a treebank to the tree that a parser predicts.

    Functional tags and co-indices of phrases are removed: NP-SBJ-1 becomes NP. Tags of words do not
    change, such as -LRB-. The features of SPMRL are removed from both: NC##lem=chat## becomes NC.
    Traces are removed, and the phrases that have no words without them. TOP and other `OUTER` nodes
    are removed; TOP remains where one contains several trees.

    Returns: a `Tree`, or None when no word is left. The function is idempotent.
    """
    trees = _clean_trees(tree)
    if len(trees) > 1:
        return Tree(TOP, trees)
    return trees[0] if trees else None


def _clean_trees(tree: Tree) -> tuple[Tree, ...]:
    """The clean trees of a node: several of an outer node, none where no word is left."""
    label = _FEATURES.sub("", tree.label)
    if isinstance(tree.children, str):
        return () if label == TRACE else (Tree(label, tree.children),)
    children = tuple(itertools.chain.from_iterable(map(_clean_trees, tree.children)))
    if not label.startswith("-"):  # "NP-SBJ-1" -> "NP"
        label = re.split("[-=]", label, maxsplit=1)[0]
    return (Tree(label, children),) if children and label not in OUTER else children


def linearise(tree: Tree) -> str:
    """Writes a clean tree without its words: "(S (NP DT NN ) (VP VBZ ) . )"."""
    if isinstance(tree.children, str):
        return tree.label
    return " ".join([f"({tree.label}", *map(linearise, tree.children), ")"])


def source_and_target(tree: Tree) -> tuple[str, str]:
    """Returns the sentence pair of a clean tree: its words, and the linearised tree."""
    return " ".join(tree.words()), linearise(tree)


def parse_output(text: str, words: list[str]) -> Tree:
    """Reads a tree that `linearise` or a model wrote, and repairs it where it is not well-formed.

    - An extra closing bracket is ignored, and so is one that closes the outermost phrase before the
      end. A missing one is added at the end.
    - A phrase without words is removed. An opening bracket without a label opens an X, and one
      inside `MAX_DEPTH` others is ignored.
    - Extra tags are ignored. Words without a tag become NN, at the end of the outermost phrase.
    - Trees that are not in one phrase are put in an S, and so are words without any phrase.

    Returns: a `Tree` with exactly these words. For a clean tree,
      `parse_output(linearise(tree), tree.words()) == tree`.
    """
    untagged = list(reversed(words))  # the next word is the last item
    stack: list[_OpenPhrase] = [("", [])]  # outermost first
    for token in _LINEARISED.findall(text):
        if token == ")":
            if len(stack) > 2:
                _close(stack)
        elif token.startswith("("):
            if len(stack) <= MAX_DEPTH:
                stack.append((token[1:] or DEFAULT_LABEL, []))
        elif untagged:
            stack[-1][1].append(Tree(token, untagged.pop()))
    while len(stack) > 2:
        _close(stack)
    stack[-1][1].extend(Tree(DEFAULT_TAG, word) for word in reversed(untagged))
    if len(stack) > 1:
        _close(stack)
    trees = stack[0][1]
    is_complete = len(trees) == 1 and (not untagged or not isinstance(trees[0].children, str))
    return trees[0] if is_complete else Tree(DEFAULT_ROOT, tuple(trees))


def _close(stack: list[_OpenPhrase]) -> None:
    """Closes the innermost phrase of a stack; a phrase without children is dropped."""
    label, children = stack.pop()
    if children:
        stack[-1][1].append(Tree(label, tuple(children)))


def is_well_formed(text: str, words: list[str]) -> bool:
    """Whether `parse_output` repairs nothing."""
    return linearise(parse_output(text, words)).split(" ") == re.findall(r"\S+", text, re.ASCII)


def open_treebank(data: str) -> FileCorpus:
    """Opens a file of trees, or a folder, as pairs of a sentence and its linearised tree.

    The files of a folder are searched in all sub-folders. Their names end as in `ENDINGS`, also
    with .gz, .bz2 or .xz after it, and determine the splits:

    - Penn Treebank, wsj_0200.mrg to wsj_2399.mrg in upper or lower case: sections 02-21 are
      "train", 22 is "validation", 23 is "test". Other sections are not used.
    - Names of files or sub-folders that begin with "train", with "val" or "dev", or with "test".
      Other files are not used.
    - No such names: 5% of the trees (at most 1,000) are "validation", as many are "test", the rest
      is "train". The split "all" contains all trees.

    Where the names give training trees but no validation trees, 5% of the training trees (at most
    1,000) are held out for validation.

    Raises: UserError when there is none, or no such file is in the folder.
    """
    folder = pathlib.Path(data)
    below = (
        path for path in folder.rglob("*") if uncompressed(path.name.lower()).endswith(ENDINGS)
    )
    found = [folder] if folder.is_file() else sorted(below)
    if not found:
        problem = f"no {', '.join(ENDINGS)} file in the folder {data} or its sub-folders"
        raise UserError(
            f"{problem if folder.is_dir() else f'no such folder or file: {data}'}: give "
            "pocket-trees, or a file or folder of trees in the format of the Penn Treebank"
        )
    texts: dict[str, list[str]] = {}
    names = [path.relative_to(folder).as_posix().lower() for path in found]
    for pattern in (_PENN, _NAMED):
        matches = map(pattern.search, names)
        splits = [match and _SPLITS.get(match[1]) for match in matches]
        for split in SECTIONS:
            paths = [str(path) for path, of_path in zip(found, splits) if of_path == split]
            texts |= {split: paths} if paths else {}
        if texts:
            break
    used = sum(map(len, texts.values())) or len(found)
    some = f" ({used:,} of its {len(found):,} files)" if used < len(found) else ""
    files = texts or {"train": list(map(str, found))}
    corpus = FileCorpus(f"treebank {data}{some}", files, _read_pairs)
    corpus.holds_out_test = not texts
    return corpus


def _read_pairs(paths: Sequence[str]) -> Iterator[WeightedPair]:
    """Yields (words joined by blanks, linearised tree, None) of the clean trees of files."""
    for path in paths:
        for tree in map(clean_tree, read_trees(read_lines(path), path)):
            if tree is not None:
                if all(map(_DISCONTINUOUS.match, tree.words())):
                    raise UserError(
                        f"{path}: words such as {tree.words()[0]!r} are of disco-dop's format for "
                        "discontinuous trees (.dbr): convert it to trees without indices, such as "
                        "with `discodop treetransforms --output=bracket`"
                    )
                yield (*source_and_target(tree), None)
