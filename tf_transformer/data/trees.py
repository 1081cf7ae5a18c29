"""Phrase-structure trees in the bracketed format of the Penn Treebank (Marcus et al. 1993).

They are the targets of constituency parsing (Sec. 6.3).
"""

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tf_transformer.data.corpus import read_lines
from tf_transformer.errors import UserError

TOP = "TOP"  # the label of an outer node that has none in the text, as in "( (S ...))"
_NOTICE = "*x*"  # the beginning of each line of the notice in some files of the treebank

# Only ASCII blanks separate tokens; a no-break space is part of its word.
_TOKEN = re.compile(r"[()]|[^\s()]+", re.ASCII)
# "( NP" and "(NP )", which EVALB reads as a word or as an error.
_EXTRA_BLANK = re.compile(r"\(\s+[^\s()]+|\([^\s()]*\s+\)", re.ASCII)


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
    for token in _TOKEN.findall(line):
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
