"""Buckets and batches: nothing lost, few tokens wasted, one shape for each bucket."""

import itertools

import numpy as np
import pytest

from tf_transformer.data.batching import Batches, bucket_plan
from tf_transformer.data.encoding import EncodedPairs, Sequences
from tf_transformer.special_tokens import END, PAD, START


def sequences(lengths, random):
    rows = [[*random.integers(4, 99, n - 1), END] for n in lengths]
    splits = np.concatenate([[0], np.cumsum(lengths)])
    return Sequences(np.concatenate(rows).astype(np.int32), splits.astype(np.int64))


def captions(number, seed=0):
    """Pairs with lengths like those of real captions: about 16 sub-words a side, now and then 60."""
    random = np.random.default_rng(seed)
    source = np.clip(random.gamma(8.0, 2.0, number), 2, 60).astype(int)
    target = np.clip(source + random.normal(0, 2, number), 2, 64).astype(int)
    return EncodedPairs(sequences(source, random), sequences(target, random), {})


def real_rows(batch):
    """The pairs of a batch as tuples of ids, without padding."""
    inp, tar = (side.numpy() for side in batch)
    return [(tuple(i[i != PAD]), tuple(t[t != PAD])) for i, t in zip(inp, tar) if i.any()]


def all_rows(pairs):
    cut = [
        [tuple(s.values[a:b]) for a, b in zip(s.splits, s.splits[1:])]
        for s in (pairs.source, pairs.target)
    ]
    return sorted((source, (START, *target)) for source, target in zip(*cut))


@pytest.mark.parametrize("number", [1, 7, 300, 3000])
@pytest.mark.parametrize("tokens", [64, 1000, 25_000])
def test_no_pair_is_lost_or_doubled(number, tokens):
    pairs = captions(number)
    batches = Batches(pairs, tokens, seed=1)
    for epoch in (0, 1):
        assert sorted(
            row for batch in batches.epoch(epoch) for row in real_rows(batch)
        ) == all_rows(pairs)


@pytest.mark.parametrize("tokens", [100, 2048, 25_000])
def test_shapes_are_those_of_the_buckets_and_within_the_budget(tokens):
    batches = Batches(captions(3000), tokens, seed=1)
    planned = {(bucket.rows, bucket.length) for bucket in batches.buckets}
    shapes = {(tuple(inp.shape), tuple(tar.shape)) for inp, tar in batches.epoch(0)}
    assert shapes == {((rows, length), (rows, length + 1)) for rows, length in planned}
    assert all(rows * length <= tokens for rows, length in planned)
    assert sum(1 for _ in batches.epoch(0)) == batches.per_epoch


def test_sentences_begin_and_end_as_they_should():
    for inp, tar in Batches(captions(200), 500, seed=1).epoch(0):
        for source, target in zip(inp.numpy(), tar.numpy()):
            if source.any():
                assert (
                    source[source != PAD][-1] == END
                    and target[target != PAD][-1] == END
                    and target[0] == START
                )
            else:
                assert not target.any()


def test_most_tokens_are_useful():
    """29,000 captions, at the budget of the small preset and at the paper's; batches of 64 in random order keep half."""
    pairs = captions(29_000)
    for tokens in (4096, 25_000):
        batches = Batches(pairs, tokens, seed=1)
        padded = sum(2 * bucket.batches * bucket.rows * bucket.length for bucket in batches.buckets)
        real = len(pairs.source.values) + len(pairs.target.values)
        assert batches.non_padding_fraction == pytest.approx(real / padded)
        assert batches.non_padding_fraction > 0.88 and len(batches.buckets) <= 40


def test_the_plan_is_the_best_one():
    """Dynamic programming against trying every way to cut a small range of lengths."""
    from tf_transformer.data import batching

    lengths = np.random.default_rng(3).integers(3, 11, 500)
    total, tokens = lengths.sum(), 96

    def cost(bounds):
        value = 0.0
        for above, end in itertools.pairwise((0, *bounds)):
            bucket = batching._bucket(
                above, end, int(((lengths > above) & (lengths <= end)).sum()), tokens
            )
            padded = bucket.batches * bucket.rows * bucket.length
            value += (
                padded
                + batching.SHORTFALL_COST * max(0, bucket.batches * tokens - padded)
                + batching.SHAPE_COST * total
            )
        return value

    inner = range(3, 10)
    cuts = [(*cut, 10) for n in range(8) for cut in itertools.combinations(inner, n)]
    plan = tuple(bucket.length for bucket in bucket_plan(lengths, tokens))
    assert cost(plan) == pytest.approx(min(cost(cut) for cut in cuts))


def test_the_order_is_a_function_of_seed_and_epoch():
    pairs = captions(2000)

    def order(seed, epoch):
        return [
            row for batch in Batches(pairs, 1000, seed).epoch(epoch) for row in real_rows(batch)
        ]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1) and order(1, 0) != order(2, 0)


def test_skipping_goes_on_at_the_same_place():
    batches = Batches(captions(1000), 500, seed=1)
    whole = [real_rows(batch) for batch in batches.epoch(3)]
    for skip in (0, 1, 17, batches.per_epoch):
        assert [real_rows(batch) for batch in batches.epoch(3, skip)] == whole[skip:]


def test_an_epoch_ends_at_once():
    """The thread that would tune a pipeline ends in its own time, within a minute, and an epoch would wait for that."""
    assert Batches(captions(100), 500, seed=1).epoch(0).options().autotune.enabled is False
