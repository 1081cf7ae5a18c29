"""Trees: their text, trees as strings, repairs; and corpora of trees, with errors in folders."""

import gzip
import random

import pytest
from pocket.treebank import generate

from tf_transformer.data.text_files import read_lines
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.data.trees import (
    Tree,
    clean_tree,
    is_well_formed,
    linearise,
    open_treebank,
    parse_output,
    read_trees,
)
from tf_transformer.errors import UserError

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
<DOC>
<S ID=1>
( (X (Y z)) ) ( (X (Y y)) )
</S>
"""


def read_tree(text):
    return next(read_trees([text]))


def random_trees(number, labels, tags, words):
    """Trees with unary chains, whose tags and labels can be equal."""
    chance = random.Random(1)

    def tree(depth):
        if depth == 0 or chance.random() < 0.3:
            return Tree(chance.choice(tags), chance.choice(words))
        children = tuple(tree(depth - 1) for _ in range(chance.randint(1, 3)))
        return Tree(chance.choice(labels), children)

    return [tree(5) for _ in range(number)]


def test_a_file_of_the_treebank(tmp_path):
    path = tmp_path / "wsj_0001.mrg.gz"
    path.write_bytes(gzip.compress(FILE.encode("utf-8-sig")))  # with a byte-order mark
    expected = [
        "( (S (NP-SBJ (PRP We)) (VP (VBD -LRB-) (NP *x*)) (. .)))",
        "( (X (Y z)))",
        "( (X (Y y)))",
    ]
    assert [str(tree) for tree in read_trees(read_lines(str(path)))] == expected


X = Tree("X", "a")


@pytest.mark.parametrize(("line", "trees"), [
    (" \n", ()),
    ("(X a)(Y b)", (X, Tree("Y", "b"))),
    ("( (X a))", (Tree("", (X,)),)),  # an outer node without a label
    ("((X a))", (Tree("", (X,)),)),
    ("(((X a)))", (Tree("", (Tree("", (X,)),)),)),
    ("(()) (NP)", (Tree("", (Tree("", ()),)), Tree("NP", ()))),
])  # fmt: skip
def test_a_line_is_read_as_by_evalb(line, trees):
    assert tuple(read_trees([line])) == trees


@pytest.mark.parametrize(("text", "message"), [
    ("(A b)\n(S\n(NP (NN dog))\n(VP", r"file:2: the tree .* lacks 2 of its '\)'"),
    ("(A b)\n(S (NP (NN dog))))\n", r"file:2: '\)' is outside"),
    ("(A b)\ndog\n", "file:2: 'dog' is outside"),
    ("(A b)\n(NP the dog)\n", "file:2: the word 'the' is not alone"),
    ("(A b)\n(NP (DT the) dog)\n", "file:2: the word 'dog' is not alone"),
    # Inside a tree, "*x*" does not begin a notice.
    ("(A b)\n*x*\n(S\n*x* (NN b))\n", r"file:4: the word '\*x\*' is not alone"),
])  # fmt: skip
def test_malformed(text, message):
    with pytest.raises(UserError, match=f"^{message}"):
        list(read_trees(text.splitlines(), "file"))


RAW = """( (S (NP-SBJ-1 (DT The) (NN bill))
    (VP (VBD was)
      (VP (VBN paid) (NP (-NONE- *-1))
        (PP (-NONE- *?*)) (ADVP-TMP=2 (RB yesterday))
        (PRN (-LRB- -LRB-) (NP (QP ($ $) (CD 10)) (-NONE- *U*)) (-RRB- -RRB-))))
    (. .)))"""
CLEAN = (
    "(S (NP (DT The) (NN bill)) (VP (VBD was) (VP (VBN paid) (ADVP (RB yesterday))"
    " (PRN (-LRB- -LRB-) (NP (QP ($ $) (CD 10))) (-RRB- -RRB-)))) (. .))"
)
LINEARISED = "(S (NP DT NN ) (VP VBD (VP VBN (ADVP RB ) (PRN -LRB- (NP (QP $ CD ) ) -RRB- ) ) ) . )"


@pytest.mark.parametrize(("raw", "clean"), [
    (RAW, CLEAN),
    ("( (NN dog))", "(NN dog)"),
    ("(ROOT (S (NN dog)))", "(S (NN dog))"),
    ("( (S (NN dog)) (. .))", "(TOP (S (NN dog)) (. .))"),
    ("( (S ( (NN dog) (NN cat))))", "(S (NN dog) (NN cat))"),
    ("( (NP=2 (NP|X-3 (NN dog))))", "(NP (NP|X (NN dog)))"),
    ("(-X- (NN-1 dog))", "(-X- (NN-1 dog))"),
    ("(NP-SUJ##a=b|c=d## (NC##lem=chat## chat) (## #))", "(NP (NC chat) (## #))"),
    ("(VROOT (S (NN dog)) ($. .))", "(TOP (S (NN dog)) ($. .))"),
    ("( (S (NP-SBJ (-NONE- *)) (VP (-NONE- *?*))))", "None"),  # only traces
])  # fmt: skip
def test_clean_by_hand(raw, clean):
    assert str(clean_tree(read_tree(raw))) == clean


def test_restore_is_the_inverse_of_linearise():
    labels = ("S", "NP", "VP", "SBAR", "ADVP|PRT", "X")
    tags = ("DT", "NN", "PRP$", "-LRB-", ".", "``", "''", ":", "#", "NNP", "S")
    assert linearise(read_tree(CLEAN)) == LINEARISED
    for tree in random_trees(2000, labels, tags, ("a", "b", "-LRB-")):
        assert parse_output(linearise(tree), tree.words()) == tree
        assert is_well_formed(linearise(tree), tree.words())


def test_any_text_gives_a_tree_with_the_words():
    chance = random.Random(2)
    tokens = "(S (NP (VP ) ) ) ) ) ) DT NN ( (( () )NP x(y (-NONE- -NONE-".split()
    tokens += ["", "\u00a0", "\t"]
    malformed = {"(", "((", "()", ")NP", "x(y"}
    for _ in range(5000):
        text = " ".join(chance.choices(tokens, k=chance.randint(0, 20)))
        words = chance.choices(["a", "(", ")", "", "b c", "-LRB-"], k=chance.randint(0, 6))
        tree = parse_output(text, words)
        assert tree.words() == words
        assert is_well_formed(linearise(tree), words)
        if is_well_formed(text, words):
            assert not malformed & set(text.split())
            assert text.count("(") == text.count(")")


def test_clean_tree_is_idempotent():
    for raw in read_trees(generate(300, seed=3)):
        clean = clean_tree(raw)
        assert clean_tree(clean) == clean
        assert clean.words() == [word for word, tag in raw.tags() if tag != "-NONE-"]


# The text that a model writes, and the tree of it and of the words a, b and c.
REPAIRS = {
    "missing closing bracket": ("(S (NP DT NN ) (VP VB", "(S (NP (DT a) (NN b)) (VP (VB c)))"),
    "extra closing bracket": ("(S (NP DT NN ) (VP VB ) ) )", "(S (NP (DT a) (NN b)) (VP (VB c)))"),
    "closed before the end": ("(S (NP DT NN ) ) (VP VB ) )", "(S (NP (DT a) (NN b)) (VP (VB c)))"),
    "closing bracket first": (") (S DT NN VB )", "(S (DT a) (NN b) (VB c))"),
    "phrase without words": ("(S (NP ) DT (VP ) NN VB )", "(S (DT a) (NN b) (VB c))"),
    "no label": ("(S ( DT NN ) VB )", "(S (X (DT a) (NN b)) (VB c))"),
    "extra tags": ("(S (NP DT NN ) (VP VB RB ) . )", "(S (NP (DT a) (NN b)) (VP (VB c)))"),
    "missing tags": ("(S (NP DT ) )", "(S (NP (DT a)) (NN b) (NN c))"),
    "tag before the tree": ("DT (S NN VB )", "(S (DT a) (S (NN b) (VB c)))"),
    "no brackets": ("DT NN VB", "(S (DT a) (NN b) (VB c))"),
    "no text": ("", "(S (NN a) (NN b) (NN c))"),
    "only brackets": (") ( )", "(X (NN a) (NN b) (NN c))"),
}


@pytest.mark.parametrize(("text", "repaired"), REPAIRS.values(), ids=REPAIRS)
def test_repair(text, repaired):
    assert str(parse_output(text, ["a", "b", "c"])) == repaired
    assert not is_well_formed(text, ["a", "b", "c"])


# Corpora


def write(path, *words):
    """Writes a file of trees with one sentence, "WORD runs .", for each word."""
    path.parent.mkdir(parents=True, exist_ok=True)
    trees = [f"( (S (NP-SBJ (NN {word})) (VP (VB runs)) (. .)) )\n" for word in words]
    path.write_text("".join(trees))


def first_words(corpus, split):
    """The first word of each sentence of a split."""
    return [source.split()[0] for source, _ in corpus.read(split)]


def test_the_sections_of_the_penn_treebank(tmp_path):
    training = "02/wsj_0200 02/wsj_0299 21/wsj_2172"
    for name in f"00/wsj_0001 01/wsj_0101 {training} 22/wsj_2200 23/wsj_2300 24/wsj_2454".split():
        write(tmp_path / "combined" / "wsj" / f"{name}.mrg", name[3:])
    write(tmp_path / "combined" / "WSJ" / "21" / "WSJ_2100.MRG", "capital")
    corpus = open_treebank(tmp_path)
    assert corpus.splits == ["train", "validation", "test"]
    assert first_words(corpus, "train") == ["capital", "wsj_0200", "wsj_0299", "wsj_2172"]
    assert first_words(corpus, "validation") == ["wsj_2200"]
    assert first_words(corpus, "test") == ["wsj_2300"]
    assert corpus.name.endswith("(6 of its 9 files)")
    assert corpus.default_test(seen=True) == corpus.default_test(seen=False) == "test"


@pytest.mark.parametrize(
    ("name", "ending"),
    [("validation/deep/x", "mrg"), ("Development-1", "parse"), ("dev", "ptb"), ("val", "fid")],
)
def test_split_names(tmp_path, name, ending):
    for path in ("train/b", "train/a", "train_2", name, "testing", "notes"):
        write(tmp_path / f"{path}.{ending}", path)
    (tmp_path / "testing.txt").write_text("notes")
    corpus = open_treebank(tmp_path)
    assert first_words(corpus, "train") == ["train/a", "train/b", "train_2"]
    assert first_words(corpus, "validation") == [name]
    assert first_words(corpus, "test") == ["testing"]


def test_held_out(tmp_path):
    """Of 100 trees, 5 are for validation and 5 for testing; or the last 10.

    A tree that contains only traces does not count.
    """
    write(tmp_path / "a.mrg", *(f"w{n}" for n in range(60)))
    (tmp_path / "b.mrg").write_text("( (S (NP-SBJ (-NONE- *)) ) )\n")
    write(tmp_path / "c.mrg", *(f"w{n}" for n in range(60, 100)))
    corpus = open_treebank(tmp_path)
    assert corpus.splits == ["train", "test", "validation", "all"]
    assert corpus.default_test(seen=True) == corpus.default_test(seen=False) == "test"
    assert first_words(corpus, "all") == [f"w{n}" for n in range(100)]
    sizes = {"train": 90, "test": 5, "validation": 5}
    splits = {split: set(first_words(corpus, split)) for split in sizes}
    assert {split: len(words) for split, words in splits.items()} == sizes
    assert len(set().union(*splits.values())) == 100
    corpus.hold_out = "end"
    assert first_words(corpus, "train") == [f"w{n}" for n in range(90)]
    assert first_words(corpus, "test") == [f"w{n}" for n in range(90, 95)]
    assert first_words(corpus, "validation") == [f"w{n}" for n in range(95, 100)]


def test_bad_folders(tmp_path):
    with pytest.raises(UserError, match=r"no \.mrg, .* file"):
        open_treebank(tmp_path)
    with pytest.raises(UserError, match=r"no such folder or file: .*x\.mrg"):
        open_treebank(tmp_path / "x.mrg")
    write(tmp_path / "a.mrg", "dog", "cat")
    assert first_words(open_treebank(tmp_path / "a.mrg"), "all") == ["dog", "cat"]
    with pytest.raises(UserError, match="has no train text"):
        open_treebank(tmp_path).check()
    (tmp_path / "a.dbr").write_text("(S (VP (VB 0=Is) (JJ 2=rich)) (NP 1=Anna))\n")
    with pytest.raises(UserError, match=r"a\.dbr: words such as '0=Is' .* disco-dop"):
        open_treebank(tmp_path / "a.dbr").check()
    (tmp_path / "a.mrg").write_text("( (S (NN dog)) )\n( (S (NN cat) )\n")
    with pytest.raises(UserError, match=r"a\.mrg:2: "):
        list(open_treebank(tmp_path).read("train"))
    write(tmp_path / "wsj_2301.mrg", "dog")  # a section, so that other names do not count
    corpus = open_treebank(tmp_path)
    assert first_words(corpus, "test") == ["dog"]
    with pytest.raises(UserError, match="has no split 'train': it has test"):
        list(corpus.read("train"))


# Sub-words


@pytest.mark.parametrize("subword_model", ["bpe", "unigram"])
def test_sub_words_of_linearised_trees(subword_model):
    """No sub-word joins a bracket and letters, and a closing bracket is one sub-word."""
    targets = [linearise(clean_tree(tree)) for tree in read_trees(generate(1000, seed=4))]
    rare_tags = ["``", "''", "-LRB-", "#", "PRP$"]
    texts = iter(2 * [*targets, *rare_tags])
    tokenizer = Tokenizer.learn(texts, 400, subword_model=subword_model)
    pieces = tokenizer.pieces(tokenizer.encode(["(NP NNS ) ) )"])[0])
    assert pieces == ["\u2581(", "NP", "\u2581NNS", "\u2581)", "\u2581)", "\u2581)", "[END]"]
    for text in [*targets[:200], "(S `` '' -LRB- -RRB- # $ PRP$ ADVP|PRT )"]:
        assert tokenizer.normalize(text) == text


def test_brackets_that_are_nested_too_deep():
    deep = "(S " * 5000
    with pytest.raises(UserError, match="line:2: more than 300 brackets are open"):
        list(read_trees(["", f"{deep}(NN dog)" + ")" * 5000]))
    assert parse_output(f"{deep}NN", ["dog"]).words() == ["dog"]
