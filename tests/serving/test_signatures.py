"""Text in, text out in one graph, against the live translator."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.data.sources import open_corpus
from tf_transformer.serving.signatures import TextFunctions

LONG = "long words " * 200


@pytest.fixture(scope="module")
def functions(translator):
    return TextFunctions(
        translator.model, (translator.source, translator.target), translator.decode
    )


@pytest.fixture(scope="module")
def texts(tiny_config):
    return [source for source, _ in open_corpus(tiny_config.data.data, "en", "de").read("test")][
        :12
    ]


@functools.cache
def graph(functions, n_best):
    """`translate` as a graph, in which it is quicker."""
    signature = [tf.TensorSpec([None], tf.string)]
    return tf.function(
        lambda text: functions.translate(text, n_best), input_signature=signature, autograph=False
    )


def translate(functions, texts, n_best=1):
    translations, scores = graph(functions, n_best)(tf.constant(texts, tf.string))
    return [[text.decode() for text in row] for row in translations.numpy()], scores.numpy()


def test_translations_are_those_of_the_translator(functions, translator, texts):
    """Law 8."""
    found, scores = translate(functions, texts, 4)
    for row, row_scores, expected in zip(found, scores, translator.n_best(texts, 4)):
        assert row == [text for text, _ in expected]
        np.testing.assert_allclose(row_scores, [score for _, score in expected], rtol=1e-6)


def test_a_row_does_not_depend_on_the_others(functions, translator, texts):
    """Law 2, also where the batch is computed in several chunks, and beside rows that are not translated at all."""
    together, scores = translate(functions, [*texts, "", LONG])
    for i, text in enumerate(texts):
        alone, score = translate(functions, [text])
        assert alone[0] == together[i] and score[0] == pytest.approx(scores[i], rel=1e-5)
    few = dataclasses.replace(translator.decode, decode_batch_tokens=64)
    chunked = TextFunctions(translator.model, (translator.source, translator.target), few)
    assert translate(chunked, [*texts, "", LONG])[0] == together


def test_rows_that_are_no_sentences(functions, translator):
    found, scores = translate(
        functions,
        ["", "  \t ", LONG, b"\xff\xfe Anna \xc3", "\U0001f600\u0000\u202e", "Anna sleeps."],
        2,
    )
    assert found[0] == found[1] == found[2] == ["", ""]
    np.testing.assert_array_equal(scores[:3], [[0, -1e9], [0, -1e9], [-1e9, -1e9]])
    assert found[3] == [text for text, _ in translator.n_best(["\ufffd\ufffd Anna \ufffd"], 2)[0]]
    assert found[5][0] == translator("Anna sleeps.") and np.isfinite(scores).all()


def test_no_rows(functions):
    nothing = tf.constant([], tf.string)
    assert [part.shape for part in functions.translate(nothing, 3)] == [(0, 3), (0, 3)]
    assert [part.shape for part in functions.score(nothing, nothing)] == [(0,), (0, 0), (0, 0)]
    assert [len(part) for part in functions.alignments(nothing)] == [0] * 4
    assert [part.shape[0] for part in functions.alignments(tf.constant(["", LONG]))] == [2] * 4


def test_scores_by_hand(functions, translator):
    source, target = "Anna sleeps.", "Anna schläft."
    inp, tar = (
        tokenizer.encode([text]).to_tensor()
        for tokenizer, text in ((translator.source, source), (translator.target, target))
    )
    logits, _ = translator.model(inp, tf.concat([[[2]], tar[:, :-1]], axis=1), training=False)
    expected = tf.gather(tf.nn.log_softmax(logits), tar, batch_dims=2)[0]
    pairs = tf.constant([source, "x", "x", ""]), tf.constant([target, LONG, "", ""])
    log_probability, of_tokens, tokens = functions.score(*pairs)
    n = len(expected)
    np.testing.assert_allclose(of_tokens[0, :n], expected, atol=1e-5)
    np.testing.assert_array_equal(of_tokens[0, n:], 0)
    assert [piece.decode() for piece in tokens[0].numpy()[:n]] == translator.target.pieces(tar[0])
    assert log_probability[1] == -1e9 and not b"".join(tokens[1].numpy())
    np.testing.assert_allclose(tf.reduce_sum(of_tokens, 1)[:1], log_probability[:1], rtol=1e-6)
    assert b"".join(tokens[2].numpy()) == b"".join(tokens[3].numpy()) == b"[END]"


def test_alignments_are_the_attention_weights(functions, translator, texts):
    translations, sources, targets, weights = functions.alignments(
        tf.constant([texts[0], "", LONG, texts[1]])
    )
    for row, text in ((0, texts[0]), (3, texts[1])):
        translation = translations[row].numpy().decode()
        assert translation == translator(text)
        pieces = [piece.decode() for piece in sources[row].numpy() if piece]
        expected_pieces, _, expected = translator.attention(text, translation)
        assert pieces == expected_pieces
        written = [piece for piece in targets[row].numpy() if piece]
        layer = expected["decoder_layer1_block2"]
        if len(written) == layer.shape[1]:  # else search took other sub-words for this text
            np.testing.assert_allclose(
                weights[row, 0, :, : len(written), : len(pieces)], layer, atol=1e-5
            )
        np.testing.assert_allclose(
            tf.reduce_sum(weights[row, :, :, : len(written)], -1), 1.0, atol=1e-5
        )
        assert not np.any(weights[row, :, :, len(written) :]) and not np.any(
            weights[row, ..., len(pieces) :]
        )
    assert translations[1] == translations[2] == b"" and not np.any(weights[1:3])
