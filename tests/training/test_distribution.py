"""Invariant 6: replicas and gradient accumulation do not change an update."""

import itertools
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_model import SIZES, sentences

from tf_transformer.checkpoints import checkpoint
from tf_transformer.config import Config, DataConfig, ModelConfig, TrainConfig
from tf_transformer.errors import UserError
from tf_transformer.host import number_of_cores
from tf_transformer.training import distribution
from tf_transformer.training.optimizer import FusedAdam
from tf_transformer.training.update import Update, gradient_accumulation_steps

CODE = """
import os; os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import tensorflow as tf
from tf_transformer.training.distribution import split_cpu, make_strategy
tf.ones(1) if {late} else None
split_cpu({logical_devices})
print(make_strategy().num_replicas_in_sync)
"""


@pytest.mark.slow
@pytest.mark.skipif(number_of_cores() < 2, reason="one core cannot be split")
@pytest.mark.parametrize(
    ("late", "logical_devices", "count"), [(False, 0, "2"), (True, 0, "1"), (False, 3, "3")]
)
def test_cpu_is_split_unless_tensorflow_has_run(late, logical_devices, count):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(late=late, logical_devices=logical_devices)],
        capture_output=True,
        text=True,
    )
    assert done.stdout.split()[-1] == count, done.stderr


def test_logical_devices_hide_the_gpus(monkeypatch):
    calls = []
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *devices: calls.append(devices))
    tf.config.list_logical_devices()  # from now on the devices stay as they are
    for logical_devices in (0, 2):
        distribution.split_cpu(logical_devices)
    assert calls == [([], "GPU")]


SMALLER = {"num_layers": 1, "d_model": 16, "num_heads": 2, "dff": 32}


class SGD(FusedAdam):
    """w -= lr g. Adam would turn rounding errors of tiny gradients into full steps."""

    graphs = 0  # how often one was made, in each replica

    def apply_if(self, *arguments):
        self.graphs += 1
        super().apply_if(*arguments)

    def update_step(self, gradient, variable, learning_rate, *_):
        tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle, alpha=learning_rate, delta=gradient
        )


def batch(rows, seed=0):
    return sentences(rows, 8, seed), sentences(rows, 8, seed + 50, start=True)


def make_update(
    strategy, learning_rate=0.3, dropout=0.0, settings=None, precision="float32", accumulate=False
):
    """A function of batches, the model whose weights it updates, and its loss scale."""
    keras.utils.set_random_seed(5)
    sizes = ModelConfig(**{**SIZES, **SMALLER, "dropout_rate": dropout})
    config = Config(sizes, DataConfig(max_length=8), settings or TrainConfig())
    run = Update(config, precision, strategy, accumulate, optimizer=lambda *_: SGD(learning_rate))

    def update(pair):
        result = run(*map(tf.constant, pair), tf.zeros([2]))
        return {name: value.numpy() for name, value in result.items()}

    update.optimizer = run.optimizer
    return update, run.model, run.loss_scale


def weights(model):
    return {name: variable.numpy() for name, variable in checkpoint.named_weights(model).items()}


def assert_same(one, other, atol=1e-6):
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, atol=atol, err_msg=name)


ONE, TWO = tf.distribute.get_strategy, distribution.make_strategy


@pytest.mark.parametrize(("rows", "dropout", "settings"), [
    ((6, 5, 1), 0.0, TrainConfig()),  # an odd number, and a replica without tokens
    ((16, 16, 16), 0.3, TrainConfig(micro_batch_tokens=64)),
], ids=["rows", "dropout"])  # fmt: skip
def test_two_replicas_equal_one(rows, dropout, settings):
    """With dropout, 2 replicas with 1 micro-batch each equal 1 replica with 2 micro-batches.

    One graph is for all shapes: each takes seconds, or half a minute for a large model.
    """
    found = []
    for strategy in (ONE(), TWO()):
        replicas = strategy.num_replicas_in_sync
        accumulate = dropout > 0 and replicas == 1
        step, model, _ = make_update(
            strategy, dropout=dropout, settings=settings, accumulate=accumulate
        )
        results = [step(batch(number, seed)) for seed, number in enumerate(rows)]
        for result in results:
            assert len(result["replica_tokens"]) == step.optimizer.graphs == replicas
            assert result["replica_tokens"].sum() == result["sums"][1] and not result["skipped"]
        values = [[result[name] for result in results] for name in ("sums", "gradient_norm")]
        found.append((*values, weights(model)))
    one, two = found
    np.testing.assert_allclose(one[0], two[0], rtol=1e-5)
    np.testing.assert_allclose(one[1], two[1], rtol=1e-4)
    assert_same(one[2], two[2])


def test_clipping_uses_the_norm_of_the_whole_gradient():
    step, model, _ = make_update(TWO(), settings=TrainConfig(clip_norm=0.05), learning_rate=1.0)
    before = weights(model)
    norm = step(batch(8))["gradient_norm"]
    moved = np.sqrt(
        sum(np.sum((value - before[name]) ** 2) for name, value in weights(model).items())
    )
    assert norm > 0.1 and moved == pytest.approx(0.05, rel=1e-3)


