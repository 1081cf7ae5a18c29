"""Trees and their bracketed text: round trips, and errors with their line numbers."""

import gzip
import random

import pytest

from tf_transformer.data.trees import Tree, read_line, read_trees
from tf_transformer.errors import UserError

DOG = "(S (NP (DT The) (NN dog)) (VP (VBZ barks)))"
# In the layout of the treebank's files, with the notice at the beginning of some of them.
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


def random_tree(chance, depth):
    """A tree with random words and labels, and with unary chains."""
    if depth == 0 or chance.random() < 0.2:
        tag = chance.choice(["NN", "-LRB-", ","])
        return Tree(tag, chance.choice(["dog", "-LRB-", ",", "*T*-1", "4\xa0000", "ö"]))
    number = chance.choice([1, 1, 2, 3])
    children = tuple(random_tree(chance, depth - 1) for _ in range(number))
    return Tree(chance.choice(["S", "NP-SBJ-1", "VP"]), children)


def test_round_trip():
    chance = random.Random(1)
    trees = [random_tree(chance, 5) for _ in range(200)]
    assert list(read_trees(map(str, trees))) == trees
    assert [read_line(str(tree), "here") for tree in trees] == [(tree,) for tree in trees]


def test_blanks_and_line_ends_do_not_change_the_tree():
    """One token on each line, or as few blanks as possible."""
    tree = next(read_trees([DOG]))
    lines = DOG.replace("(", "\n(\n\t").replace(")", "\n)\r\n").split("\n")
    assert list(read_trees(lines)) == [tree] == list(read_trees([DOG.replace(" (", "(")]))


def test_methods_of_a_tree():
    tree = next(read_trees([DOG]))
    subject = Tree("NP", (Tree("DT", "The"), Tree("NN", "dog")))
    assert tree == Tree("S", (subject, Tree("VP", (Tree("VBZ", "barks"),))))
    assert str(tree) == DOG
    assert tree.words() == ["The", "dog", "barks"]
    assert tree.tags() == [("The", "DT"), ("dog", "NN"), ("barks", "VBZ")]
    assert tree.pre_terminals() == [Tree("DT", "The"), Tree("NN", "dog"), Tree("VBZ", "barks")]
    assert str(Tree("NN", "dog")) == "(NN dog)"
    assert Tree("NN", "dog").words() == ["dog"]


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
    assert [str(tree) for tree in read_trees(path)] == expected
    assert [str(tree) for tree in read_trees(str(path))] == expected


def test_a_line_can_hold_any_number_of_trees():
    assert read_line(" \n", "here") == ()
    assert read_line("(X a)(Y b)", "here") == (Tree("X", "a"), Tree("Y", "b"))
    assert read_line("( (X a))", "here") == (Tree("", (Tree("X", "a"),)),)


def test_an_outer_node_without_a_label():
    assert list(read_trees(["( (X a))"])) == [Tree("TOP", (Tree("X", "a"),))]
    assert list(read_trees(["(((X a)))"])) == [Tree("TOP", (Tree("", (Tree("X", "a"),)),))]


def test_depth_is_not_limited():
    text = "(X " * 20_000 + "(Y z)" + ")" * 20_000
    tree = next(read_trees([text]))
    assert tree.words() == ["z"]
    assert str(tree) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(A b)\n(S\n(NP (NN dog))\n(VP", r"file:2: the tree .* lacks 2 of its '\)'"),
        ("(A b)\n(S (NP (NN dog))))\n", r"file:2: a '\)' without its '\('"),
        ("(A b)\ndog\n", "file:2: 'dog' is outside"),
        ("(A b)\n(S (NP) (VP (VB go)))\n", r"file:2: the node \(NP\) has neither"),
        ("(A b)\n()\n", r"file:2: the node \(TOP\) has neither"),
        ("(A b)\n(NP the dog)\n", "file:2: the word 'the' is not alone"),
        ("(A b)\n((NP (DT the)) dog)\n", "file:2: the word 'dog' is not alone"),
        ("(A b)\n(NP (DT the) dog)\n", "file:2: the word 'dog' is not alone"),
        # Inside a tree, "*x*" does not begin a notice.
        ("(A b)\n*x*\n(S\n*x* (NN b))\n", r"file:4: the word '\*x\*' is not alone"),
    ],
)
def test_malformed(text, message):
    with pytest.raises(UserError, match=f"^{message}"):
        list(read_trees(text.splitlines(), "file"))


def test_read_line_reads_as_evalb_does():
    assert read_line("((A b))", "here") == (Tree("", (Tree("A", "b"),)),)
    assert read_line("(()) (NP)", "here") == (Tree("", (Tree("", ()),)), Tree("NP", ()))
    assert read_line("( (A b) )", "here") == read_line("((A b))", "here")
    for text in ("( S (A b))", "(S (NP ) (A b))", "(S ( ) (A b))"):
        with pytest.raises(UserError, match="^here: there is an extra blank in"):
            read_line(text, "here")


def test_trees_before_an_error_are_read():
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
    with pytest.raises(UserError, match=r"a.mrg.gz: not a complete gzip file"):
        list(read_trees(path))
    path.write_bytes(gzip.compress(b"(A b)" * 1000)[:-9])
    with pytest.raises(UserError, match=r"a.mrg.gz: not a complete gzip file"):
        list(read_trees(path))
