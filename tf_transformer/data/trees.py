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

import dataclasses
import functools
import itertools
import os
import pathlib
import re
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from tf_transformer.data.corpus import Corpus, file_fingerprint, range_of_split
from tf_transformer.data.text_files import read_lines
from tf_transformer.errors import UserError

TOP = "TOP"  # the label of an outer node that has none in the text, as in "( (S ...))"
_NOTICE = "*x*"  # the beginning of each line of the notice in some files of the treebank

# Only ASCII blanks separate tokens; a no-break space is part of its word.
_BRACKET_OR_WORD = re.compile(r"[()]|[^\s()]+", re.ASCII)
# "( NP" and "(NP )", which EVALB reads as a word or as an error.
_EXTRA_BLANK = re.compile(r"\(\s+[^\s()]+|\([^\s()]*\s+\)", re.ASCII)

TRACE = "-NONE-"  # the tag of a trace, an element that is not pronounced
OUTER = (TOP, "ROOT", "S1", "")  # labels of nodes that only contain a tree

# What `restore` inserts where the text has no tag or label.
DEFAULT_TAG = "NN"
DEFAULT_LABEL = "X"
DEFAULT_ROOT = "S"

# Files of the Penn Treebank, and the sections of each split.
SECTION = re.compile(r"wsj_(\d\d)\d\d\.mrg", re.IGNORECASE)
SECTIONS = {"train": range(2, 22), "validation": range(22, 23), "test": range(23, 24)}
# Prefixes of file and folder names, for other treebanks.
SPLIT_PREFIXES = {"train": ("train",), "validation": ("val", "dev"), "test": ("test",)}

_LINEARISED = re.compile(r"\([^\s()]*|\)|[^\s()]+", re.ASCII)
_OpenPhrase = tuple[str, list["Tree"]]  # label, children


class Tree(NamedTuple):
    """A node of a tree: a phrase, or a pre-terminal, which is a part-of-speech tag with its word.

    `str` gives the tree on one line: "(S (NP (DT The) (NN dog)) (VP (VBZ barks)))".
    """

    label: str
    children: "tuple[Tree, ...] | str"  # a word when the node is a pre-terminal

    def pre_terminals(self) -> "list[Tree]":
        """Returns the pre-terminals, a list of `Tree`, from left to right."""
        leaves = []
        stack = [self]
        while stack:
            node = stack.pop()
            if isinstance(node.children, str):
                leaves.append(node)
            else:
                stack.extend(reversed(node.children))
        return leaves

    def words(self) -> list[str]:
        """Returns the words, a list of strings, including traces such as "*T*-1"."""
        return [str(word) for _, word in self.pre_terminals()]

    def tags(self) -> list[tuple[str, str]]:
        """Returns a list of (word, part-of-speech tag)."""
        return [(str(word), tag) for tag, word in self.pre_terminals()]

    def __str__(self) -> str:
        pieces = []
        stack: list[Tree | str] = [self]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                pieces.append(node)
            elif isinstance(node.children, str):
                pieces.append(f" ({node.label} {node.children})")
            else:
                pieces.append(f" ({node.label}")
                stack += [")", *reversed(node.children)]
        return "".join(pieces).lstrip(" ")


@dataclasses.dataclass
class _OpenNode:
    """A node whose closing bracket has not been read."""

    where: str  # file and line number of its opening bracket
    label: str | None = None
    parts: list[Tree | str] = dataclasses.field(default_factory=list)  # children and words


def read_trees(
    source: str | os.PathLike[str] | Iterable[str], name: str | None = None
) -> Iterator[Tree]:
    """Reads bracketed text such as the `.mrg` files of the Penn Treebank.

    A tree can extend over several lines, and a line can hold several trees. An outer node without a
    label, "( (S ...))", gets the label `TOP`. Lines between trees that begin with "*x*" are
    skipped: some files begin with a notice in such lines.

    Args:
      source: the path of a file, plain or `.gz`, or an iterable of lines.
      name: of the source, for messages; None for the path, or "line".
    Yields: `Tree`s.
    Raises: UserError when the file cannot be read; and, with the line number, for invalid UTF-8,
      unbalanced brackets, an empty node, "(NP)", or a word that is not the only child of its tag,
      "(NN the dog)".
    """
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        name = name or path
        lines: Iterable[str] = read_lines(path)
    else:
        name = name or "line"
        lines = source
    stack: list[_OpenNode] = []
    for number, line in enumerate(lines, start=1):
        if stack or not line.startswith(_NOTICE):
            yield from _parse_line(stack, line, f"{name}:{number}", TOP)
    _check_closed(stack)


