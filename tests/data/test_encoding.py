"""Pairs to ids: cleaned, counted, kept."""

import numpy as np
import pytest

from tf_transformer.data import encoding
from tf_transformer.data.encoding import cached_pairs, encode_pairs
from tf_transformer.data.sources import open_corpus
from tf_transformer.data.tokenizer import learn_tokenizers
from tf_transformer.errors import UserError


@pytest.fixture(scope="module")
def tokenizers(corpus_folder):
    return learn_tokenizers(
        lambda: open_corpus(str(corpus_folder), "en", "de").read("train"), 500, shared=True
    )


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
    for side, sequences in enumerate((encoded.source, encoded.target)):
        assert rows(sequences) == tokenizers[side].encode([pair[side] for pair in good]).to_list()


def test_chunks_do_not_matter(tokenizers, corpus_folder, monkeypatch):
    pairs = list(open_corpus(str(corpus_folder), "en", "de").read("train"))
    whole = encode_pairs(iter(pairs), tokenizers, 64, 9.0)
    monkeypatch.setattr(encoding, "CHUNK", 7)
    parts = encode_pairs(iter(pairs), tokenizers, 64, 9.0)
    assert rows(parts.source) == rows(whole.source) and rows(parts.target) == rows(whole.target)


def test_nothing_left(tokenizers):
    with pytest.raises(UserError, match="no pair of sentences is left"):
        encode_pairs(iter([("", "x")]), tokenizers, 40, 9.0)
    with pytest.raises(UserError, match="no pair of sentences is left"):
        encode_pairs(iter([]), tokenizers, 40, 9.0)


def test_the_second_start_reads_the_cache(
    tokenizers, corpus_folder, tiny_config, tmp_path, monkeypatch
):
    corpus = open_corpus(str(corpus_folder), "en", "de")
    first = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "read", None)  # reading the text would fail
        again = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    assert rows(again.source) == rows(first.source) and again.dropped == first.dropped

    # A damaged cache, another setting, or another text: made anew.
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    mended = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    np.testing.assert_array_equal(mended.target.values, first.target.values)
    shorter = cached_pairs(
        corpus, "train", tokenizers, tiny_config.replace(max_length=10).data, str(tmp_path)
    )
    assert len(shorter) < len(first) and len(list(tmp_path.iterdir())) == 2
