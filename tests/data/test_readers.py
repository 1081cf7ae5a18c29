"""What `--data` can name: pairs of each kind of text, and the mistakes that users make."""

import bz2
import gzip
import hashlib
import itertools
import json
import lzma
import os
import re
import shutil
import statistics
import types

import pytest

from tf_transformer.config import DataConfig
from tf_transformer.data import pocket
from tf_transformer.data.corpus import HELD_OUT_FRACTION
from tf_transformer.data.readers import absolute_path, open_corpus, open_validation_text
from tf_transformer.data.text_files import read_lines
from tf_transformer.errors import UserError


def write(path, lines):
    data = "".join(f"{line}\n" for line in lines).encode()
    modules = {".gz": gzip, ".bz2": bz2, ".xz": lzma}
    path.write_bytes(modules[path.suffix].compress(data) if path.suffix in modules else data)
    return str(path)


@pytest.mark.parametrize(
    "stem, suffix", [("val", ""), ("valid", ".gz"), ("validation", ""), ("dev", ".gz")]
)
def test_folder(tmp_path, stem, suffix):
    for name in ("train", stem, "test_2016", "test_2017", "notes"):
        write(tmp_path / f"{name}.en{suffix}", [f"{name} a", f"{name} b"])
        write(tmp_path / f"{name}.de{suffix}", [f"{name} A", f"{name} B"])
    for name in ("notes.tsv", "train.fr", "train.en.bak", "train"):  # have no effect
        (tmp_path / name).write_bytes(b"")
    corpus = open_corpus(str(tmp_path), "en", "de")
    corpus.check()
    assert corpus.splits == ["train", "validation", "test_2016", "test_2017"]
    expected = [(f"{stem} a", f"{stem} A"), (f"{stem} b", f"{stem} B")]
    assert list(corpus.read("validation")) == expected
    opposite = open_corpus(str(tmp_path), "de", "en")
    assert list(opposite.read("train")) == [("train A", "train a"), ("train B", "train b")]
    with pytest.raises(UserError, match="give --split, one of train, validation, test_2016, test_"):
        corpus.default_test(seen=True)
    with pytest.raises(UserError, match="has no split 'test'"):
        list(corpus.read("test"))
    with pytest.raises(UserError, match="both 'en'"):
        open_corpus(str(tmp_path), "en", "en")


@pytest.mark.parametrize(("names", "splits"), [
    (["en.train.txt", "de.train.txt", "en.dev.txt", "de.dev.txt"], ["train", "validation"]),
    (["train.en.txt", "train.de.txt.xz", "test.en.txt", "test.de.txt"],
     ["train", "test", "validation", "all"]),
    (["Tatoeba.de-en.en", "Tatoeba.de-en.de", "README"], ["train", "validation", "all"]),
])  # fmt: skip
def test_folders_of_tfds_and_opus(tmp_path, names, splits):
    for name in names:
        write(tmp_path / name, ["A", "B"] if "de." in f"{name}." else ["a", "b"])
    for name in names[2:]:
        write(tmp_path / name, ["D"] if "de." in f"{name}." else ["d"])
    corpus = open_corpus(str(tmp_path), "en", "de")
    assert corpus.splits == splits
    whole = "all" if "all" in splits else "train"
    assert sorted(corpus.read(whole)) == [("a", "A"), ("b", "B")]


def test_the_only_test_set_is_the_default(tmp_path):
    """No text for training is needed."""

    def check(data, expected, languages=("en", "de")):
        corpus = open_corpus(data, *languages)
        assert corpus.default_test(seen=False) == corpus.default_test(seen=True) == expected

    for name in ("dev", "test_2016"):
        write(tmp_path / f"{name}.tsv", ["a\tA"])
    check(str(tmp_path), "test_2016")
    validation = open_validation_text(str(tmp_path), DataConfig(source="en", target="de"))
    assert list(validation.read("validation")) == [("a", "A")]
    write(tmp_path / "test.tsv", ["a\tA"])
    check(str(tmp_path), "test")
    check("pocket", "test")
    check("pocket-trees", "test", ("words", "trees"))


