"""Phrase-structure trees in the bracketed format of the Penn Treebank (Marcus et al. 1993).

They are the targets of constituency parsing (Sec. 6.3).
"""

import os
import re
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

    def pre_terminals(self):
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

    def words(self):
        """Returns the words, a list of strings, including traces such as "*T*-1"."""
        return [word for _, word in self.pre_terminals()]

    def tags(self):
        """Returns a list of (word, part-of-speech tag)."""
        return [(word, tag) for tag, word in self.pre_terminals()]

    def __str__(self):
        pieces = []
        stack = [self]
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


def read_trees(source, name=None):
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
    is_path = isinstance(source, (str, os.PathLike))
    lines = read_lines(os.fspath(source)) if is_path else source
    name = name or (os.fspath(source) if is_path else "line")
    stack = []
    for number, line in enumerate(lines, start=1):
        if stack or not line.startswith(_NOTICE):
            yield from _parse_line(stack, line, f"{name}:{number}", TOP)
    _check_closed(stack)


def read_line(line, where):
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
    stack = []
    trees = tuple(_parse_line(stack, line, where, top="", may_be_empty=True))
    _check_closed(stack)
    return trees


def _check_closed(stack):
    if stack:
        _, _, where = stack[0]
        raise UserError(
            f"{where}: the tree that begins here is not closed, it lacks {len(stack)} of its ')': "
            "add them"
        )


def _parse_line(stack, line, where, top, may_be_empty=False):
    """Parses the tokens of a line.

    Args:
      stack: the open nodes, outermost first, each a list [label, children and words, where it
        begins]. The function changes it.
      line: a string.
      where: file and line number, for messages.
      top: the label of an outer node without one.
      may_be_empty: whether nodes can be empty.
    Yields: the trees that the line closes.
    """
    for token in _TOKEN.findall(line):
        if token == "(":
            stack.append([None, [], where])
        elif not stack:
            problem = f"{token!r} is outside the brackets"
            if token == ")":
                problem = "a ')' without its '('"
            raise UserError(f"{where}: {problem}: correct the tree here or the one before")
        elif token != ")":
            node = stack[-1]
            if node[0] is None and not node[1]:
                node[0] = token
            else:
                node[1].append(token)
        else:
            label, parts, _ = stack.pop()
            if label is None:
                label = "" if stack else top
            tree = _make_tree(label, parts, where, may_be_empty)
            if stack:
                stack[-1][1].append(tree)
            else:
                yield tree


def _make_tree(label, parts, where, may_be_empty):
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
    return Tree(label, words[0] if words else tuple(parts))
