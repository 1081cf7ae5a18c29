"""Id sequences -> length buckets -> batches of about 25,000 source and 25,000 target tokens (Sec. 5.1).

Sentence pairs of about the same length go into one bucket. All batches of a bucket have one shape, `[rows, length]`. Which buckets
there are is not a matter of taste: `bucket_plan` finds those that waste the fewest tokens on this very corpus, the half-empty batches
at the end of an epoch included. The order of an epoch is a pure function of (seed, epoch), so a place in the data is just a number.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from tf_transformer.special_tokens import PAD, START

ROWS_MULTIPLE = 8  # so that a batch can be shared by 2, 4 or 8 replicas
SHAPE_COST = 0.001  # a further bucket must save this share of all tokens, which keeps the number of shapes small
SHORTFALL_COST = 0.1  # a batch below the token budget costs this share of the tokens that it lacks


@dataclasses.dataclass(frozen=True)
class Bucket:
    """The pairs whose longer side has more than `above` and at most `length` sub-words."""

    above: int
    length: int
    rows: int  # sentence pairs in a batch
    batches: int  # batches in an epoch
    pairs: int  # sentence pairs in an epoch


def _bucket(above, length, pairs, batch_tokens):
    most = max(1, batch_tokens // length)
    most -= most % ROWS_MULTIPLE if most >= ROWS_MULTIPLE else 0
    batches = -(-pairs // most)
    rows = -(-pairs // batches) if batches else 0
    if most >= ROWS_MULTIPLE:
        rows = -(-rows // ROWS_MULTIPLE) * ROWS_MULTIPLE
    return Bucket(above, length, rows, batches, pairs)


def bucket_plan(lengths, batch_tokens):
    """Divides the lengths into buckets so that the fewest tokens are wasted (dynamic programming over the boundaries).

    Args:
      lengths: int `[pairs]`, the longer side of each pair, sub-words.
      batch_tokens: most tokens on a side of one batch, padding included.
    Returns: a list of `Bucket`, shortest first; every length belongs to one of them.
    """
    counts = np.bincount(lengths)
    up_to = np.cumsum(counts)  # pairs of at most so many sub-words
    total = int(np.sum(np.arange(len(counts)) * counts))
    ends = np.flatnonzero(counts)  # a bucket ends at a length that occurs
    best = {0: (0.0, None)}  # last boundary -> (cost, the bucket that ends there)
    for end in ends:
        options = []
        for above, (cost, _) in best.items():
            pairs = int(up_to[end] - up_to[above])
            bucket = _bucket(int(above), int(end), pairs, batch_tokens)
            padded = bucket.batches * bucket.rows * bucket.length
            shortfall = max(0, bucket.batches * batch_tokens - padded)
            options.append(
                (cost + padded + SHORTFALL_COST * shortfall + SHAPE_COST * total, bucket)
            )
        best[int(end)] = min(options, key=lambda option: option[0])
    plan, end = [], int(ends[-1])
    while end:
        plan.append(best[end][1])
        end = plan[-1].above
    return plan[::-1]


class Batches:
    """The batches of a corpus, epoch after epoch.

    Args:
      pairs: an `EncodedPairs`.
      batch_tokens: most source tokens, and target tokens, in one batch, padding included.
      seed: of the order.
    """

    def __init__(self, pairs, batch_tokens, seed):
        self._pairs, self._seed = pairs, seed
        lengths = np.maximum(pairs.source.lengths, pairs.target.lengths)
        self.buckets = bucket_plan(lengths, batch_tokens)
        self._bucket_of_pair = np.searchsorted([bucket.length for bucket in self.buckets], lengths)
        self.per_epoch = sum(bucket.batches for bucket in self.buckets)
        self.checksum = pairs.checksum
        real = int(pairs.source.lengths.sum() + pairs.target.lengths.sum())
        self.non_padding_fraction = real / (
            2 * sum(b.batches * b.rows * b.length for b in self.buckets)
        )  # of the tokens
        with tf.device("CPU:0"):  # they are read by the input pipeline, not by the model
            self._source, self._target = (
                tf.RaggedTensor.from_row_splits(side.values, side.splits, validate=False)
                for side in (pairs.source, pairs.target)
            )

    def order(self, epoch):
        """The batches of one epoch: a list of (pair numbers, `Bucket`), every pair in exactly one, in an order of the epoch's own."""
        random = np.random.default_rng([self._seed, epoch])
        shuffled = random.permutation(len(self._pairs))
        batches = []
        for number, bucket in enumerate(self.buckets):
            members = shuffled[self._bucket_of_pair[shuffled] == number]
            batches += [
                (members[i : i + bucket.rows], bucket) for i in range(0, len(members), bucket.rows)
            ]
        return [batches[i] for i in random.permutation(len(batches))]

    def sentences(self, epoch, place):
        """The pairs of one batch: ragged ids of the sources and of the targets, `[pairs, (length)]`."""
        members, _ = self.order(epoch)[place]
        return tf.gather(self._source, members), tf.gather(self._target, members)

    def epoch(self, epoch, skip=0):
        """The batches of one epoch, without the first `skip`.

        Returns: a `tf.data.Dataset` of `(inp, tar)`, int32: `inp [rows, length]` ends with the end symbol, `tar [rows, length + 1]`
          begins with the start symbol too. Rows that are left over are all padding.
        """
        order = self.order(epoch)[skip:]
        ends = np.cumsum([len(members) for members, _ in order], dtype=np.int64)
        with tf.device("CPU:0"):
            members = tf.constant(
                np.concatenate([members for members, _ in order])
                if order
                else np.zeros(0, np.int64)
            )
        table = np.array(
            [(end - len(m), end, b.rows, b.length) for end, (m, b) in zip(ends, order)], np.int64
        )

        def make_batch(row):
            chosen = members[row[0] : row[1]]
            inp = tf.gather(self._source, chosen).to_tensor(
                PAD, shape=(None, None)
            )  # (pairs, longest)
            tar = tf.gather(self._target, chosen).to_tensor(PAD, shape=(None, None))
            start = tf.fill([tf.shape(tar)[0], 1], START)
            return _fill(inp, row[2], row[3]), _fill(
                tf.concat([start, tar], axis=1), row[2], row[3] + 1
            )

        dataset = tf.data.Dataset.from_tensor_slices(table.reshape(-1, 4)).with_options(_options())
        return dataset.map(make_batch, num_parallel_calls=2, deterministic=True).prefetch(8)


def _options():
    options = tf.data.Options()
    options.autotune.enabled = False  # nothing here is left to it, and its thread holds up the end of an epoch, for as much as a minute
    return options


def _fill(ids, rows, length):
    """Pads ids `[r, l]` to `[rows, length]`."""
    return tf.pad(
        ids,
        [[0, rows - tf.shape(ids, tf.int64)[0]], [0, length - tf.shape(ids, tf.int64)[1]]],
        constant_values=PAD,
    )
