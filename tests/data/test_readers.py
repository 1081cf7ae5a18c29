"""What `--data` can name: pairs of each kind of text, and the mistakes that users make."""

import gzip
import hashlib
import itertools
import json
import lzma
import os
import types

import pytest

from tf_transformer.data import pocket
from tf_transformer.data.corpus import HELD_OUT_FRACTION
from tf_transformer.data.readers import absolute_path, open_corpus
from tf_transformer.data.text_files import read_lines
from tf_transformer.data.tokenizer import learn_tokenizers
from tf_transformer.errors import UserError


def write(path, lines):
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("stem", ["val", "valid", "validation", "dev"])
def test_folder(tmp_path, suffix, stem):
    for name in ("train", stem, "test_2016", "test_2017", "notes"):
        write(tmp_path / f"{name}.en{suffix}", [f"{name} a", f"{name} b"])
        write(tmp_path / f"{name}.de{suffix}", [f"{name} A", f"{name} B"])
    corpus = open_corpus(str(tmp_path), "en", "de")
    assert corpus.splits == ["train", "validation", "test_2016", "test_2017"]
    assert list(corpus.read("validation")) == [
        (f"{stem} a", f"{stem} A"),
        (f"{stem} b", f"{stem} B"),
    ]
    assert list(open_corpus(str(tmp_path), "de", "en").read("train")) == [
        ("train A", "train a"),
        ("train B", "train b"),
    ]
    with pytest.raises(UserError, match="several test sets"):
        corpus.default_test(seen=True)


@pytest.mark.parametrize("seen", [True, False])
def test_the_only_test_set_is_the_default(tmp_path, seen):
    for name in ("train", "val", "test_2016"):
        write(tmp_path / f"{name}.tsv", ["a\tA"])
    assert open_corpus(str(tmp_path), "en", "de").default_test(seen) == "test_2016"
    write(tmp_path / "test.tsv", ["a\tA"])
    assert open_corpus(str(tmp_path), "en", "de").default_test(seen) == "test"


def test_held_out_validation_is_not_trained_on(tmp_path):
    lines = [f"line {i}" for i in range(200)]
    files = f"{write(tmp_path / 'a.en', lines)},{write(tmp_path / 'a.de', lines)}"
    corpus = open_corpus(files, "en", "de")
    train = list(corpus.read("train"))
    validation = list(corpus.read("validation"))
    assert len(validation) == 200 * HELD_OUT_FRACTION
    assert train + validation == list(corpus.read("all")) == [(line, line) for line in lines]
    assert corpus.default_test(seen=False) == "all"
    assert corpus.default_test(seen=True) == "validation"


def test_the_fingerprint_of_files_changes_with_them(tmp_path):
    path = tmp_path / "train.tsv"
    write(path, ["a\tA"])
    before = open_corpus(str(tmp_path), "en", "de").fingerprint("train")
    assert open_corpus(str(tmp_path), "en", "de").fingerprint("train") == before
    os.utime(path, (1, 1))
    assert open_corpus(str(tmp_path), "en", "de").fingerprint("train") != before


def test_pocket_directions():
    forward = next(open_corpus("pocket", "en", "de").read("test"))
    assert next(open_corpus("pocket", "de", "en").read("test")) == forward[::-1]
    with pytest.raises(UserError, match="has en and de"):
        open_corpus("pocket", "en", "fr")


@pytest.mark.parametrize("seen", [True, False])
def test_the_pocket_corpora_have_a_default_test(seen):
    assert open_corpus("pocket", "en", "de").default_test(seen) == "test"
    assert open_corpus("pocket-trees", "words", "trees").default_test(seen) == "test"


@pytest.mark.parametrize(
    ("data", "languages"), [("pocket", ("en", "de")), ("pocket-trees", ("words", "trees"))]
)
def test_the_splits_of_the_pocket_corpora(data, languages):
    corpus = open_corpus(data, *languages)
    splits = {name: list(corpus.read(name)) for name in corpus.splits}
    assert {name: len(pairs) for name, pairs in splits.items()} == pocket.SPLIT_SIZES[data]
    assert list(splits) == ["train", "validation", "test"]
    sources = [source for pairs in splits.values() for source, _ in pairs]
    assert len(set(sources)) == len(sources)
    with pytest.raises(UserError, match="has no split 'dev'"):
        list(corpus.read("dev"))


