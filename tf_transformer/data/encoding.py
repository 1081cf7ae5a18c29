"""Encodes sentence pairs as ids, in memory or in a cache of memory-mapped files (Sec. 5.1).

The cache of a split is a folder of shards, `00000.ids.npy` and `00000.splits.npy` and so on, whose
arrays are those of a `Shard` (`00000.weights.npy` only where pairs have weights), and
`manifest.json`. The manifest says how many pairs of the text
each shard has read and dropped, has its checksum, and says whether the end of the text is reached.
"""

import collections
import contextlib
import functools
import glob
import itertools
import json
import logging
import os
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tf_transformer.atomic_io import atomic_write, remove_temporary_files, try_lock
from tf_transformer.config import DataConfig
from tf_transformer.data.corpus import Corpus, WeightedPair, digest
from tf_transformer.data.encoded_pairs import EncodedPairs, Shard, describe_dropped
from tf_transformer.data.encoder_processes import encode_chunks
from tf_transformer.data.pair_encoder import PairEncoder
from tf_transformer.data.progress import Progress
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.errors import NPZ_DAMAGE, UserError

logger = logging.getLogger(__name__)

CHUNK = 8192  # pairs tokenized at a time
CHUNKS_OF_SHARD = 64
MANIFEST = "manifest.json"
READ_BYTES = 1 << 20  # read from a file at a time
POLL_SECONDS = 0.5  # while another process encodes the same text


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
    encoder = _encoder(tokenizers, max_length, max_length_ratio)
    weighted = ((source, target, None) for source, target in pairs)
    parts = [encoder.encode(chunk) for chunk in _chunks(weighted)]
    return _not_empty(EncodedPairs([Shard.join(parts)] if parts else []), "the text")


def _encoder(
    tokenizers: tuple[Tokenizer, Tokenizer], max_length: int, max_length_ratio: float
) -> PairEncoder:
    source, target = tokenizers
    return PairEncoder((source.model, target.model), max_length, max_length_ratio)


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
    with _locked(folder):
        pairs = open_shards(folder)
        if pairs is None:
            encoder = _encoder(tokenizers, data.max_length, data.max_length_ratio)
            pairs = _ShardWriter(folder, split).encode(corpus, encoder)
            _remove_incomplete(cache, split)
    return _not_empty(pairs, corpus.describe(split))


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


def open_shards(folder: str) -> EncodedPairs | None:
    """Opens the shards in a folder of the cache.

    All files are read once, to check them; the ids are not kept in memory.

    Returns: an `EncodedPairs`, or None when a shard is missing or damaged.
    """
    manifest = _read_manifest(folder)
    if not manifest["complete"]:
        return None
    shards = [_open_shard(folder, i, record) for i, record in enumerate(manifest["shards"])]
    opened = [shard for shard in shards if shard is not None]
    return EncodedPairs(opened) if len(opened) == len(shards) else None


def _read_manifest(folder: str) -> dict[str, Any]:
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


def _open_shard(folder: str, number: int, record: dict[str, Any]) -> Shard | None:
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


class _ShardWriter:
    """Encodes the shards that a folder of the cache lacks.

    Args:
      folder: of the shards.
      split: of the corpus.
    """

    def __init__(self, folder: str, split: str) -> None:
        self._folder = folder
        self._split = split
        self._manifest = _read_manifest(folder)
        records = self._manifest["shards"]
        # Shards are encoded in their order, so only an existing one can be None.
        self._shards = [_open_shard(folder, i, record) for i, record in enumerate(records)]
        # The shard and the size of each chunk that is being encoded.
        self._pending: collections.deque[tuple[int, int]] = collections.deque()

    def encode(self, corpus: Corpus, encoder: PairEncoder) -> EncodedPairs:
        """Encodes and writes the shards that are missing or damaged.

        Returns: an `EncodedPairs` of all shards.
        """
        records = self._manifest["shards"]
        done = sum(r["read"] for r, shard in zip(records, self._shards) if shard is not None)
        if done:
            logger.info("resuming the encoding of %s after %s pairs", self._split, f"{done:,}")
        parts: list[Shard] = []  # of the shard that is not complete
        read = number = 0
        encoded = contextlib.closing(encode_chunks(encoder, self._missing_chunks(corpus)))
        with Progress(f"encoding {self._split}", "pairs") as progress, encoded as encoded_parts:
            for part in encoded_parts:
                number, size = self._pending.popleft()
                parts.append(part)
                read += size
                done += size
                progress.show(done)
                if len(parts) == CHUNKS_OF_SHARD:
                    self._write(number, parts, read)
                    parts, read = [], 0
        if parts:
            self._write(number, parts, read)
        self._manifest["complete"] = True
        self._write_manifest()
        return EncodedPairs([shard for shard in self._shards if shard is not None])

    def _missing_chunks(self, corpus: Corpus) -> Iterator[list[WeightedPair]]:
        """Yields the chunks of the shards to encode, and notes them in `_pending`."""
        pairs = corpus.read_weighted(self._split)
        for number in itertools.count():
            of_shard = itertools.islice(pairs, CHUNK * CHUNKS_OF_SHARD)
            if number < len(self._shards) and self._shards[number] is not None:
                collections.deque(of_shard, maxlen=0)  # skips its text
                continue
            empty = True
            for chunk in _chunks(of_shard):
                empty = False
                self._pending.append((number, len(chunk)))
                yield chunk
            if empty:
                return

    def _write(self, number: int, parts: list[Shard], read: int) -> None:
        """Writes shard `number`, which has `read` pairs of the text, and its record."""
        record = write_shard(self._folder, number, Shard.join(parts), read)
        self._manifest["shards"][number : number + 1] = [record]
        self._write_manifest()
        shard = _open_shard(self._folder, number, record)
        if shard is None:
            raise OSError(f"shard {number} of {self._folder} cannot be read after it was written")
        self._shards[number : number + 1] = [shard]

    def _write_manifest(self) -> None:
        write_manifest(self._folder, self._manifest)


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Locks a folder of the cache; waits while another process has the lock.

    On a file system without locks, two processes may encode the same text. They write the same
    files, each of them atomically.
    """
    while (descriptor := _open_locked(folder)) is None:
        logger.debug("another process has removed %s", folder)
    try:
        yield
    finally:
        os.close(descriptor)


def _open_locked(folder: str) -> int | None:
    """Opens and locks a folder, which is created where it does not exist.

    Returns: its file descriptor; None where `_remove_incomplete` of another process has removed it
      before the lock was there.
    """
    os.makedirs(folder, exist_ok=True)
    with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as stack:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, descriptor)
        locked = try_lock(descriptor)
        if locked is False:
            logger.info("waiting for another process that encodes %s", folder)
        while locked is False:
            time.sleep(POLL_SECONDS)
            locked = try_lock(descriptor)
        if os.path.samestat(os.stat(folder), os.fstat(descriptor)):
            if locked:
                remove_temporary_files(folder)  # of a process that was killed
            stack.pop_all()
            return descriptor
    return None


def _remove_incomplete(cache: str, split: str) -> None:
    """Removes what interrupted encodings of the split with other settings have left."""
    pattern = os.path.join(glob.escape(cache), f"{glob.escape(split)}-*", MANIFEST)
    for path in glob.glob(pattern):
        folder = os.path.dirname(path)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # another process has just removed it
            continue
        if try_lock(descriptor) and not _read_manifest(folder)["complete"]:
            shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)
