"""Sub-word regularisation: drawn segmentations, and the shards and batches of an epoch."""

import collections
import io
import itertools
import math
import random
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from encoded import all_pairs, batch_pairs, sequences
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer.data import subword_sampling
from tf_transformer.data.batching import SampledBatches
from tf_transformer.data.encoding import Shard, encode_pairs
from tf_transformer.data.subword_sampling import (
    PairSampler,
    SubwordSampler,
    sample_pairs,
    sampling_alpha,
)
from tf_transformer.data.tokenizer import Tokenizer, learn_tokenizers
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import END, UNK


@pytest.fixture(scope="module")
def bpe(tokenizers):
    return tokenizers[0]


@pytest.fixture(scope="module")
def learned_unigram(text):
    return learn_tokenizers(lambda: text, 400, shared=True, subword_model="unigram")[0]


@pytest.fixture(scope="module")
def unigram(text):
    """A unigram vocabulary without bytes, as those of OPUS-MT."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(side for pair in text for side in pair), model_writer=model,
        model_type="unigram", vocab_size=300, hard_vocab_limit=False,
        pad_id=0, unk_id=1, bos_id=2, eos_id=3, minloglevel=2,
    )  # fmt: skip
    return Tokenizer(model.getvalue())


@pytest.fixture(scope="module")
def pairs(text, tokenizers):
    return encode_pairs(text, tokenizers, 64, 9.0)


def sampled(pairs, tokenizers, alpha, key=(1, 0, 0, 0), max_length=64):
    (shard,) = pairs.shards
    samplers = tuple(SubwordSampler(each.model, alpha, max_length) for each in tokenizers)
    return sequences(sample_pairs(samplers, key, shard))


def decoded(tokenizer, rows):
    return tokenizer.decode(tf.ragged.constant(rows, tf.int32)).numpy().tolist()


@pytest.mark.parametrize(
    ("name", "alpha", "unknown"),
    [("bpe", 0.1, 0), ("unigram", 0.3, 1), ("learned_unigram", 0.3, 0)],
)
def test_the_text_is_the_same(text, request, name, alpha, unknown):
    """A character that the vocabulary does not have stays the unknown token, or its bytes."""
    tokenizer = request.getfixturevalue(name)
    pairs = encode_pairs([*text, ("A \u6f22 dog", "Ein Hund")], (tokenizer, tokenizer), 64, 9.0)
    found, usual = sampled(pairs, (tokenizer, tokenizer), alpha), sequences(pairs)
    assert sum(a != b for a, b in zip(found, usual)) > len(usual) / 4
    assert 1.02 < sum(map(len, found)) / sum(map(len, usual)) < 1.5
    assert usual[-2].count(UNK) == found[-2].count(UNK) == unknown
    texts = decoded(tokenizer, found)
    assert texts == decoded(tokenizer, usual) and all(row[-1] == END for row in found)
    assert ("\u6f22" in texts[-2].decode()) == (unknown == 0)


def test_the_rate_of_merges_that_are_left_out():
    """The word "▁a" is one merge. "▁bc" is two, the first of which is bc, or else ▁b."""
    tokenizer = Tokenizer.learn(iter(["a bc"] * 100), 300)
    merges = tokenizer.pieces(range(260, 264))
    assert merges.index("bc") < merges.index("▁b") and {"▁a", "▁bc"} < set(merges)
    pairs = encode_pairs([("a bc " * 100, "a")] * 50, (tokenizer, tokenizer), 500, 500.0)
    for rate in (0.1, 0.3):
        found = sampled(pairs, (tokenizer, tokenizer), rate, max_length=10**6)[::2]
        pieces = [piece for row in found for piece in tokenizer.pieces(row)]
        kept = 1 - rate
        expected = {"a": rate, "b": rate**2, "bc": kept * rate, "▁b": kept * rate**2}
        for piece, value in expected.items():
            deviation = (5000 * value) ** 0.5  # of the number, about
            assert pieces.count(piece) == pytest.approx(5000 * value, abs=3 * deviation), piece


def test_the_rates_of_unigram_segmentations():
    """The word "▁ab" with the sub-words ▁a, ▁ab, a, b and ▁ has three segmentations."""
    scores = {"▁ab": -2.0, "▁a": -3.0, "a": -4.0, "b": -1.0, "▁": -1.5}
    model = messages.ModelProto()
    model.trainer_spec.model_type = messages.TrainerSpec.UNIGRAM
    for piece, score in scores.items():
        model.pieces.add(piece=piece, score=score)
    sampler, uniform = SubwordSampler(model.SerializeToString(), 0.5, 9), random.Random(1).random
    found = collections.Counter(tuple(sampler.sample([0], uniform)) for _ in range(10_000))
    weights = {(0,): -2.0, (1, 3): -4.0, (4, 2, 3): -6.5}
    total = sum(math.exp(0.5 * weight) for weight in weights.values())
    assert found.keys() == weights.keys()
    for ids, weight in weights.items():
        assert found[ids] / 10_000 == pytest.approx(math.exp(0.5 * weight) / total, rel=0.1)


def test_a_side_that_would_be_too_long_has_its_usual_ids(pairs, tokenizers):
    usual = sequences(pairs)
    limit = max(map(len, usual))
    found = sampled(pairs, tokenizers, 0.5, max_length=limit)
    assert max(map(len, found)) <= limit
    longest = [i for i, row in enumerate(usual) if len(row) == limit]
    assert any(found[i] == usual[i] for i in longest)
    assert sampled(pairs, tokenizers, 0.999, max_length=2) == usual


def test_ids_are_the_same_in_other_processes(pairs, tokenizers, tmp_path, monkeypatch):
    """Those of the chunks with their keys, in the order of the pairs."""
    monkeypatch.setattr(subword_sampling, "CHUNK", 150)
    (shard,) = pairs.shards
    samplers = tuple(
        SubwordSampler(each.model, 0.1, int(shard.lengths.max())) for each in tokenizers
    )
    parts = [
        sample_pairs(samplers, (7, 3, 0, number), shard.slice(first, first + 150))
        for number, first in enumerate(range(0, len(shard), 150))
    ]
    sampler = PairSampler(pairs, tokenizers, 0.1, 7, str(tmp_path))
    assert sequences(sampler.epoch(3, threading.Event())) == sequences(Shard.join(parts))


def test_a_process_that_ends(pairs, tmp_path):
    """As one that is killed, or whose main module is a script without a guard."""
    damaged = SimpleNamespace(model=b"x", fingerprint="x")
    sampler = PairSampler(pairs, (damaged, damaged), 0.1, 7, str(tmp_path))
    with pytest.raises(UserError, match="a process that draws sub-words has ended; if memory"):
        sampler.epoch(0, threading.Event())
    assert not list(tmp_path.iterdir())


def test_tags_are_kept(text):
    texts = [(f"<2de> {source}", target) for source, target in text[:50]]
    tokenizer = learn_tokenizers(lambda: texts, 400, shared=True, tags=["<2de>"])
    pairs = encode_pairs(texts, tokenizer, 64, 9.0)
    tag = tokenizer[0].tags["<2de>"]
    drawn = sampled(pairs, tokenizer, 0.3)
    for usual, found in zip(sequences(pairs)[::2], drawn[::2], strict=True):
        assert usual[0] == found[0] == tag and tag not in found[1:]


def test_the_setting_must_fit_the_vocabulary(tiny_config, tokenizers, unigram):
    dropout = tiny_config.replace(bpe_dropout=0.1).data
    alpha = tiny_config.replace(sentencepiece_alpha=0.2, subword_model="unigram").data
    assert sampling_alpha(tiny_config.data, tokenizers) == 0
    assert sampling_alpha(dropout, tokenizers) == 0.1
    assert sampling_alpha(alpha, (unigram, unigram)) == 0.2
    two_kinds = tokenizers[0], unigram
    for data, pair in ((dropout, two_kinds), (dropout, (unigram, unigram)), (alpha, tokenizers)):
        source, target = (each.subword_model for each in pair)
        with pytest.raises(UserError, match=f"source is {source}, that of the target {target}"):
            sampling_alpha(data, pair)
    for subword_model in ("bpe", "unigram"):  # one of both is always for another kind
        with pytest.raises(UserError, match="leave it out"):
            tiny_config.replace(
                bpe_dropout=0.1, sentencepiece_alpha=0.2, subword_model=subword_model
            )


class NoProcesses:
    """Draws in this process, since others start slowly."""

    def __init__(self, number, context, initializer, arguments):
        models, *rest = arguments
        self.samplers = [SubwordSampler(model, *rest) for model in models]

    def map(self, function, keys, chunks):
        return (sample_pairs(self.samplers, *each) for each in zip(keys, chunks))

    def shutdown(self, cancel_futures):
        pass


@pytest.fixture
def make_sampler(pairs, tokenizers, tmp_path, monkeypatch):
    monkeypatch.setattr(subword_sampling, "CHUNK", 150)
    monkeypatch.setattr(subword_sampling, "ProcessPoolExecutor", NoProcesses)
    return lambda seed=1, cache=tmp_path: PairSampler(pairs, tokenizers, 0.1, seed, str(cache))


def test_epochs(make_sampler, pairs, tmp_path):
    """They differ, and another process has the same; past ones are removed."""
    sampler, running = make_sampler(), threading.Event()
    epochs = [sampler.epoch(epoch, running) for epoch in (0, 1)]
    assert sequences(epochs[0]) != sequences(epochs[1])
    for seed in (1, 2):
        other = make_sampler(seed, cache=tmp_path / "other").epoch(1, running)
        assert (sequences(other) == sequences(epochs[1])) == (seed == 1)
    for epoch in epochs:
        assert len(epoch) == len(pairs)
        assert isinstance(epoch.shards[0].ids.base, np.memmap)

    (path,) = tmp_path.glob("epoch-*-1/00000.ids.npy")
    written = path.stat().st_mtime_ns
    assert sampler.epoch(1, running).checksum == epochs[1].checksum
    assert path.stat().st_mtime_ns == written  # not encoded again
    (path,) = tmp_path.glob("epoch-*-0/00000.ids.npy")
    path.write_bytes(path.read_bytes()[:-2])
    assert sampler.epoch(0, running).checksum == epochs[0].checksum

    sampler.epoch(1, running)
    running.set()
    with pytest.raises(InterruptedError):
        sampler.epoch(2, running)
    assert [path.name[-2:] for path in tmp_path.glob("epoch-*")] == ["-1"]
    assert not list(tmp_path.glob(".*"))


def make_batches(pairs, sampler, repetitions=None):
    return SampledBatches(pairs, 500, 1, repetitions, 0, sampler, last_step=10**6)


def test_batches(make_sampler, pairs):
    """Each pair once, in few shapes, nearly without padding; the next epoch is other ids."""
    batches = make_batches(pairs, make_sampler())
    shapes = {(bucket.rows, bucket.length) for bucket in batches.buckets}
    step, found = 0, []
    for epoch in (0, 1):
        assert batches.position(step) == (epoch, 0)
        dataset = batches.epoch(epoch)
        assert {inp.shape for inp, _ in dataset} <= shapes
        found.append(list(map(batch_pairs, dataset)))
        step += len(found[-1])
        drawn = make_sampler().epoch(epoch, threading.Event())
        assert sorted(itertools.chain(*found[-1])) == all_pairs(drawn)
        real = sum(map(len, sequences(drawn)))
        padded = 2 * sum(b.rows * b.length for _, b in batches.order(epoch))
        assert real / padded > 0.8
        assert batches.non_padding_fraction == pytest.approx(real / padded, abs=0.1)
        assert batches.per_epoch == pytest.approx(len(found[-1]), rel=0.2)
    assert batches.position(step - 1) == (1, len(found[1]) - 1)
    assert batches.position(len(found[0]) - 1) == (0, len(found[0]) - 1)

    state = batches.state()
    batches.close()
    batches = make_batches(pairs, make_sampler())
    batches.restore(state)
    assert batches.position(step - 2) == (1, len(found[1]) - 2)
    assert list(map(batch_pairs, batches.epoch(1, len(found[1]) - 2))) == found[1][-2:]
    assert batches.state() == state
    batches.close()


@pytest.mark.parametrize(("repetition", "counts"), [(1.5, {1, 2}), (0.001, {1})])
def test_repetitions(make_sampler, pairs, repetition, counts):
    """As for `Batches`: each pair one and a half times; of a rare corpus, one pair."""
    batches = make_batches(pairs, make_sampler(), [repetition])
    drawn = np.concatenate([indices for indices, _ in batches.order(0)])
    assert len(drawn) == max(1, round(repetition * len(pairs)))
    assert set(collections.Counter(drawn.tolist()).values()) == counts
    batches.close()