def test_a_pocket_corpus_that_has_changed_is_refused(tmp_path, monkeypatch):
    """Another text, with its own checksum, has another fingerprint."""
    corpus = open_corpus("pocket", "en", "de")
    before = corpus.fingerprint("train")
    assert corpus.fingerprint("train") == before != corpus.fingerprint("test")
    data = lzma.compress(b"A dog.\tEin Hund.\n")
    (tmp_path / "pocket.tsv.xz").write_bytes(data)
    monkeypatch.setattr(pocket, "FOLDER", tmp_path)
    with pytest.raises(UserError, match="pocket.tsv.xz is damaged: install"):
        next(corpus.read("train"))
    monkeypatch.setitem(pocket.CHECKSUMS, "pocket", hashlib.sha256(data).hexdigest())
    assert list(corpus.read("validation")) == [("A dog.", "Ein Hund.")]
    assert corpus.fingerprint("train") != before


@pytest.mark.parametrize(
    "data", ["no/such/folder", "./nothing", "/nothing", "a.en,b.de", "Nothing"]
)
def test_no_such_data(data):
    with pytest.raises(UserError, match="no such"):
        open_corpus(data, "en", "de")


def test_different_line_counts(tmp_path):
    write(tmp_path / "train.en", ["a", "b", "c"])
    write(tmp_path / "train.de", ["A"])
    with pytest.raises(UserError, match=r"train.de has 1 lines, and .*train.en has more"):
        list(open_corpus(str(tmp_path), "en", "de").read("all"))


def test_empty_file(tmp_path):
    write(tmp_path / "train.en", [])
    write(tmp_path / "train.de", [])
    with pytest.raises(UserError, match=r"train.en and .*train.de: there is no text"):
        list(open_corpus(str(tmp_path), "en", "de").read("all"))


def test_missing_language_missing_split_and_equal_languages(tmp_path):
    write(tmp_path / "train.en", ["a"])
    write(tmp_path / "train.de", ["A"])
    with pytest.raises(UserError, match="has no train.en and train.fr"):
        open_corpus(str(tmp_path), "en", "fr")
    with pytest.raises(UserError, match="has no split 'test'"):
        list(open_corpus(str(tmp_path), "en", "de").read("test"))
    with pytest.raises(UserError, match="both 'en'"):
        open_corpus(str(tmp_path), "en", "en")


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("wmt14_translate/de-en", "en", "de"),
        ("wmt14_translate/fr-en", "fr", "en"),
        ("ted_hrlr_translate/pt_to_en", "pt", "en"),
    ],
)
def test_tfds(tmp_path, name, source, target):
    import tensorflow_datasets as tfds

    with tfds.testing.mock_data(num_examples=5, data_dir=str(tmp_path)):
        corpus = open_corpus(name, source, target)
        pairs = list(itertools.islice(corpus.read("train"), 3))
        flipped = list(itertools.islice(open_corpus(name, target, source).read("train"), 3))
        assert {"train", "validation", "test"} <= set(corpus.splits)
        assert corpus.default_test(seen=True) == "test"
        assert flipped == [pair[::-1] for pair in pairs]
        assert all(isinstance(side, str) and side for pair in pairs for side in pair)
        with pytest.raises(UserError, match="has no 'ja'"):
            open_corpus(name, "ja", target)


