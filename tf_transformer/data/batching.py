"""Batches of about 25,000 source and 25,000 target tokens (Sec. 5.1).

A bucket holds the sentence pairs of similar length. All batches of a bucket have the same shape,
`[rows, length]`. `bucket_plan` chooses the buckets that need the least padding for the corpus; it
also counts the partial batches at the end of an epoch. The order of an epoch is a pure function of
(seed, epoch), so an index of a batch is enough to resume at it.

The ids stay in their files. In memory are the pairs sorted by bucket and in the order of the epoch:
8 bytes a pair.
"""

import bisect
import concurrent.futures
import dataclasses
import functools
import logging
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_transformer.data.encoding import EncodedPairs
from tf_transformer.data.subword_sampling import PairSampler

logger = logging.getLogger(__name__)

ROWS_MULTIPLE = 8  # 2, 4 or 8 replicas then get shards of equal size
SHAPE_COST = 0.001  # fraction of all tokens that a bucket must save; it limits the number of shapes
SHORTFALL_COST = 0.1  # cost of a token by which a batch is smaller than the token budget
# XLA pads the products of other lengths. On a GPU, an update of base with 1,000 x 25 tokens takes
# 1.1 times as long as one with 784 x 32.
LENGTH_MULTIPLE = 8
PADDED_PRODUCTS_COST = 1.1

IDS = tf.TensorSpec([None, None], tf.int32)  # of a batch
WEIGHTS = tf.TensorSpec([None], tf.float32)  # of its pairs


@dataclasses.dataclass(frozen=True)
class Bucket:
    """The pairs whose longer side has more than `above` and at most `length` sub-words."""

    above: int
    length: int
    rows: int  # sentence pairs in a batch
    batches: int  # batches in an epoch
    pairs: int  # sentence pairs in an epoch


def _bucket(above: int, length: int, pairs: int, batch_tokens: int) -> Bucket:
    """Computes the number and the size of the batches of a `Bucket`."""
    max_rows = _most_rows(length, batch_tokens)
    batches = _ceil_divide(pairs, max_rows)
    rows = _ceil_divide(pairs, batches) if batches else 0
    if max_rows >= ROWS_MULTIPLE:
        rows = _ceil_divide(rows, ROWS_MULTIPLE) * ROWS_MULTIPLE
    return Bucket(above, length, rows, batches, pairs)


