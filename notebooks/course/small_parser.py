"""The trees and the vocabulary of the parser of notebook E."""

import collections

from tf_transformer import open_corpus
from tf_transformer.data.trees import linearise, parse_output


def trees_of(split, words_at_most=1000):
    """The trees of a split of the built-in treebank, without the longer ones."""
    corpus = open_corpus("pocket-trees", "words", "trees")
    trees = (parse_output(target, words.split()) for words, target in corpus.read(split))
    return [tree for tree in trees if len(tree.words()) <= words_at_most]


def symbols_of(trees):
    """Brackets, tags, and the words that occur three times, after four special symbols."""
    words = collections.Counter(word for tree in trees for word in tree.words())
    known = {word for word, times in words.items() if times >= 3}
    known |= {symbol for tree in trees for symbol in linearise(tree).split()}
    return ["[PAD]", "[UNK]", "[START]", "[END]", *sorted(known)]