def read_line(line: str, where: str) -> tuple[Tree, ...]:
    """Reads a line of complete trees, as EVALB does.

    Nodes can be empty, "(NP)" or "()": some parsers write this when they have no result. A node
    without a label has the label "".

    Args:
      line: a string with any number of trees.
      where: file and line number, for messages.
    Returns: a tuple of `Tree`s.
    Raises: UserError as `read_trees`, except for empty nodes; and for a blank before a label, or
      between the label and the closing bracket of an empty node.
    """
    if extra := _EXTRA_BLANK.search(line):
        raise UserError(f"{where}: there is an extra blank in {extra[0]!r}: remove it")
    stack: list[_OpenNode] = []
    trees = tuple(_parse_line(stack, line, where, top="", may_be_empty=True))
    _check_closed(stack)
    return trees


def _check_closed(stack: list[_OpenNode]) -> None:
    if stack:
        raise UserError(
            f"{stack[0].where}: the tree that begins here is not closed, it lacks {len(stack)} of "
            "its ')': add them"
        )


def _parse_line(
    stack: list[_OpenNode], line: str, where: str, top: str, may_be_empty: bool = False
) -> Iterator[Tree]:
    """Parses the tokens of a line.

    Args:
      stack: the open nodes, outermost first. The function changes it.
      line: a string.
      where: file and line number, for messages.
      top: the label of an outer node without one.
      may_be_empty: whether nodes can be empty.
    Yields: the trees that the line closes.
    """
    for token in _BRACKET_OR_WORD.findall(line):
        if token == "(":
            stack.append(_OpenNode(where))
        elif not stack:
            problem = f"{token!r} is outside the brackets"
            if token == ")":
                problem = "a ')' without its '('"
            raise UserError(f"{where}: {problem}: correct the tree here or the one before")
        elif token != ")":
            node = stack[-1]
            if node.label is None and not node.parts:
                node.label = token
            else:
                node.parts.append(token)
        else:
            node = stack.pop()
            label = node.label
            if label is None:
                label = "" if stack else top
            tree = _make_tree(label, node.parts, where, may_be_empty)
            if stack:
                stack[-1].parts.append(tree)
            else:
                yield tree


def _make_tree(label: str, parts: list[Tree | str], where: str, may_be_empty: bool) -> Tree:
    """Makes a `Tree` of a node's children (`Tree`s) and words (strings), after checking them."""
    words = [part for part in parts if isinstance(part, str)]
    if not parts and not may_be_empty:
        raise UserError(
            f"{where}: the node ({label}) has neither children nor a word: remove it, or add one"
        )
    if words and len(parts) > 1:
        raise UserError(
            f"{where}: the word {words[0]!r} is not alone under its tag, in ({label} ...): "
            "write each word as (TAG WORD)"
        )
    children = tuple(part for part in parts if isinstance(part, Tree))
    return Tree(label, words[0] if words else children)


def clean_tree(tree: Tree) -> Tree | None:
    """Converts a tree of a treebank to the tree that a parser predicts.

    Functional tags and co-indices of phrases are removed: NP-SBJ-1 becomes NP. Tags of words do not
    change, such as -LRB-. Traces are removed, and the phrases that have no words without them. TOP
    is removed, unless it contains several trees.

    Args:
      tree: a `Tree`.
    Returns: a `Tree`, or None when no word is left. The function is idempotent.
    """
    stack: list[_OpenPhrase] = [("", [])]  # outermost first
    for node in _walk(tree):
        if node is None:
            label, children = stack.pop()
            if label in OUTER:
                stack[-1][1].extend(children)
            elif children:
                stack[-1][1].append(Tree(label, tuple(children)))
        elif not isinstance(node.children, str):
            stack.append((_without_function(node.label), []))
        elif node.label != TRACE:
            stack[-1][1].append(node)
    trees = stack[0][1]
    if len(trees) > 1:
        return Tree(TOP, tuple(trees))
    return trees[0] if trees else None


