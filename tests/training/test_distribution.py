"""Law 6: one update is the same function of the batch, whatever the number of replicas and of micro-steps."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences

from tf_transformer.checkpoints import checkpoint
from tf_transformer.config import TrainConfig
from tf_transformer.kernels import cross_entropy
from tf_transformer.kernels.adam import FusedAdam
from tf_transformer.training import distribution
from tf_transformer.training.precision import make_loss_scale
from tf_transformer.training.sharding import (
    accumulated_shards,
    dropout_seed,
    gradient_accumulation_steps,
    one_shard,
    shard_of,
)
from tf_transformer.training.train_step import compiled, shard_gradients, train_step

CODE = """
import os; os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import tensorflow as tf
from tf_transformer.training.distribution import split_cpu, make_strategy
tf.ones(1) if {late} else None
split_cpu({virtual})
print(make_strategy().num_replicas_in_sync)
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core cannot be divided")
@pytest.mark.parametrize(
    ("late", "virtual", "count"), [(False, 0, "2"), (True, 0, "1"), (False, 3, "3")]
)
def test_a_processor_is_divided_unless_tensorflow_is_at_work(late, virtual, count):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(late=late, virtual=virtual)],
        capture_output=True,
        text=True,
    )
    assert done.stdout.split()[-1] == count, done.stderr


SMALLER = {"num_layers": 1, "d_model": 16, "num_heads": 2, "dff": 32}


class SGD(FusedAdam):
    """Plain gradient descent: Adam's first steps turn a rounding error of a tiny gradient into a step of full length."""

    def update_step(self, gradient, variable, learning_rate):
        tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle, alpha=learning_rate, delta=gradient
        )


def batch(rows, seed=0):
    return sentences(rows, 8, seed), sentences(rows, 8, seed + 50, start=True)


def make_step(
    strategy,
    optimizer=SGD,
    learning_rate=0.3,
    dropout=0.0,
    settings=None,
    precision="float32",
    accumulate=True,
    jit_compile=False,
):
    """A function of batches, the model whose weights it updates, and its loss scale."""
    settings = settings or TrainConfig()
    with strategy.scope():
        model = make_model(precision, **SMALLER, dropout_rate=dropout)
        optimizer = optimizer(learning_rate)
        optimizer.build(model.trainable_variables)
        loss_scale = make_loss_scale(precision)
    gradients = functools.partial(shard_gradients, settings)
    gradients = compiled(gradients) if jit_compile else gradients
    shards = accumulated_shards if accumulate else one_shard
    gradients = functools.partial(shards, gradients, model, settings)
    ids = tf.TensorSpec([None, None], tf.int32)

    def step(inp, tar):
        no_votes = tf.zeros([2])
        return train_step(model, optimizer, settings, gradients, loss_scale, inp, tar, no_votes)

    run = distribution.on_all_replicas(strategy, step, [ids, ids])

    def update(pair):
        return {name: value.numpy() for name, value in run(*map(tf.constant, pair)).items()}

    update.optimizer = optimizer
    return update, model, loss_scale


def weights(model):
    return {name: variable.numpy() for name, variable in checkpoint.named_weights(model).items()}


def assert_same(one, other, atol=1e-6):
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, atol=atol, err_msg=name)


ONE, TWO = tf.distribute.get_strategy, distribution.make_strategy


def test_two_replicas_equal_one():
    """With unequal sentences, an odd number of rows, and a replica without a token."""
    found = []
    for strategy in (ONE(), TWO()):
        step, model, _ = make_step(strategy)
        results = [step(batch(rows, rows)) for rows in (6, 5, 1)]
        assert len(results[0]["replica_tokens"]) == strategy.num_replicas_in_sync
        for result in results:
            assert result["replica_tokens"].sum() == result["sums"][1] and not result["skipped"]
        found.append(
            (
                [result["sums"] for result in results],
                [result["gradient_norm"] for result in results],
                weights(model),
            )
        )
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4)
    assert_same(found[0][2], found[1][2])


