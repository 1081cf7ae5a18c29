"""Batches of about 25,000 source and 25,000 target tokens (Sec. 5.1).

A bucket holds the sentence pairs of similar length. All batches of a bucket have the same shape,
`[rows, length]`. `bucket_plan` chooses the buckets that need the least padding for the corpus; it
also counts the partial batches at the end of an epoch. The order of an epoch is a pure function of
(seed, epoch), so an index of a batch is enough to resume at it.

The ids stay in their files. In memory are the pairs sorted by bucket and in the order of the epoch:
8 bytes a pair.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.data.encoding import EncodedPairs

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
    max_rows = max(1, batch_tokens // length)
    if max_rows >= ROWS_MULTIPLE:
        max_rows -= max_rows % ROWS_MULTIPLE
    batches = _ceil_divide(pairs, max_rows)
    rows = _ceil_divide(pairs, batches) if batches else 0
    if max_rows >= ROWS_MULTIPLE:
        rows = _ceil_divide(rows, ROWS_MULTIPLE) * ROWS_MULTIPLE
    return Bucket(above, length, rows, batches, pairs)


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


class Batches:
    """The batches of a corpus, in a different order in each epoch.

    Args:
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
      order: a function of an epoch, counted from 0, and the seed. It returns the (pair indices,
        `Bucket`) of each batch. Every pair is in exactly one batch, unless there are `repetitions`.
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
        repeated = np.ones(len(pairs.shards)) if repetitions is None else np.array(repetitions)
        longer = [shard.lengths.max(axis=1) for shard in pairs.shards]  # of the two sides
        sizes = 1 + max((int(each.max(initial=0)) for each in longer), default=0)
        counted = [np.bincount(each, minlength=sizes) for each in longer]
        # Rounded up, so that no length is left out.
        counts = np.ceil(sum(times * each for times, each in zip(repeated, counted)))
        plan = bucket_plan(counts.astype(np.int64), batch_tokens, max_shapes)
        ends = [bucket.length for bucket in plan]
        bucket_of_pair = [np.searchsorted(ends, each).astype(np.uint16) for each in longer]
        in_shards = np.array([np.bincount(each, minlength=len(ends)) for each in bucket_of_pair])
        # The pairs by bucket, and within a bucket by shard. A stable sort of 16-bit numbers is a
        # radix sort, in O(pairs).
        order = np.argsort(np.concatenate(bucket_of_pair), kind="stable")
        self._sorted = order.astype(np.uint32)
        self._groups = _groups(in_shards, repeated)
        self.buckets = [
            _bucket(bucket.above, bucket.length, drawn, batch_tokens)
            for bucket, drawn in zip(plan, self._groups[:, :, 2].sum(axis=1).tolist())
        ]
        self.per_epoch = sum(bucket.batches for bucket in self.buckets)
        tokens = sum(times * len(shard.ids) for times, shard in zip(repeated, pairs.shards))
        padded = 2 * sum(b.batches * b.rows * b.length for b in self.buckets)
        self.non_padding_fraction = tokens / padded
        # Of the last epoch that was read. The order of 40 million pairs takes 3 seconds.
        self.order = functools.lru_cache(1)(self._order)

    def _order(self, epoch: int) -> list[tuple[np.ndarray, Bucket]]:
        random = np.random.default_rng([self._seed, epoch])
        batches = []
        for bucket, groups in zip(self.buckets, self._groups.tolist()):
            drawn = [_draw(random, self._sorted[a:b], number) for a, b, number in groups]
            indices = np.concatenate(drawn)
            random.shuffle(indices)
            for first in range(0, len(indices), bucket.rows):
                batches.append((indices[first : first + bucket.rows], bucket))
        return [batches[i] for i in random.permutation(len(batches))]

    def _read_batch(self, epoch: int, index: int) -> tuple[np.ndarray, ...]:
        indices, bucket = self.order(int(epoch))[index]
        return self._pairs.batch(indices, bucket.rows, bucket.length)

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
        """The epoch of an update, counted from 0, and the index of its batch there."""
        return divmod(step, self.per_epoch)


def _draw(random: np.random.Generator, pairs: np.ndarray, number: int) -> np.ndarray:
    """Draws pairs: all of them as often as `number` allows, and the rest at random.

    Args:
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
