"""`Translator`: text in, text out."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import START


def test_a_string_or_a_list(translator):
    translation = translator("Anna sleeps.")
    assert isinstance(translation, str)
    assert translator(["Anna sleeps.", "Anna sleeps."]) == [translation, translation]
    assert translator([]) == []


def test_blank_text_stays_empty_and_order_is_kept(translator):
    texts = ["", "The dog sees the cat.", "   ", "Anna sleeps.", "\t"]
    translations = translator(texts)
    assert [translations[i] for i in (0, 2, 4)] == ["", "", ""]
    assert translations[1] == translator(texts[1])
    assert translations[3] == translator(texts[3])
    assert translator("") == ""


def test_translations_do_not_depend_on_the_batch_size(model_dir, translator):
    numbers = ["two", "three", "four", "twenty-one", "ninety"]
    texts = [f"Anna sees {number} dogs." for number in numbers] * 3
    small_batches = Translator.load(str(model_dir), decode_batch_tokens=20)
    assert small_batches(texts) == translator(texts)


def test_n_best(translator):
    hypotheses, blank = translator.n_best(["Anna sleeps.", ""], 4)
    assert len(hypotheses) == 4
    assert blank == [("", 0.0)]
    scores = [score for _, score in hypotheses]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] < 0
    with pytest.raises(UserError, match="give a larger --beam_size"):
        translator.n_best(["x"], 5)


@pytest.mark.parametrize("text", ["漢字 🙂", "a" * 90, "\u200b", "[END] </s>", "\x00", "é" * 30])
def test_any_text_has_a_translation(translator, text):
    assert isinstance(translator(text), str)


def test_error_for_a_text_that_is_too_long_names_its_line(translator):
    message = r"line 2 has [\d,]+ sub-words, the model takes at most 96"
    with pytest.raises(UserError, match=message):
        translator(["short", "long words " * 200])


def test_greedy_search_and_decode_settings(model_dir, translator):
    greedy = Translator.load(str(model_dir), beam_size=1, extra_decode_length=1)
    assert greedy.decode.beam_size == 1
    inp = greedy.source.encode(["Anna sees the dog."])
    tar = greedy.target.encode([greedy("Anna sees the dog.")])
    assert tar.shape[0] == 1
    assert len(tar[0]) <= len(inp[0]) + 1
    assert translator.decode.beam_size == 4
    assert translator.decode.length_penalty == 0.6


def test_attention(translator):
    source_text = "Anna sees the dog."
    target_text = "Anna sieht den Hund."
    source, target, weights = translator.attention(source_text, target_text)
    assert source[-1] == target[-1] == "[END]"
    assert set(weights) == {"encoder_layer1", "decoder_layer1_block1", "decoder_layer1_block2"}

    inp = translator.source.encode([source_text]).to_tensor()  # (1, S)
    tar = translator.target.encode([target_text]).to_tensor()  # (1, T)
    tar_inp = tf.concat([[[START]], tar[:, :-1]], axis=1)  # (1, T)
    _, expected_weights = translator.model(inp, tar_inp)
    for name, expected in expected_weights.items():
        np.testing.assert_allclose(weights[name], expected[0], atol=1e-6)

    encoder = weights["encoder_layer1"]
    self_attention = weights["decoder_layer1_block1"]
    cross_attention = weights["decoder_layer1_block2"]
    assert encoder.shape == (2, len(source), len(source))
    assert cross_attention.shape == (2, len(target), len(source))
    np.testing.assert_allclose(encoder.sum(-1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(cross_attention.sum(-1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(np.triu(self_attention[0], 1), 0)


def test_error_without_a_model(tmp_path, model_dir):
    with pytest.raises(UserError, match="no model folder"):
        Translator.load(str(tmp_path / "none"))
    with pytest.raises(UserError, match="holds no model"):
        Translator.load(str(tmp_path))
    with pytest.raises(UserError, match="no checkpoint 'nonsense'"):
        Translator.load(str(model_dir), "nonsense")
