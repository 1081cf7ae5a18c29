"""Encoded sentence pairs in shards, which are arrays in memory or memory-mapped files.

A folder of shards has the files `00000.ids.npy` and `00000.splits.npy` and so on, whose arrays are
those of a `Shard` (`00000.weights.npy` only where pairs have weights), and `manifest.json`. The
manifest says how many pairs of the text each shard has read and dropped, has its checksum, and says
whether the end of the text is reached.
"""

import collections
import dataclasses
import functools
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tf_transformer.errors import NPZ_DAMAGE
from tf_transformer.files import atomic_write
from tf_transformer.special_tokens import PAD, START

MANIFEST = "manifest.json"
READ_BYTES = 1 << 20  # read from a file at a time


@dataclasses.dataclass(frozen=True)
class Shard:
    """Consecutive pairs. Source and target of a pair are adjacent, so that one disk read has both.

    The source of pair i is `ids[splits[2 * i] : splits[2 * i + 1]]`, and its target is
    `ids[splits[2 * i + 1] : splits[2 * i + 2]]`. Both end with the end token.
    """

    ids: np.ndarray  # uint16 or int32 [tokens]
    splits: np.ndarray  # uint32 [2 * pairs + 1]
    dropped: dict[str, int]  # reason -> number of pairs that were dropped
    weights: np.ndarray | None = None  # float32 [pairs], of the pairs in the loss; None: all are 1
    file_checksum: int | None = None  # the checksum, where it was computed from the files

    def __len__(self) -> int:
        return len(self.splits) // 2

    @property
    def lengths(self) -> np.ndarray:
        """Sub-words of the sources and targets, int32 `[pairs, 2]`."""
        return np.diff(self.splits).astype(np.int32).reshape(-1, 2)

    @functools.cached_property
    def checksum(self) -> int:
        """The CRC-32 of the arrays."""
        if self.file_checksum is not None:
            return self.file_checksum
        checksum = 0
        for array in self.arrays:
            checksum = zlib.crc32(array.data, checksum)
        return checksum

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The ids, the splits, and the weights where there are any."""
        weights = () if self.weights is None else (self.weights,)
        return (self.ids, self.splits, *weights)

    def side(self, side: int, pairs: np.ndarray, length: int) -> np.ndarray:
        """Reads one side of some pairs.

        Args:
          side: 0 for the sources, 1 for the targets.
          pairs: their indices, int `[rows]`.
          length: of the result; at least that of the longest of these sequences.
        Returns: ids with padding, `[rows, length]`.
        """
        first = 2 * pairs + side
        start = np.take(self.splits, first).astype(np.int64)[:, None]  # (rows, 1)
        end = np.take(self.splits, first + 1)[:, None]
        positions = start + np.arange(length)  # (rows, length)
        # `take` lets other threads run while it waits for the disk; an index expression does not.
        ids = np.take(self.ids, positions, mode="clip")
        ids[positions >= end] = PAD
        return ids

    @classmethod
    def join(cls, parts: Sequence["Shard"]) -> "Shard":
        """Joins the pairs of one or more shards in memory, in their order."""
        ids = np.concatenate([part.ids for part in parts])
        lengths = np.concatenate([np.diff(part.splits) for part in parts])
        splits = np.zeros(len(lengths) + 1, np.uint32)
        np.cumsum(lengths, out=splits[1:])
        weights = None
        if any(part.weights is not None for part in parts):
            weights = np.concatenate([part.weights_of(np.arange(len(part))) for part in parts])
        return cls(ids, splits, _count_dropped(parts), weights)

    def slice(self, first: int, end: int) -> "Shard":
        """Returns the pairs `first` to `end`, without that at `end`, as copies in memory."""
        splits = self.splits[2 * first : 2 * end + 1]
        ids = np.array(self.ids[splits[0] : splits[-1]])
        weights = None if self.weights is None else np.array(self.weights[first:end])
        return Shard(ids, splits - splits[0], {}, weights)

    def weights_of(self, pairs: np.ndarray) -> np.ndarray:
        """The weights of the pairs with these indices, float32 `[rows]`."""
        if self.weights is None:
            return np.ones(len(pairs), np.float32)
        return np.take(self.weights, pairs)


def _count_dropped(shards: Sequence[Shard]) -> dict[str, int]:
    """The number of dropped pairs of some shards for each reason."""
    dropped: collections.Counter[str] = collections.Counter()
    for shard in shards:
        dropped.update(shard.dropped)
    return dict(dropped)


class EncodedPairs:
    """Source and target sequences, each ending with the end token, and counts of dropped pairs.

    Args:
      shards: a list of `Shard`.

    Attributes:
      shards: the same.
      dropped: reason -> number of pairs.
      weighted: whether pairs have weights.
      checksum: of the shards.
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = shards
        self._ends = np.cumsum([len(shard) for shard in shards])  # (shards,)
        self.dropped = _count_dropped(shards)
        self.weighted = any(shard.weights is not None for shard in shards)

    def __len__(self) -> int:
        return int(self._ends[-1]) if self.shards else 0

    @functools.cached_property
    def checksum(self) -> int:
        """The CRC-32 of the checksums of the shards."""
        return zlib.crc32(np.array([shard.checksum for shard in self.shards], np.uint32).data)

    @property
    def lengths(self) -> np.ndarray:
        """Sub-words of the sources and targets, int32 `[pairs, 2]`: 8 bytes a pair."""
        empty = np.zeros((0, 2), np.int32)
        return np.concatenate([empty, *(shard.lengths for shard in self.shards)])

    def batch(self, indices: np.ndarray, rows: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns some pairs as one batch.

        Args:
          indices: of the pairs, int `[pairs]`.
          rows: of the batch, at least `pairs`; the rest is padding.
          length: at least that of the longest of these sequences.
        Returns: int32 `inp [rows, length]` and `tar [rows, length + 1]`, which begins with the
          start token.
        """
        inp = np.full((rows, length), PAD, np.int32)
        tar = np.full((rows, length + 1), PAD, np.int32)
        tar[: len(indices), 0] = START
        for shard, places, pairs in self._by_shard(indices):
            inp[places] = shard.side(0, pairs, length)
            tar[places, 1:] = shard.side(1, pairs, length)
        return inp, tar

    def weights(self, indices: np.ndarray, rows: int) -> np.ndarray:
        """Returns the weights of some pairs in the loss, float32 `[rows]`; 0 for padding."""
        weights = np.zeros(rows, np.float32)
        for shard, places, pairs in self._by_shard(indices):
            weights[places] = shard.weights_of(pairs)
        return weights

    def _by_shard(self, indices: np.ndarray) -> Iterator[tuple[Shard, np.ndarray, np.ndarray]]:
        """Groups pairs by their shards.

        Yields: a shard, the places of its pairs in `indices`, and their indices in the shard.
        """
        shard_of_pair = np.searchsorted(self._ends, indices, side="right")
        for number in np.unique(shard_of_pair):
            shard = self.shards[number]
            places = np.flatnonzero(shard_of_pair == number)
            yield shard, places, indices[places] - (self._ends[number] - len(shard))


def describe_dropped(pairs: EncodedPairs) -> str:
    """Describes how many pairs of an `EncodedPairs` were dropped and why.

    Returns: a string such as "3 for an empty side".
    """
    counts = [f"{count:,} for {reason}" for reason, count in pairs.dropped.items() if count]
    return ", ".join(counts) or "none"


def open_shards(folder: str) -> EncodedPairs | None:
    """Opens the shards in a folder of the cache.

    All files are read once, to check them; the ids are not kept in memory.

    Returns: an `EncodedPairs`, or None when a shard is missing or damaged.
    """
    manifest = read_manifest(folder)
    if not manifest["complete"]:
        return None
    shards = [open_shard(folder, i, record) for i, record in enumerate(manifest["shards"])]
    opened = [shard for shard in shards if shard is not None]
    return EncodedPairs(opened) if len(opened) == len(shards) else None


def read_manifest(folder: str) -> dict[str, Any]:
    """Reads the manifest of a folder; where it is missing or damaged, that of no shards."""
    try:
        with open(os.path.join(folder, MANIFEST), encoding="utf-8") as file:
            manifest = json.load(file)
        if isinstance(manifest["complete"], bool) and isinstance(manifest["shards"], list):
            return manifest
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return {"complete": False, "shards": []}


def _paths(folder: str, number: int, weighted: bool) -> list[str]:
    """The files of the arrays of a shard."""
    names = ("ids", "splits", "weights") if weighted else ("ids", "splits")
    return [os.path.join(folder, f"{number:05d}.{name}.npy") for name in names]


def open_shard(folder: str, number: int, record: dict[str, Any]) -> Shard | None:
    """Opens the shard of a record of the manifest; None when it is missing or damaged."""
    try:
        checksum = 0
        arrays = []
        for path in _paths(folder, number, record.get("weighted", False)):
            array = np.load(path, mmap_mode="r")
            checksum = _file_checksum(path, array.offset, checksum)
            arrays.append(np.asarray(array))  # indexing a `memmap` is slower
        ids, splits, *weights = arrays
        if checksum == record["checksum"] and len(ids) == splits[-1]:
            return Shard(ids, splits, record["dropped"], weights[0] if weights else None, checksum)
    except NPZ_DAMAGE:
        pass
    return None


def _file_checksum(path: str, offset: int, checksum: int) -> int:
    """Continues a CRC-32 with the bytes of a file after the first `offset`.

    Reading a memory-mapped array instead would count as memory of this process.
    """
    with open(path, "rb") as file:
        file.seek(offset)
        for block in iter(functools.partial(file.read, READ_BYTES), b""):
            checksum = zlib.crc32(block, checksum)
    return checksum


def write_shard(folder: str, number: int, shard: Shard, read: int) -> dict[str, Any]:
    """Writes the files of a shard.

    Args:
      folder: an existing folder.
      number: of the shard in it.
      shard: a `Shard`.
      read: how many pairs of the text it has read.
    Returns: its record in the manifest.
    """
    weighted = shard.weights is not None
    for path, array in zip(_paths(folder, number, weighted), shard.arrays):
        with atomic_write(path, "wb") as file:
            header = np.lib.format.header_data_from_array_1_0(array)
            np.lib.format.write_array_header_1_0(file, header)
            file.write(array.data)  # `np.save` does not say why it fails, as on a full disk
    record = {"read": read, "dropped": shard.dropped, "checksum": shard.checksum}
    return {**record, "weighted": True} if weighted else record


def write_manifest(folder: str, manifest: dict[str, Any]) -> None:
    """Writes the manifest of a folder: its `shards`, a list of records, and `complete`."""
    with atomic_write(os.path.join(folder, MANIFEST)) as file:
        json.dump(manifest, file, indent=1)