def _without_function(label: str) -> str:
    """Removes functional tags and co-indices: "NP-SBJ-1" -> "NP"."""
    return label if label.startswith("-") else re.split("[-=]", label, maxsplit=1)[0]


def _walk(tree: Tree) -> Iterator[Tree | None]:
    """Yields each node before its children, and None after the children of a phrase."""
    stack: list[Tree | None] = [tree]
    while stack:
        node = stack.pop()
        yield node
        if node is not None and not isinstance(node.children, str):
            stack += [None, *reversed(node.children)]


def linearise(tree: Tree) -> str:
    """Writes a tree without its words: "(S (NP DT NN ) (VP VBZ ) . )".

    Args:
      tree: a clean `Tree`.
    Returns: a string of brackets, labels and tags, separated by single blanks.
    """
    tokens = []
    for node in _walk(tree):
        if node is None:
            tokens.append(")")
        elif isinstance(node.children, str):
            tokens.append(node.label)
        else:
            tokens.append(f"({node.label}")
    return " ".join(tokens)


def source_and_target(tree: Tree) -> tuple[str, str]:
    """Returns the sentence pair of a clean tree: its words, and the linearised tree."""
    return " ".join(tree.words()), linearise(tree)


def restore(text: str, words: list[str]) -> Tree:
    """Reads a tree that `linearise` or a model wrote, and repairs it where it is not well-formed.

    - An extra closing bracket is ignored, and so is one that closes the outermost phrase before the
      end. A missing one is added at the end.
    - A phrase without words is removed. An opening bracket without a label opens an X.
    - Extra tags are ignored. Words without a tag become NN, at the end of the outermost phrase.
    - Trees that are not in one phrase are put in an S, and so are words without any phrase.

    Args:
      text: any string.
      words: the words of the sentence, a list of strings.
    Returns: a `Tree` with exactly these words. For a clean tree,
      `restore(linearise(tree), tree.words()) == tree`.
    """
    untagged = list(reversed(words))  # the next word is the last item
    stack: list[_OpenPhrase] = [("", [])]  # outermost first
    for token in _LINEARISED.findall(text):
        if token == ")":
            if len(stack) > 2:
                _close(stack)
        elif token.startswith("("):
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
    """Returns whether `restore` repairs nothing.

    Args:
      text, words: as for `restore`.
    """
    return linearise(restore(text, words)).split(" ") == re.findall(r"\S+", text, re.ASCII)


