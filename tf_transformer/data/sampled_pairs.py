"""The pairs of an epoch of sub-word regularisation, in memory-mapped files.

All pairs are encoded anew for each epoch, from their usual ids: pair i of an epoch is pair i of the
corpus, and no text is read again.
"""

import contextlib
import glob
import itertools
import os
import shutil
import threading
from collections.abc import Iterable, Iterator

import numpy as np

from tf_transformer.atomic_io import atomic_folder
from tf_transformer.config import SAMPLING, DataConfig
from tf_transformer.data.corpus import digest
from tf_transformer.data.encoded_pairs import EncodedPairs, Shard
from tf_transformer.data.encoder_processes import encode_in_processes
from tf_transformer.data.encoding import CHUNK, open_shards, write_manifest, write_shard
from tf_transformer.data.sampled_encoder import SampledChunk, SampledEncoder
from tf_transformer.data.segmentation import Vocabulary
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.errors import UserError
from tf_transformer.host import number_of_cores


def sampling_alpha(data: DataConfig, tokenizers: tuple[Tokenizer, Tokenizer]) -> float:
    """Returns the `alpha` of `SampledEncoder` for the settings of a run; 0 for none.

    Raises: UserError when a vocabulary is of another kind, as one of an imported model can be.
    """
    name = SAMPLING[data.subword_model]
    alpha = float(getattr(data, name))
    if not alpha:
        return 0.0
    kinds = [Vocabulary(tokenizer.model).kind for tokenizer in tokenizers]
    if kinds != [data.subword_model] * 2:
        raise UserError(
            f"{name} is for {data.subword_model} vocabularies, and that of the source is "
            f"{kinds[0]}, that of the target {kinds[1]}: leave it out"
        )
    return alpha


class PairSampler:
    """Encodes the pairs of an epoch, each with a segmentation that is drawn at random.

    Args:
      pairs: the `EncodedPairs` of the corpus, with the usual ids.
      tokenizers: of the source and of the target.
      alpha: of `SampledEncoder`.
      seed: of the run. The ids are a function of it, the epoch and the other arguments.
      cache: the folder in which each epoch has a folder of shards.
    """

    def __init__(
        self,
        pairs: EncodedPairs,
        tokenizers: tuple[Tokenizer, Tokenizer],
        alpha: float,
        seed: int,
        cache: str,
    ) -> None:
        self._shards = [shard for shard in pairs.shards if len(shard)]
        self._seed = seed
        self.longest = max(int(shard.lengths.max()) for shard in self._shards)
        source, target = tokenizers
        self._encoder = SampledEncoder((source.model, target.model), alpha, self.longest)
        fingerprints = (source.fingerprint, target.fingerprint)
        key = digest(pairs.checksum, *fingerprints, alpha, self.longest, seed, CHUNK)
        self._prefix = os.path.join(cache, "epoch-")
        self._stem = f"{self._prefix}{key}-"

    def sample(self) -> Shard:
        """Encodes about `CHUNK` pairs, chosen at random, or all pairs of a small corpus."""
        random = np.random.default_rng(self._seed)
        fraction = CHUNK / sum(map(len, self._shards))
        parts = [
            _slice(shard, pair, pair + 1)
            for shard in self._shards
            for pair in np.flatnonzero(random.random(len(shard)) < fraction).tolist()
        ]
        return self._encoder.encode(SampledChunk((self._seed, 0, 0, 0), Shard.join(parts)))

    def epoch(self, epoch: int, stopped: threading.Event) -> EncodedPairs:
        """Opens the shards of an epoch, after encoding them where they are not there.

        Args:
          epoch: its number, from 0.
          stopped: set it to end the encoding.
        Returns: an `EncodedPairs` of memory-mapped shards, with the pairs of the corpus in their
          order.
        Raises: InterruptedError when stopped; UserError when the system kills a process.
        """
        folder = f"{self._stem}{epoch}"
        pairs = open_shards(folder)
        if pairs is None:
            self._encode(epoch, folder, stopped)
            pairs = open_shards(folder)
        if pairs is None:
            raise OSError(f"{folder} cannot be read after it was written")
        return pairs

    def _encode(self, epoch: int, folder: str, stopped: threading.Event) -> None:
        """Writes the shards of an epoch."""
        chunks = sum(-(-len(shard) // CHUNK) for shard in self._shards)
        # The other cores compute the updates of the epoch before.
        processes = max(1, min(number_of_cores() // 2, chunks))
        encoded = encode_in_processes(self._encoder, self._chunks(epoch, stopped), processes)
        with atomic_folder(os.path.dirname(folder)) as unfinished, contextlib.closing(encoded):
            records = []
            for number, shard in enumerate(self._shards):
                parts = list(itertools.islice(encoded, -(-len(shard) // CHUNK)))
                records.append(write_shard(unfinished, number, Shard.join(parts), len(shard)))
            write_manifest(unfinished, {"complete": True, "shards": records})
            shutil.rmtree(folder, ignore_errors=True)  # damaged ones
            os.rename(unfinished, folder)

    def _chunks(self, epoch: int, stopped: threading.Event) -> Iterator[SampledChunk]:
        for number, shard in enumerate(self._shards):
            for first in range(0, len(shard), CHUNK):
                if stopped.is_set():
                    raise InterruptedError
                key = (self._seed, epoch, number, first // CHUNK)
                yield SampledChunk(key, _slice(shard, first, first + CHUNK))

    def remove_others(self, epochs: Iterable[int]) -> None:
        """Removes the shards of all epochs but these, and those of other settings."""
        kept = {f"{self._stem}{epoch}" for epoch in epochs}
        for folder in set(glob.glob(f"{glob.escape(self._prefix)}*")) - kept:
            shutil.rmtree(folder, ignore_errors=True)


def _slice(shard: Shard, first: int, end: int) -> Shard:
    """The pairs `first` to `end` of a shard, without that at `end`."""
    splits = shard.splits[2 * first : 2 * end + 1]
    ids = np.array(shard.ids[splits[0] : splits[-1]])
    weights = None if shard.weights is None else np.array(shard.weights[first:end])
    return Shard(ids, splits - splits[0], {}, weights)
