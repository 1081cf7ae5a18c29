"""The pocket treebank: laws that hold for every tree, and what its sentences must have in them."""

import collections
import hashlib
import os
import subprocess
import sys

import pytest

from tf_transformer.data.pocket import treebank as pocket_treebank
from tf_transformer.data.pocket.lexicon import verb
from tf_transformer.data.pocket.tree_phrases import THIRD, Phrase, Writer, common, relabel
from tf_transformer.data.pocket.tree_sentences import sentence
from tf_transformer.data.pocket.tree_verbs import (
    be,
    finite,
    imagined,
    infinitive,
    question,
    suits,
    take,
)
from tf_transformer.data.treebank import clean_tree
from tf_transformer.data.trees import read_trees

SAMPLE = 4000
LABELS = set("S NP VP PP SBAR ADJP ADVP WHNP WHADVP WHADJP SQ SBARQ SINV QP PRT INTJ".split())
TAGS = set(
    "DT NN NNS NNP VBZ VBD VB VBP VBN VBG MD TO IN PRP PRP$ RB RBR JJ JJR JJS CD WP WDT WRB CC RP EX POS UH . , `` '' -NONE-".split()
)
FUNCTIONS = (
    "-SBJ",
    "-TMP",
    "-LOC",
    "-DIR",
    "-PRD",
    "-PRP",
    "-DTV",
    "-PUT",
    "-CLR",
    "-MNR",
    "-LGS",
    "-ADV",
    "-TPC",
)


@pytest.fixture(scope="module")
def raw():
    return list(read_trees(pocket_treebank.generate(SAMPLE, seed=1), "pocket"))


@pytest.fixture(scope="module")
def clean(raw):
    return [clean_tree(one) for one in raw]


def nodes(one):
    waiting = [one]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(() if isinstance(node.children, str) else node.children)


# Laws


def test_the_same_seed_gives_the_same_trees_and_another_seed_gives_others():
    generate = pocket_treebank.generate
    assert generate(300, seed=3) == generate(300, seed=3) != generate(300, seed=4)
    assert generate(300, seed=3)[:100] == generate(100, seed=3)


def test_trees_do_not_depend_on_the_hash_seed():
    program = (
        "import hashlib\nfrom tf_transformer.data.pocket import treebank as pocket_treebank\n"
        "print(hashlib.sha256(repr(pocket_treebank.generate(500, 5)).encode()).hexdigest())"
    )
    expected = hashlib.sha256(repr(pocket_treebank.generate(500, 5)).encode()).hexdigest()
    child = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
    )
    assert child.stdout.strip() == expected


def test_no_sentence_occurs_twice(clean):
    assert len({" ".join(one.words()).lower() for one in clean}) == SAMPLE


def test_a_sentence_has_one_tree():
    """So a parser can be right. What is drawn again, of short sentences mostly, is drawn with the same tree."""
    w, trees, again = Writer(7), {}, 0
    for one in read_trees([sentence(w) for _ in range(8000)], "pocket"):
        tree = clean_tree(one)
        words = " ".join(tree.words())
        again += words in trees
        assert trees.setdefault(words, tree) == tree
    assert again > 10


def test_lengths(clean):
    lengths = [len(one.words()) for one in clean]
    assert min(lengths) == pocket_treebank.SHORTEST and max(lengths) <= pocket_treebank.LONGEST
    assert 10 <= sum(lengths) / SAMPLE <= 14


def test_splits_share_no_sentence(monkeypatch):
    monkeypatch.setattr(
        pocket_treebank, "SPLIT_SIZES", {"validation": 200, "test": 300, "train": 1000}
    )
    splits = {name: pocket_treebank.split(name, seed=2) for name in pocket_treebank.SPLIT_SIZES}
    assert {name: len(trees) for name, trees in splits.items()} == pocket_treebank.SPLIT_SIZES
    sentences = [
        tuple(clean_tree(one).words()) for trees in splits.values() for one in read_trees(trees)
    ]
    assert len(set(sentences)) == len(sentences) == 1500


def test_the_sizes_of_the_splits():
    assert pocket_treebank.SPLIT_SIZES == {"validation": 1_000, "test": 1_000, "train": 40_000}


# The form of the Penn Treebank


def test_every_label_and_tag_is_known_and_occurs(raw, clean):
    tags = {tag for one in raw for _, tag in one.tags()}
    labels = {
        node.label for one in clean for node in nodes(one) if not isinstance(node.children, str)
    }
    assert tags == TAGS and labels == LABELS


def test_functions_and_traces_are_there_to_be_cleaned(raw):
    labels = collections.Counter(node.label for one in raw for node in nodes(one))
    for function in FUNCTIONS:
        assert any(function in label for label in labels), function
    words = {word for one in raw for word, tag in one.tags() if tag == "-NONE-"}
    assert {"0", "*", "*-1", "*T*-1"} <= words


