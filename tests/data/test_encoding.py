"""Encoding of sentence pairs: dropped pairs, chunks, and the cache."""

import errno
import logging
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tf_transformer.config import Config
from tf_transformer.data import encoding
from tf_transformer.data.corpus import Corpus
from tf_transformer.data.encoding import cached_pairs, describe_dropped, encode_pairs
from tf_transformer.data.sources import open_corpus
from tf_transformer.data.tokenizer import Tokenizer, learn_tokenizers, save_tokenizers
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


@pytest.mark.parametrize(
    ("pairs", "dropped"), [([("", "x"), (" ", "y")], "2 for an empty side"), ([], "none")]
)
def test_no_pair_left(tokenizers, pairs, dropped):
    message = rf"no pair of sentences is left in the text \(dropped: {dropped}\): check the text"
    with pytest.raises(UserError, match=message):
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


class FailingCorpus(Corpus):
    """A corpus whose `read` fails after some pairs, as a process that is stopped."""

    name = "the corpus"
    splits = ["train"]

    def __init__(self, pairs):
        self.pairs = pairs
        self.end = None  # how many pairs are read before the failure

    def read(self, split):
        yield from self.pairs[: self.end]
        if self.end is not None:
            raise KeyboardInterrupt

    def fingerprint(self, split):
        return (split,)


@pytest.fixture
def interrupted(tokenizers, corpus_folder, monkeypatch):
    """A corpus of 400 pairs, segments of 30, and a list of the encoded texts of the source."""
    monkeypatch.setattr(encoding, "CHUNK", 10)
    monkeypatch.setattr(encoding, "CHUNKS_OF_SEGMENT", 3)
    monkeypatch.setattr("tf_transformer.data.progress.LOG_SECONDS", 0.0)
    corpus = FailingCorpus(list(open_corpus(str(corpus_folder), "en", "de").read("train")))
    source, target = tokenizers[0], Tokenizer(tokenizers[0].model)
    encoded = []
    monkeypatch.setattr(
        source, "encode", lambda texts: encoded.extend(texts) or Tokenizer.encode(source, texts)
    )
    return corpus, (source, target), encoded


def test_an_interrupted_encoding_is_resumed(interrupted, tiny_config, tmp_path, caplog):
    """The ids are those of an uninterrupted one, and no complete segment is encoded twice."""
    corpus, tokenizers, encoded = interrupted
    data = tiny_config.replace(max_length=25).data  # some pairs are dropped
    expected = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path / "whole"))
    assert sum(expected.dropped.values()) > 0
    encoded.clear()
    for corpus.end in (5, 100, 100, 275):
        with pytest.raises(KeyboardInterrupt):
            cached_pairs(corpus, "train", tokenizers, data, str(tmp_path / "cache"))
    # Complete segments end at 90 and 270; 100 and 275 are in the middle of the next ones.
    sources = [source for source, _ in corpus.pairs]
    assert encoded == sources[:100] + sources[90:100] + sources[90:270]
    assert len(list((tmp_path / "cache").iterdir())) == 9

    encoded.clear()
    corpus.end = None
    # A damaged segment is encoded again, with those after it.
    damaged = sorted((tmp_path / "cache").iterdir())[8]
    damaged.write_bytes(damaged.read_bytes()[:200])
    with caplog.at_level(logging.INFO, "tf_transformer"):
        pairs = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path / "cache"))
    assert encoded == sources[240:]
    assert pairs.checksum == expected.checksum
    assert pairs.dropped == expected.dropped
    assert "resuming the encoding of train after 240 pairs" in caplog.text
    assert "encoding train: 400 pairs in " in caplog.text
    names = [path.name for path in (tmp_path / "cache").iterdir()]
    assert names == [path.name for path in (tmp_path / "whole").iterdir()]
    assert len(names) == 1


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from test_encoding import FailingCorpus
from tf_transformer.config import Config
from tf_transformer.data import encoding
from tf_transformer.data.tokenizer import load_tokenizers

class KilledCorpus(FailingCorpus):
    def read(self, split):
        yield from self.pairs[:100]
        os.kill(os.getpid(), signal.SIGKILL)

encoding.CHUNK, encoding.CHUNKS_OF_SEGMENT = 10, 3
corpus = KilledCorpus({pairs!r})
data = Config().data
encoding.cached_pairs(corpus, "train", load_tokenizers({folder!r}, True), data, {folder!r})
"""


def test_the_encoding_of_a_killed_process_is_resumed(interrupted, tmp_path):
    corpus, tokenizers, encoded = interrupted
    data = Config().data
    save_tokenizers((tokenizers[0], tokenizers[0]), str(tmp_path))
    code = KILLED.format(
        tests=os.path.dirname(__file__), pairs=corpus.pairs[:101], folder=str(tmp_path)
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pairs = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path))
    assert encoded == [source for source, _ in corpus.pairs[90:]]
    assert pairs.checksum == encode_pairs(corpus.pairs, tokenizers, 256, 9.0).checksum


def test_a_full_disk_names_the_file_and_keeps_the_segments(
    interrupted, tiny_config, tmp_path, monkeypatch
):
    corpus, tokenizers, encoded = interrupted
    save = encoding._save

    def fail(path, pairs):
        if "segment" not in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        save(path, pairs)

    with monkeypatch.context() as patch:
        patch.setattr(encoding, "_save", fail)
        with pytest.raises(OSError, match="No space left on device: .*train-.*npz"):
            cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    encoded.clear()
    cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    assert len(encoded) == 400 % 30
