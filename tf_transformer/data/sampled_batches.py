"""Batches of sub-word regularisation: the pairs are encoded anew in each epoch.

While an epoch is trained on, the next one is encoded in the background. The lengths of the pairs
differ, so the epochs differ in the number of batches. The shapes of the batches are the same in all
epochs, because XLA compiles the update anew for each shape. They are planned from a sample of the
pairs.
"""

import bisect
import concurrent.futures
import dataclasses
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import tensorflow as tf

from tf_transformer.data.batching import (
    ROWS_MULTIPLE,
    Batches,
    Order,
    bucket_plan,
    draw,
    most_rows,
)
from tf_transformer.data.encoded_pairs import EncodedPairs
from tf_transformer.data.sampled_pairs import PairSampler
from tf_transformer.errors import UserError

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class _Epoch:
    """The pairs of an epoch with their ids, and its batches."""

    pairs: EncodedPairs
    order: Order


class SampledBatches(Batches):
    """The batches of a corpus whose pairs are encoded anew in each epoch.

    Args:
      pairs, batch_tokens, seed, repetitions, max_shapes: as for `Batches`; the ids are the usual
        ones.
      sampler: the `PairSampler` of these pairs.
      last_step: updates of the run. No epoch is encoded in advance that begins after them.
      broadcast: a function that returns the chief's value of its argument on all workers.

    Attributes:
      buckets, per_epoch, non_padding_fraction: as for `Batches`, but the numbers of batches, pairs
        and tokens are estimates.
      checksum: of the pairs with the usual ids.
    """

    def __init__(
        self,
        pairs: EncodedPairs,
        batch_tokens: int,
        seed: int,
        repetitions: Sequence[float] | None,
        max_shapes: int,
        sampler: PairSampler,
        last_step: int,
        broadcast: Callable[[int], int],
    ) -> None:
        super().__init__(pairs, batch_tokens, seed, repetitions, max_shapes)
        self._repetitions = repetitions
        self._sampler = sampler
        self._last_step = last_step
        self._broadcast: Callable[[int], int] | None = broadcast
        self._plan(batch_tokens, max_shapes)
        self._starts: list[int] = []  # the first update of each epoch up to the next one
        self._ids: int | None = None  # the checksum of this epoch's pairs
        self._epochs: dict[int, Future[_Epoch]] = {}
        self._executor = concurrent.futures.ThreadPoolExecutor(1, "encoding-of-epoch")
        self._stopped = threading.Event()

    def _plan(self, batch_tokens: int, max_shapes: int) -> None:
        """Plans the shapes from a sample of the pairs."""
        sample = self._sampler.sample()
        pairs = sum(bucket.pairs for bucket in self.buckets)  # of an epoch
        longer = sample.lengths.max(axis=1)
        counts = np.bincount(longer, minlength=self._sampler.longest + 1) * pairs / len(sample)
        counts[-1] = max(counts[-1], 1)  # the sample may lack the longest pairs
        plan = bucket_plan(np.ceil(counts).astype(np.int64), batch_tokens, max_shapes)
        all_rows = -(-pairs // ROWS_MULTIPLE) * ROWS_MULTIPLE
        rows = [min(most_rows(bucket.length, batch_tokens), all_rows) for bucket in plan]
        self.buckets = [
            dataclasses.replace(bucket, rows=n, batches=-(-bucket.pairs // n))
            for bucket, n in zip(plan, rows)
        ]
        self.per_epoch = sum(bucket.batches for bucket in self.buckets)
        padded = 2 * sum(b.batches * b.rows * b.length for b in self.buckets)
        self.non_padding_fraction = len(sample.ids) * pairs / len(sample) / padded

    def _prepare(self, epoch: int) -> _Epoch:
        """Encodes the pairs of an epoch, and divides them into batches."""
        pairs = self._sampler.epoch(epoch, self._stopped)
        random = np.random.default_rng([self._seed, epoch])
        drawn = random.permutation(self._draw_pairs(random))
        longer = np.concatenate([shard.lengths.max(axis=1) for shard in pairs.shards])
        lengths = [bucket.length for bucket in self.buckets]
        bucket_of_pair = np.searchsorted(lengths, longer[drawn]).astype(np.uint16)
        drawn = drawn[np.argsort(bucket_of_pair, kind="stable")]
        ends = np.cumsum(np.bincount(bucket_of_pair, minlength=len(lengths)))
        batches: Order = []
        first = 0
        # All batches are full: what remains of a bucket goes into a batch of the next one.
        *shorter, longest = self.buckets
        for bucket, end in zip(shorter, ends):
            while end - first >= bucket.rows:
                batches.append((drawn[first : first + bucket.rows], bucket))
                first += bucket.rows
        rest = drawn[first:]
        if len(rest):
            parts = np.array_split(rest, -(-len(rest) // longest.rows))
            batches += [(part, longest) for part in parts]
        return _Epoch(pairs, [batches[i] for i in random.permutation(len(batches))])

    def _draw_pairs(self, random: np.random.Generator) -> np.ndarray:
        """Returns the indices of the pairs of an epoch, uint32 `[pairs of an epoch]`."""
        if self._repetitions is None:
            return np.arange(len(self._pairs), dtype=np.uint32)
        ends = np.cumsum([len(shard) for shard in self._pairs.shards])
        drawn = []
        for shard, end, times in zip(self._pairs.shards, ends, self._repetitions):
            pairs = np.arange(end - len(shard), end, dtype=np.uint32)
            # Of a shard with pairs, at least one is drawn.
            number = max(round(times * len(shard)), min(1, len(shard)))
            drawn.append(draw(random, pairs, number))
        return np.concatenate(drawn)

    def _submit(self, epoch: int) -> "Future[_Epoch]":
        with self._lock:
            if epoch not in self._epochs:
                self._epochs[epoch] = self._executor.submit(self._prepare, epoch)
            return self._epochs[epoch]

    def order(self, epoch: int) -> Order:
        """Returns the batches of an epoch, as for `Batches`; encodes it where that is needed."""
        return self._submit(epoch).result().order

    def _read_batch(self, epoch: int, index: int) -> tuple[np.ndarray, ...]:
        """Returns the arrays of one batch, as for `Batches`."""
        prepared = self._submit(epoch).result()
        return self._arrays(prepared.pairs, *prepared.order[index])

    def sentences(self, epoch: int, index: int) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the pairs of one batch, as for `Batches`."""
        prepared = self._submit(epoch).result()
        indices, bucket = prepared.order[index]
        return self._ragged(prepared.pairs, indices, bucket.length)

    def epoch(self, epoch: int, skip: int = 0) -> tf.data.Dataset:
        """Returns the batches of one epoch, as for `Batches`.

        Raises: UserError when its ids are not those of the run.
        """
        future = self._submit(epoch)
        if not future.done():
            logger.info("waiting for the sub-words of epoch %d", epoch + 1)
        prepared = future.result()
        self._check(epoch, prepared.pairs.checksum)
        with self._lock:
            self._epochs = {n: self._epochs[n] for n in self._epochs if n in (epoch, epoch + 1)}
        self._sampler.remove_others((epoch, epoch + 1))
        if epoch < len(self._starts):
            next_start = self._starts[epoch] + len(prepared.order)
            self._starts[epoch + 1 :] = [next_start]
            self._ids = prepared.pairs.checksum
            if next_start < self._last_step:
                self._submit(epoch + 1)
        return self._dataset(epoch, skip, len(prepared.order))

    def _check(self, epoch: int, checksum: int) -> None:
        """Raises: UserError when the ids of an epoch are not those of the run, or of the chief."""
        version = f"version {np.__version__} of NumPy"
        started = epoch == len(self._starts) - 2
        if started and self._ids is not None and self._ids != checksum:
            raise UserError(
                f"with {version}, the sub-words of epoch {epoch + 1} are not those with which it "
                "was started: install the version that was used, or give another --model_dir"
            )
        if self._broadcast:  # once: the other epochs are then the same too
            if self._broadcast(checksum) != checksum:
                raise UserError(
                    f"{version} draws other sub-words here than the chief's version: install that"
                )
            self._broadcast = None

    def position(self, step: int) -> tuple[int, int]:
        """Returns the epoch of an update, counted from 0, and the index of its batch there.

        The epochs before it must have been read, by `epoch` or in the run that was resumed.
        """
        if not self._starts:
            self._starts.append(step)
        epoch = bisect.bisect_right(self._starts, step) - 1
        return epoch, step - self._starts[epoch]

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint must keep so that `position` is that of this run."""
        return {"epoch_starts": self._starts, "ids": self._ids}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues with the `state` of a checkpoint."""
        self._starts = list(state["epoch_starts"])
        self._ids = state["ids"]

    def close(self) -> None:
        """Ends work in the background. The batches cannot be read afterwards."""
        self._stopped.set()
        self._executor.shutdown(cancel_futures=True)
