"""Search and teacher forcing of a model agree; outputs are valid text of one line."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences

from tf_transformer.config import DecodeConfig
from tf_transformer.decoding.inference import (
    alternative_translations,
    detokenize,
    max_output_lengths,
    search_translations,
    target_log_probs,
)
from tf_transformer.decoding.translator import Replicas
from tf_transformer.special_tokens import PAD, START

DECODE = DecodeConfig(beam_size=3, length_penalty=0.6, extra_decode_length=6)


@pytest.fixture(scope="module")
def model():
    return make_model()


def test_alternatives(model):
    """The most probable next tokens, each completed by greedy search."""
    inp, prefix = tf.constant(sentences(3, 9)), [[5, 6], [7], []]
    greedy = dataclasses.replace(DECODE, beam_size=1)
    padded = tf.ragged.constant(prefix, tf.int32).to_tensor(shape=[3, 2])
    alternatives = alternative_translations(model, inp, greedy, 3, padded)
    ids, scores, truncated, probabilities = alternatives
    replicas = Replicas(model)
    for i, forced in enumerate(prefix):
        tar_inp = tf.constant([[START, *forced]])
        p = tf.nn.softmax(model(inp[i : i + 1], tar_inp)[0][0, -1]).numpy()
        p[[PAD, START]] = 0
        best = np.argsort(-p)[:3]
        np.testing.assert_allclose(probabilities[i], p[best], rtol=1e-4)
        for n, token in enumerate(best):
            arrays = {"inp": inp[i : i + 1], "prefix": np.array([[*forced, token]])}
            (alone,) = replicas.run(search_translations, arrays, decode=greedy)
            found = ids[i, n].numpy()
            np.testing.assert_array_equal(found[found != PAD], alone.ids[0, 0])
            np.testing.assert_allclose(scores[i, n], alone.scores[0, 0], atol=1e-4)
            assert truncated[i, n] == alone.truncated[0, 0]


def test_the_longest_outputs(model):
    """The input and the extra length, but no more than the positions of the model."""
    lengths = tf.constant([0, 5, 63])
    for extra, expected in ((6, [6, 11, 64]), (100_000, [64, 64, 64])):
        decode = dataclasses.replace(DECODE, extra_decode_length=extra)
        assert max_output_lengths(model, lengths, decode).numpy().tolist() == expected


def test_learned_positions_in_bfloat16():
    """Positions and layer norm are float32, all other weights bfloat16."""
    inp, kind = tf.constant(sentences(3, 9)), {"positional_encoding": "learned"}
    low, high = make_model("bfloat16", **kind), make_model("float32", **kind)
    wide = {each.name for each in low.weights if each.dtype == "float32"}
    assert wide == {"pos_encoding", "gamma", "beta"}
    low.set_weights(high.get_weights())
    p, q = (tf.exp(target_log_probs(model, inp, inp)) for model in (low, high))
    np.testing.assert_allclose(p, q, atol=0.05)


def test_outputs_are_one_line(translator):
    """The vocabulary has a sub-word for each byte, so a model can write any of these."""
    pieces = translator.target.pieces(range(translator.target.vocab_size))
    for written, text in {
        b"a\nb": "a b",
        b"a\r\nb": "a  b",
        "a\u2028b\u2029c\u0085d\ve\ff\x1cg\x1dh\x1ei".encode(): "a b c d e f g h i",
        b"\n": " ",
        b"a\x00\tb": "a\x00\tb",
        b"a\xc3b": "a\ufffdb",
        "漢字 🙂 é".encode(): "漢字 🙂 é",
    }.items():
        ids = [pieces.index(f"<0x{byte:02X}>") for byte in written]
        result = detokenize(translator.target, tf.constant([ids]))[0].numpy().decode()
        assert result.lstrip() == text.lstrip()
        assert len(result.splitlines()) == 1
