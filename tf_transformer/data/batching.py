"""Batches of about 25,000 source and 25,000 target tokens (Sec. 5.1).

A bucket holds the sentence pairs of similar length. All batches of a bucket have the same shape,
`[rows, length]`. `bucket_plan` chooses the buckets that need the least padding for the corpus; it
also counts the partial batches at the end of an epoch. The order of an epoch is a pure function of
(seed, epoch), so an index of a batch is enough to resume at it.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from tf_transformer.data.encoding import EncodedPairs, Sequences
from tf_transformer.special_tokens import PAD, START

ROWS_MULTIPLE = 8  # 2, 4 or 8 replicas then get shards of equal size
SHAPE_COST = 0.001  # fraction of all tokens that a bucket must save; it limits the number of shapes
SHORTFALL_COST = 0.1  # cost of a token by which a batch is smaller than the token budget


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


def bucket_plan(lengths: np.ndarray, batch_tokens: int) -> list[Bucket]:
    """Divides the range of lengths into the buckets with the lowest cost.

    The cost counts padding, partial batches and the number of buckets. Dynamic programming over
    the bucket boundaries finds the optimum.

    Args:
      lengths: int `[pairs]`, sub-words of the longer side of each pair.
      batch_tokens: maximum number of tokens on one side of a batch, padding included.
    Returns: a list of `Bucket`, shortest first, that covers every length.
    """
    counts = np.bincount(lengths)
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
            total = cost + padded + SHORTFALL_COST * shortfall + SHAPE_COST * tokens
            options.append((total, bucket))
        costs[end], last[end] = min(options, key=lambda option: option[0])
    plan = []
    end = ends[-1]
    while end:
        plan.append(last[end])
        end = last[end].above
    return plan[::-1]


class Batches:
    """The batches of a corpus, in a different order in each epoch.

    Args:
      pairs: an `EncodedPairs`.
      batch_tokens: maximum number of source tokens, and of target tokens, in one batch, padding
        included.
      seed: of the order.

    Attributes:
      buckets: the list of `Bucket`.
      per_epoch: batches in an epoch.
      checksum: of the pairs.
      non_padding_fraction: the fraction of the tokens of an epoch that are not padding.
    """

    def __init__(self, pairs: EncodedPairs, batch_tokens: int, seed: int) -> None:
        self._pairs = pairs
        self._seed = seed
        lengths = np.maximum(pairs.source.lengths, pairs.target.lengths)
        self.buckets = bucket_plan(lengths, batch_tokens)
        self._bucket_of_pair = np.searchsorted([bucket.length for bucket in self.buckets], lengths)
        self.per_epoch = sum(bucket.batches for bucket in self.buckets)
        self.checksum = pairs.checksum
        tokens = int(pairs.source.lengths.sum() + pairs.target.lengths.sum())
        padded = 2 * sum(b.batches * b.rows * b.length for b in self.buckets)
        self.non_padding_fraction = tokens / padded
        with tf.device("CPU:0"):  # the input pipeline reads them, not the model
            self._source = _ragged(pairs.source)
            self._target = _ragged(pairs.target)

    def order(self, epoch: int) -> list[tuple[np.ndarray, Bucket]]:
        """Computes the batches of an epoch, in an order that depends on the seed and the epoch.

        Args:
          epoch: its number, from 0.
        Returns: a list of (pair indices, `Bucket`), one for each batch. Every pair is in exactly
          one batch.
        """
        random = np.random.default_rng([self._seed, epoch])
        shuffled = random.permutation(len(self._pairs))
        batches = []
        for number, bucket in enumerate(self.buckets):
            indices = shuffled[self._bucket_of_pair[shuffled] == number]
            for first in range(0, len(indices), bucket.rows):
                batches.append((indices[first : first + bucket.rows], bucket))
        return [batches[i] for i in random.permutation(len(batches))]

    def sentences(self, epoch: int, index: int) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the pairs of one batch, without padding.

        Args:
          epoch: number of the epoch, from 0.
          index: index of the batch in the epoch.
        Returns: ragged ids `[pairs, (length)]` of the sources and of the targets.
        """
        indices, _ = self.order(epoch)[index]
        return tf.gather(self._source, indices), tf.gather(self._target, indices)

    def epoch(self, epoch: int, skip: int = 0) -> tf.data.Dataset:
        """Returns the batches of one epoch.

        Args:
          epoch: its number, from 0.
          skip: batches to leave out at the start.
        Returns: a `tf.data.Dataset` of int32 pairs `(inp, tar)`. A row of `inp [rows, length]` ends
          with the end token. A row of `tar [rows, length + 1]` also begins with the start token.
          Unused rows contain only padding.
        """
        batches = self.order(epoch)[skip:]
        sizes = [len(indices) for indices, _ in batches]
        ends = np.cumsum(sizes, dtype=np.int64)
        ranges = [
            (end - size, end, bucket.rows, bucket.length)
            for end, size, (_, bucket) in zip(ends, sizes, batches)
        ]
        table = np.array(ranges, np.int64).reshape(-1, 4)
        empty = np.zeros(0, np.int64)
        with tf.device("CPU:0"):
            pairs = tf.constant(np.concatenate([empty, *(indices for indices, _ in batches)]))

        def make_batch(row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            first, end, rows, length = tf.unstack(row)
            indices = pairs[first:end]
            inp = tf.gather(self._source, indices).to_tensor(PAD, shape=(None, None))  # (pairs, S)
            tar = tf.gather(self._target, indices).to_tensor(PAD, shape=(None, None))  # (pairs, T)
            start = tf.fill([tf.shape(tar)[0], 1], START)
            tar = tf.concat([start, tar], axis=1)  # (pairs, T + 1)
            return _pad(inp, rows, length), _pad(tar, rows, length + 1)

        dataset = tf.data.Dataset.from_tensor_slices(table).with_options(_options())
        return dataset.map(make_batch, num_parallel_calls=2, deterministic=True).prefetch(8)


def _ragged(sequences: Sequences) -> tf.RaggedTensor:
    """Converts `Sequences` to a `tf.RaggedTensor`."""
    return tf.RaggedTensor.from_row_splits(sequences.values, sequences.splits, validate=False)


def _options() -> tf.data.Options:
    options = tf.data.Options()
    # The pipeline has nothing to tune, and the autotune thread can delay the end of an epoch by up
    # to a minute.
    options.autotune.enabled = False
    return options


def _pad(ids: tf.Tensor, rows: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Pads ids `[r, l]` to `[rows, length]`."""
    shape = tf.shape(ids, tf.int64)
    return tf.pad(ids, [[0, rows - shape[0]], [0, length - shape[1]]], constant_values=PAD)
