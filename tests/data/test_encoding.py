"""Encoding of sentence pairs: dropped pairs, processes, and the cache of shards."""

import copy
import errno
import re

import numpy as np
import pytest
from encoded import encode, sequences

from tf_transformer.data import encoding
from tf_transformer.data.corpus import Corpus
from tf_transformer.data.encoding import cached_pairs, describe_dropped
from tf_transformer.errors import UserError


def test_pairs_are_dropped_and_counted_by_reason(tokenizers):
    good = [("Anna sleeps.", "Anna schläft."), ("The man sees it.", "Der Mann sieht es.")]
    too_long, unequal = ("a" * 100, "b" * 100), ("x", "viele viele Wörter hier")
    blank = [("", "etwas"), ("something", " \u00a0\t"), ("", "")]
    pairs = [blank[0], good[0], blank[1], too_long, unequal, good[1], blank[2]]
    encoded = encode(pairs, tokenizers, 40, 3.0)
    assert list(encoded.dropped.values()) == [3, 1, 1]
    assert describe_dropped(encoded) == (
        "3 for an empty side, 1 for a side of more than 40 sub-words, "
        "1 for one side more than 3 times the other"
    )
    for side in (0, 1):
        expected = tokenizers[side].encode([pair[side] for pair in good])
        assert sequences(encoded)[side::2] == list(map(tuple, expected.to_list()))


@pytest.mark.parametrize(("size", "dtype"), [(2**16, np.uint16), (2**16 + 1, np.int32)])
def test_ids_have_two_bytes_where_the_vocabulary_allows_it(tokenizers, size, dtype):
    other = copy.copy(tokenizers[1])
    other.vocab_size = size
    (shard,) = encode([("a", "b")], (tokenizers[0], other), 64, 9.0).shards
    assert shard.ids.dtype == dtype


EMPTY, LONG, UNEQUAL = ("", "x"), ("dogs " * 40, "cats " * 40), ("I", "a long side " * 3)


@pytest.mark.parametrize(("pairs", "good", "dropped"), [
    ([EMPTY, (" ", "y")], 0, "0 of 2 .*2 for an empty side.*: check the text"),
    ([], 0, r"0 of 0 .*\(dropped: none\): check the text"),
    ([LONG] * 10, 1, "1 of 11 .*: give a larger --max_length$"),
    ([UNEQUAL] * 10, 1, "1 of 11 .*: give a larger --max_length_ratio$"),
    ([UNEQUAL, EMPTY], 17, "17 of 19 .*: check the text.*; give a larger --max_length_ratio"),
    ([EMPTY], 8, "8 of 9 .*: check the text$"),
    ([EMPTY], 9, ""),
])  # fmt: skip
def test_many_dropped_pairs(tokenizers, tiny_config, tmp_path, caplog, pairs, good, dropped):
    """Above 10% there is a warning, and above 90% an error; with the reasons and what to do."""
    corpus = TextCorpus([*pairs, *[("A dog.", "Ein Hund.")] * good])
    arguments = corpus, "train", tokenizers, tiny_config.replace(max_length=40).data, str(tmp_path)
    if good < 8:
        with pytest.raises(UserError, match=f"only {dropped}"):
            cached_pairs(*arguments)
    else:
        assert len(cached_pairs(*arguments)) == good
        assert re.search(f"only {dropped}", caplog.text) if dropped else not caplog.text


def test_a_text_of_several_chunks(tokenizers, text):
    once, often = (encode(text * n, tokenizers, 64, 9.0) for n in (1, 25))
    assert sequences(often) == 25 * sequences(once)


class TextCorpus(Corpus):
    """A corpus of pairs in memory. Its fingerprint is its name."""

    name = "the corpus"
    texts = {"train": None, "validation": None}

    def __init__(self, pairs):
        self.pairs = pairs
        self.end = None  # how many pairs are read before a failure, such as Ctrl-C

    def read_text(self, text):
        yield from ((*pair, None) for pair in self.pairs[: self.end])
        if self.end is not None:
            raise KeyboardInterrupt

    def text_fingerprint(self, split):
        return (split, self.name)


def test_the_second_start_reads_the_cache(tokenizers, text, tiny_config, tmp_path, caplog):
    corpus, data = TextCorpus(text), tiny_config.data
    first = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path))
    assert len(first) == 399 and not caplog.text  # of 400; each counts for the validation
    assert len(cached_pairs(corpus, "validation", tokenizers, data, str(tmp_path))) == 399
    assert "only 399 of 400 pairs are left in validation of the corpus" in caplog.text
    assert first.checksum == encode(text, tokenizers, 64, data.max_length_ratio).checksum
    corpus.end = 0  # reading the text would fail
    again = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path))
    assert sequences(again) == sequences(first)
    assert (again.dropped, again.checksum) == (first.dropped, first.checksum)
    for shard in [*first.shards, *again.shards]:  # not in memory
        assert isinstance(shard.ids.base, np.memmap)
        assert isinstance(shard.splits.base, np.memmap)


