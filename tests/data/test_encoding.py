"""Encoding of sentence pairs: dropped pairs, processes, and the cache of shards."""

import copy
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
from tf_transformer.data.encoding import (
    cached_pairs,
    describe_dropped,
    encode_pairs,
)
from tf_transformer.data.readers import open_corpus
from tf_transformer.data.tokenizer import learn_tokenizers, save_tokenizers
from tf_transformer.errors import UserError


@pytest.fixture(scope="module")
def tokenizers(corpus_folder):
    corpus = open_corpus(str(corpus_folder), "en", "de")
    return learn_tokenizers(lambda: corpus.read("train"), 500, shared=True)


def rows(pairs, side=0):
    """The sequences of one side, as lists of ids."""
    return [
        shard.ids[a:b].tolist()
        for shard in pairs.shards
        for a, b in zip(shard.splits[side::2], shard.splits[side + 1 :: 2])
    ]


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
    for side in (0, 1):
        expected = tokenizers[side].encode([pair[side] for pair in good])
        assert rows(encoded, side) == expected.to_list()


def test_ids_are_those_of_the_tokenizer_in_graphs(tokenizers):
    """Also for text that is unlikely in a corpus: every byte, controls, and all kinds of blanks."""
    random = np.random.default_rng(1)
    texts = [chr(code) * 2 + "a" + chr(code) for code in range(1, 0x3100)]
    texts += [chr(code) for code in range(0xF900, 0x11000)]
    texts += [
        "a\0b",
        "\u2581a \u2581",
        "<0x41> [END] [PAD]x",
        "\U0001f1e9\U0001f1ea e\u0301 \u212b",
    ]
    for _ in range(300):
        codes = random.integers(1, 0x20000, random.integers(1, 30))
        texts.append("".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000) + ".")
    texts = [text for text in texts if tokenizers[0].normalize(text)]  # blank ones are dropped
    pairs = encode_pairs([(text, "a") for text in texts], tokenizers, 10**6, 10**6)
    assert rows(pairs) == tokenizers[0].encode(texts).to_list()


@pytest.mark.parametrize(("size", "dtype"), [(2**16, np.uint16), (2**16 + 1, np.int32)])
def test_ids_have_two_bytes_where_the_vocabulary_allows_it(tokenizers, size, dtype):
    other = copy.copy(tokenizers[1])
    other.vocab_size = size
    (shard,) = encode_pairs([("a", "b")], (tokenizers[0], other), 64, 9.0).shards
    assert shard.ids.dtype == dtype


def test_the_result_does_not_depend_on_the_chunk_size(tokenizers, corpus_folder, monkeypatch):
    pairs = list(open_corpus(str(corpus_folder), "en", "de").read("train"))
    expected = encode_pairs(iter(pairs), tokenizers, 64, 9.0)
    monkeypatch.setattr(encoding, "CHUNK", 7)
    chunked = encode_pairs(iter(pairs), tokenizers, 64, 9.0)
    assert rows(chunked, 0) == rows(expected, 0)
    assert rows(chunked, 1) == rows(expected, 1)
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
        patch.setattr(corpus, "read_text", None)  # reading the text would fail
        again = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    assert rows(again, 0) == rows(first, 0) and rows(again, 1) == rows(first, 1)
    assert again.dropped == first.dropped
    assert again.checksum == first.checksum
    text = corpus.read("train")
    in_memory = encode_pairs(text, tokenizers, 64, tiny_config.data.max_length_ratio)
    assert in_memory.checksum == first.checksum

    # Another setting has other shards.
    short = tiny_config.replace(max_length=10).data
    shorter = cached_pairs(corpus, "train", tokenizers, short, str(tmp_path))
    assert len(shorter) < len(first)
    assert len(list(tmp_path.glob("train-*"))) == 2


def test_the_ids_are_not_in_memory(tokenizers, corpus_folder, tiny_config, tmp_path):
    corpus = open_corpus(str(corpus_folder), "en", "de")
    for _ in range(2):  # encoded, and read from the cache
        pairs = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
        for shard in pairs.shards:
            assert isinstance(shard.ids.base, np.memmap)
            assert isinstance(shard.splits.base, np.memmap)


class ChangingCorpus(Corpus):
    """A corpus whose text is its fingerprint."""

    texts = {"train": None, "validation": None}

    def __init__(self):
        self.text = "Anna sleeps."
        self.reads = 0

    def read_text(self, text):
        self.reads += 1
        yield self.text, self.text, None

    def text_fingerprint(self, split):
        return (split, self.text)


def test_a_changed_fingerprint_invalidates_the_cache(tokenizers, tiny_config, tmp_path):
    corpus = ChangingCorpus()
    folder = str(tmp_path)

    def encoded():
        pairs = cached_pairs(corpus, "train", tokenizers, tiny_config.data, folder)
        return rows(pairs)

    first = encoded()
    assert encoded() == first
    assert corpus.reads == 1
    corpus.text = "The man sees the dog."
    second = encoded()
    assert corpus.reads == 2
    assert second == tokenizers[0].encode([corpus.text]).to_list() != first
    assert len(list(tmp_path.glob("train-*"))) == 2


class FailingCorpus(Corpus):
    """A corpus that fails after some pairs, as a process that is stopped."""

    name = "the corpus"
    texts = {"train": None, "validation": None}

    def __init__(self, pairs):
        self.pairs = pairs
        self.end = None  # how many pairs are read before the failure

    def read_text(self, text):
        yield from ((*pair, None) for pair in self.pairs[: self.end])
        if self.end is not None:
            raise KeyboardInterrupt

    def text_fingerprint(self, split):
        return (split,)