@pytest.mark.parametrize("hold_out", ["sources", "end"])
def test_held_out_validation_is_not_trained_on(tmp_path, hold_out):
    lines = [f"line {i}" for i in range(200)]
    files = f"{write(tmp_path / 'a.en', lines)},{write(tmp_path / 'a.de', lines)}"
    corpus = open_corpus(files, "en", "de", hold_out=hold_out)
    train, validation = list(corpus.read("train")), list(corpus.read("validation"))
    assert len(validation) == 200 * HELD_OUT_FRACTION
    assert sorted(train + validation) == sorted(corpus.read("all"))
    assert list(corpus.read("all")) == [(line, line) for line in lines]
    is_end = train + validation == list(corpus.read("all"))
    assert is_end == (hold_out == "end")
    assert corpus.default_test(seen=False) == "all"
    assert corpus.default_test(seen=True) == "validation"
    path = write(tmp_path / "pairs.tsv", ["a\tA"])
    with pytest.raises(UserError, match="has no train text"):
        open_corpus(path, "en", "de").check()
    write(tmp_path / "pairs.tsv", ["a\tA", "b\tB"])
    corpus = open_corpus(path, "en", "de", hold_out=hold_out)
    corpus.check()
    pairs = [*corpus.read("train"), *corpus.read("validation")]
    assert sorted(pairs) == [("a", "A"), ("b", "B")]


def test_held_out_sources(tmp_path):
    """No source is in two splits, nor has the order of the text an effect.

    The text is sorted by length, and sources have one to nine translations and other blanks.
    """
    pairs = [
        (f"{'word ' * (i // 100)} {i}{' ' * j}", f"{i} {j}")
        for i in range(2000)
        for j in range(1 + i % 9)
    ]
    texts = {}
    for name, lines in (("sorted", pairs), ("other", pairs[5000:] + pairs[4999::-1])):
        write(tmp_path / f"{name}.tsv", ["\t".join(pair) for pair in lines])
        corpus = open_corpus(str(tmp_path / f"{name}.tsv"), "en", "de")
        splits = [list(corpus.read(split)) for split in ("train", "validation")]
        assert sorted(itertools.chain(*splits)) == sorted(pairs)
        sources = [{source.strip() for source, _ in split} for split in splits]
        assert not sources[0] & sources[1]
        texts[name] = splits[1]
    size = int(len(pairs) * HELD_OUT_FRACTION)
    assert size <= len(texts["sorted"]) < size + 9
    assert sorted(texts["sorted"]) == sorted(texts["other"])
    # The first pairs of the validation text, of which BLEU is computed, are like all of it.
    words = [len(source.split()) for source, _ in pairs]
    for part in (texts["sorted"], texts["sorted"][:250]):
        found = [len(source.split()) for source, _ in part]
        assert statistics.mean(found) == pytest.approx(statistics.mean(words), rel=0.15)


def test_blank_pairs_are_not_held_out(tmp_path):
    path = write(tmp_path / "x.tsv", [*["\t"] * 50, *["a\t "] * 50, "b\tB", "c\tC"])
    corpus = open_corpus(path, "en", "de")
    corpus.check()
    assert len(list(corpus.read("validation"))) == 1


def test_the_fingerprint_of_files_changes_with_their_content(tmp_path):
    """Not with the folder, to which a job copies its text, nor with the time."""
    path = tmp_path / "job1" / "train.tsv"
    path.parent.mkdir()
    write(path, ["a\tA"])

    def fingerprint(folder):
        return open_corpus(str(tmp_path / folder), "en", "de").fingerprint("train")

    before = fingerprint("job1")
    shutil.copytree(tmp_path / "job1", tmp_path / "job2")
    os.utime(path, (1, 1))
    assert fingerprint("job1") == fingerprint("job2") == before
    write(path, ["b\tA"])
    assert fingerprint("job1") != before


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
    opposite = open_corpus(data, *languages[::-1])
    assert next(opposite.read("test")) == splits["test"][0][::-1]
    with pytest.raises(UserError, match=f"has {' and '.join(languages)}"):
        open_corpus(data, languages[0], "fr")
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


FOLDER = {name: "a\nb\nc\n" for name in ("train.en", "train.de", "val.en", "val.de")}


