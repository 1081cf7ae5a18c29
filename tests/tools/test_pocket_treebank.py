"""The pocket treebank: invariants of all generated trees."""

import pytest
from pocket import treebank
from pocket.tree_phrases import TreeDraw
from pocket.tree_sentences import sentence

from tf_transformer.data.trees import clean_tree, read_trees

SAMPLE = 4000
LABELS = set("S NP VP PP SBAR ADJP ADVP WHNP WHADVP WHADJP SQ SBARQ SINV QP PRT INTJ".split())
TAGS = set(
    """
    DT NN NNS NNP VBZ VBD VB VBP VBN VBG MD TO IN PRP PRP$ RB RBR JJ JJR JJS CD WP WDT WRB CC RP EX
    POS UH . , `` '' -NONE-
    """.split()
)


@pytest.fixture(scope="module")
def raw():
    return list(read_trees(treebank.generate(SAMPLE, seed=1), "pocket"))


@pytest.fixture(scope="module")
def clean(raw):
    return [clean_tree(tree) for tree in raw]


def phrases(tree):
    """Yields the nodes of a tree that are no pre-terminals."""
    if not isinstance(tree.children, str):
        yield tree
        for child in tree.children:
            yield from phrases(child)


def test_a_sentence_has_one_tree():
    """The words determine the tree. Short sentences are drawn more than once."""
    draw = TreeDraw(7)
    trees = {}
    repeated = 0
    for raw_tree in read_trees([sentence(draw) for _ in range(8000)], "pocket"):
        tree = clean_tree(raw_tree)
        words = " ".join(tree.words())
        repeated += words in trees
        assert trees.setdefault(words, tree) == tree
    assert repeated > 10


def test_every_label_and_tag_is_known_and_occurs(raw, clean):
    tags = {tag for tree in raw for _, tag in tree.tags()}
    labels = {node.label for tree in clean for node in phrases(tree)}
    assert tags == TAGS and labels == LABELS
