"""A search that XLA compiles finds the same translations as one that it does not compile."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences

from tf_transformer.config import ControlConfig, DecodeConfig
from tf_transformer.data.batching import bucket_plan
from tf_transformer.decoding.ensemble import Ensemble
from tf_transformer.decoding.inference import search_translations
from tf_transformer.decoding.kv_cache import make_decode_step
from tf_transformer.decoding.translator import Replica

CONTROLS = {
    "free": ControlConfig(),
    "controls": ControlConfig(repetition_penalty=1.5, no_repeat_ngram_size=2),
    "groups": ControlConfig(diverse_groups=2),
}


def decode_config(beam_size):
    return DecodeConfig(beam_size=beam_size, extra_decode_length=6)


def results(search, *batch):
    """What a function of (batch, for_xla) returns without and with XLA, the same padding."""
    plain = tf.function(functools.partial(search, for_xla=False), autograph=False)
    compiled = tf.function(
        functools.partial(search, for_xla=True), autograph=False, jit_compile=True
    )
    return plain(*batch), compiled(*batch)


def assert_same(plain, compiled):
    length = plain.ids.shape[2]
    np.testing.assert_array_equal(plain.ids, compiled.ids[:, :, :length])
    np.testing.assert_array_equal(compiled.ids[:, :, length:], 0)
    np.testing.assert_array_equal(plain.lengths, compiled.lengths)
    np.testing.assert_allclose(plain.scores, compiled.scores, rtol=1e-4)


def bucket_shapes():
    """The shapes (rows, source length) of the buckets of a corpus with sentences of 2 to 40 ids."""
    counts = np.array([0, 0, *range(39, 0, -1)])  # pairs of each length
    return [(bucket.rows, bucket.length) for bucket in bucket_plan(counts, 256, 4)]


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.mark.parametrize("shape", bucket_shapes(), ids=str)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_every_bucket(model, shape, beam_size):
    decode = decode_config(beam_size)
    inp = sentences(*shape)
    replica, arrays = Replica(model), {"inp": inp}
    plain, compiled = (
        replica.run(search_translations, arrays, decode=decode, for_xla=jit)
        for jit in (False, True)
    )
    assert_same(plain, compiled)


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("controls", CONTROLS)
def test_controls_and_prefixes(model, controls, beam_size):
    def search(inp, prefix, for_xla):
        options = decode_config(beam_size), beam_size, prefix, CONTROLS[controls]
        return search_translations(model, inp, *options, for_xla=for_xla)

    prefix = tf.constant([[5, 6, 7], [8, 0, 0], [0, 0, 0]])
    assert_same(*results(search, tf.constant(sentences(3, 9)), prefix))
    longer_than_the_limit = tf.constant([list(range(5, 20)), [8, *[0] * 14], [0] * 15])
    assert_same(*results(search, tf.constant(sentences(3, 4)), longer_than_the_limit))


def test_constraints(model):
    def search(inp, phrases, for_xla):
        return search_translations(
            model, inp, decode_config(4), 2, phrases=phrases, for_xla=for_xla
        )

    phrases = tf.constant([[[5, 6], [9, 0]], [[7, 0], [0, 0]], [[0, 0], [0, 0]]])
    assert_same(*results(search, tf.constant(sentences(3, 9)), phrases))


def test_ensemble(model):
    models = Ensemble([model, make_model(num_layers=1)])

    def search(inp, for_xla):
        return search_translations(models, inp, decode_config(3), 3, for_xla=for_xla)

    assert_same(*results(search, tf.constant(sentences(4, 9))))


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("mixed_bfloat16", 0.05), ("mixed_float16", 0.01)]
)
def test_low_precision(precision, tolerance):
    """The logits of a step differ by rounding only: some units in the last place of the type."""
    model, inp = make_model(precision), tf.constant(sentences(3, 9))
    ids, indices = tf.constant([[5, 6], [7, 8], [9, 10]], tf.int64), tf.zeros([3, 2], tf.int64)

    def logits(longest):
        step, state = make_decode_step(model, inp, 2, longest)
        for position in range(3):
            found, state = step(ids + position, tf.constant(position), indices, state)
        return found

    plain = logits(None)
    compiled = tf.function(lambda: logits(8), autograph=False, jit_compile=True)()
    np.testing.assert_allclose(plain, compiled, atol=tolerance * np.abs(plain).max())