@pytest.mark.parametrize(("files", "message"), [
    ({"train.en": "a\nb\n", "train.de": "a\n"}, "train.de has 1 lines, and .*train.en has more"),
    ({"train.en": "", "train.de": ""}, "train.en and .*train.de: there is no text"),
    ({"train.en": "a\n", "train.de": "a\n", "val.en": "a\n"}, "has val.en for validation: keep"),
    ({**FOLDER, "dev.en": "a\n", "dev.de": "a\n"}, "has dev.de and dev.en and val.de and val.en"),
    ({**FOLDER, "val.tsv.gz": ""}, "val.tsv.gz for validation: keep one file of each"),
    ({**FOLDER, "train.en": "\n\n\n"}, "has no train text"),
    # Validation text is checked before the vocabulary is learned.
    ({**FOLDER, "val.en": "\n \n\u2028\n"}, "has no validation text"),
    ({"dev.en": "a\n", "dev.de": "a\n"}, "has no split 'train': it has validation"),
    ({"a.en": "a\n", "a.de": "a\n", "b.en": "a\n", "b.de": "a\n"}, "it has a.de, a.en, b.de, b.en"),
    ({"train.parquet": ""}, "it has train.parquet: give hf:.* for Parquet"),
    ({**FOLDER, "val.en": b"a\nb\xe9\nc\n"}, "val.en:2: not UTF-8 text"),
])  # fmt: skip
def test_folders_that_are_refused(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=message):
        open_corpus(str(tmp_path), "en", "de").check()


def test_tfds(tmp_path):
    import tensorflow_datasets as tfds

    name = "ted_hrlr_translate/pt_to_en"
    with tfds.testing.mock_data(num_examples=5, data_dir=str(tmp_path)):
        corpus = open_corpus(name, "pt", "en")
        pairs = list(corpus.read("train"))
        flipped = list(open_corpus(name, "en", "pt").read("train"))
        assert {"train", "validation", "test"} <= set(corpus.splits)
        assert corpus.default_test(seen=True) == "test"
        assert flipped == [pair[::-1] for pair in pairs] and len(pairs) == 5
        assert all(isinstance(side, str) and side for pair in pairs for side in pair)
        with pytest.raises(UserError, match="has no 'ja'"):
            open_corpus(name, "ja", "en")


