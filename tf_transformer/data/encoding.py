"""Encodes sentence pairs as ids, drops unusable pairs, and caches the ids on disk (Sec. 5.1)."""

import collections
import dataclasses
import functools
import glob
import itertools
import logging
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tf_transformer.atomic_io import atomic_write
from tf_transformer.config import DataConfig
from tf_transformer.data.corpus import Corpus, digest
from tf_transformer.data.progress import Progress
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.errors import NPZ_DAMAGE, UserError

logger = logging.getLogger(__name__)

CHUNK = 8192  # pairs tokenized at a time
CHUNKS_OF_SEGMENT = 16  # chunks whose ids are written to the disk together


@dataclasses.dataclass(frozen=True)
class Sequences:
    """Id sequences in two arrays: sequence i is `values[splits[i] : splits[i + 1]]`."""

    values: np.ndarray  # int32 [tokens]
    splits: np.ndarray  # int64 [sequences + 1]

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sequence, int64 `[sequences]`."""
        return np.diff(self.splits)


@dataclasses.dataclass(frozen=True)
class EncodedPairs:
    """Source and target sequences, each ending with the end token, and counts of dropped pairs."""

    source: Sequences
    target: Sequences
    dropped: dict[str, int]  # reason -> number of pairs

    def __len__(self) -> int:
        return len(self.source.lengths)

    @functools.cached_property
    def checksum(self) -> int:
        """The CRC-32 of all ids and lengths."""
        crc = 0
        for side in (self.source, self.target):
            crc = zlib.crc32(side.values.data, crc)
            crc = zlib.crc32(side.splits.data, crc)
        return crc


def encode_pairs(
    pairs: Iterable[tuple[str, str]],
    tokenizers: tuple[Tokenizer, Tokenizer],
    max_length: int,
    max_length_ratio: float,
) -> EncodedPairs:
    """Tokenizes sentence pairs and drops those that are not usable for training.

    Args:
      pairs: an iterable of (source, target) strings.
      tokenizers: of the source and of the target.
      max_length: maximum length of a side that is kept, in sub-words, end token included.
      max_length_ratio: maximum ratio of the two lengths that is kept.
    Returns: an `EncodedPairs`.
    Raises: UserError when no pair is left.
    """
    encoded = [
        _encode_chunk(chunk, tokenizers, max_length, max_length_ratio)
        for chunk in _chunks(pairs, CHUNK)
    ]
    return _not_empty(_join(encoded), "the text")


def _encode_chunk(
    pairs: list[tuple[str, str]],
    tokenizers: tuple[Tokenizer, Tokenizer],
    max_length: int,
    max_length_ratio: float,
) -> EncodedPairs:
    """Encodes a list of pairs; as `encode_pairs`, but no pair may be left."""
    encoded = [tokenizer.encode(list(texts)) for tokenizer, texts in zip(tokenizers, zip(*pairs))]
    lengths = [ids.row_lengths().numpy() for ids in encoded]
    keep, dropped = _usable(lengths[0], lengths[1], max_length, max_length_ratio)
    source, target = (
        Sequences(ids.values.numpy()[np.repeat(keep, of_side)], _splits(of_side[keep]))
        for ids, of_side in zip(encoded, lengths)
    )
    return EncodedPairs(source, target, dropped)


def _usable(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    max_length: int,
    max_length_ratio: float,
) -> tuple[np.ndarray, dict[str, int]]:
    """Finds the pairs to keep.

    Args:
      source_lengths, target_lengths: int64 `[pairs]`.
      max_length, max_length_ratio: as for `encode_pairs`.
    Returns: bool `[pairs]`; the number of the other pairs for each reason. A pair counts under the
      first reason that applies.
    """
    longer = np.maximum(source_lengths, target_lengths)
    shorter = np.minimum(source_lengths, target_lengths)
    too_unequal = longer > max_length_ratio * shorter
    reasons = {
        "an empty side": shorter <= 1,  # only the end token
        f"a side of more than {max_length} sub-words": longer > max_length,
        f"one side more than {max_length_ratio:g} times the other": too_unequal,
    }
    keep = np.ones(len(longer), bool)
    dropped = {}
    for reason, applies in reasons.items():
        dropped[reason] = int(np.sum(applies & keep))
        keep &= ~applies
    return keep, dropped


def _chunks(iterable: Iterable[tuple[str, str]], size: int) -> Iterator[list[tuple[str, str]]]:
    """Yields lists of `size` items; the last one may be shorter."""
    iterator = iter(iterable)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _splits(lengths: np.ndarray) -> np.ndarray:
    """Returns the `splits` of `Sequences` with these lengths, `[sequences]`."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _join(parts: Sequence[EncodedPairs]) -> EncodedPairs:
    """Joins the pairs of several `EncodedPairs`, in their order."""
    dropped: collections.Counter[str] = collections.Counter()
    for part in parts:
        dropped.update(part.dropped)
    source = _join_side([part.source for part in parts])
    target = _join_side([part.target for part in parts])
    return EncodedPairs(source, target, dict(dropped))


