"""Encoded sentence pairs in shards, which are arrays in memory or memory-mapped files."""

import collections
import dataclasses
import functools
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from tf_transformer.special_tokens import PAD, START


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
