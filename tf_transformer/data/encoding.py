"""Pairs of sentences -> pairs of id sequences, cleaned, counted, and kept on disk for the next start (Sec. 5.1)."""

import collections
import dataclasses
import functools
import hashlib
import itertools
import os
import zipfile
import zlib

import numpy as np

from tf_transformer.atomic_io import atomic_write
from tf_transformer.errors import UserError

CHUNK = 8192  # pairs tokenised at a time


@dataclasses.dataclass(frozen=True)
class Sequences:
    """Many id sequences in two arrays: sequence i is `values[splits[i] : splits[i + 1]]`."""

    values: np.ndarray  # int32 [tokens]
    splits: np.ndarray  # int64 [sequences + 1]

    @property
    def lengths(self):
        """int64 `[sequences]`."""
        return np.diff(self.splits)


@dataclasses.dataclass(frozen=True)
class EncodedPairs:
    """Source and target sequences, both ending with the end symbol, and how many pairs were dropped for which reason."""

    source: Sequences
    target: Sequences
    dropped: dict  # reason -> pairs

    def __len__(self):
        return len(self.source.lengths)

    @functools.cached_property
    def checksum(self):
        """A number that tells these pairs from others."""
        crc = 0
        for side in (self.source, self.target):
            crc = zlib.crc32(side.splits, zlib.crc32(side.values, crc))
        return crc


def encode_pairs(pairs, tokenizers, max_length, max_length_ratio):
    """Tokenises pairs and drops those that training cannot use.

    Args:
      pairs: an iterator of (source, target) strings.
      tokenizers: of the source and of the target.
      max_length: longest side kept, sub-words with the end symbol.
      max_length_ratio: largest ratio of the two lengths kept.
    Returns: an `EncodedPairs`.
    Raises: UserError when no pair is left.
    """
    dropped, sides = collections.Counter(), ([], [])
    for chunk in _chunks(pairs, CHUNK):
        encoded = [
            tokenizer.encode(list(texts)) for tokenizer, texts in zip(tokenizers, zip(*chunk))
        ]
        values = [ids.values.numpy() for ids in encoded]
        splits = [ids.row_splits.numpy() for ids in encoded]
        lengths = [np.diff(s) for s in splits]
        longer, shorter = np.maximum(*lengths), np.minimum(*lengths)
        reasons = {
            "an empty side": shorter <= 1,  # only the end symbol
            f"a side of more than {max_length} sub-words": longer > max_length,
            f"one side more than {max_length_ratio:g} times the other": longer
            > max_length_ratio * shorter,
        }
        keep = np.ones(len(longer), bool)
        for reason, bad in reasons.items():  # a pair counts under the first reason that holds
            dropped[reason] += int(np.sum(bad & keep))
            keep &= ~bad
        for side, v, n in zip(sides, values, lengths):
            side.append((v[np.repeat(keep, n)], n[keep]))
    total = sum(len(lengths) for _, lengths in sides[0])
    if not total:
        raise UserError(
            f"no pair of sentences is left (dropped: {dict(dropped) or 'none, the text is empty'})"
        )
    return EncodedPairs(*(_join(side) for side in sides), dict(dropped))


def describe_dropped(pairs):
    """How many pairs were dropped for which reason, as text; `pairs` is an `EncodedPairs`."""
    counts = [f"{count:,} for {reason}" for reason, count in pairs.dropped.items() if count]
    return ", ".join(counts) or "none"


def cached_pairs(corpus, split, tokenizers, data, folder):
    """`encode_pairs` of one split of a corpus, read from `folder` when it was done before with the same text and settings.

    Args:
      corpus: as `datasets.open_corpus` returns it.
      split: its name.
      tokenizers: of the source and of the target.
      data: a `DataConfig`.
      folder: where to keep the ids.
    Returns: an `EncodedPairs`.
    """
    key = (
        corpus.fingerprint(split),
        *(t.fingerprint for t in tokenizers),
        data.max_length,
        data.max_length_ratio,
    )
    path = os.path.join(
        folder, f"{split}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.npz"
    )
    try:
        return _load(path)
    except (FileNotFoundError, zipfile.BadZipFile, KeyError, ValueError, EOFError):
        pass  # not there, or cut short: make it again
    pairs = encode_pairs(corpus.read(split), tokenizers, data.max_length, data.max_length_ratio)
    os.makedirs(folder, exist_ok=True)
    with atomic_write(path, "wb") as file:
        arrays = {f"{side}_{field.name}": getattr(getattr(pairs, side), field.name)
                  for side in ("source", "target") for field in dataclasses.fields(Sequences)}  # fmt: skip
        np.savez(file, **arrays, reasons=list(pairs.dropped), counts=list(pairs.dropped.values()))
    return pairs


def _load(path):
    with np.load(path) as arrays:
        sides = [
            Sequences(arrays[f"{side}_values"], arrays[f"{side}_splits"])
            for side in ("source", "target")
        ]
        return EncodedPairs(
            *sides, dict(zip(arrays["reasons"].tolist(), arrays["counts"].tolist()))
        )


def _chunks(iterator, size):
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _join(parts):
    values, lengths = (np.concatenate(column) for column in zip(*parts))
    return Sequences(
        values.astype(np.int32), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    )