def test_gradient_accumulation_steps():
    """A micro-batch has at most `micro_batch_tokens` tokens, and there are no more than needed."""
    cases = itertools.product((1, 5, 8, 24, 100), (1, 7, 64), (1, 2, 8), (64, 100, 500))
    for rows, length, replicas, most in cases:
        steps = gradient_accumulation_steps(rows, length, replicas, most)
        shard_rows = -(-rows // (replicas * steps))
        assert shard_rows * length <= most
        if steps > 1:
            assert -(-rows // (replicas * (steps - 1))) * length > most
        shape = tf.constant(rows), tf.constant(length)
        assert int(gradient_accumulation_steps(*shape, replicas, most)) == steps


SAME = """
import os, sys
os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3")
import numpy as np
from tf_transformer.training import distribution
distribution.split_cpu({count})
sys.path[:0] = [{tests!r}, {tests!r} + "/training"]
import test_distribution as here
# No dropout at update 0, all of it after that.
settings = here.TrainConfig(micro_batch_tokens=16, dropout_warmup_steps=1)
strategy = distribution.make_strategy({count})
step, model, _ = here.make_update(strategy, dropout=0.3, settings=settings, accumulate=True)
results = [step(here.batch(16, seed)) for seed in range(4)]
assert len(results[0]["replica_tokens"]) == {count}
sums = np.array([result["sums"] for result in results])
np.savez({path!r}, sums=sums, **here.weights(model))
os._exit(0)
"""


@pytest.mark.slow
def test_replicas_and_accumulation_steps_are_interchangeable(tmp_path):
    """8 replicas with 1 shard each, 2 with 4, 1 with 8: equal updates, also with dropout."""
    running, found = [], []
    for count in (8, 2, 1):
        path, tests = str(tmp_path / f"{count}.npz"), os.path.dirname(os.path.dirname(__file__))
        command = [sys.executable, "-c", SAME.format(count=count, path=path, tests=tests)]
        running.append((subprocess.Popen(command, stderr=subprocess.PIPE, text=True), path))
    for process, path in running:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        with np.load(path) as file:
            found.append(dict(file))
    sums, *other_sums = [each.pop("sums") for each in found]
    for i, other in enumerate(found[1:]):
        np.testing.assert_allclose(other_sums[i], sums, rtol=1e-5)
        assert_same(found[0], other)


def test_dropout_differs_between_micro_batches_and_updates():
    """A sentence in two of them has two masks; an update always has the same."""
    pair = batch(1, 3)
    step, _, _ = make_update(ONE(), learning_rate=0.0, dropout=0.5)
    losses = [float(step(pair)["sums"][0]) for _ in range(2)]
    step, _, _ = make_update(TWO(), learning_rate=0.0, dropout=0.5)
    twice = tuple(np.repeat(side, 2, axis=0) for side in pair)
    losses += [float(step(twice)["sums"][0]) - losses[0] for _ in range(2)]
    assert len({round(loss, 3) for loss in losses}) == 4
    step.optimizer.iterations.assign(0)
    assert step(twice)["sums"][0] == pytest.approx(losses[2] + losses[0], rel=1e-6)


def test_loss_scale_falls_after_an_overflow_and_rises_again(monkeypatch):
    module = "tf_transformer.training.precision"
    monkeypatch.setattr(f"{module}.INITIAL_LOSS_SCALE", 2.0**40)  # too large for float16
    monkeypatch.setattr(f"{module}.GROWTH_INTERVAL", 3)
    step, model, loss_scale = make_update(TWO(), precision="mixed_float16", learning_rate=1e-4)
    pair = batch(8)
    skipped, scales = [], []
    for _ in range(40):
        before = weights(model)
        skipped.append(step(pair)["skipped"])
        scales.append(float(loss_scale.scale.numpy()))
        is_same = all(np.array_equal(value, before[name]) for name, value in weights(model).items())
        assert is_same == skipped[-1]
    falls = skipped.index(0)
    assert falls > 10  # every update overflows at first
    lowest = scales[falls - 1]
    assert lowest == 2.0 ** (40 - falls)
    assert scales[falls : falls + 3] == [lowest, lowest, 2 * lowest]
    state = loss_scale.state()
    loss_scale.update(tf.constant(False))
    assert loss_scale.scale.numpy() == state[0] / 2
    loss_scale.restore(state)
    assert loss_scale.state() == state


GONE = (
    "Graph execution error:\n\nDetected at node CollectiveReduceV2 defined at\n\n"
    "Collective ops is aborted by: {}\nThe error could be from a previous operation."
)


@pytest.mark.parametrize(("kind", "message", "reason"), [
    (tf.errors.UnavailableError, GONE.format("recvmsg:Connection reset by peer"), "reset by"),
    (tf.errors.AbortedError, "error information from remote target /job:worker/task:1", "task:1"),
    (tf.errors.InternalError, "Attempting to perform BLAS operation: cuBLAS failed", None),
    (tf.errors.InternalError, GONE.format("failed to allocate 2 GiB"), None),
])  # fmt: skip
def test_only_a_lost_worker_is_another_worker(monkeypatch, kind, message, reason):
    """An error of this worker's own GPU is raised as it is, also where it aborts an all-reduce."""
    monkeypatch.setenv("TF_CONFIG", "{}")
    expected = UserError if reason else kind
    with pytest.raises(expected, match=reason or "failed") as caught:
        with distribution.worker_failures():
            raise kind(None, None, message)
    assert ("another worker has stopped" in str(caught.value)) == bool(reason)
    monkeypatch.delenv("TF_CONFIG")
    with pytest.raises(kind):
        with distribution.worker_failures():
            raise kind(None, None, message)


@pytest.mark.parametrize(("index", "address", "logical_devices", "message"), [
    (1, "127.0.0.1:1", 0, "give the workers and the index of this one"),
    (0, "127.0.0.1", 0, "give the workers and the index of this one"),
    (0, "127.0.0.1:1", 2, "--logical_devices is for one host"),
])  # fmt: skip
def test_invalid_tf_config(monkeypatch, index, address, logical_devices, message):
    task = {"type": "worker", "index": index}
    config = {"cluster": {"worker": [address]}, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(UserError, match=message):
        distribution.make_strategy(logical_devices)