class TreebankCorpus(Corpus):
    """The trees of a folder of `.mrg` files, as pairs of a sentence and its linearised tree.

    The files are searched in all sub-folders. Their names determine the splits:

    - Penn Treebank, wsj_0200.mrg to wsj_2399.mrg in upper or lower case: sections 02-21 are
      "train", 22 is "validation", 23 is "test". Other sections are not used.
    - Names of files or sub-folders that begin with "train", with "val" or "dev", or with "test".
      Other files are not used.
    - No such names: the last 5% of the trees (at most 1,000) are "validation", as many before them
      are "test", the rest is "train". The split "all" contains all trees.

    Where the names give training trees but no validation trees, the last 5% of the training trees
    (at most 1,000) are held out for validation.

    Args:
      folder: a path.
    Raises: UserError when it has no `.mrg` file.
    """

    unit = "trees"

    def __init__(self, folder: str) -> None:
        paths = tree_files(folder)
        if not paths:
            raise UserError(
                f"no .mrg file in the folder {folder} or its sub-folders: give a folder of trees "
                "in the format of the Penn Treebank"
            )
        self._files = _split_files(folder, paths)  # split -> paths
        self._held_out = []  # splits at the end of the training trees, in their order
        names_give_splits = bool(self._files)
        if not names_give_splits:
            self._files = {"train": paths}
            self._held_out = ["test", "validation"]
        elif "train" in self._files and "validation" not in self._files:
            self._held_out = ["validation"]

        self.name = f"treebank {folder}"
        used = sum(map(len, self._files.values()))
        if used < len(paths):
            self.name += f" ({used:,} of its {len(paths):,} files)"
        available = {*self._files, *self._held_out}
        self.splits = [split for split in SECTIONS if split in available]
        if not names_give_splits:
            self.splits.append("all")

    def trees(self, split: str) -> Iterator[Tree]:
        """Reads the clean trees of a split, in the order of `read`.

        Yields: `Tree`s.
        Raises: UserError for an unknown split, or for a malformed tree, with its file and line.
        """
        self.known(split)
        if not self._held_out or split not in ("train", *self._held_out):
            yield from _read_files(self._files["train" if split == "all" else split])
            return
        start, end = range_of_split(self, split, self._held_out, self._training_trees)
        yield from itertools.islice(_read_files(self._files["train"]), start, end)

    def read(self, split: str) -> Iterator[tuple[str, str]]:
        """Reads the sentence pairs of a split.

        Yields: (words joined by blanks, linearised tree).
        Raises: as `trees`.
        """
        yield from map(source_and_target, self.trees(split))

    def fingerprint(self, split: str) -> tuple[Hashable, ...]:
        """Returns a tuple that changes with the paths, sizes and modification times of files."""
        paths = self._files.get(split, self._files.get("train", ()))
        return ("trees", split, *self._held_out, *map(file_fingerprint, paths))

    def default_test(self, seen: bool) -> str:
        """Returns the split to evaluate on where the user gives none.

        Args:
          seen: whether the model was trained on this corpus. If so, the split is "test", or where
            there is none "validation". If not, it is "all" where there is such a split, or "test".
        Raises: UserError when there is none of these.
        """
        if seen or "train" not in self._files:
            candidates = ("test", "validation")
        else:
            candidates = ("all", "test")
        for split in candidates:
            if split in self.splits:
                return split
        raise UserError(
            f"{self.name} has no trees to test on: give --split, one of {', '.join(self.splits)}"
        )

    @functools.cached_property
    def _training_trees(self) -> int:
        """The number of training trees, held-out trees included."""
        return sum(1 for _ in _read_files(self._files["train"]))


def tree_files(folder: str) -> list[pathlib.Path]:
    """Returns the sorted paths of the `.mrg` files of a folder and its sub-folders."""
    return sorted(
        path
        for path in pathlib.Path(folder).rglob("*")
        if path.suffix.lower() == ".mrg" and path.is_file()
    )


def _split_files(folder: str, paths: list[pathlib.Path]) -> dict[str, list[pathlib.Path]]:
    """Assigns files to splits by their names, or by the names of their sub-folders.

    Returns: a dict from splits to lists of paths; empty when no name determines a split.
    """
    for split_of in (_penn_split, functools.partial(_named_split, folder)):
        files: dict[str, list[pathlib.Path]] = {}
        for path in paths:
            split = split_of(path)
            if split:
                files.setdefault(split, []).append(path)
        if files:
            return files
    return {}


def _penn_split(path: pathlib.Path) -> str | None:
    """Returns the split of a file of the Penn Treebank, or None."""
    section = SECTION.fullmatch(path.name)
    if section:
        for split, sections in SECTIONS.items():
            if int(section[1]) in sections:
                return split
    return None


def _named_split(folder: str, path: pathlib.Path) -> str | None:
    """Returns the split that the path below `folder` names, or None."""
    for name in path.relative_to(folder).parts:
        for split, prefixes in SPLIT_PREFIXES.items():
            if name.lower().startswith(prefixes):
                return split
    return None


def _read_files(paths: Iterable[pathlib.Path]) -> Iterator[Tree]:
    """Yields the clean trees of several files."""
    for path in paths:
        for tree in map(clean_tree, read_trees(path)):
            if tree is not None:
                yield tree
