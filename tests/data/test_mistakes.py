"""Mistakes in the text that a user gives: each has one message, with file and line or split."""

import gzip

import pytest

from tf_transformer.data.readers import absolute_path, open_corpus
from tf_transformer.data.text_files import read_lines
from tf_transformer.errors import UserError

GZIP = gzip.compress(b"a\nb\n" * 999, mtime=0)  # its bytes do not depend on the time


@pytest.fixture
def folder(tmp_path):
    """A folder with training and validation text."""
    for name in ("train.en", "train.de", "val.en", "val.de"):
        (tmp_path / name).write_text("a\nb\nc\n")
    return tmp_path


def message_of(folder, data=None):
    """The message with which a corpus is refused before any long work."""
    with pytest.raises(UserError) as error:
        open_corpus(str(data or folder), "en", "de").check()
    return str(error.value)


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize("extra", ["{}.tsv", "{}.en.gz", "{}.tsv.gz"])
def test_two_files_for_one_text(folder, split, extra):
    name = extra.format(split)
    (folder / name).write_bytes(b"")
    message = message_of(folder)
    assert f"has {name} and {split}.de and {split}.en" in message or (
        f"has {split}.en and {name}: keep one" in message
    )
    (folder / name).unlink()
    open_corpus(str(folder), "en", "de").check()


def test_files_of_other_names_do_not_matter(folder):
    for name in ("notes.tsv", "notes.en", "train.fr", "train.en.bak", "train"):
        (folder / name).write_bytes(b"")
    open_corpus(str(folder), "en", "de").check()


def test_two_validation_sets(folder):
    (folder / "dev.tsv").write_text("a\tb\n")
    assert "has two validation sets, dev.tsv, and val.de and val.en" in message_of(folder)


@pytest.mark.parametrize(("content", "problem"), [
    ("", "val.en is empty"),
    ("\n \n\u2028\n", "no validation text: of each pair of validation, at least one side is blank"),
    ("a\n", "val.en has 1 lines and "),
    (b"a\nb\xe9\nc\n", "val.en:2: not UTF-8 text"),
])  # fmt: skip
def test_validation_text_is_checked_before_the_vocabulary_is_learned(folder, content, problem):
    content = content if isinstance(content, bytes) else content.encode()
    (folder / "val.en").write_bytes(content)
    assert problem in message_of(folder)


def test_training_text_of_blanks(folder):
    (folder / "train.en").write_text("\n\n\n")
    assert "has no train text" in message_of(folder)


def test_one_pair_cannot_be_held_out(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tA\n")
    assert "has 1 pair: there must be at least 2" in message_of(tmp_path, path)
    path.write_text("a\tA\nb\tB\n")
    corpus = open_corpus(str(path), "en", "de")
    corpus.check()
    assert list(corpus.read("train")) == [("a", "A")]
    assert list(corpus.read("validation")) == [("b", "B")]


@pytest.mark.parametrize(("content", "problem"), [
    ("a\nb\n".encode("utf-16"), "x:1: this is UTF-16 text: convert it"),
    ("a\nb\n".encode("utf-16-le"), "x:1: this is UTF-16 text: convert it"),
    ("a\nb\n".encode("utf-16-be"), "x:1: this is UTF-16 text: convert it"),
    ("a\nä\n".encode("latin-1"), "x:2: not UTF-8 text: convert the file, or correct the line"),
    (b"a\rb\r", "x:1: the lines end with carriage returns: convert them, as with `tr '\\r' '\\n'`"),
    (GZIP, "x:1: this is a gzip file: let its name end in .gz, or unpack it"),
])  # fmt: skip
def test_other_formats(tmp_path, content, problem):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UserError) as error:
        list(read_lines(str(tmp_path / "x")))
    assert f"{tmp_path}/{problem}" in str(error.value)


@pytest.mark.parametrize(("content", "lines"), [
    (b"a\r\nb\r\n", ["a", "b"]),
    (b"a\rb\n", ["a\rb"]),  # a lone carriage return is a blank in the text
    (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
    (b"ab\0c\n", ["ab\0c"]),
    ("a\u2028b\u0085c\n".encode(), ["a\u2028b\u0085c"]),
    (b"x" * 10_000_000 + b"\ny", ["x" * 10_000_000, "y"]),
    (b"", []),
    (b"\n", [""]),
])  # fmt: skip
def test_unusual_text(tmp_path, content, lines):
    """It has the same lines plain and compressed, also in several parts."""
    path = tmp_path / "x"
    path.write_bytes(content)
    assert list(read_lines(str(path))) == lines
    middle = len(content) // 2
    parts = gzip.compress(content[:middle], 1) + gzip.compress(content[middle:], 1)
    (tmp_path / "x.gz").write_bytes(parts)
    assert list(read_lines(str(tmp_path / "x.gz"))) == lines


@pytest.mark.parametrize("content", [b"a\nb\n", GZIP[:-9]])
def test_incomplete_gzip(tmp_path, content):
    path = tmp_path / "x.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.gz: not a complete gzip file"):
        list(read_lines(str(path)))


@pytest.mark.parametrize(("line", "columns"), [("a", 1), ("a\tb\tc", 3), ("", 1)])
def test_tsv_columns(tmp_path, line, columns):
    path = tmp_path / "pairs.tsv"
    path.write_text(f"a\tA\n{line}\nb\tB\n")
    assert f"pairs.tsv:2: {columns} columns" in message_of(tmp_path, path)


def test_absolute_paths(folder, monkeypatch):
    """A model remembers where its text is; names stay names, whatever is in the folder."""
    monkeypatch.chdir(folder)
    (folder / "pocket").mkdir()
    for name in ("pocket", "pocket-trees", "wmt14_translate/de-en", "no/such/folder"):
        assert absolute_path(name) == name
    assert absolute_path("") == ""  # which is then refused
    assert absolute_path(".") == absolute_path(str(folder)) == str(folder)
    assert absolute_path("train.en,val.de") == f"{folder}/train.en,{folder}/val.de"
