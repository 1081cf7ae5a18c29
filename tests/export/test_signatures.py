"""The functions of an exported model, compared with the live translator."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.data.readers import open_corpus
from tf_transformer.decoding.inference import target_log_probs
from tf_transformer.export.signatures import TextFunctions

TOO_LONG = "long words " * 200


@pytest.fixture(scope="module")
def texts(tiny_config):
    pairs = open_corpus(tiny_config.data.data, "en", "de").read("test")
    return [source for source, _ in pairs][:8]


def decoded(array):
    return [[text.decode() for text in row] for row in array]


def test_a_row_is_that_of_the_live_model_and_does_not_depend_on_other_rows(call, translator, texts):
    """Invariants 2 and 8, also beside rows that are not translated."""
    batch = call("nbest", text=[*texts, "", TOO_LONG])
    for i, hypotheses in enumerate(translator.n_best(texts, 4)):
        single = call("nbest", text=texts[i : i + 1])
        for result, row in ((batch, i), (single, 0)):
            translations = decoded(result["translations"])[row]
            assert translations == [text for text, _ in hypotheses]
            scores = [score for _, score in hypotheses]
            np.testing.assert_allclose(result["scores"][row], scores, rtol=1e-5)
    best = call("serving_default", text=texts)
    np.testing.assert_array_equal(best["translation"], batch["translations"][:8, 0])
    np.testing.assert_allclose(best["score"], batch["scores"][:8, 0], rtol=1e-5)


def test_chunks_of_rows(call, translator, texts):
    decode = dataclasses.replace(translator.decode, decode_batch_tokens=64)
    functions = TextFunctions(translator.model, (translator.source, translator.target), decode)
    specification = [tf.TensorSpec([None], tf.string)]
    chunked = tf.function(functions.serving_default, specification, autograph=False)
    rows = [*texts, "", TOO_LONG]
    expected = call("serving_default", text=rows)["translation"]
    np.testing.assert_array_equal(chunked(tf.constant(rows))["translation"], expected)


def test_unusual_rows(call, translator):
    invalid_utf8 = b"\xff\xfe Anna \xc3"
    unusual = ["", "  \t ", TOO_LONG, invalid_utf8, "\U0001f600\u0000\u202e", "Anna sleeps."]
    result = call("nbest", text=unusual)
    translations, scores = decoded(result["translations"]), result["scores"]
    assert translations[:3] == [[""] * 4] * 3
    np.testing.assert_array_equal(scores[:3, :2], [[0, -1e9], [0, -1e9], [-1e9, -1e9]])
    replaced = translator.n_best(["\ufffd\ufffd Anna \ufffd"], 4)[0]
    assert translations[3] == [text for text, _ in replaced]
    assert translations[5][0] == translator("Anna sleeps.")
    assert np.isfinite(scores).all()


def test_no_rows(call):
    shapes = dict.fromkeys(("translations", "scores", "truncated"), (0, 4))
    assert {key: x.shape for key, x in call("nbest", text=[]).items()} == shapes
    scores = call("score", source=[], target=[])
    assert sorted(x.shape for x in scores.values()) == [(0,), (0, 0), (0, 0)]
    assert [len(x) for x in call("alignments", text=[]).values()] == [0] * 4
    assert [len(x) for x in call("alignments", text=["", TOO_LONG]).values()] == [2] * 4


def test_scores_equal_the_log_probabilities_of_the_model(call, translator):
    source, target = "Anna sleeps.", "Anna schläft."
    inp = translator.source.encode([source]).to_tensor()
    tar = translator.target.encode([target]).to_tensor()
    expected = target_log_probs(translator.model, inp, tar)[0]
    result = call("score", source=[source, "x", "x", ""], target=[target, TOO_LONG, "", ""])
    log_probs, tokens = result["token_log_probabilities"], result["tokens"]
    n = len(expected)
    np.testing.assert_allclose(log_probs[0, :n], expected, atol=1e-5)
    np.testing.assert_array_equal(log_probs[0, n:], 0)
    assert decoded(tokens)[0][:n] == translator.target.pieces(tar[0])
    np.testing.assert_allclose(log_probs[0].sum(), result["log_probability"][0], rtol=1e-6)
    assert result["log_probability"][1] == -1e9
    assert [b"".join(row) for row in tokens[1:]] == [b"", b"[END]", b"[END]"]


def test_alignments_are_the_attention_weights(call, translator, texts):
    result = call("alignments", text=[texts[0], "", TOO_LONG, texts[1]])
    weights = result["weights"]
    for row, text in ((0, texts[0]), (3, texts[1])):
        translation = result["translation"][row].decode()
        assert translation == translator(text)
        pieces, _, attention = translator.attention(text, translation)
        assert [piece.decode() for piece in result["source_tokens"][row] if piece] == pieces
        target_length = np.count_nonzero(result["target_tokens"][row])
        found = weights[row, 0, :, :target_length, : len(pieces)]
        expected = attention["decoder_layer1_block2"]
        # The search can divide the translation into other sub-words than the tokenizer.
        if target_length == expected.shape[1]:
            np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(weights[row, :, :, :target_length].sum(-1), 1.0, atol=1e-5)
        assert not np.any(weights[row, :, :, target_length:])
        assert not np.any(weights[row, ..., len(pieces) :])
    assert [text for text in result["translation"][1:3]] == [b"", b""]
    assert not np.any(weights[1:3])
