"""Search and forced decoding of a model agree; outputs are valid text of one line."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import make_model, sentences

from tf_transformer.config import DecodeConfig
from tf_transformer.decoding.inference import (
    alternative_translations,
    detokenize,
    forced_log_probs,
    max_output_lengths,
    search_translations,
)
from tf_transformer.decoding.scores import length_penalty
from tf_transformer.special_tokens import PAD, START

DECODE = DecodeConfig(beam_size=3, length_penalty=0.6, extra_decode_length=6)


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.mark.parametrize("beam_size", [1, 3])
def test_forced_decoding_gives_the_scores_of_the_search(model, beam_size):
    inp = tf.constant(sentences(4, 9))
    decode = dataclasses.replace(DECODE, beam_size=beam_size)
    result = search_translations(model, inp, decode, n_best=beam_size)
    for n in range(beam_size):
        ids = result.ids[:, n]  # (B, L)
        log_probs = tf.reduce_sum(forced_log_probs(model, inp, ids), axis=1)  # (B)
        lengths = tf.cast(result.lengths[:, n], tf.float32)
        scores = log_probs / length_penalty(lengths, decode.length_penalty)
        np.testing.assert_allclose(scores, result.scores[:, n], atol=1e-4)


def test_alternatives(model):
    """The most probable next tokens, each completed by greedy search."""
    inp, prefix = tf.constant(sentences(3, 9)), [[5, 6], [7], []]
    greedy = dataclasses.replace(DECODE, beam_size=1)
    padded = tf.ragged.constant(prefix, tf.int32).to_tensor(shape=[3, 2])
    ids, scores, probabilities = alternative_translations(model, inp, greedy, 3, padded)
    for i, forced in enumerate(prefix):
        tar_inp = tf.constant([[START, *forced]])
        p = tf.nn.softmax(model(inp[i : i + 1], tar_inp)[0][0, -1]).numpy()
        p[[PAD, START]] = 0
        best = np.argsort(-p)[:3]
        np.testing.assert_allclose(probabilities[i], p[best], rtol=1e-4)
        for n, token in enumerate(best):
            longer = tf.constant([[*forced, token]], tf.int32)
            alone = search_translations(model, inp[i : i + 1], greedy, prefix=longer)
            found = ids[i, n].numpy()
            np.testing.assert_array_equal(found[found != PAD], alone.ids[0, 0])
            np.testing.assert_allclose(scores[i, n], alone.scores[0, 0], atol=1e-4)


def test_a_large_extra_length_does_not_overflow(model):
    decode = dataclasses.replace(DECODE)
    object.__setattr__(decode, "extra_decode_length", 2**31 - 1)  # above the bound of the setting
    lengths = tf.constant([0, 5, 63])
    assert max_output_lengths(model, lengths, decode).numpy().tolist() == [64, 64, 64]
    assert max_output_lengths(model, lengths, DECODE).numpy().tolist() == [6, 11, 64]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (b"a\nb", "a b"),
        (b"a\r\nb", "a  b"),
        ("a\u2028b\u2029c\u0085d\ve\ff\x1cg\x1dh\x1ei".encode(), "a b c d e f g h i"),
        (b"\n", " "),
        (b"a\x00\tb", "a\x00\tb"),
        (b"a\xc3b", "a\ufffdb"),
        ("漢字 🙂 é".encode(), "漢字 🙂 é"),
    ],
)
def test_outputs_are_one_line(translator, written, text):
    """The vocabulary has a sub-word for each byte, so a model can write any of these."""
    vocabulary = translator.target._python
    ids = [vocabulary.piece_to_id(f"<0x{byte:02X}>") for byte in written]
    result = detokenize(translator.target, tf.constant([ids]))[0].numpy().decode()
    assert result.lstrip() == text.lstrip()
    assert len(result.splitlines()) == 1
