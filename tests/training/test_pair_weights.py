"""The weights of pairs in the loss, and a run with weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_model import sentences

from tf_transformer.checkpoints.checkpoint import named_weights
from tf_transformer.config import Config
from tf_transformer.training import loss
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.update import Update

# With a constant learning rate and a large epsilon, Adam's update is almost proportional to the
# gradient. A dropout rate of 0 makes a repeated pair equal to a weight of 2.
CONFIG = Config().replace(
    num_layers=1, d_model=16, num_heads=2, dff=32, dropout_rate=0.0, epsilon=1.0,
    learning_rate_schedule="constant", learning_rate=10.0, warmup_steps=1, max_length=24,
    micro_batch_tokens=32,
)  # fmt: skip
INP, TAR = sentences(16, 8, 1), sentences(16, 8, 51, start=True)
WEIGHTS = np.random.default_rng(1).integers(1, 4, 16)


def updated(inp, tar, weights=None, replicas=1, precision="float32", jit=False, **changes):
    """The changes of all weights, and the results, of an update."""
    keras.utils.set_random_seed(1)
    config = CONFIG.with_vocabularies(60, 60).replace(**changes)
    strategy = make_strategy(replicas=replicas)
    weighted = weights is not None
    options = dict(accumulate=changes != {}, jit_compile=jit, weighted=weighted)
    update = Update(config, precision, strategy, **options)
    before = {name: x.numpy() for name, x in named_weights(update.model).items()}
    given = [tf.constant(weights, tf.float32)] if weighted else []
    for _ in range(2):  # the first one has the learning rate 0
        result = update(tf.constant(inp), tf.constant(tar), tf.zeros([2]), *given)
    after = {name: x.numpy() for name, x in named_weights(update.model).items()}
    changed = {name: after[name] - before[name] for name in before}
    return changed, {name: value.numpy() for name, value in result.items()}


def assert_close(left, right, rtol=1e-4):
    for name, expected in right.items():
        if name.endswith("wk/bias"):
            continue  # the softmax does not depend on it
        largest = np.max(np.abs(expected))
        assert largest > 1e-6, name
        np.testing.assert_allclose(left[name], expected, atol=rtol * largest, err_msg=name)


@pytest.fixture(scope="module")
def plain():
    return updated(INP, TAR)


@pytest.fixture(scope="module")
def weighted():
    return updated(INP, TAR, WEIGHTS)


@pytest.fixture(scope="module")
def repeated():
    """Each pair as often as its weight says."""
    return [np.repeat(side, WEIGHTS, axis=0) for side in (INP, TAR)]


def test_a_weight_of_two_is_the_pair_twice(plain, weighted, repeated):
    """The gradient is that of sum(w x loss) / sum(w x tokens), of the whole batch."""
    expected, result = updated(*repeated)
    assert_close(weighted[0], expected)
    assert weighted[1]["gradient_norm"] == pytest.approx(result["gradient_norm"], rel=1e-4)
    with pytest.raises(AssertionError):
        assert_close(weighted[0], plain[0])
    # The metrics count each token once.
    np.testing.assert_allclose(weighted[1]["sums"], plain[1]["sums"], rtol=1e-6)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_a_common_factor_has_no_effect(plain, factor):
    assert_close(updated(INP, TAR, np.full(16, factor))[0], plain[0])


@pytest.mark.parametrize("changes", [
    dict(replicas=2, micro_batch_tokens=24),  # of 3 rows, with rows of padding
    pytest.param(dict(replicas=2, micro_batch_tokens=24, jit=True), marks=pytest.mark.slow),
], ids=str)  # fmt: skip
def test_replicas_micro_batches_and_xla(weighted, monkeypatch, changes):
    monkeypatch.setattr(loss, "chunk_tokens", lambda: 5)  # several chunks, the last one padded
    monkeypatch.setattr(loss, "CHUNK_MULTIPLE", 1)
    assert_close(updated(INP, TAR, WEIGHTS, **changes)[0], weighted[0])


@pytest.mark.slow
def test_float16(weighted):
    found, result = updated(INP, TAR, WEIGHTS, precision="mixed_float16")
    assert not result["skipped"]
    assert_close(found, weighted[0], rtol=0.05)