def test_clipping_is_by_the_norm_of_the_whole_gradient():
    step, model, _ = make_step(TWO(), settings=TrainConfig(clip_norm=0.05), learning_rate=1.0)
    before = weights(model)
    norm = step(batch(8))["gradient_norm"]
    moved = np.sqrt(
        sum(np.sum((value - before[name]) ** 2) for name, value in weights(model).items())
    )
    assert norm > 0.1 and moved == pytest.approx(0.05, rel=1e-3)


def test_a_batch_is_cut_into_gradient_accumulation_steps():
    for rows in (1, 5, 8, 24, 100):
        for length in (1, 7, 64):
            for count in (1, 2, 8):
                for most in (64, 100, 500):
                    micro = gradient_accumulation_steps(rows, length, count, most)
                    share = -(-rows // (count * micro))  # rows of one
                    assert share * length <= most and (
                        micro == 1 or -(-rows // (count * (micro - 1))) * length > most
                    )
                    assert (
                        int(
                            gradient_accumulation_steps(
                                *map(tf.constant, (rows, length)), count, most
                            )
                        )
                        == micro
                    )


SAME = """
import os, sys
os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3")
import numpy as np
from tf_transformer.training import distribution
distribution.split_cpu({count})
sys.path.insert(0, {tests!r})
sys.path.insert(0, {tests!r} + '/training')
import test_distribution as here
settings = here.TrainConfig(micro_batch_tokens=16, dropout_warmup_steps=1)  # no dropout at update 0, all of it after that
step, model, _ = here.make_step(distribution.make_strategy(cpu_only=True), dropout=0.3, settings=settings)
pairs, arrays = [here.batch(16, seed) for seed in range(3)], dict()
for pair in pairs:
    step.optimizer.iterations.assign(0)
    result = step(pair)
arrays.update(("off " + name, value) for name, value in here.weights(model).items())
arrays["replica_tokens"] = result["replica_tokens"]
arrays["sums"] = np.array([step(pair)["sums"] for pair in pairs])
arrays.update(("on " + name, value) for name, value in here.weights(model).items())
np.savez({path!r}, **arrays)
os._exit(0)
"""


def test_replicas_and_micro_steps_are_interchangeable(tmp_path):
    """8 replicas with 1 share each, 2 with 4, and 1 with 8 make the same updates, dropout off and, with the same masks, on."""
    running, found = [], []
    for count in (8, 2, 1):
        code = SAME.format(
            count=count,
            path=str(tmp_path / f"{count}.npz"),
            tests=os.path.dirname(os.path.dirname(__file__)),
        )
        running.append(
            subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        )
    for process, count in zip(running, (8, 2, 1)):
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        with np.load(tmp_path / f"{count}.npz") as file:
            found.append({name: file[name] for name in file.files})
            assert len(found[-1].pop("replica_tokens")) == count
    for other in found[1:]:
        np.testing.assert_allclose(other.pop("sums"), found[0]["sums"], rtol=1e-5)
    del found[0]["sums"]
    for other in found[1:]:
        assert_same(found[0], other)


def test_dropout_differs_between_shares_and_updates():
    """The same sentence in two shares has two dropout masks, and so has it in two updates; the same update has the same ones."""
    pair = tuple(np.repeat(side, 2, axis=0) for side in batch(1, 3))
    step, model, _ = make_step(TWO(), learning_rate=0.0, dropout=0.5)
    losses = [float(step(pair)["sums"][0]) for _ in range(3)]
    assert len(set(losses)) == 3
    strategy = TWO()
    with strategy.scope():
        optimizer = SGD(0.0)
        optimizer.build(model.trainable_variables)
    run = tf.function(lambda: strategy.run(lambda: local_loss(model, optimizer, pair)))
    one, other = (float(loss) for loss in strategy.experimental_local_results(run()))
    assert one != other and one + other == pytest.approx(losses[0], rel=1e-6)


def local_loss(model, optimizer, pair):
    """The loss of this replica's shard, before the all-reduce."""
    index = tf.distribute.get_replica_context().replica_id_in_sync_group
    seed = dropout_seed(optimizer.iterations, TrainConfig().seed, index)
    inp, tar = (shard_of(tf.constant(side), index, 2) for side in pair)
    _, sums = shard_gradients(TrainConfig(), model, inp, tar, seed, optimizer.iterations, 1.0)
    return sums[0]


@pytest.mark.parametrize("accumulate", [True, False])
def test_compiled_or_not_an_update_is_the_same(accumulate, monkeypatch):
    monkeypatch.setattr(cross_entropy, "CHUNK_TOKENS", 5)  # several parts, the last one filled up
    pairs, found = [batch(8, seed) for seed in range(2)], []
    for jit in (False, True):
        settings = TrainConfig(micro_batch_tokens=16 if accumulate else 4096)
        step, model, _ = make_step(TWO(), settings=settings, accumulate=accumulate, jit_compile=jit)
        found.append(([step(pair)["sums"] for pair in pairs], weights(model)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    assert_same(found[0][1], found[1][1])


def test_an_update_without_finite_gradients_changes_nothing_but_the_count():
    strategy = TWO()
    step, model, _ = make_step(strategy, optimizer=FusedAdam, learning_rate=0.01)
    step(batch(6))
    table = checkpoint.named_weights(model)["embedding/table"]
    good = table.numpy()
    pair = batch(6, 1)
    word = 35
    assert (pair[0] == word).any() and (pair[1] == word).any()
    table.assign(np.where(np.arange(41)[:, None] == word, np.nan, good))
    before = weights(model)
    assert step(pair)["skipped"] == 1
    for name, value in weights(model).items():
        np.testing.assert_array_equal(value, before[name])
    table.assign(good)
    result = step(pair)
    assert result["skipped"] == 0 and np.isfinite(result["gradient_norm"])
    assert all(np.isfinite(value).all() for value in weights(model).values())


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_is_near(precision, monkeypatch):
    """Weights and sums stay float32; the gradient is that of float32 but for rounding, whatever the loss scale."""
    monkeypatch.setattr(cross_entropy, "CHUNK_TOKENS", 5)
    pair, found = batch(16), []
    for one in ("float32", precision):
        step, model, loss_scale = make_step(TWO(), precision=one, learning_rate=0.1)
        before = weights(model)
        result = step(pair)
        assert all(value.dtype == np.float32 for value in (*result.values(), *before.values()))
        found.append(
            (
                result,
                np.concatenate([(weights(model)[name] - before[name]).ravel() for name in before]),
            )
        )
    (exact, one), (near, other) = found
    np.testing.assert_allclose(near["sums"][0], exact["sums"][0], rtol=1e-2)
    np.testing.assert_allclose(near["gradient_norm"], exact["gradient_norm"], rtol=2e-2)
    assert np.dot(one, other) / np.linalg.norm(one) / np.linalg.norm(other) > 0.999


def test_the_loss_scale_falls_after_an_overflow_and_rises_again(monkeypatch):
    monkeypatch.setattr(
        "tf_transformer.training.precision.INITIAL_LOSS_SCALE", 2.0**40
    )  # too large for float16
    monkeypatch.setattr("tf_transformer.training.precision.GROWTH_INTERVAL", 3)
    step, _, loss_scale = make_step(TWO(), precision="mixed_float16", learning_rate=0.0)
    pair, skipped, scales = batch(8), [], []
    for _ in range(40):
        skipped.append(step(pair)["skipped"])
        scales.append(float(loss_scale.scale.numpy()))
    falls = skipped.index(0)
    assert falls > 10  # at first each one overflows
    assert scales[falls - 1] == 2.0 ** (40 - falls) and scales[falls : falls + 3] == [
        scales[falls - 1]
    ] * 2 + [scales[falls - 1] * 2]
    state = loss_scale.state()
    loss_scale.update(tf.constant(False))
    assert loss_scale.scale.numpy() == state[0] / 2
    loss_scale.restore(state)
    assert loss_scale.state() == state
