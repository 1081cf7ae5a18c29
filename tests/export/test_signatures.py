"""The functions of an exported model, compared with the live translator."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.data.readers import open_corpus
from tf_transformer.export.signatures import TextFunctions

TOO_LONG = "long words " * 200


@pytest.fixture(scope="module")
def functions(translator):
    tokenizers = (translator.source, translator.target)
    return TextFunctions(translator.model, tokenizers, translator.decode)


@pytest.fixture(scope="module")
def texts(tiny_config):
    pairs = open_corpus(tiny_config.data.data, "en", "de").read("test")
    return [source for source, _ in pairs][:12]


@functools.cache
def graph(function):
    """A function of texts as a graph, which is faster."""
    return tf.function(
        lambda text: list(function(text).values()),
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )


def translate(functions, texts, n_best=1):
    function = functions.serving_default if n_best == 1 else functions.nbest
    results = graph(function)(tf.constant(texts, tf.string))
    translations, scores = (x.numpy().reshape([len(texts), -1])[:, :n_best] for x in results)
    return [[text.decode() for text in row] for row in translations], scores


def test_a_row_does_not_depend_on_other_rows(functions, translator, texts):
    """Invariant 2, also in several chunks and beside rows that are not translated."""
    batch, scores = translate(functions, [*texts, "", TOO_LONG])
    for i, text in enumerate(texts):
        single, score = translate(functions, [text])
        assert single[0] == batch[i]
        assert score[0] == pytest.approx(scores[i], rel=1e-5)
    decode = dataclasses.replace(translator.decode, decode_batch_tokens=64)
    chunked = TextFunctions(translator.model, (translator.source, translator.target), decode)
    assert translate(chunked, [*texts, "", TOO_LONG])[0] == batch


def test_unusual_rows(functions, translator):
    invalid_utf8 = b"\xff\xfe Anna \xc3"
    unusual = ["", "  \t ", TOO_LONG, invalid_utf8, "\U0001f600\u0000\u202e", "Anna sleeps."]
    translations, scores = translate(functions, unusual, 2)
    assert translations[0] == translations[1] == translations[2] == ["", ""]
    np.testing.assert_array_equal(scores[:3], [[0, -1e9], [0, -1e9], [-1e9, -1e9]])
    replaced = translator.n_best(["\ufffd\ufffd Anna \ufffd"], 2)[0]
    assert translations[3] == [text for text, _ in replaced]
    assert translations[5][0] == translator("Anna sleeps.")
    assert np.isfinite(scores).all()


def test_no_rows(functions):
    empty = tf.constant([], tf.string)
    assert [part.shape for part in functions.nbest(empty).values()] == [(0, 4), (0, 4)]
    assert [part.shape for part in functions.score(empty, empty).values()] == [(0,), (0, 0), (0, 0)]
    assert [len(part) for part in functions.alignments(empty).values()] == [0] * 4
    without_result = functions.alignments(tf.constant(["", TOO_LONG])).values()
    assert [part.shape[0] for part in without_result] == [2] * 4


def test_scores_equal_the_log_probabilities_of_the_model(functions, translator):
    source = "Anna sleeps."
    target = "Anna schläft."
    inp = translator.source.encode([source]).to_tensor()
    tar = translator.target.encode([target]).to_tensor()
    tar_inp = tf.concat([[[2]], tar[:, :-1]], axis=1)
    logits, _ = translator.model(inp, tar_inp, training=False)
    expected = tf.gather(tf.nn.log_softmax(logits), tar, batch_dims=2)[0]
    sources = tf.constant([source, "x", "x", ""])
    targets = tf.constant([target, TOO_LONG, "", ""])
    log_probability, token_log_probabilities, tokens = functions.score(sources, targets).values()
    n = len(expected)
    np.testing.assert_allclose(token_log_probabilities[0, :n], expected, atol=1e-5)
    np.testing.assert_array_equal(token_log_probabilities[0, n:], 0)
    assert [piece.decode() for piece in tokens[0].numpy()[:n]] == translator.target.pieces(tar[0])
    assert log_probability[1] == -1e9
    assert not b"".join(tokens[1].numpy())
    sums = tf.reduce_sum(token_log_probabilities, 1)
    np.testing.assert_allclose(sums[:1], log_probability[:1], rtol=1e-6)
    assert b"".join(tokens[2].numpy()) == b"".join(tokens[3].numpy()) == b"[END]"


def test_alignments_are_the_attention_weights(functions, translator, texts):
    translations, sources, targets, weights = functions.alignments(
        tf.constant([texts[0], "", TOO_LONG, texts[1]])
    ).values()
    for row, text in ((0, texts[0]), (3, texts[1])):
        translation = translations[row].numpy().decode()
        assert translation == translator(text)
        pieces = [piece.decode() for piece in sources[row].numpy() if piece]
        expected_pieces, _, attention = translator.attention(text, translation)
        assert pieces == expected_pieces
        target_length = sum(bool(piece) for piece in targets[row].numpy())
        found = weights[row, 0, :, :target_length, : len(pieces)]
        expected = attention["decoder_layer1_block2"]
        # The search can divide the translation into other sub-words than the tokenizer.
        if target_length == expected.shape[1]:
            np.testing.assert_allclose(found, expected, atol=1e-5)
        sums = tf.reduce_sum(weights[row, :, :, :target_length], -1)
        np.testing.assert_allclose(sums, 1.0, atol=1e-5)
        assert not np.any(weights[row, :, :, target_length:])
        assert not np.any(weights[row, ..., len(pieces) :])
    assert translations[1] == translations[2] == b""
    assert not np.any(weights[1:3])
