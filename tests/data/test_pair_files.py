"""Pairs from TSV files and JSON lines, with and without weights."""

import gzip
import json

import numpy as np
import pytest

from tf_transformer.data.batching import Batches, SampledBatches
from tf_transformer.data.encoding import cached_pairs
from tf_transformer.data.readers import open_corpus
from tf_transformer.data.subword_sampling import PairSampler
from tf_transformer.data.tokenizer import learn_tokenizers
from tf_transformer.errors import UserError

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
        ("x.tsv", "a\tb\t1\na\tb\n", ":2: 2 columns: give source, one tab, target; a third column"),
        ("x.tsv", "a\tb\na\tb\t1\n", ":2: 3 columns: give source, one tab, target"),
        ("x.tsv", "a\tb\tno\n", ":1: the weight 'no' is not a number from 0.000001 to 1,000,000"),
        ("x.tsv", "a\tb\tnan\n", "1,000,000; to remove the third column, use `cut -f 1,2`"),
        ("x.tsv", "a\tb\t0\n", "the weight '0' is not"),
        ("x.tsv", "a\tb\t1\tc\n", ":1: 4 columns: give source, one tab, target; a third column is"),
        ("x.tsv", "a\n", ":1: 1 columns"),
        ("x.jsonl", "", "x.jsonl is empty"),
        ("x.jsonl", '{"en": "a", "de": "b"}\n{"en": \n', ":2: not a line of JSON"),
        ("x.jsonl", "[1]\n", ":1: not an object of JSON"),
        ("x.jsonl", '{"en": "a"}\n', ':1: no text "de": give {"en": "...", "de": "..."}'),
        ("x.jsonl", '{"en": "a", "de": 7}\n', ':1: no text "de"'),
        ("x.jsonl", '{"translation": "a", "de": "b"}\n', ':1: no text "en"'),
        ("x.jsonl", '{"en": "a", "de": "b \\ud83d"}\n', ':1: the text "de" is not Unicode'),
        ("x.jsonl", "[" * 100_000 + "\n", ":1: not a line of JSON"),
        ("x.jsonl", '{"en": "a", "de": "b", "weight": 1%s}\n' % ("0" * 400), "is not a number"),
        ("x.jsonl", '{"en": "a", "de": "b", "weight": true}\n', "the weight True is not a number"),
        ("x.jsonl", '{"en": "a", "de": "b", "weight": -1}\n', "the weight -1 is not a number"),
    ],
)
def test_mistakes(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as raised:
        read(tmp_path / name)
    assert message in str(raised.value) and str(tmp_path / name) in str(raised.value)


def test_two_files_of_json_lines_are_two_corpora(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"en": name, "de": name}) + "\n" * 1)
    corpus = open_corpus(f"{tmp_path}/a.jsonl,{tmp_path}/b.jsonl", "en", "de")
    assert [part.name[-7:] for part in corpus.parts("train")] == ["a.jsonl", "b.jsonl"]


def test_a_folder_with_two_kinds_of_files(tmp_path):
    for name in ("train.jsonl", "train.en", "train.de"):
        (tmp_path / name).write_text("x\n")
    with pytest.raises(UserError, match="keep train.jsonl or the others"):
        open_corpus(str(tmp_path), "en", "de")


@pytest.fixture(scope="module")
def weighted(tmp_path_factory, corpus_folder):
    """A folder with weights, each of which is a function of its pair; the tokenizers."""
    folder = tmp_path_factory.mktemp("weighted")
    pairs = list(open_corpus(str(corpus_folder), "en", "de").read("train"))
    for name, part in (("train", pairs[:300]), ("valid", pairs[300:320])):
        lines = [f"{source}\t{target}\t{weight_of(target)}\n" for source, target in part]
        (folder / f"{name}.tsv").write_text("".join(lines))
    return folder, learn_tokenizers(lambda: iter(pairs), 500, shared=True)


def weight_of(target):
    return len(target) / 8


def check_weights(batches, tokenizers, pairs_of_epoch):
    """Each row has the weight of its pair, and unused rows have 0."""
    found = 0
    for _, tar, weights in batches.epoch(0):
        targets = tokenizers[1].decode(tar[:, 1:]).numpy()
        for row, weight in zip(targets, weights.numpy()):
            assert weight == (weight_of(row.decode()) if row else 0.0)
            found += bool(row)
    assert found == pairs_of_epoch


def test_shards_and_batches_keep_the_weights(weighted, tiny_config, tmp_path):
    folder, tokenizers = weighted
    data = tiny_config.data
    corpus = open_corpus(str(folder), "en", "de")
    for _ in range(2):  # the second time from the files
        pairs = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path))
        assert pairs.weighted
        check_weights(Batches(pairs, 500, 1), tokenizers, len(pairs))
    sampler = PairSampler(pairs, tokenizers, 0.1, 1, str(tmp_path))
    sampled = SampledBatches(pairs, 500, 1, None, 0, sampler, 1)
    check_weights(sampled, tokenizers, len(pairs))
    sampled.close()
    (path,) = tmp_path.glob("train-*/*.weights.npy")
    array = np.load(path)
    array[7] += 1
    np.save(path, array)  # damaged: encoded again
    again = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path))
    assert again.checksum == pairs.checksum


def test_pairs_without_weights_beside_others(weighted, tiny_config, corpus_folder, tmp_path):
    """Their weights are 1. Weights that are all 1 give the shards of no weights."""
    folder, tokenizers = weighted
    mixed = open_corpus(f"{folder},{corpus_folder}", "en", "de")
    first, second = (
        cached_pairs(part, "train", tokenizers, tiny_config.data, str(tmp_path))
        for part in mixed.parts("train")
    )
    assert first.weighted and not second.weighted
    assert [pair[2] for pair in mixed.read_weighted("train")][-1] is None
    both = type(first)([*first.shards, *second.shards])
    weights = both.weights(np.arange(len(both)), len(both) + 2)
    assert np.all(weights[len(first) : len(both)] == 1) and not np.all(weights[: len(first)] == 1)
    assert weights[-2:].tolist() == [0, 0]
    joined = type(first.shards[0]).join(both.shards)
    assert joined.weights.tolist() == weights[:-2].tolist()

    text = (folder / "train.tsv").read_text().splitlines()
    for name, third in (("ones", "\t1"), ("none", "")):
        lines = [line.rpartition("\t")[0] + third for line in text]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    checksums = [
        cached_pairs(
            open_corpus(f"{tmp_path}/{name}.tsv", "en", "de"), "train", tokenizers,
            tiny_config.data, str(tmp_path),
        ).checksum
        for name in ("ones", "none")
    ]  # fmt: skip
    assert checksums[0] == checksums[1]
