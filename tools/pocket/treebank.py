"""The pocket treebank: English trees in the format of the Penn Treebank that a grammar generates.

No download is needed, and the same seed gives the same trees. The words are those of the pocket
corpus. The trees are raw: they have functional tags and traces after the guidelines of the Penn
Treebank (Bies et al. 1995), which `clean_tree` of `tf_transformer.data.trees` removes.

    (S (NP-SBJ (NNP Anna))
       (VP (VBZ knows)
           (NP (NP (DT the) (NN man))
               (SBAR (WHNP-1 (WP who)) (S (NP-SBJ (-NONE- *T*-1)) (VP (VBZ sings))))))
       (. .))

The words determine the tree, so that a parser can reach 100%:

- *with* and a person attaches to the verb, *with* and a thing to the person before it, except for
  doors and windows, which are opened *with the key*.
- *about* attaches to a text, *from* and *to* to a train, *on* to a thing unless the verb is *put*;
  *in* attaches to the verb.
- *who* refers to the last person, *that* to the thing before it: *the book of the girl who
  sleeps*, *the book of the girl that we read*.
- After two verbs, a phrase attaches to the nearer verb; after *and*, to the last one.
"""

import re

from pocket.corpus import MAX_WORDS, MIN_WORDS
from pocket.tree_phrases import TreeDraw
from pocket.tree_sentences import sentence

_WORD = re.compile(r"\((?!-NONE-)\S+ ([^\s()]+)\)")


def generate(number: int, seed: int = 0) -> list[str]:
    """Generates trees.

    Args:
      number: how many.
      seed: of the random numbers. The same seed gives the same trees, and a smaller number gives
        the first of them.
    Returns: raw trees, "( (S ...))". No two trees have the same words. A sentence has `MIN_WORDS`
      to `MAX_WORDS` words, punctuation included.
    """
    draw = TreeDraw(seed)
    seen = set()
    trees: list[str] = []
    while len(trees) < number:
        draw.last_index = 0
        text = sentence(draw)
        words = tuple(_WORD.findall(text))
        if MIN_WORDS <= len(words) <= MAX_WORDS and words not in seen:
            seen.add(words)
            trees.append(f"( {_capitalize(text)})")
    return trees


def _capitalize(text: str) -> str:
    """Gives the first word of a tree a capital letter."""
    first = next(word for word in _WORD.finditer(text) if word[1] != "``").start(1)
    return text[:first] + text[first].upper() + text[first + 1 :]
