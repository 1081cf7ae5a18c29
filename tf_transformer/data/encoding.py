"""Encodes sentence pairs as ids, drops unusable pairs, and caches the ids on disk (Sec. 5.1)."""

import collections
import dataclasses
import functools
import hashlib
import itertools
import os
import zlib

import numpy as np

from tf_transformer.atomic_io import atomic_write
from tf_transformer.errors import NPZ_DAMAGE, UserError

CHUNK = 8192  # pairs tokenized at a time


@dataclasses.dataclass(frozen=True)
class Sequences:
    """Id sequences in two arrays: sequence i is `values[splits[i] : splits[i + 1]]`."""

    values: np.ndarray  # int32 [tokens]
    splits: np.ndarray  # int64 [sequences + 1]

    @property
    def lengths(self):
        """Tokens of each sequence, int64 `[sequences]`."""
        return np.diff(self.splits)


@dataclasses.dataclass(frozen=True)
class EncodedPairs:
    """Source and target sequences, each ending with the end token, and counts of dropped pairs."""

    source: Sequences
    target: Sequences
    dropped: dict  # reason -> number of pairs

    def __len__(self):
        return len(self.source.lengths)

    @functools.cached_property
    def checksum(self):
        """The CRC-32 of all ids and lengths."""
        crc = 0
        for side in (self.source, self.target):
            crc = zlib.crc32(side.values, crc)
            crc = zlib.crc32(side.splits, crc)
        return crc


def encode_pairs(pairs, tokenizers, max_length, max_length_ratio):
    """Tokenizes sentence pairs and drops those that are not usable for training.

    Args:
      pairs: an iterator of (source, target) strings.
      tokenizers: of the source and of the target.
      max_length: maximum length of a side that is kept, in sub-words, end token included.
      max_length_ratio: maximum ratio of the two lengths that is kept.
    Returns: an `EncodedPairs`.
    Raises: UserError when no pair is left.
    """
    dropped = collections.Counter()
    kept_values = ([], [])  # of source and target: one array for each chunk
    kept_lengths = ([], [])
    for chunk in _chunks(pairs, CHUNK):
        encoded = [
            tokenizer.encode(list(texts)) for tokenizer, texts in zip(tokenizers, zip(*chunk))
        ]
        lengths = [ids.row_lengths().numpy() for ids in encoded]
        keep = _usable(*lengths, max_length, max_length_ratio, dropped)
        for side, ids in enumerate(encoded):
            kept_values[side].append(ids.values.numpy()[np.repeat(keep, lengths[side])])
            kept_lengths[side].append(lengths[side][keep])
    if not sum(len(lengths) for lengths in kept_lengths[0]):
        reasons = dict(dropped) or "none, the text is empty"
        raise UserError(f"no pair of sentences is left (dropped: {reasons})")
    source, target = map(_join, kept_values, kept_lengths)
    return EncodedPairs(source, target, dict(dropped))


def _usable(source_lengths, target_lengths, max_length, max_length_ratio, dropped):
    """Finds the pairs to keep.

    Args:
      source_lengths, target_lengths: int64 `[pairs]`.
      max_length, max_length_ratio: as for `encode_pairs`.
      dropped: a `Counter` of the reasons, to which this adds the other pairs. A pair counts under
        the first reason that applies.
    Returns: bool `[pairs]`.
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
    for reason, applies in reasons.items():
        dropped[reason] += int(np.sum(applies & keep))
        keep &= ~applies
    return keep


def _chunks(iterator, size):
    """Yields lists of `size` items; the last one may be shorter."""
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _join(values, lengths):
    """Joins the chunks of one side to `Sequences`."""
    values = np.concatenate(values).astype(np.int32)
    splits = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    return Sequences(values, splits)


def describe_dropped(pairs):
    """Describes how many pairs of an `EncodedPairs` were dropped and why.

    Returns: a string such as "3 for an empty side".
    """
    counts = [f"{count:,} for {reason}" for reason, count in pairs.dropped.items() if count]
    return ", ".join(counts) or "none"


def cached_pairs(corpus, split, tokenizers, data, folder):
    """Reads the ids of a split from the cache, or encodes the split and writes them to the cache.

    The name of the cache file depends on the corpus's fingerprint, the vocabularies and the
    settings of `encode_pairs`. A damaged file is replaced.

    Args:
      corpus: a `Corpus` of `open_corpus`.
      split: the name of one of its splits.
      tokenizers: of the source and of the target.
      data: a `DataConfig`.
      folder: the folder of the cache, created where it does not exist.
    Returns: an `EncodedPairs`.
    Raises: UserError when no pair is left.
    """
    key = (
        corpus.fingerprint(split),
        *(tokenizer.fingerprint for tokenizer in tokenizers),
        data.max_length,
        data.max_length_ratio,
    )
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    path = os.path.join(folder, f"{split}-{digest}.npz")
    try:
        return _load(path)
    except NPZ_DAMAGE:
        pass  # missing or damaged
    pairs = encode_pairs(corpus.read(split), tokenizers, data.max_length, data.max_length_ratio)
    os.makedirs(folder, exist_ok=True)
    _save(path, pairs)
    return pairs


def _save(path, pairs):
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


def _load(path):
    with np.load(path) as arrays:
        source = Sequences(arrays["source_values"], arrays["source_splits"])
        target = Sequences(arrays["target_values"], arrays["target_splits"])
        dropped = dict(zip(arrays["reasons"].tolist(), arrays["counts"].tolist()))
    return EncodedPairs(source, target, dropped)
