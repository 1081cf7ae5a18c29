"""Bracketed text becomes trees and text again; what is wrong with it is told with its line."""

import gzip
import random

import pytest

from tf_transformer.data.trees import Tree, read_line, read_trees
from tf_transformer.errors import UserError

DOG = "(S (NP (DT The) (NN dog)) (VP (VBZ barks)))"
# as the treebank's files are laid out, with the notice that some begin with
FILE = """\
*x*x*x*x*x*x*x*x*x*
*x*  a notice (of rights)
*x*x*x*x*x*x*x*x*x*

( (S
    (NP-SBJ (PRP We) )
    (VP (VBD -LRB-)(NP *x*
      ))
    (. .) ))
( (X (Y z)) ) ( (X (Y y)) )
"""


def random_tree(draw, depth):
    """A tree whose words and labels are drawn, with unary chains."""
    if depth == 0 or draw.random() < 0.2:
        return Tree(
            draw.choice(["NN", "-LRB-", ","]),
            draw.choice(["dog", "-LRB-", ",", "*T*-1", "4\xa0000", "ö"]),
        )
    children = (random_tree(draw, depth - 1) for _ in range(draw.choice([1, 1, 2, 3])))
    return Tree(draw.choice(["S", "NP-SBJ-1", "VP"]), tuple(children))


def test_text_and_back():
    draw = random.Random(1)
    trees = [random_tree(draw, 5) for _ in range(200)]
    assert list(read_trees(map(str, trees))) == trees
    assert [read_line(str(tree), "here") for tree in trees] == [(tree,) for tree in trees]


def test_blanks_and_line_ends_mean_nothing():
    """Each symbol on a line of its own, or no blank that is not needed: the same tree."""
    tree = next(read_trees([DOG]))
    lines = DOG.replace("(", "\n(\n\t").replace(")", "\n)\r\n").split("\n")
    assert list(read_trees(lines)) == [tree] == list(read_trees([DOG.replace(" (", "(")]))


def test_what_a_tree_tells():
    tree = next(read_trees([DOG]))
    assert tree == Tree(
        "S",
        (Tree("NP", (Tree("DT", "The"), Tree("NN", "dog"))), Tree("VP", (Tree("VBZ", "barks"),))),
    )
    assert str(tree) == DOG
    assert tree.words() == ["The", "dog", "barks"]
    assert tree.tags() == [("The", "DT"), ("dog", "NN"), ("barks", "VBZ")]
    assert tree.pre_terminals() == [Tree("DT", "The"), Tree("NN", "dog"), Tree("VBZ", "barks")]
    assert str(Tree("NN", "dog")) == "(NN dog)" and Tree("NN", "dog").words() == ["dog"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_of_the_treebank(tmp_path, suffix):
    path = tmp_path / f"wsj_0001.mrg{suffix}"
    text = FILE.encode("utf-8-sig")  # with a byte-order mark
    path.write_bytes(gzip.compress(text) if suffix else text)
    expected = [
        "(TOP (S (NP-SBJ (PRP We)) (VP (VBD -LRB-) (NP *x*)) (. .)))",
        "(TOP (X (Y z)))",
        "(TOP (X (Y y)))",
    ]
    assert (
        [str(tree) for tree in read_trees(path)]
        == [str(tree) for tree in read_trees(str(path))]
        == expected
    )


def test_a_line_holds_any_number_of_trees():
    assert read_line(" \n", "here") == ()
    assert read_line("(X a)(Y b)", "here") == (Tree("X", "a"), Tree("Y", "b"))
    assert read_line("( (X a))", "here") == (Tree("", (Tree("X", "a"),)),)


def test_an_outer_node_without_a_label():
    assert list(read_trees(["( (X a))"])) == [Tree("TOP", (Tree("X", "a"),))]
    assert list(read_trees(["(((X a)))"])) == [Tree("TOP", (Tree("", (Tree("X", "a"),)),))]


def test_depth_is_no_limit():
    text = "(X " * 20_000 + "(Y z)" + ")" * 20_000
    tree = next(read_trees([text]))
    assert tree.words() == ["z"] and str(tree) == text


@pytest.mark.parametrize(
    "text, message",
    [
        ("(A b)\n(S\n(NP (NN dog))\n(VP", r"file:2: the tree .* lacks 2 of its '\)'"),
        ("(A b)\n(S (NP (NN dog))))\n", r"file:2: a '\)' without its '\('"),
        ("(A b)\ndog\n", "file:2: 'dog' stands outside"),
        ("(A b)\n(S (NP) (VP (VB go)))\n", r"file:2: the node \(NP\) has neither"),
        ("(A b)\n()\n", r"file:2: the node \(TOP\) has neither"),
        ("(A b)\n(NP the dog)\n", "file:2: the word 'the' is not alone"),
        ("(A b)\n((NP (DT the)) dog)\n", "file:2: the word 'dog' is not alone"),
        ("(A b)\n(NP (DT the) dog)\n", "file:2: the word 'dog' is not alone"),
        (
            "(A b)\n*x*\n(S\n*x* (NN b))\n",
            "file:4: the word '\\*x\\*' is not alone",
        ),  # no notice inside a tree
    ],
)
def test_malformed(text, message):
    with pytest.raises(UserError, match=f"^{message}"):
        list(read_trees(text.splitlines(), "file"))


def test_a_line_is_read_as_evalb_does():
    assert read_line("((A b))", "here") == (Tree("", (Tree("A", "b"),)),)
    assert read_line("(()) (NP)", "here") == (Tree("", (Tree("", ()),)), Tree("NP", ()))
    assert read_line("( (A b) )", "here") == read_line("((A b))", "here")
    for text in ("( S (A b))", "(S (NP ) (A b))", "(S ( ) (A b))"):
        with pytest.raises(UserError, match="^here: there is a blank too many in"):
            read_line(text, "here")


def test_trees_before_the_fault_are_read():
    trees = read_trees(["(A b)", ")"])
    assert next(trees) == Tree("A", "b")
    with pytest.raises(UserError, match="line:2"):
        next(trees)


def test_bad_files(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*none.mrg: No such file"):
        list(read_trees(str(tmp_path / "none.mrg")))
    with pytest.raises(UserError, match="cannot read .*: Is a directory"):
        list(read_trees(tmp_path))
    path = tmp_path / "a.mrg"
    path.write_bytes(b"(A b)\n(A \xff)\n")
    with pytest.raises(UserError, match=r"a.mrg:2: not UTF-8"):
        list(read_trees(str(path)))
    path = tmp_path / "a.mrg.gz"
    path.write_bytes(b"(A b)")
    with pytest.raises(UserError, match=r"a.mrg.gz: not a whole gzip file"):
        list(read_trees(path))
    path.write_bytes(gzip.compress(b"(A b)" * 1000)[:-9])
    with pytest.raises(UserError, match=r"a.mrg.gz: not a whole gzip file"):
        list(read_trees(path))
