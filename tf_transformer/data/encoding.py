"""Encodes sentence pairs as ids, in memory or in a cache of memory-mapped files (Sec. 5.1)."""

import glob
import itertools
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import filelock
import numpy as np
import sentencepiece

from tf_transformer.config import DataConfig
from tf_transformer.data.corpus import Corpus, WeightedPair, digest
from tf_transformer.data.encoded_pairs import (
    MANIFEST,
    EncodedPairs,
    Shard,
    describe_dropped,
    open_shard,
    open_shards,
    read_manifest,
    write_manifest,
    write_shard,
)
from tf_transformer.data.progress import Progress
from tf_transformer.data.tags import split_tag
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.errors import UserError
from tf_transformer.files import remove_temporary_files
from tf_transformer.host import number_of_cores

logger = logging.getLogger(__name__)

CHUNK = 8192  # pairs tokenized at a time
CHUNKS_OF_SHARD = 64


class PairEncoder:
    """Encodes lists of sentence pairs. Its ids are those of `Tokenizer.encode`.

    Args:
      tokenizers: of the source and of the target.
      max_length: maximum length of a side that is kept, in sub-words, end token included.
      max_length_ratio: maximum ratio of the two lengths that is kept.
    """

    def __init__(
        self, tokenizers: tuple[Tokenizer, Tokenizer], max_length: int, max_length_ratio: float
    ) -> None:
        self._processors = [
            sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
            for tokenizer in tokenizers
        ]
        self._tags = tokenizers[0].tags
        largest = max(tokenizer.vocab_size for tokenizer in tokenizers)
        self._dtype = np.uint16 if largest <= 2**16 else np.int32
        self._max_length = max_length
        self._max_length_ratio = max_length_ratio

    def encode(self, pairs: Sequence[WeightedPair]) -> Shard:
        """Encodes pairs.

        Args:
          pairs: (source, target, weight); at least one. The weight None is 1.
        Returns: a `Shard` without the pairs that are not usable for training.
        """
        sources, targets, given = zip(*pairs)
        ids = [self._encode_sources(sources), self._encode(1, targets)]
        lengths = np.array([[len(row) for row in side] for side in ids], np.uint32).T  # (pairs, 2)
        keep, dropped = self._usable(lengths)
        splits = np.zeros(2 * np.count_nonzero(keep) + 1, np.uint32)
        np.cumsum(lengths[keep].ravel(), out=splits[1:])
        kept = itertools.compress(zip(*ids), keep)
        flat = itertools.chain.from_iterable(itertools.chain.from_iterable(kept))
        flat_ids = np.fromiter(flat, self._dtype, int(splits[-1]))
        weights = np.array([1.0 if weight is None else weight for weight in given], np.float32)
        weights = weights[keep]
        return Shard(flat_ids, splits, dropped, None if np.all(weights == 1) else weights)

    def _encode(self, side: int, texts: Sequence[str]) -> list[list[int]]:
        threads = number_of_cores()
        return self._processors[side].encode(list(texts), add_eos=True, num_threads=threads)

    def _encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Encodes sources, of which some begin with tags."""
        if not self._tags:
            return self._encode(0, texts)
        tags, sentences = zip(*(split_tag(text, self._tags) for text in texts))
        rows = self._encode(0, sentences)
        return [[self._tags[tag], *row] if tag else row for tag, row in zip(tags, rows)]

    def _usable(self, lengths: np.ndarray) -> tuple[np.ndarray, dict[str, int]]:
        """Finds the pairs to keep.

        Args:
          lengths: uint32 `[pairs, 2]`.
        Returns: bool `[pairs]`; the number of the other pairs for each reason. A pair counts under
          the first reason that applies.
        """
        longer, shorter = lengths.max(axis=1), lengths.min(axis=1)
        limit, ratio = self._max_length, self._max_length_ratio
        reasons = {
            "an empty side": shorter <= 1,  # only the end token
            f"a side of more than {limit} sub-words": longer > limit,
            f"one side more than {ratio:g} times the other": longer > ratio * shorter,
        }
        keep = np.ones(len(longer), bool)
        dropped = {}
        for reason, applies in reasons.items():
            dropped[reason] = int(np.sum(applies & keep))
            keep &= ~applies
        return keep, dropped


def encode_pairs(
    pairs: Iterable[tuple[str, str]],
    tokenizers: tuple[Tokenizer, Tokenizer],
    max_length: int,
    max_length_ratio: float,
) -> EncodedPairs:
    """Tokenizes sentence pairs in memory and drops those that are not usable for training.

    Args:
      pairs: an iterable of (source, target) strings.
      tokenizers: of the source and of the target.
      max_length: maximum length of a side that is kept, in sub-words, end token included.
      max_length_ratio: maximum ratio of the two lengths that is kept.
    Returns: an `EncodedPairs`.
    Raises: UserError when no pair is left.
    """
    encoder = PairEncoder(tokenizers, max_length, max_length_ratio)
    weighted = ((source, target, None) for source, target in pairs)
    parts = [encoder.encode(chunk) for chunk in _chunks(weighted)]
    return _not_empty(EncodedPairs([Shard.join(parts)] if parts else []), "the text")


def _chunks(pairs: Iterable[WeightedPair]) -> Iterator[list[WeightedPair]]:
    """Yields lists of `CHUNK` pairs; the last one may be shorter."""
    iterator = iter(pairs)
    while chunk := list(itertools.islice(iterator, CHUNK)):
        yield chunk


def _not_empty(pairs: EncodedPairs, name: str) -> EncodedPairs:
    """Returns the pairs of the text `name`. Raises: UserError when there is none."""
    if not len(pairs):
        raise UserError(
            f"no pair of sentences is left in {name} (dropped: {describe_dropped(pairs)}): check "
            "the text, max_length and max_length_ratio"
        )
    return pairs


def cached_pairs(
    corpus: Corpus,
    split: str,
    tokenizers: tuple[Tokenizer, Tokenizer],
    data: DataConfig,
    cache: str,
) -> EncodedPairs:
    """Opens the shards of a split in the cache, after encoding those that are not there.

    A damaged shard is encoded again. After an interruption, complete shards are not. While another
    process encodes the same split, this one waits.

    Args:
      corpus: a `Corpus` of `open_corpus`.
      split: the name of one of its splits.
      tokenizers: of the source and of the target.
      data: a `DataConfig`.
      cache: the folder of the cache, created where it does not exist.
    Returns: an `EncodedPairs` of memory-mapped shards.
    Raises: UserError when no pair is left.
    """
    folder = shard_folder(corpus, split, tokenizers, data, cache)
    pairs = open_shards(folder)
    if pairs is None:
        os.makedirs(folder, exist_ok=True)
        with _lock(cache, split):
            pairs = open_shards(folder)
            if pairs is None:
                encoder = PairEncoder(tokenizers, data.max_length, data.max_length_ratio)
                pairs = _encode_missing(folder, corpus, split, encoder)
                _remove_incomplete(cache, split)
    return _not_empty(pairs, corpus.describe(split))


def _lock(cache: str, split: str) -> filelock.AcquireReturnProxy:
    """Locks the shards of a split; waits while another process has the lock."""
    lock = filelock.FileLock(os.path.join(cache, f".{split}.lock"))
    try:
        return lock.acquire(blocking=False)
    except filelock.Timeout:
        logger.info("waiting for another process that encodes %s in %s", split, cache)
        return lock.acquire()


def shard_folder(
    corpus: Corpus,
    split: str,
    tokenizers: tuple[Tokenizer, Tokenizer],
    data: DataConfig,
    cache: str,
) -> str:
    """Returns the path of the shards of a split.

    It depends on the corpus's fingerprint, the vocabularies, the settings of `encode_pairs` and the
    size of a shard.

    Args: as for `cached_pairs`.
    """
    name = digest(
        corpus.fingerprint(split),
        *(tokenizer.fingerprint for tokenizer in tokenizers),
        data.max_length,
        data.max_length_ratio,
        CHUNK * CHUNKS_OF_SHARD,
    )
    return os.path.join(cache, f"{split}-{name}")


def _encode_missing(folder: str, corpus: Corpus, split: str, encoder: PairEncoder) -> EncodedPairs:
    """Encodes and writes the shards that a folder lacks, or that are damaged in it.

    Returns: an `EncodedPairs` of all shards.
    """
    remove_temporary_files(folder)  # of a process that was killed
    manifest = read_manifest(folder)
    records = manifest["shards"]
    shards = [open_shard(folder, number, record) for number, record in enumerate(records)]
    done = sum(record["read"] for record, shard in zip(records, shards) if shard is not None)
    if done:
        logger.info("resuming the encoding of %s after %s pairs", split, f"{done:,}")
    text = corpus.read_weighted(split)
    with Progress(f"encoding {split}", "pairs") as progress:
        for number in itertools.count():
            of_shard = itertools.islice(text, CHUNK * CHUNKS_OF_SHARD)
            if number < len(shards) and shards[number] is not None:
                sum(1 for _ in of_shard)  # skips its text
                continue
            parts = []
            read = 0
            for chunk in _chunks(of_shard):
                parts.append(encoder.encode(chunk))
                read += len(chunk)
                progress.show(done + read)
            if not parts:
                break
            done += read
            record = write_shard(folder, number, Shard.join(parts), read)
            records[number : number + 1] = [record]
            write_manifest(folder, manifest)
            shards[number : number + 1] = [_reopen(folder, number, record)]
    manifest["complete"] = True
    write_manifest(folder, manifest)
    return EncodedPairs([shard for shard in shards if shard is not None])


def _reopen(folder: str, number: int, record: dict[str, Any]) -> Shard:
    """Opens the shard that was just written."""
    shard = open_shard(folder, number, record)
    if shard is None:
        raise OSError(f"shard {number} of {folder} cannot be read after it was written")
    return shard


def _remove_incomplete(cache: str, split: str) -> None:
    """Removes what interrupted encodings of the split with other settings have left."""
    pattern = os.path.join(glob.escape(cache), f"{glob.escape(split)}-*", MANIFEST)
    for folder in map(os.path.dirname, glob.glob(pattern)):
        if not read_manifest(folder)["complete"]:
            shutil.rmtree(folder, ignore_errors=True)
