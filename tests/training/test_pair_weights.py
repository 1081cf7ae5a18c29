"""The weights of pairs in the loss, and a run with weights."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_model import sentences

from tf_transformer.checkpoints.checkpoint import named_weights
from tf_transformer.config import Config
from tf_transformer.data.batching import Bucket
from tf_transformer.data.readers import open_corpus
from tf_transformer.errors import UserError
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.trainer import build_trainer
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


def test_a_weight_of_two_is_the_pair_twice():
    """The gradient is that of sum(w x loss) / sum(w x tokens), of the whole batch."""
    repeated = [np.repeat(side, WEIGHTS, axis=0) for side in (INP, TAR)]
    expected, result = updated(*repeated)
    found, weighted_result = updated(INP, TAR, WEIGHTS)
    assert_close(found, expected)
    assert weighted_result["gradient_norm"] == pytest.approx(result["gradient_norm"], rel=1e-4)
    unweighted, plain_result = updated(INP, TAR)
    with pytest.raises(AssertionError):
        assert_close(found, unweighted)
    # The metrics count each token once.
    np.testing.assert_allclose(weighted_result["sums"], plain_result["sums"], rtol=1e-6)


@pytest.mark.parametrize("factor", [1.0, 1e-6, 1e6])
def test_a_common_factor_has_no_effect(factor):
    expected, _ = updated(INP, TAR)
    assert_close(updated(INP, TAR, np.full(16, factor))[0], expected)


def test_a_pair_of_almost_no_weight_is_no_pair():
    weights = np.where(np.arange(16) < 8, 1.0, 1e-6)
    assert_close(updated(INP, TAR, weights)[0], updated(INP[:8], TAR[:8])[0])


@pytest.mark.parametrize(
    "changes",
    [
        dict(replicas=2),
        dict(micro_batch_tokens=24),  # 6 shards of 3 rows, with rows of padding
        dict(replicas=2, micro_batch_tokens=24),
        dict(jit=True),
    ],
    ids=str,
)
def test_replicas_micro_batches_and_xla(changes):
    assert_close(updated(INP, TAR, WEIGHTS, **changes)[0], updated(INP, TAR, WEIGHTS)[0])


def test_float16_and_r_drop():
    """R-Drop with almost no dropout, so that the masks of a repeated pair are the same."""
    changes = dict(r_drop=5.0, dropout_rate=1e-6)
    repeated = [np.repeat(side, WEIGHTS, axis=0) for side in (INP, TAR)]
    assert_close(updated(INP, TAR, WEIGHTS, **changes)[0], updated(*repeated, **changes)[0])
    found, result = updated(INP, TAR, WEIGHTS, precision="mixed_float16")
    assert not result["skipped"]
    assert_close(found, updated(INP, TAR, WEIGHTS)[0], rtol=0.05)


def test_compilation_before_the_first_update():
    strategy = make_strategy(replicas=1)
    config = CONFIG.with_vocabularies(60, 60)
    update = Update(config, "float32", strategy, accumulate=False, weighted=True)
    before = [variable.numpy() for variable in update.model.variables]
    update.compile([Bucket(0, 8, 16, 1, 16)], lambda: False)
    for variable, value in zip(update.model.variables, before):
        np.testing.assert_array_equal(variable.numpy(), value)


@pytest.fixture(scope="module")
def weighted_config(tiny_config, tmp_path_factory):
    """A TSV file with weights beside a corpus without."""
    folder = tiny_config.data.data
    path = tmp_path_factory.mktemp("weighted") / "train.tsv"
    pairs = list(open_corpus(folder, "en", "de").read("train"))[:200]
    path.write_text("".join(f"{s}\t{t}\t{1 + i % 5}\n" for i, (s, t) in enumerate(pairs)))
    return tiny_config.replace(
        data=f"{folder},{path}", train_steps=6, save_steps=3, eval_steps=6, bleu_sentences=0
    )


def test_three_and_three_updates_are_six(weighted_config, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert build_trainer(weighted_config, str(whole)).run()
    assert build_trainer(weighted_config.replace(train_steps=3), str(parts)).run()
    assert build_trainer(weighted_config, str(parts)).run()
    files = [folder / "checkpoints" / "step-00000006.npz" for folder in (whole, parts)]
    with np.load(files[0]) as expected, np.load(files[1]) as found:
        for name in set(expected.files) - {"state"}:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    path = weighted_config.data.data.split(",")[1]
    with open(path, encoding="utf-8") as file:
        text = file.read().replace("\t5\n", "\t4\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    with pytest.raises(UserError, match="text"):
        build_trainer(weighted_config.replace(train_steps=9), str(parts))


def test_the_weights_change_the_run(weighted_config, tmp_path):
    config = weighted_config.replace(train_steps=2, eval_steps=2)
    path = config.data.data.split(",")[1]
    plain = tmp_path / "plain.tsv"
    with open(path, encoding="utf-8") as file:
        plain.write_text("".join(line.rpartition("\t")[0] + "\n" for line in file))
    losses = []
    for name, data in (("weighted", path), ("plain", str(plain))):
        data_config = dataclasses.replace(config.data, data=config.data.data.replace(path, data))
        each = dataclasses.replace(config, data=data_config)
        assert build_trainer(each, str(tmp_path / name)).run()
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        losses.append([json.loads(line)["loss"] for line in lines])
    assert losses[0] != losses[1]