def _join_side(parts: Sequence[Sequences]) -> Sequences:
    empty = np.zeros(0, np.int64)
    values = np.concatenate([empty.astype(np.int32), *(part.values for part in parts)])
    return Sequences(values, _splits(np.concatenate([empty, *(part.lengths for part in parts)])))


def _not_empty(pairs: EncodedPairs, name: str) -> EncodedPairs:
    """Returns the pairs of the text `name`. Raises: UserError when there is none."""
    if not len(pairs):
        raise UserError(
            f"no pair of sentences is left in {name} (dropped: {describe_dropped(pairs)}): check "
            "the text, max_length and max_length_ratio"
        )
    return pairs


def describe_dropped(pairs: EncodedPairs) -> str:
    """Describes how many pairs of an `EncodedPairs` were dropped and why.

    Returns: a string such as "3 for an empty side".
    """
    counts = [f"{count:,} for {reason}" for reason, count in pairs.dropped.items() if count]
    return ", ".join(counts) or "none"


def cached_pairs(
    corpus: Corpus,
    split: str,
    tokenizers: tuple[Tokenizer, Tokenizer],
    data: DataConfig,
    folder: str,
) -> EncodedPairs:
    """Reads the ids of a split from the cache, or encodes the split and writes them to the cache.

    The name of the cache file depends on the corpus's fingerprint, the vocabularies and the
    settings of `encode_pairs`. A damaged file is replaced. After an interruption, the segments that
    are in the cache are not encoded again.

    Args:
      corpus: a `Corpus` of `open_corpus`.
      split: the name of one of its splits.
      tokenizers: of the source and of the target.
      data: a `DataConfig`.
      folder: the folder of the cache, created where it does not exist.
    Returns: an `EncodedPairs`.
    Raises: UserError when no pair is left.
    """
    name = digest(
        corpus.fingerprint(split),
        *(tokenizer.fingerprint for tokenizer in tokenizers),
        data.max_length,
        data.max_length_ratio,
    )
    stem = os.path.join(folder, f"{split}-{name}")
    try:
        return _load(f"{stem}.npz")
    except NPZ_DAMAGE:
        pass  # missing or damaged
    os.makedirs(folder, exist_ok=True)
    segments = _encode_in_segments(corpus, split, tokenizers, data, f"{stem}.segment")
    pairs = _not_empty(_join(segments), f"{split} of {corpus.name}")
    _save(f"{stem}.npz", pairs)
    for path in glob.glob(os.path.join(glob.escape(folder), f"{glob.escape(split)}-*.segment-*")):
        os.remove(path)
    return pairs


def _encode_in_segments(
    corpus: Corpus,
    split: str,
    tokenizers: tuple[Tokenizer, Tokenizer],
    data: DataConfig,
    stem: str,
) -> list[EncodedPairs]:
    """Encodes a split, and writes each complete segment to a file.

    Args:
      corpus, split, tokenizers, data: as for `cached_pairs`.
      stem: of the paths of the segments. Those that exist are read, not encoded.
    Returns: the `EncodedPairs` of the segments, in their order.
    """
    segments: list[EncodedPairs] = []
    try:
        while True:
            segments.append(_load(f"{stem}-{len(segments):05d}.npz"))
    except NPZ_DAMAGE:
        pass  # the first that is missing or damaged
    done = sum(len(segment) + sum(segment.dropped.values()) for segment in segments)
    if done:
        logger.info("resuming the encoding of %s after %s pairs", split, f"{done:,}")
    unread = itertools.islice(corpus.read(split), done, None)
    chunks: list[EncodedPairs] = []  # of the segment that is not complete
    with Progress(f"encoding {split}", "pairs") as progress:
        for chunk in _chunks(unread, CHUNK):
            chunks.append(_encode_chunk(chunk, tokenizers, data.max_length, data.max_length_ratio))
            done += len(chunk)
            progress.show(done)
            if len(chunks) == CHUNKS_OF_SEGMENT:
                segment = _join(chunks)
                _save(f"{stem}-{len(segments):05d}.npz", segment)
                segments.append(segment)
                chunks = []
    return [*segments, *chunks]


def _save(path: str, pairs: EncodedPairs) -> None:
    with atomic_write(path, "wb") as file:
        np.savez(
            file,
            source_values=pairs.source.values,
            source_splits=pairs.source.splits,
            target_values=pairs.target.values,
            target_splits=pairs.target.splits,
            reasons=list(pairs.dropped),
            counts=list(pairs.dropped.values()),
        )


def _load(path: str) -> EncodedPairs:
    with np.load(path) as arrays:
        source = Sequences(arrays["source_values"], arrays["source_splits"])
        target = Sequences(arrays["target_values"], arrays["target_splits"])
        dropped = dict(zip(arrays["reasons"].tolist(), arrays["counts"].tolist()))
    return EncodedPairs(source, target, dropped)
