"""The test set of evaluate and compare: its split, its tags, and the names of its translations."""

import os
import types

import pytest

from tf_transformer.cli.evaluation import (
    read_test_set,
    tag_for,
    translations_path,
)
from tf_transformer.config import DataConfig
from tf_transformer.data.readers import open_corpus


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """a.tsv and b.tsv in the working directory, 40 pairs each."""
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        lines = (f"{name} {number}\t{name.upper()} {number}\n" for number in range(40))
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    (tmp_path / "c").mkdir()
    for name in ("train", "test"):
        (tmp_path / "c" / f"{name}.tsv").write_text("c\tC\n")


def read(own, **flags):
    """The test set of a model with these settings of its data."""
    names = "data", "split", "tag", "max_pairs", "references", "baseline", "translations"
    defaults = dict.fromkeys(names)
    return read_test_set(types.SimpleNamespace(**{**defaults, **flags}), own)


@pytest.mark.parametrize(("given", "description"), [
    (None, "validation of file a.tsv: 2 pairs"),
    ("a.tsv", "validation of file a.tsv: 2 pairs"),
    ("b.tsv@de-en", "validation of file b.tsv (de-en): 2 pairs"),
    ("c,a.tsv", "test of folder c: 1 pairs"),
])  # fmt: skip
def test_text_that_the_model_was_trained_on_is_no_test(texts, given, description):
    """Also where it is one of several corpora, or has its languages the other way round."""
    data = DataConfig(data=f"{os.getcwd()}/a.tsv,{os.getcwd()}/b.tsv")
    assert str(read(data, data=given)).replace(f"{os.getcwd()}/", "") == description
    unseen = DataConfig(data=f"{os.getcwd()}/c")
    assert read(unseen, data="a.tsv").split == "all"
    for flags, size in (({}, 1), ({"translations": "file"}, 40)):
        test = read(unseen, data="a.tsv", max_pairs=1, **flags)
        assert (len(test.pairs), test.size) == (1, size)


@pytest.mark.parametrize(("max_pairs", "number"), [(0, 40), (20, 20)])
def test_many_pairs(texts, monkeypatch, caplog, max_pairs, number):
    """They are all in memory, of which a warning says how to have less."""
    monkeypatch.setattr("tf_transformer.cli.evaluation.MANY_PAIRS", 15)
    test = read(DataConfig(data="c"), data="a.tsv", max_pairs=max_pairs)
    assert len(test.pairs) == number
    assert ("all of file a.tsv has 15 pairs or more" in caplog.text) == (not max_pairs)


@pytest.mark.parametrize(("flags", "tag"), [
    ({}, "<2de>"),
    ({"tag": "<BT>"}, "<BT>"),
    ({"data": "c"}, "<2de>"),
    ({"data": "c@de-en"}, "<2en>"),
    ({"data": "c@de-en", "tag": "<2fr>"}, "<2fr>"),
    ({"data": "c@de-fr"}, "<2de>"),  # no corpus of the model has these languages
    ({"data": "c,b.tsv"}, "<2de>"),
])  # fmt: skip
def test_the_tag_is_that_of_the_languages(texts, flags, tag):
    names = "a.tsv,a.tsv@de-en,b.tsv"
    tested = read(DataConfig(data=names, tag="<2de>,<2en>,<BT>"), **flags)
    held_out = [source for source, _ in open_corpus("a.tsv", "en", "de").read("validation")]
    expected = ["c"] if "c" in flags.get("data", "") else held_out
    assert tested.sources == [f"{tag} {source}" for source in expected]
    assert read(DataConfig(data=names), **{**flags, "tag": None}).sources == expected


def test_tags_of_a_model_whose_text_is_elsewhere():
    """The files of the names do not exist here, so a comma could also be between two files."""
    data = DataConfig(data="/other/a.tsv,/other/back.tsv@de-en", tag=",<2en>")
    assert tag_for(data, "en", "de") == ""
    assert tag_for(data, "de", "en") == "<2en>"
    assert tag_for(data, "en", "fr") == ""


def test_names_of_translations(texts, tmp_path):
    """The same test set has the same name, however --data names it; another one has another."""

    def name(own, given, split="test"):
        return os.path.basename(translations_path("model", DataConfig(data=own), given, split))

    a, path = str(tmp_path / "a.tsv"), str(tmp_path).strip("/").replace("/", "-")
    assert len(path) < 85
    assert name(a, None) == name(a, "a.tsv") == name(a, "a.tsv@en-de") == "test.de"
    # Only the split train has text of the other corpora.
    assert name(f"{a},b.tsv", "a.tsv") == name(a, "a.tsv,b.tsv") == "test.de"
    assert name(f"{a},b.tsv", "a.tsv", "train") == f"{path}-a.tsv.train.de"
    assert name(a, "b.tsv") == name(a, str(tmp_path / "b.tsv")) == f"{path}-b.tsv.test.de"
    assert name(a, "a.tsv@de-en") == f"{path}-a.tsv-de-en.test.en"
    long = [name(a, f"pocket,{tmp_path}/{'x' * 90}{end}") for end in "ab"]
    assert long[0] != long[1] and max(map(len, long)) < 120
    assert name("pocket", "wmt14_translate/de-en") == "wmt14_translate-de-en.test.de"