@pytest.fixture
def interrupted(tokenizers, corpus_folder, monkeypatch):
    """A corpus of 400 pairs, shards of 30, and a list of the encoded texts of the source."""
    monkeypatch.setattr(encoding, "CHUNK", 10)
    monkeypatch.setattr(encoding, "CHUNKS_OF_SHARD", 3)
    monkeypatch.setattr("tf_transformer.data.progress.LOG_SECONDS", 0.0)
    corpus = FailingCorpus(list(open_corpus(str(corpus_folder), "en", "de").read("train")))
    encoded = []
    source = copy.copy(tokenizers[0])  # not that of the targets
    encode = source.encode_lists
    source.encode_lists = lambda texts: encoded.extend(texts) or encode(texts)
    return corpus, (source, tokenizers[1]), encoded


def files(folder):
    """The content of the files below a folder by their relative paths."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_an_interrupted_encoding_is_resumed(interrupted, tiny_config, tmp_path, caplog):
    """The files are those of an uninterrupted one, and no complete shard is encoded twice."""
    corpus, tokenizers, encoded = interrupted
    data = tiny_config.replace(max_length=25).data  # some pairs are dropped
    expected = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path / "whole"))
    assert sum(expected.dropped.values()) > 0 and len(expected.shards) == 14
    encoded.clear()
    for corpus.end in (5, 100, 100, 275):
        with pytest.raises(KeyboardInterrupt):
            cached_pairs(corpus, "train", tokenizers, data, str(tmp_path / "cache"))
    # Complete shards end at 90 and 270; 100 and 275 are in the middle of the next ones.
    sources = [source for source, _ in corpus.pairs]
    assert encoded == sources[:100] + sources[90:100] + sources[90:270]

    encoded.clear()
    corpus.end = None
    with caplog.at_level(logging.INFO, "tf_transformer"):
        pairs = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path / "cache"))
    assert encoded == sources[270:]
    assert pairs.checksum == expected.checksum
    assert pairs.dropped == expected.dropped
    assert "resuming the encoding of train after 270 pairs" in caplog.text
    assert "encoding train: 400 pairs in " in caplog.text
    assert files(tmp_path / "cache") == files(tmp_path / "whole")


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)


def test_damaged_shards_are_encoded_again(interrupted, tiny_config, tmp_path):
    """And those after them; the others stay."""
    corpus, tokenizers, encoded = interrupted
    expected = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    (folder,) = tmp_path.glob("train-*")
    before = files(tmp_path)
    sources = [source for source, _ in corpus.pairs]
    path = folder / "00004.ids.npy"
    manifest = folder / "manifest.json"
    damages = [
        (lambda: flip(path, -1), sources[120:]),
        (lambda: flip(path, path.read_bytes().index(b"'descr'")), sources[120:]),
        (lambda: path.write_bytes(path.read_bytes()[:-2]), sources[120:]),
        (path.unlink, sources[120:]),
        (lambda: flip(folder / "00013.splits.npy", 140), sources[390:]),
        (lambda: manifest.write_bytes(b"{"), sources),
        (lambda: manifest.write_text('{"complete": true, "shards": [1]}'), sources),
    ]
    for damage, again in damages:
        damage()
        encoded.clear()
        pairs = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
        assert encoded == again
        assert pairs.checksum == expected.checksum and files(tmp_path) == before


def test_a_shard_without_usable_pairs(interrupted, tiny_config, tmp_path):
    corpus, tokenizers, _ = interrupted
    corpus.pairs[30:60] = [("", "x")] * 30
    data = tiny_config.replace(max_length=96).data
    for _ in range(2):
        pairs = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path))
        assert len(pairs.shards[1]) == 0 and len(pairs) == 370
    inp, tar = pairs.batch(np.array([29, 30]), 2, 96)  # the pairs before and after it
    for row, index in enumerate((29, 60)):
        for ids, tokenizer, text in zip((inp, tar[:, 1:]), tokenizers, corpus.pairs[index]):
            assert ids[row][ids[row] > 0].tolist() == tokenizer.encode([text])[0].numpy().tolist()


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from test_encoding import FailingCorpus
from tf_transformer.config import Config
from tf_transformer.data import encoding
from tf_transformer.data.tokenizer import load_tokenizers

class KilledCorpus(FailingCorpus):
    def read_text(self, text):
        yield from ((*pair, None) for pair in self.pairs[:100])
        os.kill(os.getpid(), signal.SIGKILL)

encoding.CHUNK, encoding.CHUNKS_OF_SHARD = 10, 3
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
    expected = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path / "whole"))
    assert pairs.checksum == expected.checksum


def test_a_full_disk_names_the_file_and_keeps_the_shards(
    interrupted, tiny_config, tmp_path, monkeypatch
):
    corpus, tokenizers, encoded = interrupted
    write = encoding.atomic_write

    def fail(path, mode="w"):
        if path.endswith("00002.ids.npy"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return write(path, mode)

    with monkeypatch.context() as patch:
        patch.setattr(encoding, "atomic_write", fail)
        with pytest.raises(OSError, match="No space left on device: .*train-.*00002.ids.npy"):
            cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    encoded.clear()
    cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    assert len(encoded) == 400 - 60
