"""Data sets of Hugging Face, from local files and offline."""

import sys

import pytest

from tf_transformer.config import DataConfig
from tf_transformer.data.readers import absolute_path, corpus_of_run, open_corpus
from tf_transformer.errors import UserError


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    """The library, which reads no cache of the user and no network."""
    module = pytest.importorskip("datasets")
    monkeypatch.setattr(module.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(module.config, "HF_HUB_OFFLINE", True)
    return module


PAIRS = [(f"cat {i}", f"Katze {i}") for i in range(40)]
RECORDS = [{"translation": {"en": source, "de": target}} for source, target in PAIRS]
COLUMNS = {"id": range(40), "en": [s for s, _ in PAIRS], "de": [t for _, t in PAIRS]}


def write_parquet(datasets, folder):
    datasets.Dataset.from_dict(COLUMNS).to_parquet(folder / "train-00000-of-00001.parquet")


def write_saved_splits(datasets, folder):
    features = datasets.Features({"translation": datasets.Translation(languages=["de", "en"])})
    text = datasets.Dataset.from_list(RECORDS, features=features)
    datasets.DatasetDict({"train": text}).save_to_disk(folder)


@pytest.mark.parametrize("write", [write_parquet, write_saved_splits])
def test_a_folder(datasets, tmp_path, monkeypatch, write):
    """In both directions, with pairs that are held out, beside another corpus."""
    folder = tmp_path / "text"
    write(datasets, folder)
    corpus = open_corpus(f"hf:{folder}", "en", "de")
    assert corpus.splits == ["train", "validation", "all"]
    assert list(corpus.read("all")) == PAIRS
    parts = [list(corpus.read(split)) for split in ("train", "validation")]
    assert list(map(len, parts)) == [38, 2] and sorted(parts[0] + parts[1]) == sorted(PAIRS)
    opposite = open_corpus(f"hf:{folder}", "de", "en")
    assert list(opposite.read("all")) == [pair[::-1] for pair in PAIRS]
    is_saved = "saved" in write.__name__  # then `hf:` can be left out
    again = open_corpus(str(folder) if is_saved else f"hf:{folder}", "en", "de")
    assert again.fingerprint("train") == corpus.fingerprint("train")
    assert again.fingerprint("train") != opposite.fingerprint("train")
    monkeypatch.chdir(tmp_path)
    assert absolute_path("hf:text,pocket") == f"hf:{folder},pocket"
    mixed = corpus_of_run(DataConfig(data="hf:text,pocket"))
    assert [len(list(part.read("train"))) for part in mixed.parts("train")] == [38, 200_000]
    with pytest.raises(UserError, match=f"set {folder} has no 'fr': it has .*de"):
        open_corpus(f"hf:{folder}", "en", "fr")


def test_splits_weights_and_missing_texts(datasets, tmp_path):
    for name, first in (("train", 0), ("dev", 1), ("test", 2)):
        columns = {"en": [f"{name} a", "b"], "de": ["A\nB", None], "weight": [0.5, first or None]}
        datasets.Dataset.from_dict(columns).to_parquet(tmp_path / "text" / f"{name}.parquet")
    corpus = open_corpus(f"hf:{tmp_path}/text", "en", "de")
    assert corpus.splits == ["train", "validation", "test"]
    assert corpus.fingerprint("train") != corpus.fingerprint("test")
    assert list(corpus.read_weighted("train")) == [("train a", "A B", 0.5), ("b", "", None)]
    assert list(corpus.read_weighted("test"))[1] == ("b", "", 2.0)


@pytest.mark.parametrize("name", ["no_such_text", "some/text", "some/text/de-en"])
def test_a_name_without_network(datasets, name):
    with pytest.raises(UserError, match=f"set {name} could not be loaded: .*: check the name and"):
        open_corpus(f"hf:{name}", "en", "de")


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"datasets is missing: pip install 'tf_transformer\[datas"):
        open_corpus("hf:some/text", "en", "de")
