"""Buckets and batches: completeness, shapes, little padding, and order."""

import functools
import gc
import itertools
import weakref

import numpy as np
import pytest
from encoded import all_pairs, batch_pairs, sequences

from tf_transformer.data.batching import SHAPE_COST, SHORTFALL_COST, Batches, bucket_plan
from tf_transformer.data.encoding import EncodedPairs, Shard
from tf_transformer.special_tokens import END, PAD, START


def shard(lengths, random):
    """A shard of random ids; `lengths` is int `[pairs, 2]`."""
    ids = [[*random.integers(4, 60_000, n - 1), END] for n in lengths.ravel()]
    splits = np.concatenate([[0], np.cumsum(lengths)])
    return Shard(np.concatenate(ids).astype(np.uint16), splits.astype(np.uint32), {})


def captions(number, seed=0, shards=1):
    """Pairs with lengths like those of image captions: usually 16 sub-words a side, at most 64."""
    random = np.random.default_rng(seed)
    source = np.clip(random.gamma(8.0, 2.0, number), 2, 60).astype(int)
    target = np.clip(source + random.normal(0, 2, number), 2, 64).astype(int)
    lengths = np.stack([source, target], axis=1)
    return EncodedPairs([shard(part, random) for part in np.array_split(lengths, shards)])


@pytest.mark.parametrize(
    "number, tokens", [(1, 64), (7, 1000), (300, 64), (3000, 1000), (3000, 25_000)]
)
def test_each_epoch_contains_every_pair_once(number, tokens):
    pairs = captions(number)
    batches = Batches(pairs, tokens, seed=1)
    for epoch in (0, 1):
        found = [pair for batch in batches.epoch(epoch) for pair in batch_pairs(batch)]
        assert sorted(found) == all_pairs(pairs)


@pytest.mark.parametrize("tokens", [100, 2048, 25_000])
def test_shapes_are_those_of_the_buckets_and_within_the_budget(tokens):
    batches = Batches(captions(3000), tokens, seed=1)
    planned = {(bucket.rows, bucket.length) for bucket in batches.buckets}
    shapes = {(tuple(inp.shape), tuple(tar.shape)) for inp, tar in batches.epoch(0)}
    assert shapes == {((rows, length), (rows, length + 1)) for rows, length in planned}
    assert all(rows * length <= tokens for rows, length in planned)
    assert sum(1 for _ in batches.epoch(0)) == batches.per_epoch


def test_sentences_have_start_and_end_tokens():
    for inp, tar in Batches(captions(200), 500, seed=1).epoch(0):
        for source, target in zip(inp.numpy(), tar.numpy()):
            if source.any():
                assert source[source != PAD][-1] == END
                assert target[target != PAD][-1] == END
                assert target[0] == START
            else:
                assert not target.any()


def test_most_tokens_are_not_padding():
    """29,000 captions, with the budgets of a small model and of the paper.

    In batches of 64 pairs in random order, half of the tokens would be padding.
    """
    pairs = captions(29_000)
    for tokens in (4096, 25_000):
        batches = Batches(pairs, tokens, seed=1)
        padded = sum(2 * bucket.batches * bucket.rows * bucket.length for bucket in batches.buckets)
        real = pairs.lengths.sum()
        assert batches.non_padding_fraction == pytest.approx(real / padded)
        assert batches.non_padding_fraction > 0.88
        assert len(batches.buckets) <= 40


@pytest.mark.parametrize("number, tokens", [(500, 96), (40, 96), (60, 300)])
def test_the_plan_is_optimal(number, tokens):
    """Dynamic programming against all divisions of a small range of lengths."""
    lengths = np.random.default_rng(3).integers(3, 11, number)

    @functools.cache
    def cost_of_one(above, end):
        within = lengths[(lengths > above) & (lengths <= end)]
        (bucket,) = bucket_plan(np.bincount(within), tokens, max_shapes=1)
        padded = bucket.batches * bucket.rows * bucket.length
        shortfall = max(0, bucket.batches * tokens - padded)
        return padded + SHORTFALL_COST * shortfall + SHAPE_COST * lengths.sum()

    def cost(bounds):
        return sum(itertools.starmap(cost_of_one, itertools.pairwise((0, *bounds))))

    inner = range(3, 10)
    divisions = [(*cut, 10) for n in range(8) for cut in itertools.combinations(inner, n)]
    plan = [bucket.length for bucket in bucket_plan(np.bincount(lengths), tokens)]
    assert cost(plan) == pytest.approx(min(map(cost, divisions)))


@pytest.mark.parametrize("most", [1, 4])
def test_fewer_shapes_have_more_padding_and_the_same_pairs(most):
    pairs = captions(2000)
    usual, fewer = Batches(pairs, 500, 1), Batches(pairs, 500, 1, max_shapes=most)
    assert len(usual.buckets) > 4
    assert 1 <= len(fewer.buckets) <= most
    assert fewer.non_padding_fraction < usual.non_padding_fraction
    found = np.concatenate([indices for indices, _ in fewer.order(0)])
    assert sorted(found) == list(range(len(pairs)))


def test_the_order_is_a_function_of_seed_and_epoch():
    pairs = captions(2000)

    def order(seed, epoch):
        batches = Batches(pairs, 1000, seed).epoch(epoch)
        return [pair for batch in batches for pair in batch_pairs(batch)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_batches_do_not_depend_on_the_shards():
    """Pairs of one shard or of several, the last of which is shorter, are the same batches."""
    several = captions(1000, shards=7)
    joined = EncodedPairs([Shard.join(several.shards)])
    assert sequences(several) == sequences(joined)
    np.testing.assert_array_equal(several.lengths, joined.lengths)
    assert len(several) == len(joined) == 1000
    for found, expected in zip(Batches(several, 500, 1).epoch(0), Batches(joined, 500, 1).epoch(0)):
        for side, expected_side in zip(found, expected):
            np.testing.assert_array_equal(side, expected_side)


def test_past_epochs_are_forgotten():
    """TensorFlow keeps the functions of all data sets."""
    batches = Batches(captions(500), 500, seed=1)
    alive = []
    for epoch in range(3):
        assert len(list(batches.epoch(epoch))) == batches.per_epoch
        alive.append(weakref.ref(batches.order(epoch)[0][0]))
    gc.collect()
    assert [reference() is not None for reference in alive] == [False, False, True]


@pytest.mark.parametrize("repetitions", [None, [1.5]])
def test_skip_resumes_within_an_epoch(repetitions):
    batches = Batches(captions(1000), 500, 1, repetitions)
    complete = [batch_pairs(batch) for batch in batches.epoch(3)]
    for skip in (0, 1, 17, batches.per_epoch):
        assert [batch_pairs(batch) for batch in batches.epoch(3, skip)] == complete[skip:]
