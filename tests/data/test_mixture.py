"""Several corpora: their names, their text, and the pairs that an epoch has of each."""

import collections

import numpy as np
import pytest

from tf_transformer.config import DataConfig
from tf_transformer.data.batching import Batches
from tf_transformer.data.encoding import EncodedPairs, Shard
from tf_transformer.data.mixture import MixedCorpus, parse_weights, repetitions
from tf_transformer.data.readers import (
    absolute_path,
    corpora_of,
    corpus_names,
    corpus_of_run,
    open_corpus,
)
from tf_transformer.errors import UserError


def write_folder(path, name, pairs, languages=("en", "de")):
    """A folder with `pairs` pairs for training and two for validation, named after the folder."""
    folder = path / name
    folder.mkdir()
    for split, number in (("train", pairs), ("val", 2)):
        for language in languages:
            lines = [f"{name} {split} {language} {i}\n" for i in range(number)]
            (folder / f"{split}.{language}").write_text("".join(lines))
    return str(folder)


@pytest.fixture
def folders(tmp_path):
    return [write_folder(tmp_path, "a", 3), write_folder(tmp_path, "b", 2)]


def test_training_text_of_all_and_validation_text_of_the_first(folders):
    corpus = open_corpus(",".join(folders), "en", "de")
    assert isinstance(corpus, MixedCorpus)
    corpus.check()
    sources = [source for source, _ in corpus.read("train")]
    assert sources == [f"a train en {i}" for i in range(3)] + [f"b train en {i}" for i in range(2)]
    assert [source for source, _ in corpus.read("validation")] == ["a val en 0", "a val en 1"]
    assert corpus.describe("train") == f"train of folder {folders[0]} and folder {folders[1]}"
    assert corpus.describe("test") == f"test of folder {folders[0]}"
    a = open_corpus(folders[0], "en", "de")
    assert corpus.fingerprint("train")[0] != a.fingerprint("train")  # it lacks b's validation text
    assert corpus.fingerprint("validation") == (a.fingerprint("validation"),)


def test_what_is_held_out_of_a_corpus_is_not_trained_on_in_another(tmp_path, caplog):
    """Nor in the other direction; a source of the second one that is not in the first one stays."""
    lines = [f"en {i}\tde {i}\n" for i in range(300)]
    (tmp_path / "a.tsv").write_text("".join(lines[:200]))
    (tmp_path / "b.tsv").write_text("".join(lines[100:]))
    (tmp_path / "c.jsonl").write_text(
        "".join(f'{{"en": "en {i}", "de": "de {i}"}}\n' for i in range(300))
    )
    names = f"{tmp_path}/a.tsv", f"{tmp_path}/b.tsv", f"{tmp_path}/c.jsonl@de-en"
    alone = [open_corpus(name, "en", "de") for name in names]
    parts = open_corpus(",".join(names), "en", "de").parts("train")
    held_out = [set(part.read("validation")) for part in parts]
    assert held_out == [set(part.read("validation")) for part in alone]
    in_english = [{pair if pair[0][0] == "e" else pair[::-1] for pair in each} for each in held_out]
    with caplog.at_level("INFO", "tf_transformer"):
        for part, other in zip(parts, alone):
            train = list(part.read("train"))
            kept = [
                pair
                for pair in other.read("train")
                if all(pair not in each and pair[::-1] not in each for each in in_english)
            ]
            assert train == kept
    assert caplog.text.count("pairs of file") == 3
    assert parts[0].fingerprint("train") != alone[0].fingerprint("train")
    old = open_corpus(",".join(names[:2]), "en", "de", hold_out="end").parts("train")
    assert [pair for part in old for pair in part.read("train")] == [
        tuple(line.strip().split("\t")) for line in lines[:190] + lines[100:290]
    ]


def test_validation_and_test_files_are_not_trained_on_in_another_corpus(folders, tmp_path):
    """In either direction; blanks around a sentence and blank lines do not count."""
    a, b = folders
    lines = ["b train en 0\tnew", "b val en 0\tnew", "new\ttest 0", " test  0\tnew", "new 2\t"]
    (tmp_path / "a" / "train.tsv").write_text("\n".join(lines))
    for language in ("en", "de"):
        (tmp_path / "a" / f"train.{language}").unlink()
    (tmp_path / "b" / "test_x.tsv").write_text("test 0\ttest 1\n\n")
    part, _ = open_corpus(f"{a},{b}", "en", "de").parts("train")
    assert list(part.read("train")) == [("b train en 0", "new"), ("new 2", "")]
    before = part.fingerprint("train")
    (tmp_path / "b" / "test_x.tsv").write_text("new 2\tnew\n")
    part, _ = open_corpus(f"{a},{b}", "en", "de").parts("train")
    assert part.fingerprint("train") != before
    old, _ = open_corpus(f"{a},{b}", "en", "de", hold_out="end").parts("train")
    assert len(list(old.read("train"))) == len(lines)