def test_other_settings_have_other_shards(tokenizers, text, tiny_config, tmp_path):
    """And so has another fingerprint."""
    corpus, data = TextCorpus(text), tiny_config.data
    first = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path))
    short = tiny_config.replace(max_length=20).data
    assert len(cached_pairs(corpus, "train", tokenizers, short, str(tmp_path))) < len(first)
    corpus.name, corpus.pairs = "another", [("Anna sleeps.", "Anna schläft.")]
    other = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path))
    assert sequences(other)[0] == tuple(tokenizers[0].encode(["Anna sleeps."]).to_list()[0])
    assert len(list(tmp_path.glob("train-*"))) == 3


@pytest.fixture
def small_shards(monkeypatch):
    """Shards of 30 pairs."""
    monkeypatch.setattr(encoding, "CHUNK", 10)
    monkeypatch.setattr(encoding, "CHUNKS_OF_SHARD", 3)


def files(folder):
    """The content of the files below a folder by their relative paths."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)


def test_damaged_shards_are_encoded_again(small_shards, text, tokenizers, tiny_config, tmp_path):
    corpus = TextCorpus(text)
    expected = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
    assert len(expected.shards) == 14
    (folder,) = tmp_path.glob("train-*")
    before = files(tmp_path)
    path = folder / "00004.ids.npy"
    manifest = folder / "manifest.json"
    for damage in (
        lambda: flip(path, -1),
        lambda: flip(path, path.read_bytes().index(b"'descr'")),
        lambda: path.write_bytes(path.read_bytes()[:-2]),
        path.unlink,
        lambda: flip(folder / "00013.splits.npy", 140),
        lambda: manifest.write_bytes(b"{"),
        lambda: manifest.write_text('{"complete": true, "shards": [1]}'),
        lambda: manifest.write_text('{"complete": false, "shards": []}'),
    ):
        damage()
        pairs = cached_pairs(corpus, "train", tokenizers, tiny_config.data, str(tmp_path))
        assert pairs.checksum == expected.checksum and files(tmp_path) == before


def test_shards_that_cannot_be_read(text, tokenizers, tiny_config, tmp_path, monkeypatch):
    """Without memory-mapped files they are read; an error of the disk is not damage."""
    corpus = TextCorpus(text)
    arguments = corpus, "train", tokenizers, tiny_config.data, str(tmp_path)
    expected = cached_pairs(*arguments)
    before, load = files(tmp_path), np.load

    def fails(error, mapped=True):
        def load_or_fail(path, mmap_mode=None):
            if mmap_mode or not mapped:
                raise error
            return load(path)

        monkeypatch.setattr(np, "load", load_or_fail)

    corpus.end = 0  # reading the text would fail
    fails(OSError(errno.ENODEV, "No such device"))
    assert cached_pairs(*arguments).checksum == expected.checksum
    for number in (errno.EIO, errno.ESTALE, errno.EMFILE, errno.ETIMEDOUT, errno.ENOMEM):
        fails(OSError(number, "failed"), mapped=False)
        with pytest.raises(UserError, match=r"train-.* cannot be read \(.*failed\): try again"):
            cached_pairs(*arguments)
    assert files(tmp_path) == before
    corpus.end = None
    fails(ValueError("other bytes"), mapped=False)
    with pytest.raises(UserError, match="train-.* is damaged just after it was written"):
        cached_pairs(*arguments)


def test_a_shard_without_usable_pairs(small_shards, text, tokenizers, tiny_config, tmp_path):
    corpus = TextCorpus(text.copy())
    corpus.pairs[30:60] = [("", "x")] * 30
    data = tiny_config.replace(max_length=96).data
    for _ in range(2):
        pairs = cached_pairs(corpus, "train", tokenizers, data, str(tmp_path))
        assert len(pairs.shards[1]) == 0 and len(pairs) == 370
    inp, tar = pairs.batch(np.array([29, 30]), 2, 96)  # the pairs before and after it
    for row, index in enumerate((29, 60)):
        for ids, tokenizer, text in zip((inp, tar[:, 1:]), tokenizers, corpus.pairs[index]):
            assert ids[row][ids[row] > 0].tolist() == tokenizer.encode([text])[0].numpy().tolist()
