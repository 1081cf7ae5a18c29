"""The gradients of an update, in every precision; what a rehearsal leaves."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences
from training_runs import assert_unchanged, values_of

from tf_transformer.checkpoints.checkpoint import named_weights
from tf_transformer.config import Config, TrainConfig
from tf_transformer.data.batching import Bucket
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.update import Update, micro_batch_gradients

ROWS, LENGTH = 250, 100  # 25,000 tokens on a side, as in the paper
SCALE = 2.0**10 / (ROWS * LENGTH)  # the mean of the token losses, times a loss scale for float16
SIZES = {
    "num_layers": 1, "d_model": 16, "num_heads": 2, "dff": 24,
    "input_vocab_size": 11, "target_vocab_size": 11, "pe_input": LENGTH, "pe_target": LENGTH,
}  # fmt: skip
BFLOAT16, FLOAT16 = ("mixed_bfloat16", False), ("mixed_float16", False)
BFLOAT16_XLA = ("mixed_bfloat16", True)


def random_ids(seed, length):
    """Ids from 4 to 10, the first ones more often, as in text."""
    frequencies = 1 / np.arange(1, 8)
    frequencies /= np.sum(frequencies)
    ids = np.random.default_rng(seed).choice(np.arange(4, 11), (ROWS, length), p=frequencies)
    return tf.constant(ids, tf.int32)


def gradients_by_weight(precision, jit_compile, **changes):
    """The gradient of each weight by its name, float64."""
    model = make_model(precision, **SIZES, **changes)
    rng = np.random.default_rng(4)
    for weight in model.trainable_variables:  # the initial biases are 0
        value = weight.numpy() + 0.1 * rng.normal(size=weight.shape)
        weight.assign(tf.cast(value, tf.bfloat16))  # so that the weights are equal in bfloat16
    compute = tf.function(
        functools.partial(micro_batch_gradients, TrainConfig(), model),
        jit_compile=jit_compile,
        autograph=False,
    )
    gradients, _ = compute(
        random_ids(0, LENGTH), random_ids(1, LENGTH + 1), tf.constant([0, 1]), tf.constant(0), SCALE
    )
    assert all(gradient.dtype == tf.float32 for gradient in gradients)
    return {
        name: np.array(gradient, np.float64)
        for name, gradient in zip(named_weights(model), gradients)
    }


@pytest.mark.parametrize(("changes", "cases"), [
    ({"positional_encoding": "learned"}, [BFLOAT16_XLA, FLOAT16]),
    ({"shared_embeddings": False}, [BFLOAT16, FLOAT16]),
], ids=["shared embeddings", "separate embeddings"])  # fmt: skip
def test_low_precision_gradients_of_many_tokens(changes, cases):
    """Each gradient is within 5% of that in float32, with and without XLA.

    The remaining error comes from the rounding of weights and activations. With sums over the
    tokens in the compute type, the largest errors are 14% in float16 and 90% in bfloat16.
    """
    expected = gradients_by_weight("float32", False, **changes)
    for precision, jit_compile in cases:
        found = gradients_by_weight(precision, jit_compile, **changes)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            # The bias of the keys adds the same number to all logits of a query. The softmax does
            # not depend on it, so its gradient is rounding noise.
            if not name.endswith("wk/bias"):
                error = np.linalg.norm(found[name] - value) / np.linalg.norm(value)
                assert error < 0.05, (precision, jit_compile, name, error)


LONG = 2**18  # the attention of so long a sentence needs 275 GB a head
SMALL = dict(num_layers=1, d_model=16, num_heads=2, dff=32, dropout_rate=0.1)


@pytest.mark.slow  # TensorFlow tries each of three allocations again for ten seconds
def test_a_rehearsal_changes_no_variable():
    """Weights, moments, their number of updates and loss scale stay."""
    settings = dict(**SMALL, warmup_steps=4, pe_input=LONG, pe_target=LONG)
    config = Config().with_vocabularies(60, 60).replace(**settings)
    options = dict(accumulate=False, weighted=True)
    update = Update(config, "mixed_float16", make_strategy(1), **options)
    inp, tar = map(tf.constant, (sentences(8, 4, 1), sentences(8, 4, 2, start=True)))
    batch = inp, tar, tf.zeros([2]), tf.ones([8])
    for _ in range(2):
        update(*batch)
    before = values_of(update)
    update.rehearse(Bucket(0, 4, 8, 1, 8))
    with pytest.raises(tf.errors.ResourceExhaustedError):
        update.rehearse(Bucket(0, LONG, 1, 1, 1))
    assert_unchanged(update, before)
    update.divide(16)  # with smaller micro-batches, a usual batch changes them
    update(*batch)
    assert not np.array_equal(values_of(update)[0][0], before[0][0])