def test_the_splits_of_tfds(monkeypatch):
    """Of a builder with fixed text, which its mock has not, and without network."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    texts = tf.data.Dataset.from_tensor_slices({"en": ["a", "b\nc"], "de": ["A", "B\u2028C"]})
    builder = types.SimpleNamespace(
        info=types.SimpleNamespace(features={"en": 0, "de": 0}, splits={"train": 0, "dev": 0}),
        as_dataset=lambda split, shuffle_files: texts,
        download_and_prepare=lambda: None,
    )
    monkeypatch.setattr(tfds, "builder", lambda name: builder)
    corpus = open_corpus("some_translate/de-en", "en", "de")
    assert corpus.splits == ["train", "validation"]
    assert list(corpus.read("validation")) == [("a", "A"), ("b c", "B\u2028C")]

    def fail():
        raise OSError("no network")

    builder.download_and_prepare = fail
    with pytest.raises(UserError, match="could not be prepared: no network"):
        list(open_corpus("some_translate/de-en", "en", "de").read("train"))


# Files of pairs


def read(path, *languages):
    languages = languages or ("en", "de")
    return list(open_corpus(str(path), *languages).read_weighted("all"))


def test_tsv_with_weights(tmp_path):
    path = tmp_path / "pairs.tsv"
    for columns, weights in (("\t0.5", "\t2"), (0.5, 2.0)), (("", ""), (None, None)):
        path.write_text(f"a cat\teine Katze{columns[0]}\na dog\tein Hund{columns[1]}\n")
        pairs = [("a cat", "eine Katze", weights[0]), ("a dog", "ein Hund", weights[1])]
        assert read(path) == pairs
        assert list(open_corpus(str(path), "en", "de").read("all")) == [pair[:2] for pair in pairs]


@pytest.mark.parametrize("name", ["x.tsv", "x.csv", "x.jsonl"])
def test_only_line_ends_end_a_text(tmp_path, name):
    """Other separators are text; a line end inside a text is a blank."""
    text = "a\u2028b\x85c\x0bd\x0ce\x1cf\u2029g"
    lines = {"x.tsv": f"{text}\tA", "x.csv": f'{text},"A\nB"'}
    path = write(tmp_path / name, [lines.get(name) or json.dumps({"en": text, "de": "A\r\nB"})])
    assert [pair[:2] for pair in read(path)] == [(text, "A" if name == "x.tsv" else "A B")]


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "json"])
def test_blank_lines_are_pairs_without_text(tmp_path, suffix):
    """They are dropped and counted later, as in two text files."""
    line = {"tsv": "a\tb", "csv": "a,b"}.get(suffix, '{"en": "a", "de": "b"}')
    write(tmp_path / f"x.{suffix}", [line, "", "  ", line, ""])
    assert [pair[:2] for pair in read(tmp_path / f"x.{suffix}")] == [
        ("a", "b"), ("", ""), ("", ""), ("a", "b"), ("", ""),
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "csv.bz2", "csv.xz"])
def test_csv(tmp_path, suffix):
    """The first line can name the languages: then the file is for both directions."""
    lines = ["one,two", 'a cat,"eine ""Katze"", klein"', '"a\ndog",ein Hund']
    expected = [("a cat", 'eine "Katze", klein'), ("a dog", "ein Hund")]
    path = write(tmp_path / f"x.{suffix}", lines)
    assert read(path) == [("one", "two", None), *((*pair, None) for pair in expected)]
    assert read(write(tmp_path / f"y.{suffix}", ["a,b,0.5", "c,d"])) == [
        ("a", "b", 0.5), ("c", "d", None),
    ]  # fmt: skip
    for index, line in enumerate(lines):
        lines[index] = f'{index},{line},"{index + 1}"'
    for codes in ("en,de", "eng,de_DE"):
        path = write(tmp_path / f"train.{suffix}", [f"\ufeffid, {codes},weight", *lines[1:]])
        assert read(path) == read(tmp_path) == [(*expected[0], 2), (*expected[1], 3)]
        assert read(path, "de", "en")[1] == ("ein Hund", "a dog", 3)


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "json"])
def test_json_lines(tmp_path, suffix):
    """The languages are keys, so one file is for both directions; other keys have no effect."""
    records = [
        {"en": "a cat", "de": "eine Katze", "weight": 0.5, "source": "web"},
        {"translation": {"de": "ein\nHund", "en": "a dog", "fr": "un chien"}},
    ]
    path = write(tmp_path / f"train.{suffix}", map(json.dumps, records))
    expected = [("a cat", "eine Katze", 0.5), ("a dog", "ein Hund", 1.0)]
    assert read(path) == read(tmp_path) == expected
    assert read(path, "de", "en")[0] == ("eine Katze", "a cat", 0.5)
    text = json.dumps([*records, {"en": None, "de": "ein\nTier"}], indent=1)
    array = write(tmp_path / f"array.{suffix}", [text])
    assert read(array) == [*expected, ("", "ein Tier", 1.0)]
    directions = ("en", "de"), ("de", "en")
    assert len({open_corpus(path, *each).fingerprint("all") for each in directions}) == 2


def write_tmx(path, *units, dtd='SYSTEM "tmx14.dtd"', encoding="utf-8"):
    """Writes units, each a dict from codes of languages to segments."""
    variants = ("".join(f'<tuv xml:lang="{each}"><seg>{text}</seg></tuv>' for each, text in
                        unit.items()) for unit in units)  # fmt: skip
    body = "".join(f"<tu>{each}</tu>\n" for each in variants)
    text = f'<!DOCTYPE tmx {dtd}>\n<tmx version="1.4"><body>{body}</body></tmx>'
    path.write_text(text.replace('xml:lang="DE"', 'lang="DE"'), encoding=encoding)
    return str(path)


ENTITY = "<!DOCTYPE tmx {}>\n<tmx><body>\n<tu><tuv><seg>{}</seg></tuv></tu></body></tmx>"
DECLARED = '[<!ENTITY co "A &amp; B"><!ENTITY file SYSTEM "/etc/hostname">]'
LAUGHS = "".join(f'<!ENTITY {b} "{10 * f"&{a};"}">' for a, b in itertools.pairwise("abcdefghi"))


@pytest.mark.parametrize(("segment", "text"), [
    ('A <bpt i="1">&lt;b></bpt><hi>big</hi>\n   dog<ept i="1"/> &amp; cat', "A big dog & cat"),
    ("Hello <!-- x -->world <?pi y?>!", "Hello world !"),
    ("Click <g id='1'>Save</g> <mrk mtype='x'>now</mrk><x/>", "Click Save now"),
    ("H<sub>2</sub>O <b>is <i>wet</i></b>", "H2O is wet"),
    ("A<ph>&lt;fn><sub>note <hi>1</hi></sub></ph> b<it pos='begin'>(</it>", "A b"),
    ("<ut>\\par</ut>5\u00a0km\u2028\u202f", "5\u00a0km\u2028\u202f"),
    ("Firma &co;!", "Firma A & B!"),
])  # fmt: skip
def test_the_text_of_a_segment_of_tmx(tmp_path, segment, text):
    """Native code is not text, nor a `sub` inside it; blanks are kept as in TSV."""
    pairs = {"en-US": segment, "DE": "Hund"}, {"en": "a", "fr": "b"}
    path = write_tmx(tmp_path / "train.tmx", *pairs, dtd=DECLARED, encoding="utf-16")
    assert read(path) == read(tmp_path) == [(text, "Hund", None)]


@pytest.mark.parametrize(("languages", "codes", "found"), [
    (("en", "fr"), ["fr-CA", "FR", "en-US"], ["en-US", "FR"]),
    (("fr", "fr_CA"), ["fr-CA", "fr"], ["fr", "fr-CA"]),
    (("en_GB", "pt_BR"), ["en", "pt-PT", "pt"], ["en", "pt"]),
    (("eng", "zh_TW"), ["en", "zh-CN", "zh-Hant"], ["en", "zh-Hant"]),
    (("en", "pt_BR"), ["en", "pt-PT"], None),
    (("en", "zh_TW"), ["en", "zh-CN"], None),
    (("en", "sr_Latn"), ["en", "sr-Cyrl"], None),
    (("en_US", "en_GB"), ["en"], None),
])  # fmt: skip
def test_languages_of_tmx(tmp_path, languages, codes, found):
    path = write_tmx(tmp_path / "x.tmx", {code: code for code in codes})
    if found:
        assert read(path, *languages) == [(*found, None)]
    else:
        with pytest.raises(UserError, match=f"no unit has both .* and .*: the file has {codes[0]}"):
            read(path, *languages)


@pytest.mark.parametrize(("name", "lines", "warning"), [
    ("x.jsonl", ['{"en": "it &apos;s", "de": "es ist"}'], "pair 1, .* has markup"),
    ("x.tsv", ["a\tA", 'b\t"die ""B"" "'], "pair 2, .* has quotation marks of CSV"),
    ("x.jsonl", ['{"en": "b", "de": "\\"die \\"\\"B\\"\\" \\""}'], ""),
    ("x.tsv", ["source\tTarget", "a\tb"], "pair 1, .* is a header"),
    ("x.csv", ["src,tgt", "a,b"], "pair 1, .* is a header"),
    ("x.tsv", ["de\ten", "a\tb"], "pair 1, .* is a header"),
    ("x.tsv", ["eng\tdeu_Latn", "a\tb"], "pair 1, .* is a header"),
    ("x.csv", ["English,Yoruba", "a,b"], "pair 1, 'English - Yoruba', is a header, and is left"),
    ("x.tsv", ['"a", he said <3 & "b"\t"A" R&D;', "source\ttarget"], ""),
    ("x.jsonl", ['{"en": "English", "de": "German"}'], ""),
])  # fmt: skip
def test_what_is_no_text_is_a_warning(tmp_path, caplog, name, lines, warning):
    """A header is not read; other pairs are."""
    path = write(tmp_path / name, lines * 2)
    assert len(read(path)) == len(read(path)) == 2 * len(lines) - ("header" in warning)
    assert len(caplog.records) == bool(warning)  # one, however often the text is read
    assert re.search(warning, caplog.text)


@pytest.mark.parametrize(("text", "has_markup"), [
    ("A <b>bold</b> word", True), ("Ein <a class=x href='y'>Verweis", True), ("A word</b >", True),
    ("A word <!-- b", True), ("A word &#xA0; here", True), ("Ein Wort&#160;", True),
    ("Black &amp; white", True), ("AT&T said 1 < 2 > 0.", False), ("It is a<b and b>c here", False),
    ("The R&D; then the Q&A; then", False), ("Erst F&E; dann Fragen &c;", False),
])  # fmt: skip
def test_markup(tmp_path, caplog, text, has_markup):
    assert read(write(tmp_path / "x.tsv", [f"{text}\tA"])) == [(text, "A", None)]
    assert ("pair 1" in caplog.text and "has markup" in caplog.text) == has_markup


FORM = ":1: give an object of JSON"


@pytest.mark.parametrize(("name", "text", "message"), [
    ("x.tsv", "a\tb\tno\n", ":1: the weight 'no' is not a number from 0.000001 to 1,000,000"),
    ("x.tsv", "a\tb\tnan\n", "`cut -f 1,2` removes a third column"),
    ("x.tsv", "-0.5\ta\tb\n", "`cut -f 2,3` removes a score or an index in the first column"),
    ("x.tsv", "\tsource\ttarget\n0\ta\tb\n", "`cut -f 2,3` removes a score or an index"),
    ("x.csv", ",source,target\n0,a,b\n", "or write no index (in pandas index=False)"),
    ("x.csv", "a,b,c\n", "give a first line with the languages, as names of their columns"),
    ("x.txt", '{"en": "a", "de": "b"}\n', ":1: JSON: give a file whose name ends in .jsonl"),
    ("x.tmx", "<tmx>", ":1: not TMX"),
    ("x.tmx", ENTITY.format('SYSTEM "tmx14.dtd"', "caf&eacute;"), ":3: not TMX (Entity 'eacute' n"),
    ("x.tmx", ENTITY.format(DECLARED, "&file;"), ":3: not TMX (Entity 'file' not defined"),
    ("x.tmx", ENTITY.format(f'[<!ENTITY a "ha">{LAUGHS}]', "&i;"), "not TMX ("),
    ("x.tsv", "a\tb\nc\n", ":2: one column: give source, one tab, target"),
    ("x.csv", "a;b\n", ":1: one column: give source, a comma, target, or a first line with the"),
    ("x.csv", "id,en,fr\n1,a,b\n", ":1: the first line has id, en, fr: it lacks de"),
    ("x.csv", "en,de\na,b,c\n", ":2: 3 columns, and the first line has 2"),
    ("x.csv", 'a,b\nc,"d" e\n', ":2: ',' expected after '\"': correct the quotation marks"),
    ("x.csv", "", "there is no text"),
    ("x.json", "[]\n", "there is no text"),
    ("x.json", '[{"en": "a", "de": "b"}, {"en": "a"}]', ": object 2: give an object of JSON"),
    ("x.jsonl", '{"en": "a", "de": "b"}\n{"en": \n', ":2: give an object of JSON"),
    ("x.jsonl", '{"en": "a"}\n', FORM),
    ("x.jsonl", '{"en": "a", "de": "b \\ud83d"}\n', FORM),
    ("x.jsonl", "[" * 100_000 + "\n", FORM),
])  # fmt: skip
def test_mistakes(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as raised:
        read(tmp_path / name)
    assert message in str(raised.value) and str(tmp_path / name) in str(raised.value)


# Lines


GZIP = gzip.compress(b"".join(b"%d\n" % n**2 for n in range(999)), mtime=0)


@pytest.mark.parametrize(("name", "content", "problem"), [
    ("x", "a\nb\n".encode("utf-16"), "x: not UTF-8 text but UTF-16: convert it"),
    ("x", gzip.compress(b"a\n", mtime=0), "x: not UTF-8 text but gzip: "),
    ("x.zst", b"\x28\xb5\x2f\xfd\4\0", "x.zst: not UTF-8 text but Zstandard: "),
    ("x.parquet", b"PAR1\x15\0\n", "x.parquet: not UTF-8 text but Parquet: give hf:"),
    ("x", "a\nä\n".encode("latin-1"), "x:2: not UTF-8 text"),
    ("x.gz", GZIP[:-9], "x.gz: not a complete .gz file"),
    ("x.xz", lzma.compress(b"a\n")[:-9], "x.xz: not a complete .xz file"),
])  # fmt: skip
def test_files_that_are_no_text(tmp_path, name, content, problem):
    (tmp_path / name).write_bytes(content)
    for path, message in ((tmp_path / name, problem), (tmp_path, "cannot read .*: Is a directory")):
        with pytest.raises(UserError, match=message):
            list(read_lines(str(path)))


def test_absolute_paths(tmp_path, monkeypatch):
    """A model remembers where its text is; names stay names, whatever is in the folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pocket").mkdir()
    for name in ("train.en", "val.de"):
        write(tmp_path / name, ["a"])
    for name in ("pocket", "pocket-trees", "wmt14_translate/de-en", "no/such/folder"):
        assert absolute_path(name) == name
    assert absolute_path("") == ""  # which is then refused
    assert absolute_path(".") == absolute_path(str(tmp_path)) == str(tmp_path)
    assert absolute_path("train.en,val.de") == f"{tmp_path}/train.en,{tmp_path}/val.de"
