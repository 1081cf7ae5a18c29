"""Sentence pairs as ids, in shards: arrays in memory, or a cache of memory-mapped files (Sec. 5.1).

A folder of shards has the arrays of each `Shard`, `00000.ids.npy`, `00000.splits.npy` (and
`00000.weights.npy` where pairs have weights) and so on, and `manifest.json`. The manifest says how
many pairs of the text each shard has dropped, and has its checksum.
"""

import dataclasses
import functools
import itertools
import json
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_transformer.config import DataConfig
from tf_transformer.data.corpus import Corpus, WeightedPair, digest
from tf_transformer.data.progress import Progress
from tf_transformer.errors import NPZ_DAMAGE, UserError, is_damage
from tf_transformer.files import atomic_folder, atomic_write
from tf_transformer.special_tokens import PAD, START

if TYPE_CHECKING:  # it imports TensorFlow
    from tf_transformer.data.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
CHUNK = 8192  # pairs tokenized at a time
CHUNKS_OF_SHARD = 64

# The fractions of dropped pairs above which there is a warning, and an error.
MANY_DROPPED, MOST_DROPPED = 0.1, 0.9
ADVICE = (  # in the order of the reasons of `_usable`
    "check the text",
    "give a larger --max_length",
    "give a larger --max_length_ratio",
)


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

    def __len__(self) -> int:
        return len(self.splits) // 2

    @property
    def lengths(self) -> np.ndarray:
        """Sub-words of the sources and targets, int32 `[pairs, 2]`."""
        return np.diff(self.splits).astype(np.int32).reshape(-1, 2)

    @functools.cached_property
    def checksum(self) -> int:
        """The CRC-32 of the arrays."""
        arrays = self.arrays.values()
        return functools.reduce(lambda sum_, array: zlib.crc32(array.data, sum_), arrays, 0)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The ids, the splits, and the weights where there are any, by their names."""
        arrays = {"ids": self.ids, "splits": self.splits}
        return arrays if self.weights is None else {**arrays, "weights": self.weights}

    def side(self, side: int, pairs: np.ndarray, length: int) -> np.ndarray:
        """Reads one side of some pairs, with padding up to `length`, which no sequence exceeds.

        Args:
          side: 0 for the sources, 1 for the targets.
          pairs: their indices, int `[rows]`.
        Returns: ids, `[rows, length]`.
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
    reasons = dict.fromkeys(reason for shard in shards for reason in shard.dropped)
    return {reason: sum(shard.dropped.get(reason, 0) for shard in shards) for reason in reasons}


