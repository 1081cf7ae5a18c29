"""Encoding of sentence pairs: dropped pairs, chunks, and the cache."""

import numpy as np
import pytest

from tf_transformer.data import encoding
from tf_transformer.data.corpus import Corpus
from tf_transformer.data.encoding import cached_pairs, describe_dropped, encode_pairs
from tf_transformer.data.sources import open_corpus
from tf_transformer.data.tokenizer import learn_tokenizers
from tf_transformer.errors import UserError


@pytest.fixture(scope="module")
def tokenizers(corpus_folder):
    corpus = open_corpus(str(corpus_folder), "en", "de")
    return learn_tokenizers(lambda: corpus.read("train"), 500, shared=True)


def rows(sequences):
    return [sequences.values[a:b].tolist() for a, b in zip(sequences.splits, sequences.splits[1:])]


def test_pairs_are_dropped_and_counted_by_reason(tokenizers):
    good = [
        ("Anna sleeps.", "Anna schläft."),
        ("The man sees the dog.", "Der Mann sieht den Hund."),
    ]
    pairs = [
        ("", "etwas"),
        good[0],
        ("something", "  "),
        ("a" * 100, "b" * 100),
        ("x", "viele viele Wörter hier"),
        good[1],
        ("", ""),
    ]
    encoded = encode_pairs(iter(pairs), tokenizers, max_length=40, max_length_ratio=3.0)
    assert encoded.dropped == {
        "an empty side": 3,
        "a side of more than 40 sub-words": 1,
        "one side more than 3 times the other": 1,
    }
    assert describe_dropped(encoded) == (
        "3 for an empty side, 1 for a side of more than 40 sub-words, "
        "1 for one side more than 3 times the other"
    )
    for side, sequences in enumerate((encoded.source, encoded.target)):
        assert rows(sequences) == tokenizers[side].encode([pair[side] for pair in good]).to_list()


def test_the_result_does_not_depend_on_the_chunk_size(tokenizers, corpus_folder, monkeypatch):
    pairs = list(open_corpus(str(corpus_folder), "en", "de").read("train"))
    expected = encode_pairs(iter(pairs), tokenizers, 64, 9.0)
    monkeypatch.setattr(encoding, "CHUNK", 7)
    chunked = encode_pairs(iter(pairs), tokenizers, 64, 9.0)
    assert rows(chunked.source) == rows(expected.source)
    assert rows(chunked.target) == rows(expected.target)
    assert chunked.checksum == expected.checksum


@pytest.mark.parametrize("pairs", [[("", "x")], []])
def test_no_pair_left(tokenizers, pairs):
    with pytest.raises(UserError, match="no pair of sentences is left"):
        encode_pairs(iter(pairs), tokenizers, 40, 9.0)


def test_the_second_start_reads_the_cache(
    tokenizers, corpus_folder, tiny_config, tmp_path, monkeypatch
):
    corpus = open_corpus(str(corpus_folder), "en", "de")
    first = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "read", None)  # reading the text would fail
        again = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    assert rows(again.source) == rows(first.source)
    assert again.dropped == first.dropped

    # A damaged cache file is replaced.
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    repaired = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    np.testing.assert_array_equal(repaired.target.values, first.target.values)
    assert list(tmp_path.iterdir()) == [path]

    # So is one with a flipped bit in the header of an array, which Python's tokenizer reads.
    content = bytearray(path.read_bytes())
    content[content.index(b"'descr'")] ^= 4
    path.write_bytes(content)
    repaired = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    np.testing.assert_array_equal(repaired.target.values, first.target.values)

    # Another setting has another cache file.
    short = tiny_config.replace(max_length=10).data
    shorter = cached_pairs(corpus, "train", tokenizers, short, str(tmp_path))
    assert len(shorter) < len(first)
    assert len(list(tmp_path.iterdir())) == 2


class ChangingCorpus(Corpus):
    """A corpus whose text is its fingerprint."""

    splits = ["train"]

    def __init__(self):
        self.text = "Anna sleeps."
        self.reads = 0

    def read(self, split):
        self.reads += 1
        yield self.text, self.text

    def fingerprint(self, split):
        return (split, self.text)


def test_a_changed_fingerprint_invalidates_the_cache(tokenizers, tiny_config, tmp_path):
    corpus = ChangingCorpus()
    folder = str(tmp_path)

    def encoded():
        pairs = cached_pairs(corpus, "train", tokenizers, tiny_config.data, folder)
        return rows(pairs.source)

    first = encoded()
    assert encoded() == first
    assert corpus.reads == 1
    corpus.text = "The man sees the dog."
    second = encoded()
    assert corpus.reads == 2
    assert second == tokenizers[0].encode([corpus.text]).to_list() != first
    assert len(list(tmp_path.iterdir())) == 2
