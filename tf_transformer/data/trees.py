"""Phrase-structure trees, and the bracketed text of the Penn Treebank (Marcus et al. 1993), for the parsing of Sec. 6.3."""

import os
import re
from typing import NamedTuple

from tf_transformer.data.corpus import read_lines
from tf_transformer.errors import UserError

TOP = "TOP"  # the label of an outer node that has none in the text, as in "( (S ...))"
_SYMBOL = re.compile(
    r"[()]|[^\s()]+", re.ASCII
)  # only ASCII's blanks divide symbols: a no-break space is part of its word
_STRAYED = re.compile(
    r"\(\s+[^\s()]+|\([^\s()]*\s+\)", re.ASCII
)  # "( NP" and "(NP )", of which EVALB makes a word or an error
_HEADER = "*x*"  # begins each line of the notice above the trees in some of the treebank's files


class Tree(NamedTuple):
    """A node: a phrase over its children, or a pre-terminal, a part-of-speech tag over its one word.

    `str` gives it on one line, "(S (NP (DT The) (NN dog)) (VP (VBZ barks)))".
    """

    label: str
    children: "tuple[Tree, ...] | str"  # the word, where this is a pre-terminal

    def pre_terminals(self):
        """Returns the pre-terminals, a list of `Tree`, from left to right."""
        found, waiting = [], [self]
        while waiting:
            node = waiting.pop()
            if isinstance(node.children, str):
                found.append(node)
            else:
                waiting.extend(reversed(node.children))
        return found

    def words(self):
        """Returns the words, a list of strings; traces such as "*T*-1" are among them."""
        return [word for _, word in self.pre_terminals()]

    def tags(self):
        """Returns a list of (word, part-of-speech tag)."""
        return [(word, tag) for tag, word in self.pre_terminals()]

    def __str__(self):
        pieces, waiting = [], [self]
        while waiting:
            node = waiting.pop()
            if isinstance(node, str):
                pieces.append(node)
            elif isinstance(node.children, str):
                pieces.append(f" ({node.label} {node.children})")
            else:
                pieces.append(f" ({node.label}")
                waiting += [")", *reversed(node.children)]
        return "".join(pieces).lstrip(" ")


def read_trees(source, name=None):
    """Reads bracketed text as in the treebank's `.mrg` files; a tree may go over several lines, a line may hold several trees.

    An outer node without a label, "( (S ...))", gets `TOP`. Lines that begin with "*x*" between two trees are the notice that some of
    those files begin with, and passed over.

    Args:
      source: the path of a file, plain or `.gz`, or lines (an iterable of strings).
      name: what to call the source in messages; None for the path, or "line".
    Yields: `Tree`s.
    Raises: UserError where there is no such file, and, with its line number, where the text is not UTF-8, brackets are unbalanced,
      a node is empty, "(NP)", or a word stands elsewhere than alone under its tag, "(NN dog)".
    """
    is_path = isinstance(source, (str, os.PathLike))
    lines = read_lines(os.fspath(source)) if is_path else source
    name = name or (os.fspath(source) if is_path else "line")
    opened = []
    for number, line in enumerate(lines, start=1):
        if opened or not line.startswith(_HEADER):
            yield from _grow(opened, line, f"{name}:{number}", TOP)
    _check_closed(opened)


def read_line(line, where):
    """Reads a line that holds whole trees, one, several or none, as EVALB does.

    Any node may be empty, "(NP)" or "()", as some parsers write that they found nothing; one without a label keeps its empty one.

    Args:
      line: a string.
      where: its file and number, for messages.
    Returns: a tuple of `Tree`s.
    Raises: UserError as `read_trees` does, but for empty nodes; and for a blank before a label, or after one that has nothing under it.
    """
    if strayed := _STRAYED.search(line):
        raise UserError(f"{where}: there is a blank too many in {strayed[0]!r}: take it away")
    opened = []
    found = tuple(_grow(opened, line, where, top="", may_be_empty=True))
    _check_closed(opened)
    return found


def _check_closed(opened):
    if opened:
        raise UserError(
            f"{opened[0][2]}: the tree that begins here is not closed, it lacks {len(opened)} of its ')': add them"
        )


def _grow(opened, line, where, top, may_be_empty=False):
    """Takes in a line. `opened` are the nodes around its place, outermost first, each [label, parts, where]. Yields the trees it closes."""
    for symbol in _SYMBOL.findall(line):
        if symbol == "(":
            opened.append([None, [], where])
        elif not opened:
            trouble = (
                "a ')' without its '('"
                if symbol == ")"
                else f"{symbol!r} stands outside the brackets"
            )
            raise UserError(f"{where}: {trouble}: mend the tree here or the one before")
        elif symbol != ")":
            node = opened[-1]
            if node[0] is None and not node[1]:
                node[0] = symbol
            else:
                node[1].append(symbol)
        else:
            node = opened.pop()
            tree = _close(node, "" if opened else top, where, may_be_empty)
            if opened:
                opened[-1][1].append(tree)
            else:
                yield tree


def _close(node, unlabelled, where, may_be_empty):
    label, parts, _ = node
    label = unlabelled if label is None else label
    words = [part for part in parts if isinstance(part, str)]
    if not parts and not may_be_empty:
        raise UserError(
            f"{where}: the node ({label}) has neither children nor a word: take it away, or give what it lacks"
        )
    if words and len(parts) > 1:
        raise UserError(
            f"{where}: the word {words[0]!r} is not alone under its tag, in ({label} ...): write each word as (TAG WORD)"
        )
    return Tree(label, words[0] if words else tuple(parts))