class EncodedPairs:
    """Source and target sequences, each ending with the end token.

    Attributes:
      shards: a list of `Shard`.
      dropped: reason -> number of pairs.
      weighted: whether pairs have weights.
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

    def extra_length(self, coverage: float) -> int:
        """How much longer than the sources, in sub-words, outputs must be able to be.

        Args:
          coverage: the part of the targets, above 0, that are to be possible outputs.
        Returns: the smallest `extra_decode_length` for which they are shorter than the longest
          output, so that they are not taken for truncated ones.
        """
        source, target = self.lengths.T  # with end tokens, of which the limit counts the target's
        return int(np.quantile(target - source + 2, coverage, method="higher"))

    def batch(self, indices: np.ndarray, rows: int, length: int) -> tuple[np.ndarray, ...]:
        """Returns some pairs as one batch.

        Args:
          indices: of the pairs, int `[pairs]`.
          rows: of the batch, at least `pairs`; the rest is padding.
          length: at least the length of the longest sequence.
        Returns: int32 `inp [rows, length]` and `tar [rows, length + 1]`, which begins with the
          start token; where pairs are `weighted`, also float32 `[rows]`, which is 0 for padding.
        """
        inp = np.full((rows, length), PAD, np.int32)
        tar = np.full((rows, length + 1), PAD, np.int32)
        tar[: len(indices), 0] = START
        weights = np.zeros(rows, np.float32)
        shard_of_pair = np.searchsorted(self._ends, indices, side="right")
        for number in np.unique(shard_of_pair):
            shard = self.shards[number]
            places = np.flatnonzero(shard_of_pair == number)
            pairs = indices[places] - (self._ends[number] - len(shard))
            inp[places] = shard.side(0, pairs, length)
            tar[places, 1:] = shard.side(1, pairs, length)
            weights[places] = shard.weights_of(pairs)
        return (inp, tar, weights) if self.weighted else (inp, tar)


def describe_dropped(pairs: EncodedPairs) -> str:
    """Describes how many pairs were dropped and why, such as "3 for an empty side"."""
    counts = [f"{count:,} for {reason}" for reason, count in pairs.dropped.items() if count]
    return ", ".join(counts) or "none"


def open_shards(folder: str) -> EncodedPairs | None:
    """Opens the shards in a folder of the cache.

    All files are read once, to check them; the ids are not kept in memory.

    Returns: an `EncodedPairs`, or None when a shard is missing or damaged.
    Raises: UserError when a file cannot be read.
    """
    try:
        with open(os.path.join(folder, MANIFEST), encoding="utf-8") as file:
            manifest = json.load(file)
        records = enumerate(manifest["shards"])
        shards = [_open_shard(folder, number, record) for number, record in records]
        return EncodedPairs(shards) if manifest["complete"] else None
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None  # also the folder of another worker
    except NPZ_DAMAGE as error:
        if not is_damage(error):
            raise UserError(f"{folder} cannot be read ({error}): try again") from None
        return None


def _open_shard(folder: str, number: int, record: dict[str, Any]) -> Shard:
    """Opens the shard of a record of the manifest, or raises one of `NPZ_DAMAGE`."""
    names = ("ids", "splits", "weights") if record.get("weighted") else ("ids", "splits")
    paths = {name: _path(folder, number, name) for name in names}
    arrays = {name: _open_array(path) for name, path in paths.items()}
    shard = Shard(**arrays, dropped=record["dropped"])
    if shard.checksum != record["checksum"] or len(shard.ids) != shard.splits[-1]:
        raise ValueError(f"shard {number} of {folder} is damaged")
    return shard


def _open_array(path: str) -> np.ndarray:
    try:
        return np.asarray(np.load(path, mmap_mode="r"))  # indexing a `memmap` is slower
    except OSError:  # some file systems have no memory-mapped files
        return np.load(path)


def _path(folder: str, number: int, name: str) -> str:
    return os.path.join(folder, f"{number:05d}.{name}.npy")


def _open_or_write(folder: str, encode: Callable[[], Iterable[Shard]]) -> EncodedPairs:
    """Opens the shards in a folder, after writing them where one is missing or damaged.

    One process at a time may do this.

    Args:
      folder: appears when all shards are written.
      encode: returns the shards, in their order.
    """
    pairs = open_shards(folder)
    if pairs is None:
        shutil.rmtree(folder, ignore_errors=True)
        with atomic_folder(os.path.dirname(folder)) as unfinished:
            records = []
            for number, shard in enumerate(encode()):
                for name, array in shard.arrays.items():
                    with atomic_write(_path(unfinished, number, name), "wb") as file:
                        header = np.lib.format.header_data_from_array_1_0(array)
                        np.lib.format.write_array_header_1_0(file, header)
                        file.write(array.data)  # `np.save` does not say why it fails
                record = {"dropped": shard.dropped, "checksum": shard.checksum}
                records.append(record if shard.weights is None else {**record, "weighted": True})
            # Earlier versions wrote the manifest of an encoding that was interrupted too.
            with atomic_write(os.path.join(unfinished, MANIFEST)) as file:
                json.dump({"complete": True, "shards": records}, file, indent=1)
            os.rename(unfinished, folder)
        if (pairs := open_shards(folder)) is None:
            raise UserError(
                f"{folder} is damaged just after it was written: check the disk and the memory, or "
                "give another --model_dir"
            )
    return pairs


def encode_shards(
    pairs: Iterable[WeightedPair],
    tokenizers: "tuple[Tokenizer, Tokenizer]",
    max_length: int,
    max_length_ratio: float,
    show: Callable[[int], object] = int,
) -> Iterator[Shard]:
    """Encodes a text, without the pairs that are not usable for training.

    Args:
      pairs: (source, target, weight). The weight None is 1.
      max_length: maximum length of a side that is kept, in sub-words, end token included.
      max_length_ratio: maximum ratio of the two lengths that is kept.
      show: is called with the number of pairs that are read so far.
    Yields: the shards, each of which is in memory.
    """
    source, target = tokenizers[0], tokenizers[1].for_targets()
    dtype = np.uint16 if max(each.vocab_size for each in tokenizers) <= 2**16 else np.int32
    iterator = iter(pairs)
    parts: list[Shard] = []
    read = 0
    while chunk := list(itertools.islice(iterator, CHUNK)):
        *sides, given = zip(*chunk)
        # A text of other white space than blanks is empty too.
        sources, targets = ([text if text.strip() else "" for text in side] for side in sides)
        ids = [source.encode_lists(sources), target.encode_lists(targets)]
        lengths = np.array([[len(row) for row in side] for side in ids], np.uint32).T  # (pairs, 2)
        keep, dropped = _usable(lengths, max_length, max_length_ratio)
        splits = np.zeros(2 * np.count_nonzero(keep) + 1, np.uint32)
        np.cumsum(lengths[keep].ravel(), out=splits[1:])
        kept = itertools.compress(zip(*ids), keep)
        flat = itertools.chain.from_iterable(itertools.chain.from_iterable(kept))
        flat_ids = np.fromiter(flat, dtype, int(splits[-1]))
        weights = np.array([1.0 if weight is None else weight for weight in given], np.float32)
        weights = weights[keep]
        parts.append(Shard(flat_ids, splits, dropped, None if np.all(weights == 1) else weights))
        read += len(chunk)
        show(read)
        if len(parts) == CHUNKS_OF_SHARD:
            yield Shard.join(parts)
            parts = []
    if parts:
        yield Shard.join(parts)


def _usable(
    lengths: np.ndarray, max_length: int, max_length_ratio: float
) -> tuple[np.ndarray, dict[str, int]]:
    """Finds the pairs to keep, by their lengths, uint32 `[pairs, 2]`; see `encode_shards`.

    Returns: bool `[pairs]`; the number of the other pairs for each first reason that applies.
    """
    longer, shorter = lengths.max(axis=1), lengths.min(axis=1)
    reasons = {
        "an empty side": shorter <= 1,  # only the end token
        f"a side of more than {max_length} sub-words": longer > max_length,
        f"one side more than {max_length_ratio:g} times the other": (
            longer > max_length_ratio * shorter
        ),
    }
    keep = np.ones(len(longer), bool)
    dropped = {}
    for reason, applies in reasons.items():
        dropped[reason] = int(np.sum(applies & keep))
        keep &= ~applies
    return keep, dropped


def _check_dropped(pairs: EncodedPairs, name: str, many: float) -> None:
    """Warns where more than a fraction `many` of the pairs of the text `name` were dropped.

    Raises: UserError when most of them were, or none is left.
    """
    all_pairs = len(pairs) + sum(pairs.dropped.values())
    fraction = 1 - len(pairs) / max(all_pairs, 1)
    if fraction <= many:
        return
    counts = list(pairs.dropped.values())
    advice = [text for text, count in zip(ADVICE, counts) if count] or [ADVICE[0]]
    message = (
        f"only {len(pairs):,} of {all_pairs:,} pairs are left in {name} (dropped: "
        f"{describe_dropped(pairs)}): {'; '.join(advice)}"
    )
    if fraction > MOST_DROPPED:
        raise UserError(message)
    logger.warning(message)


def cached_pairs(
    corpus: Corpus,
    split: str,
    tokenizers: "tuple[Tokenizer, Tokenizer]",
    data: DataConfig,
    cache: str,
) -> EncodedPairs:
    """Opens the shards of a split in the cache, after encoding it where they are not there.

    Args:
      tokenizers: of the source and of the target.
      cache: the folder of the cache, created where it does not exist.
    Raises: UserError when less than a tenth of the pairs is left.
    """

    def encode() -> Iterator[Shard]:
        lengths = data.max_length, data.max_length_ratio
        with Progress(f"encoding {split}", "pairs") as progress:
            yield from encode_shards(
                corpus.read_weighted(split), tokenizers, *lengths, progress.show
            )

    folder = shard_folder(corpus, split, tokenizers, data, cache)
    pairs = _open_or_write(folder, encode)
    many = 0 if split == "validation" else MANY_DROPPED  # its figures would be of another text
    _check_dropped(pairs, corpus.describe(split), many)
    return pairs


def shard_folder(
    corpus: Corpus,
    split: str,
    tokenizers: "tuple[Tokenizer, Tokenizer]",
    data: DataConfig,
    cache: str,
) -> str:
    """Returns the path of the shards of a split; arguments as for `cached_pairs`.

    It depends on all that the shards depend on.
    """
    name = digest(
        corpus.fingerprint(split),
        *(tokenizer.fingerprint for tokenizer in tokenizers),
        data.max_length,
        data.max_length_ratio,
        CHUNK * CHUNKS_OF_SHARD,
    )
    return os.path.join(cache, f"{split}-{name}")
