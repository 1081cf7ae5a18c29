"""The pocket treebank: a grammar of English that writes trees in the raw form of the Penn Treebank, with the pocket corpus's words.

There is nothing to download, and one seed always gives the same trees. They are raw: with functional tags and traces, which
`treebank.clean_tree` takes away as it does with the treebank's own (whose guidelines, Bies et al. 1995, they follow).

    (S (NP-SBJ (NNP Anna))
       (VP (VBZ knows)
           (NP (NP (DT the) (NN man)) (SBAR (WHNP-1 (WP who)) (S (NP-SBJ (-NONE- *T*-1)) (VP (VBZ sings))))))
       (. .))

The words decide the tree, so that a parser can be right every time:

- *with* and a person belong to the verb, *with* and a thing to the person before it; but doors are opened *with the key*.
- *about* belongs to texts, *from* and *to* to trains, *on* to things, unless they are put there; *in* belongs to the verb.
- *who* speaks of the last person, *that* of the thing before: the book of the girl who sleeps, the book of the girl that we read.
- Of two verbs, what follows belongs to the nearer one; after *and* to the last.
"""

import re

from tf_transformer.data.pocket.tree_phrases import Writer
from tf_transformer.data.pocket.tree_sentences import sentence

SPLIT_SIZES = {
    "validation": 1_000,
    "test": 1_000,
    "train": 40_000,
}  # in the order in which they are drawn
SHORTEST, LONGEST = 3, 30  # words of a sentence, marks included
_WORD = re.compile(r"\((?!-NONE-)\S+ ([^\s()]+)\)")


def generate(number, seed=0):
    """Writes trees.

    Args:
      number: how many.
      seed: where chance begins; the same seed gives the same trees, and the first of many are those of few.
    Returns: a list of strings, each a raw tree on a line, "( (S ...))". No two have the same words.
    """
    w, seen, trees = Writer(seed), set(), []
    while len(trees) < number:
        w.last_index = 0
        text = sentence(w)
        words = tuple(_WORD.findall(text))
        if SHORTEST <= len(words) <= LONGEST and words not in seen:
            seen.add(words)
            trees.append(f"( {_with_capital(text)})")
    return trees


def _with_capital(text):
    first = next(word for word in _WORD.finditer(text) if word[1] != "``").start(1)
    return text[:first] + text[first].upper() + text[first + 1 :]


def split(name, seed=0):
    """Writes the trees of a key of `SPLIT_SIZES`; no sentence is in two of them."""
    names = list(SPLIT_SIZES)
    start, end = (
        sum(SPLIT_SIZES[before] for before in names[:place])
        for place in (names.index(name), names.index(name) + 1)
    )
    return generate(end, seed)[start:]
