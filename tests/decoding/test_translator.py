"""Text in, text out."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.decoding.translator import Translator
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import START


def test_one_and_many(translator):
    one = translator("Anna sleeps.")
    assert isinstance(one, str)
    assert translator(["Anna sleeps.", "Anna sleeps."]) == [one, one]
    assert translator([]) == []


def test_blank_text_stays_empty_and_order_is_kept(translator):
    texts = ["", "The dog sees the cat.", "   ", "Anna sleeps.", "\t"]
    found = translator(texts)
    assert [found[i] for i in (0, 2, 4)] == ["", "", ""]
    assert found[1] == translator(texts[1]) and found[3] == translator(texts[3])
    assert translator("") == ""


def test_batches_do_not_matter(model_dir, translator):
    texts = [
        f"Anna sees {word} dogs." for word in ("two", "three", "four", "twenty-one", "ninety")
    ] * 3
    small = Translator.load(str(model_dir), decode_batch_tokens=20)
    assert small(texts) == translator(texts)


def test_n_best(translator):
    found = translator.n_best(["Anna sleeps.", ""], 4)
    assert len(found[0]) == 4 and found[1] == [("", 0.0)]
    scores = [score for _, score in found[0]]
    assert scores == sorted(scores, reverse=True) and scores[0] < 0
    with pytest.raises(UserError, match="give a larger --beam_size"):
        translator.n_best(["x"], 5)


def test_any_text_has_a_translation(translator):
    for text in ("漢字 🙂", "a" * 90, "\u200b", "[END] </s>", "\x00", "é" * 30):
        assert isinstance(translator(text), str)


def test_too_long_is_said_with_its_line(translator):
    with pytest.raises(UserError, match=r"line 2 has [\d,]+ sub-words, the model takes 96 at most"):
        translator(["short", "long words " * 200])


def test_greedy_and_decode_settings(model_dir, translator):
    greedy = Translator.load(str(model_dir), beam_size=1, extra_decode_length=1)
    assert greedy.decode.beam_size == 1
    ids = greedy.target.encode([greedy("Anna sees the dog.")])
    assert (
        ids.shape[0] == 1
        and len(ids[0]) <= len(greedy.source.encode(["Anna sees the dog."])[0]) + 1
    )
    assert translator.decode.beam_size == 4 and translator.decode.length_penalty == 0.6


def test_attention(translator):
    source, target, weights = translator.attention("Anna sees the dog.", "Anna sieht den Hund.")
    assert source[-1] == target[-1] == "[END]"
    assert set(weights) == {"encoder_layer1", "decoder_layer1_block1", "decoder_layer1_block2"}
    ids = [tokenizer.encode([text]).to_tensor() for tokenizer, text in
           ((translator.source, "Anna sees the dog."), (translator.target, "Anna sieht den Hund."))]  # fmt: skip
    _, full = translator.model(ids[0], tf.concat([[[START]], ids[1][:, :-1]], axis=1))
    for name, expected in full.items():
        np.testing.assert_allclose(weights[name], expected[0], atol=1e-6)
    assert weights["encoder_layer1"].shape == (2, len(source), len(source))
    np.testing.assert_allclose(weights["encoder_layer1"].sum(-1), 1.0, rtol=1e-5)
    assert weights["decoder_layer1_block2"].shape == (2, len(target), len(source))
    np.testing.assert_allclose(weights["decoder_layer1_block2"].sum(-1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(np.triu(weights["decoder_layer1_block1"][0], 1), 0)


def test_no_model(tmp_path, model_dir):
    with pytest.raises(UserError, match="no model folder"):
        Translator.load(str(tmp_path / "none"))
    with pytest.raises(UserError, match="holds no model"):
        Translator.load(str(tmp_path))
    with pytest.raises(UserError, match="no checkpoint 'nonsense'"):
        Translator.load(str(model_dir), "nonsense")