def test_every_trace_has_what_it_stands_for(raw):
    for one in raw:
        indices = {node.label.rpartition("-")[2] for node in nodes(one) if node.label[-1].isdigit()}
        for word, tag in one.tags():
            if tag == "-NONE-" and word[-1].isdigit() and word != "0":
                assert word.rpartition("-")[2] in indices, str(one)


def test_sentences_begin_with_a_capital_letter_and_end_with_a_mark(clean):
    for one in clean:
        words = [word for word in one.words() if word not in ("``", "''")]
        assert words[0][0].isupper() and words[-1] in ".?!" and one.tags()[-1][1] == "."
        assert (words[-1] == "?") == (one.label in ("SQ", "SBARQ"))


def test_a_phrase_has_its_head(clean):
    """Every VP has a verb, a modal or *to* below it, and every PP begins with a preposition or is joined of those that do."""
    for one in clean:
        for node in nodes(one):
            if node.label == "VP":
                assert any(
                    child.label[:2] in ("VB", "VP", "MD", "TO") for child in node.children
                ), str(one)
            if node.label == "PP":
                assert node.children[0].label in ("IN", "TO", "PP"), str(one)


def test_articles_agree(clean):
    for one in clean:
        for (word, tag), (following, _) in zip(one.tags(), one.tags()[1:]):
            if tag == "DT" and word.lower() in ("a", "an"):
                assert (word.lower() == "an") == (following[0] in "aeiou"), str(one)


def test_attachment_follows_the_words(clean):
    """After *with*, a thing belongs to a noun and a person to a verb; *from* belongs to a train."""
    found = collections.Counter()
    for one in clean:
        for node in nodes(one):
            for child in () if isinstance(node.children, str) else node.children:
                if child.label == "PP" and child.children[0].children in ("with", "without"):
                    inner = [tag for _, tag in child.tags()]
                    found[node.label, "person" if inner[-1] in ("NNP", "PRP") else "other"] += 1
    assert found["VP", "person"] > 10 and found["NP", "other"] > 10 and not found["NP", "person"]


# Verbs


@pytest.mark.parametrize(
    ("tense", "person", "text"),
    [
        ("present", THIRD, "(VP (VBZ goes) home)"),
        ("present", 1, "(VP (VBP go) home)"),
        ("past", THIRD, "(VP (VBD went) home)"),
        ("progressive", 0, "(VP (VBP am) (VP (VBG going) home))"),
        ("was", THIRD, "(VP (VBD was) (VP (VBG going) home))"),
        ("perfect", THIRD, "(VP (VBZ has) (VP (VBN gone) home))"),
        ("must", THIRD, "(VP (MD must) (VP (VB go) home))"),
    ],
)
def test_tenses(tense, person, text):
    core = take(Writer(1), imagined("go went"))._replace(rest="home")
    assert finite(Writer(1), core, tense, Phrase("", person)) == text


def test_denial_and_questions():
    w, anna = Writer(1), Phrase("(NP (NNP Anna))")
    core = take(w, imagined("go went"))._replace(rest="home", control=3)
    denied = {finite(w, core, "can", anna, negated=True) for _ in range(20)}
    assert denied == {
        "(VP (MD can) (RB not) (VP (VB go) home))",
        "(VP (MD ca) (RB n't) (VP (VB go) home))",
    }
    assert question(w, core, "past", anna) == "(VBD did) (NP-SBJ-3 (NNP Anna)) (VP (VB go) home)"
    assert question(w, be("ill"), "present", anna) == "(VBZ is) (NP-SBJ (NNP Anna)) ill"
    assert infinitive(core) == "(VP (TO to) (VP (VB go) home))"


def test_no_verb_is_two_tenses():
    """*I put* could be present or past, *she puts* could not."""
    put = take(Writer(1), imagined("put put"))
    assert suits(put, "present", THIRD) and suits(put, "past", THIRD) and suits(put, "will", 0)
    assert not suits(put, "present", 0) and not suits(put, "past", 0)


def test_particles_find_their_place():
    w, lamp, it = (
        Writer(1),
        Phrase("(NP (DT the) (NN lamp))"),
        Phrase("(NP (PRP them))", pronoun=True),
    )
    off = verb("switch off", "switched off", "", "")
    places = {take(w, off, lamp).rest for _ in range(50)}
    assert places == {
        "(PRT (RP off)) (NP (DT the) (NN lamp))",
        "(NP (DT the) (NN lamp)) (PRT (RP off))",
    }
    assert {take(w, off, it).rest for _ in range(20)} == {"(NP (PRP them)) (PRT (RP off))"}


def test_relabel():
    assert relabel("(NP (NNP Anna))", "NP-SBJ-1") == "(NP-SBJ-1 (NNP Anna))"
    assert common(Writer(1), "drink").person == THIRD


@pytest.mark.parametrize(
    ("base", "gerund"),
    [
        ("write", "writing"),
        ("see", "seeing"),
        ("lie", "lying"),
        ("put", "putting"),
        ("describe", "describing"),
        ("go", "going"),
    ],
)
def test_gerunds(base, gerund):
    assert take(Writer(1), imagined(f"{base} -")).form("VBG") == f"(VBG {gerund})"
