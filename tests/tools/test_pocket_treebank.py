"""The pocket treebank: invariants of all generated trees."""

import collections

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


def test_no_sentence_occurs_twice(clean):
    assert len({" ".join(tree.words()).lower() for tree in clean}) == SAMPLE


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


def test_every_trace_has_an_antecedent(raw):
    traces = {word for tree in raw for word, tag in tree.tags() if tag == "-NONE-"}
    assert {"0", "*", "*-1", "*T*-1"} <= traces
    for tree in raw:
        labels = [node.label for node in phrases(tree)]
        indices = {label.rpartition("-")[2] for label in labels if label[-1:].isdigit()}
        for word, tag in tree.tags():
            if tag == "-NONE-" and word[-1].isdigit() and word != "0":
                assert word.rpartition("-")[2] in indices, str(tree)


def test_a_phrase_has_its_head(clean):
    """A VP has a verb, a modal or *to*. A PP begins with a preposition or another PP."""
    for tree in clean:
        for node in phrases(tree):
            if node.label == "VP":
                heads = [child.label[:2] in ("VB", "VP", "MD", "TO") for child in node.children]
                assert any(heads), str(tree)
            if node.label == "PP":
                assert node.children[0].label in ("IN", "TO", "PP"), str(tree)


def test_the_words_determine_the_attachment(clean):
    """After *with*, a thing attaches to a noun and a person to a verb."""
    attachments = collections.Counter()
    for tree in clean:
        for node in phrases(tree):
            for child in node.children:
                if child.label == "PP" and child.children[0].children in ("with", "without"):
                    last_tag = child.tags()[-1][1]
                    kind = "person" if last_tag in ("NNP", "PRP") else "other"
                    attachments[node.label, kind] += 1
    assert attachments["VP", "person"] > 10
    assert attachments["NP", "other"] > 10
    assert not attachments["NP", "person"]