def _most_rows(length: int, batch_tokens: int) -> int:
    """Returns how many pairs of a length a batch can have."""
    rows = max(1, batch_tokens // length)
    return rows - rows % ROWS_MULTIPLE if rows >= ROWS_MULTIPLE else rows


def _ceil_divide(a: int, b: int) -> int:
    return -(-a // b)


def bucket_plan(counts: np.ndarray, batch_tokens: int, max_shapes: int = 0) -> list[Bucket]:
    """Divides the range of lengths into the buckets with the lowest cost.

    The cost counts padding, partial batches and the number of buckets. Dynamic programming over
    the bucket boundaries finds the optimum.

    Args:
      counts: int `[longest + 1]`, the number of pairs whose longer side has 0, 1, ... sub-words.
      batch_tokens: maximum number of tokens on one side of a batch, padding included.
      max_shapes: most buckets; 0 for no limit. The cost of a bucket rises until there are no more.
        The limit is for XLA, so with it the cost of a token depends on the length of its bucket.
    Returns: a list of `Bucket`, shortest first, that covers every length.
    """
    shape_cost = SHAPE_COST
    other_lengths = PADDED_PRODUCTS_COST if max_shapes else 1.0
    plan = _cheapest_plan(counts, batch_tokens, shape_cost, other_lengths)
    while max_shapes and len(plan) > max_shapes:
        shape_cost *= 1.5
        plan = _cheapest_plan(counts, batch_tokens, shape_cost, other_lengths)
    return plan


def _cheapest_plan(
    counts: np.ndarray, batch_tokens: int, shape_cost: float, other_lengths: float
) -> list[Bucket]:
    """The plan for the cost of a bucket, a fraction of all tokens; as for `bucket_plan`.

    `other_lengths` is the cost of a token in a bucket whose length is no `LENGTH_MULTIPLE`.
    """
    pairs_up_to = np.cumsum(counts)  # pairs_up_to[n]: pairs with at most n sub-words
    tokens = int(np.sum(np.arange(len(counts)) * counts))
    ends = np.flatnonzero(counts).tolist()  # a bucket ends at a length that occurs
    costs = {0: 0.0}  # boundary -> cost of the buckets below it
    last = {}  # boundary -> the last of these buckets
    for end in ends:
        options = []
        for above, cost in costs.items():
            pairs = int(pairs_up_to[end] - pairs_up_to[above])
            bucket = _bucket(above, end, pairs, batch_tokens)
            padded = bucket.batches * bucket.rows * bucket.length
            shortfall = max(0, bucket.batches * batch_tokens - padded)
            token_cost = other_lengths if end % LENGTH_MULTIPLE else 1.0
            total = cost + token_cost * padded + SHORTFALL_COST * shortfall + shape_cost * tokens
            options.append((total, bucket))
        costs[end], last[end] = min(options, key=lambda option: option[0])
    plan = []
    end = ends[-1]
    while end:
        plan.append(last[end])
        end = last[end].above
    return plan[::-1]


# What an epoch yields: `inp`, `tar`, and the weights where pairs have some.
Batch = tuple[tf.Tensor, ...]
Order = list[tuple[np.ndarray, Bucket]]  # the indices of the pairs of each batch


class Batches:
    """The batches of a corpus, in a different order in each epoch.

    Args:
      pairs: an `EncodedPairs`.
      batch_tokens: maximum number of source tokens, and of target tokens, in one batch, padding
        included.
      seed: of the order.
      repetitions: how often an epoch has each pair of each shard, on average; None for once. In
        each epoch as many pairs of a shard and a bucket are drawn at random as are missing from
        complete repetitions.
      max_shapes: most shapes of batches; 0 for no limit.

    Attributes:
      buckets: the list of `Bucket`.
      per_epoch: batches in an epoch.
      checksum: of the pairs.
      weighted: whether pairs have weights in the loss.
      non_padding_fraction: the fraction of the tokens of an epoch that are not padding.
    """

    def __init__(
        self,
        pairs: EncodedPairs,
        batch_tokens: int,
        seed: int,
        repetitions: Sequence[float] | None = None,
        max_shapes: int = 0,
    ) -> None:
        self._pairs = pairs
        self._seed = seed
        self.checksum = pairs.checksum
        self.weighted = pairs.weighted
        self._repeated = (
            np.ones(len(pairs.shards)) if repetitions is None else np.array(repetitions)
        )
        longer = [shard.lengths.max(axis=1) for shard in pairs.shards]  # of the two sides
        sizes = 1 + max((int(each.max(initial=0)) for each in longer), default=0)
        counted = [np.bincount(each, minlength=sizes) for each in longer]
        # Rounded up, so that no length is left out.
        counts = np.ceil(sum(times * each for times, each in zip(self._repeated, counted)))
        plan = bucket_plan(counts.astype(np.int64), batch_tokens, max_shapes)
        ends = [bucket.length for bucket in plan]
        bucket_of_pair = [np.searchsorted(ends, each).astype(np.uint16) for each in longer]
        in_shards = np.array([np.bincount(each, minlength=len(ends)) for each in bucket_of_pair])
        # The pairs by bucket, and within a bucket by shard. A stable sort of 16-bit numbers is a
        # radix sort, in O(pairs).
        order = np.argsort(np.concatenate(bucket_of_pair), kind="stable")
        self._sorted = order.astype(np.uint32)
        self._groups = _groups(in_shards, self._repeated)
        buckets = [
            _bucket(bucket.above, bucket.length, drawn, batch_tokens)
            for bucket, drawn in zip(plan, self._groups[:, :, 2].sum(axis=1).tolist())
        ]
        tokens = sum(times * len(shard.ids) for times, shard in zip(self._repeated, pairs.shards))
        self._set_buckets(buckets, tokens)
        # Of the last epoch that was read. The order of 40 million pairs takes 3 seconds.
        self._epoch = functools.lru_cache(1)(self._prepare)

    def _set_buckets(self, buckets: list[Bucket], tokens: float) -> None:
        """Sets the buckets of all epochs, and what follows from the tokens that are no padding."""
        self.buckets = buckets
        self.per_epoch = sum(bucket.batches for bucket in buckets)
        padded = 2 * sum(b.batches * b.rows * b.length for b in buckets)
        self.non_padding_fraction = tokens / padded

    def _prepare(self, epoch: int) -> tuple[EncodedPairs, Order]:
        """Computes the batches of an epoch. Returns: the pairs with their ids, and the order."""
        random = np.random.default_rng([self._seed, epoch])
        batches = []
        for bucket, groups in zip(self.buckets, self._groups.tolist()):
            drawn = [_draw(random, self._sorted[a:b], number) for a, b, number in groups]
            indices = np.concatenate(drawn)
            random.shuffle(indices)
            for first in range(0, len(indices), bucket.rows):
                batches.append((indices[first : first + bucket.rows], bucket))
        return self._pairs, [batches[i] for i in random.permutation(len(batches))]

    def order(self, epoch: int) -> Order:
        """Returns the batches of an epoch, in an order that depends on the seed and the epoch.

        Args:
          epoch: its number, from 0.
        Returns: a list of (pair indices, `Bucket`), one for each batch. Every pair is in exactly
          one batch, unless there are `repetitions`.
        """
        return self._epoch(epoch)[1]

    def _read_batch(self, epoch: int, index: int) -> tuple[np.ndarray, ...]:
        """Returns `inp`, `tar` and, where pairs have some, the weights of one batch."""
        pairs, order = self._epoch(int(epoch))
        indices, bucket = order[index]
        return pairs.batch(indices, bucket.rows, bucket.length)

    def epoch(self, epoch: int, skip: int = 0) -> tf.data.Dataset:
        """Returns the batches of one epoch.

        Args:
          epoch: its number, from 0.
          skip: batches to leave out at the start.
        Returns: a `tf.data.Dataset` of int32 pairs `(inp, tar)`. A row of `inp [rows, length]` ends
          with the end token. A row of `tar [rows, length + 1]` also begins with the start token.
          Unused rows contain only padding. Where the batches are `weighted`, a third tensor has the
          weights of the pairs, float32 `[rows]`.
        """
        specs = [IDS, IDS, WEIGHTS] if self.weighted else [IDS, IDS]
        types = [spec.dtype for spec in specs]

        def make_batch(index: tf.Tensor) -> Batch:
            # TensorFlow never forgets this function, so it must not hold the order of an epoch.
            arrays = tf.numpy_function(self._read_batch, [epoch, index], types)
            return tuple(tf.ensure_shape(x, spec.shape) for x, spec in zip(arrays, specs))

        options = tf.data.Options()
        # The pipeline has nothing to tune, and the autotune thread can delay the end of an epoch by
        # up to a minute.
        options.autotune.enabled = False
        dataset = tf.data.Dataset.range(skip, len(self.order(epoch))).with_options(options)
        return dataset.map(make_batch, num_parallel_calls=2, deterministic=True).prefetch(8)

    def position(self, step: int) -> tuple[int, int]:
        """Returns the epoch of an update, counted from 0, and the index of its batch there."""
        return divmod(step, self.per_epoch)

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint must keep so that `position` is that of this run."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues with the `state` of a checkpoint."""

    def close(self) -> None:
        """Ends work in the background. The batches cannot be read afterwards."""


class SampledBatches(Batches):
    """The batches of sub-word regularisation: the pairs are encoded anew in each epoch.

    While an epoch is trained on, the next one is encoded in the background. The lengths of the
    pairs differ, so the epochs differ in the number of batches. The shapes of the batches are the
    same in all epochs, because XLA compiles the update anew for each shape. They are planned from a
    sample of the pairs.

    Args:
      pairs, batch_tokens, seed, repetitions, max_shapes: as for `Batches`; the ids are the usual
        ones.
      sampler: the `PairSampler` of these pairs.
      last_step: updates of the run. No epoch is encoded in advance that begins after them.

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
    ) -> None:
        super().__init__(pairs, batch_tokens, seed, repetitions, max_shapes)
        self._sampler = sampler
        self._last_step = last_step
        self._starts: list[int] = []  # the first update of each epoch up to the next one
        self._stopped = threading.Event()
        self._executor = concurrent.futures.ThreadPoolExecutor(1, "next-epoch")
        self._next: dict[int, concurrent.futures.Future[EncodedPairs]] = {}  # by its number
        sample = sampler.sample()
        number = sum(bucket.pairs for bucket in self.buckets)  # of pairs in an epoch
        longer = sample.lengths.max(axis=1)
        counts = np.bincount(longer, minlength=sampler.longest + 1) * number / len(sample)
        counts[-1] = max(counts[-1], 1)  # the sample may lack the longest pairs
        plan = bucket_plan(np.ceil(counts).astype(np.int64), batch_tokens, max_shapes)
        all_rows = _ceil_divide(number, ROWS_MULTIPLE) * ROWS_MULTIPLE
        rows = [min(_most_rows(bucket.length, batch_tokens), all_rows) for bucket in plan]
        buckets = [
            dataclasses.replace(bucket, rows=n, batches=_ceil_divide(bucket.pairs, n))
            for bucket, n in zip(plan, rows)
        ]
        self._set_buckets(buckets, len(sample.ids) * number / len(sample))

    def _prepare(self, epoch: int) -> tuple[EncodedPairs, Order]:
        """Encodes the pairs of an epoch, and divides them into batches."""
        future = self._next.pop(epoch, None)
        if not (future and future.done()):
            logger.info("waiting for the sub-words of epoch %d", epoch + 1)
        pairs = future.result() if future else self._sampler.epoch(epoch, self._stopped)
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
            parts = np.array_split(rest, _ceil_divide(len(rest), longest.rows))
            batches += [(part, longest) for part in parts]
        return pairs, [batches[i] for i in random.permutation(len(batches))]

    def _draw_pairs(self, random: np.random.Generator) -> np.ndarray:
        """Returns the indices of the pairs of an epoch, uint32 `[pairs of an epoch]`."""
        drawn = []
        end = 0
        for shard, times in zip(self._pairs.shards, self._repeated):
            pairs = np.arange(end, end + len(shard), dtype=np.uint32)
            end += len(shard)
            # Of a shard with pairs, at least one is drawn.
            drawn.append(_draw(random, pairs, max(round(times * len(pairs)), min(1, len(pairs)))))
        return np.concatenate(drawn)

    def epoch(self, epoch: int, skip: int = 0) -> tf.data.Dataset:
        """Returns the batches of one epoch, as for `Batches`."""
        dataset = super().epoch(epoch, skip)
        if epoch < len(self._starts):
            next_start = self._starts[epoch] + len(self.order(epoch))
            self._starts[epoch + 1 :] = [next_start]
            if next_start < self._last_step:
                arguments = epoch + 1, self._stopped
                self._next = {epoch + 1: self._executor.submit(self._sampler.epoch, *arguments)}
        return dataset

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
        return {"epoch_starts": self._starts}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues with the `state` of a checkpoint."""
        self._starts = list(state["epoch_starts"])

    def close(self) -> None:
        """Ends work in the background. The batches cannot be read afterwards."""
        self._stopped.set()
        self._executor.shutdown(cancel_futures=True)


def _draw(random: np.random.Generator, pairs: np.ndarray, number: int) -> np.ndarray:
    """Draws pairs: all of them as often as `number` allows, and the rest at random.

    Args:
      random: the random numbers.
      pairs: the indices of the pairs.
      number: how many to draw.
    """
    whole, rest = divmod(number, max(1, len(pairs)))
    drawn = np.tile(pairs, whole)
    if not rest:
        return drawn
    return np.concatenate([drawn, random.choice(pairs, rest, replace=False, shuffle=False)])


def _groups(in_shards: np.ndarray, repeated: np.ndarray) -> np.ndarray:
    """Computes how many pairs of each bucket and shard an epoch has: the same in each epoch.

    The numbers of a shard are rounded so that their sum has the right value; but where a shard has
    a pair, at least one is drawn.

    Args:
      in_shards: pairs of each bucket in each shard, int `[shards, buckets]`.
      repeated: how often an epoch has each pair of each shard, `[shards]`.
    Returns: the start and the end of their range in the sorted pairs, and how many an epoch has,
      `[buckets, shards, 3]`.
    """
    up_to_bucket = np.rint(repeated[:, None] * np.cumsum(in_shards, axis=1)).astype(np.int64)
    drawn = np.diff(up_to_bucket, axis=1, prepend=0)  # (shards, buckets)
    drawn = np.maximum(drawn, in_shards > 0).T  # (buckets, shards)
    ends = np.cumsum(in_shards.T).reshape(drawn.shape)
    return np.stack([ends - in_shards.T, ends, drawn], axis=-1)  # (buckets, shards, 3)