def test_tfds_without_validation_text_holds_out_the_end_of_train(tmp_path, monkeypatch):
    """With a fake builder, because the mock of TFDS does not slice splits."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    class Builder:
        def __init__(self):
            self.info = types.SimpleNamespace(
                features={"en": None, "de": None}, full_name="some/1", splits={}
            )

        def download_and_prepare(self):
            self.info.splits = {"train": types.SimpleNamespace(num_examples=100)}

        def as_dataset(self, split, shuffle_files):
            slices = split.removeprefix("train").removeprefix("[").removesuffix("]")
            first, _, last = slices.partition(":")
            numbers = [str(n) for n in range(100)][int(first or 0) : int(last or 100)]
            return tf.data.Dataset.from_tensor_slices({"en": numbers, "de": numbers})

    monkeypatch.setattr(tfds, "builder", lambda name: Builder())
    corpus = open_corpus("some_translate/de-en", "en", "de")
    assert len(list(corpus.read("train"))) == 95
    assert [n for n, _ in corpus.read("validation")] == ["95", "96", "97", "98", "99"]
    assert len(list(corpus.read("all"))) == 100
    assert corpus.splits == ["train", "validation", "all"]
    assert corpus.default_test(seen=True) == "validation"


def test_an_incomplete_validation_set_is_refused(tmp_path):
    for name in ("train.en", "train.de", "val.en"):
        (tmp_path / name).write_text("a\n")
    with pytest.raises(UserError, match="has val.en for validation: keep one file of each"):
        open_corpus(str(tmp_path), "en", "de")
    for name in ("val.de", "dev.en", "dev.de"):
        (tmp_path / name).write_text("a\n")
    with pytest.raises(UserError, match="has dev.de and dev.en and val.de and val.en for"):
        open_corpus(str(tmp_path), "en", "de")


def test_tfds_without_network(tmp_path, monkeypatch):
    import tensorflow_datasets as tfds

    def fail(self, **options):
        raise OSError("no network")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)
    with pytest.raises(UserError, match="could not be prepared: no network"):
        list(open_corpus("wmt14_translate/de-en", "en", "de").read("train"))


def test_errors_in_the_text_are_raised_while_a_vocabulary_is_learned(tmp_path):
    """SentencePiece reads the text and must not hide its errors."""
    lines = [f"line {i}" for i in range(300)]
    for stem in ("train", "val"):
        write(tmp_path / f"{stem}.en", lines)
        write(tmp_path / f"{stem}.de", lines[:-1] if stem == "train" else lines)
    corpus = open_corpus(str(tmp_path), "en", "de")
    with pytest.raises(UserError, match=r"train.de has 299 lines, and .*train.en has more"):
        learn_tokenizers(lambda: corpus.read("train"), 400, shared=True)
    (tmp_path / "train.de").write_bytes(b"A\n" * 200 + b"\xff\n" + b"B\n" * 99)
    with pytest.raises(UserError, match=r"train.de:201: not UTF-8"):
        learn_tokenizers(lambda: corpus.read("train"), 400, shared=True)


def test_a_damaged_gzip_body(tmp_path):
    write(tmp_path / "train.en.gz", ["a"] * 1000)
    path = tmp_path / "train.de.gz"
    write(path, [f"b{i * i}" for i in range(1000)])
    data = bytearray(path.read_bytes())
    data[60:70] = b"\xff" * 10
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"not a complete gzip file|not UTF-8"):
        list(open_corpus(str(tmp_path), "en", "de").read("all"))


TSV = "a cat\teine Katze\t0.5\na dog\tein Hund\t2\n"
JSON = [
    {"en": "a cat", "de": "eine Katze", "weight": 0.5, "source": "web"},
    {"translation": {"de": "ein\nHund", "en": "a dog", "fr": "un chien"}},
]


def read(path, *languages):
    languages = languages or ("en", "de")
    return list(open_corpus(str(path), *languages).read_weighted("all"))


def test_tsv_with_weights(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text(TSV)
    assert read(path) == [("a cat", "eine Katze", 0.5), ("a dog", "ein Hund", 2.0)]
    corpus = open_corpus(str(path), "en", "de")
    assert list(corpus.read("all")) == [("a cat", "eine Katze"), ("a dog", "ein Hund")]
    path.write_text("a cat\teine Katze\na dog\tein Hund\n")
    assert read(path) == [("a cat", "eine Katze", None), ("a dog", "ein Hund", None)]


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_json_lines(tmp_path, suffix):
    """The languages are keys, so one file is for both directions; other keys have no effect."""
    path = tmp_path / f"train.{suffix}"
    data = "".join(f"{json.dumps(record)}\n" for record in JSON).encode()
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    expected = [("a cat", "eine Katze", 0.5), ("a dog", "ein Hund", 1.0)]
    assert read(path) == read(tmp_path) == expected
    assert read(path, "de", "en")[0] == ("eine Katze", "a cat", 0.5)
    fingerprints = {
        open_corpus(str(path), *languages).fingerprint("all")
        for languages in [("en", "de"), ("de", "en")]
    }
    assert len(fingerprints) == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.tsv", "a\tb\tno\n", ":1: the weight 'no' is not a number from 0.000001 to 1,000,000"),
        ("x.tsv", "a\tb\tnan\n", "1,000,000: in TSV files, `cut -f 1,2` removes a third column"),
        ("x.tsv", "a\tb\t0\n", "the weight '0' is not"),
        ("x.tsv", "a\tb\t1\tc\n", ":1: 4 columns: give source, one tab, target; a third column is"),
        ("x.tsv", "a\n", ":1: 1 columns"),
        ("x.jsonl", "", "x.jsonl: there is no text"),
        (
            "x.jsonl",
            '{"en": "a", "de": "b"}\n{"en": \n',
            ":2: give an object of JSON",
        ),
        ("x.jsonl", "[1]\n", ":1: give an object of JSON"),
        (
            "x.jsonl",
            '{"en": "a"}\n',
            ':1: give an object of JSON with two texts, such as {"en"',
        ),
        ("x.jsonl", '{"en": "a", "de": 7}\n', ":1: give an object of JSON"),
        ("x.jsonl", '{"translation": "a", "de": "b"}\n', ":1: give an object of JSON"),
        ("x.jsonl", '{"en": "a", "de": "b \\ud83d"}\n', ":1: give an object of JSON"),
        ("x.jsonl", "[" * 100_000 + "\n", ":1: give an object of JSON"),
        ("x.jsonl", '{"en": "a", "de": "b", "weight": 1%s}\n' % ("0" * 400), "is not a number"),
        ("x.jsonl", '{"en": "a", "de": "b", "weight": -1}\n', "the weight -1 is not a number"),
    ],
)
def test_mistakes(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as raised:
        read(tmp_path / name)
    assert message in str(raised.value) and str(tmp_path / name) in str(raised.value)


def test_a_folder_with_two_kinds_of_files(tmp_path):
    for name in ("train.jsonl", "train.en", "train.de"):
        (tmp_path / name).write_text("x\n")
    with pytest.raises(UserError, match="has train.de and train.en and train.jsonl for train"):
        open_corpus(str(tmp_path), "en", "de")


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
    assert name in message and f"{split}.en" in message and "keep one file of each" in message
    (folder / name).unlink()
    open_corpus(str(folder), "en", "de").check()


def test_files_of_other_names_do_not_matter(folder):
    for name in ("notes.tsv", "notes.en", "train.fr", "train.en.bak", "train"):
        (folder / name).write_bytes(b"")
    open_corpus(str(folder), "en", "de").check()


@pytest.mark.parametrize(("content", "problem"), [
    ("", "val.en has 0 lines, and"),
    ("\n \n\u2028\n", "no validation text: of each pair of validation, at least one side is blank"),
    ("a\n", "val.en has 1 lines, and "),
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
    assert "has no train text" in message_of(tmp_path, path)
    path.write_text("a\tA\nb\tB\n")
    corpus = open_corpus(str(path), "en", "de")
    corpus.check()
    assert list(corpus.read("train")) == [("a", "A")]
    assert list(corpus.read("validation")) == [("b", "B")]


@pytest.mark.parametrize(("content", "problem"), [
    ("a\nb\n".encode("utf-16"), "x:1: not UTF-8 text: convert the file"),
    ("a\nä\n".encode("latin-1"), "x:2: not UTF-8 text: convert the file, or correct the line"),
    (GZIP, "x:1: not UTF-8 text: convert the file"),
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


@pytest.mark.parametrize(("line", "columns"), [("a", 1), ("a\tb\t1\tc", 4), ("", 1)])
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