def test_languages_of_a_corpus(tmp_path):
    german = write_folder(tmp_path, "x", 2)
    french = write_folder(tmp_path, "y", 2, ("en", "fr"))
    corpus = open_corpus(f"{german},{french}@en-fr,{german}@de-en,pocket@de-en", "en", "de")
    parts = corpus.parts("train")
    for part, (source, target) in zip(parts, (("en", "de"), ("en", "fr"), ("de", "en"))):
        name = "y" if target == "fr" else "x"
        first = next(part.read("train"))
        assert first == (f"{name} train {source} 0", f"{name} train {target} 0")
    assert parts[0].name == f"folder {german}"
    assert parts[2].name == f"folder {german} (de-en)"
    assert corpora_of(f"{french}@en-fr,pocket", "en", "de") == [
        (french, "en", "fr"), ("pocket", "en", "de"),
    ]  # fmt: skip
    german, english = next(parts[3].read("test"))
    assert next(open_corpus("pocket", "en", "de").read("test")) == (english, german)
    with pytest.raises(UserError, match="x, has the languages de and en, and the model en and"):
        corpus_of_run(DataConfig(data=f"{tmp_path / 'x'}@de-en,pocket"))


def test_names_with_commas(folders, tmp_path, monkeypatch):
    """Two files are one corpus; two folders, TSV files or names are two."""
    for name in ("p.tsv", "q.tsv.gz", "p.en", "p.de"):
        (tmp_path / name).write_text("a\tb\n")
    monkeypatch.chdir(tmp_path)
    for one in ("pocket", "p.en,p.de"):
        assert corpus_names(one) == [one]
    several = "a,b p.tsv,q.tsv.gz pocket,p.tsv pocket@de-en,pocket a@en-de,no.en p.en,no.de"
    for names in f"{several} wmt14_translate/de-en,ted_hrlr_translate/pt_to_en".split():
        assert corpus_names(names) == names.split(",")
    (tmp_path / "a,b").mkdir()
    assert corpus_names("a,b") == ["a,b"]
    assert absolute_path("b@en-de,pocket@de-en,p.tsv") == (
        f"{folders[1]}@en-de,pocket@de-en,{tmp_path}/p.tsv"
    )
    for data, name in (("/no,/no@de-en", "/no"), ("b,nothing.tsv", "nothing.tsv")):
        with pytest.raises(UserError, match=f"no such data folder or file: {name}: give"):
            open_corpus(data, "en", "de")
    with pytest.raises(UserError, match="a name before or after a comma is missing"):
        open_corpus("b,,pocket", "en", "de")


@pytest.mark.parametrize(("settings", "message"), [
    ({"data_weights": "1,2,3"}, "data_weights 1,2,3 are 3, and data names 2: give one weight"),
    ({"data_weights": "1,nan"}, "weights 1,nan: the weight 'nan' is not a number from 0.000001 to"),
    ({"data_weights": "1,2", "data_temperature": 5.0}, "and data_temperature: give one of them"),
])  # fmt: skip
def test_mistakes(folders, settings, message):
    with pytest.raises(UserError, match=message):
        corpus_of_run(DataConfig(data=",".join(folders), **settings))


def test_repetitions():
    """By hand: 100 pairs, of which 80 and 20 by weight; and 100 of sizes 90 and 10 at T = 2."""
    assert repetitions([50, 50], [4, 1], 1.0) == [1.6, 0.4]
    assert repetitions([90, 10], [], 1.0) == [1.0, 1.0]
    assert repetitions([90, 10], [], 2.0) == pytest.approx([75 / 90, 25 / 10])  # 3 : 1
    assert parse_weights("4,0.5") == [4.0, 0.5]


def corpora(*sizes):
    """Pairs of several corpora, one shard each. The first source id names the corpus and the pair.

    The lengths are 3 to 30.
    """
    random = np.random.default_rng(0)
    shards = []
    for corpus, size in enumerate(sizes, start=1):
        lengths = random.integers(3, 31, (size, 2))
        splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
        ids = np.full(splits[-1], 5, np.uint16)
        ids[splits[:-1:2]] = 1000 * corpus + np.arange(size)
        shards.append(Shard(ids, splits, {}))
    return EncodedPairs(shards)


def test_an_epoch_repeats_and_draws():
    """300 and 100 pairs with weights 1 and 1: of each 200; the second one exactly twice."""
    pairs = corpora(300, 100)
    batches = Batches(pairs, 500, 1, repetitions([300, 100], [1, 1], 1.0))
    drawn = []
    for epoch in range(3):
        ids = np.concatenate([inp.numpy()[:, 0] for inp, _ in batches.epoch(epoch)])
        counts = collections.Counter(ids[ids > 0].tolist())
        first = {name for name in counts if name < 2000}
        assert len(first) == 200 and {counts[name] for name in first} == {1}
        second = {name: count for name, count in counts.items() if name >= 2000}
        assert len(second) == 100 and set(second.values()) == {2}
        assert sum(1 for _ in batches.epoch(epoch)) == batches.per_epoch
        drawn.append(first)
    assert drawn[0] != drawn[1] != drawn[2]
    assert len(set().union(*drawn)) > 270  # other pairs are drawn in other epochs


def test_every_length_stays_possible():
    """A corpus of small weight keeps at least a pair of each bucket; shapes fit all its pairs."""
    pairs = corpora(500, 500)
    batches = Batches(pairs, 200, 1, repetitions([500, 500], [1, 999], 1.0))
    per_bucket = collections.Counter()
    for indices, bucket in batches.order(0):
        per_bucket[bucket] += int(np.sum(indices < 500))
        assert pairs.lengths[indices].max() <= bucket.length and len(indices) <= bucket.rows
    assert min(per_bucket.values()) >= 1
    assert len(per_bucket) == len(batches.buckets)
