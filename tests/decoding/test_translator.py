"""`Translator`: text in, text out."""

import itertools
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer.checkpoints.model_folder import find_model_dir
from tf_transformer.data.pocket import read_pairs
from tf_transformer.decoding.translator import Replicas, Translator
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import START
from tf_transformer.training.distribution import make_strategy


@pytest.fixture(scope="module")
def pocket():
    return Translator.load(find_model_dir("pocket-en-de"), extra_decode_length=5)


def test_strings_and_lists(translator):
    """Blank text stays empty, and the order is kept."""
    texts = ["", "The dog sees the cat.", "   ", "Anna sleeps.", "\t"]
    translations = translator(texts)
    assert [translations[i] for i in (0, 2, 4)] == ["", "", ""]
    for i in (1, 3):
        assert isinstance(translations[i], str)
        assert translations[i] == translator(texts[i])
    assert translator([]) == []
    assert translator("") == ""


@pytest.mark.parametrize("call", [
    lambda t, text: t.n_best(text, 2),
    lambda t, text: t.n_best(["Anna sleeps."], 1, target_prefixes="D"),
    lambda t, text: t.sample(text, 2),
    lambda t, text: t.score((text, text)),
    lambda t, text: t.score([text]),
    lambda t, text: t.align((text, text)),
    lambda t, text: t.attention([text]),
    lambda t, text: t.attention(text, [text]),
    lambda t, text: t.source.encode_lists(text),
])  # fmt: skip
def test_one_text_in_place_of_a_list(translator, call):
    """And a list in place of a text: nothing is taken letter by letter."""
    with pytest.raises(TypeError, match="give (a list|one text)"):
        call(translator, "Anna sleeps.")


def test_one_text_of_a_tokenizer(translator):
    """Also before batching in tf.data; ids of any integer type."""
    texts = ["Anna sleeps.", "The dog sees the cat."]
    rows = translator.source.encode_lists(texts)
    encode = translator.source.encode
    assert encode(texts[0]).numpy().tolist() == rows[0]
    dataset = tf.data.Dataset.from_tensor_slices(texts).map(encode)
    assert [ids.tolist() for ids in dataset.as_numpy_iterator()] == rows
    decode = translator.source.decode
    assert decode(tf.constant(rows[0], tf.int64)) == texts[0].encode()
    assert decode(tf.ragged.constant(rows, tf.int64)).numpy().tolist() == [*map(str.encode, texts)]


def test_targets_are_not_rewritten(translator):
    """Scores and prefixes take the characters that NFKC would replace."""
    source, written = "Anna sleeps.", "9 m² … ½，"
    changed = unicodedata.normalize("NFKC", written)
    first, second = translator.score([(source, written), (source, changed)])
    assert first.pieces != second.pieces
    assert first.log_prob != second.log_prob
    narrow, wide = (translator.score([(text, "９")])[0] for text in (source, "Ａnna sleeps．"))
    assert narrow == wide
    ((prefixed, _),) = translator.n_best([source], 1, target_prefixes=[written])[0]
    assert prefixed.startswith(written)


def test_n_best(translator):
    hypotheses, blank = translator.n_best(["Anna sleeps.", ""], 4)
    assert len(hypotheses) == 4
    assert blank == [("", 0.0)]
    scores = [score for _, score in hypotheses]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] < 0
    with pytest.raises(UserError, match="give a larger --beam_size"):
        translator.n_best(["x"], 5)


def test_error_for_a_text_that_is_too_long_names_its_line(translator, caplog):
    """Or it is skipped with a warning."""
    texts = ["Anna sleeps.", "long words " * 200, ""]
    with pytest.raises(UserError, match=r"line 2 has [\d,]+ sub-words, .* at most 96"):
        translator.n_best(texts, 1)
    first, long, blank = translator.n_best(texts, 1, line_numbers=[101, 104, 104], skip_long=True)
    assert first == translator.n_best(texts[:1], 1)[0]
    assert (long, blank) == ([("", float("-inf"))], [("", 0.0)])
    assert "line 104 has" in caplog.text


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
    assert encoder.shape == (2, len(source), len(source))
    np.testing.assert_allclose(encoder.sum(-1), 1.0, rtol=1e-5)


def test_any_batches_and_devices_give_the_same_results(model_dir, translator):
    texts = [f"Anna sees {number} dogs." for number in range(30)] + ["", "Anna sleeps."]
    pairs = [(text, f"Anna sieht {i} Hunde.") for i, text in enumerate(texts)]
    expected = translator.n_best(texts, 1)
    expected_scores = [score.log_prob for score in translator.score(pairs)]
    for devices in (1, 2):
        with make_strategy(devices).scope():
            small_batches = Translator.load(str(model_dir), decode_batch_tokens=50)
        finished = []
        results = small_batches.n_best(texts, 1, finished.append)
        assert len(finished) > 4
        assert sum(finished) == 31
        assert results == [[(row[0][0], pytest.approx(row[0][1], abs=1e-4))] for row in expected]
        scores = [score.log_prob for score in small_batches.score(pairs)]
        np.testing.assert_allclose(scores, expected_scores, atol=1e-4)


def test_batches_of_less_than_a_hypothesis(model_dir, translator):
    """A batch has at least one text."""
    smallest = Translator.load(str(model_dir), decode_batch_tokens=2)
    assert smallest(["", "Anna sleeps."]) == translator(["", "Anna sleeps."])
    assert len(smallest.sample(["Anna sleeps."], 3)[0]) == 3


def test_one_text_needs_one_of_several_devices(model_dir, translator, monkeypatch):
    numbers, run = [], Replicas.run

    def record(self, function, arrays, number, **options):
        numbers.append(number)
        return run(self, function, arrays, number, **options)

    monkeypatch.setattr(Replicas, "run", record)
    with make_strategy(2).scope():
        several = Translator.load(str(model_dir), decode_batch_tokens=50)
    assert several("Anna sleeps.") == translator("Anna sleeps.")
    several(["Anna sees seven dogs and the cat sleeps."] * 4)
    assert numbers[0] == 1 and numbers[-1] == 2


def test_batches_that_fit_into_the_memory(model_dir, translator, monkeypatch, caplog):
    """Half of a batch, until it fits; nothing is translated twice, and one text must fit."""
    texts = [f"Anna sees {number} dogs." for number in range(20)]
    expected = translator.n_best(texts, 1)
    run, sizes, most = Replicas.run, [], 3

    def limited(self, function, arrays, number, **options):
        if len(arrays["inp"]) > most:
            raise tf.errors.ResourceExhaustedError(None, None, "no memory")
        sizes.append(len(arrays["inp"]))
        return run(self, function, arrays, number, **options)

    monkeypatch.setattr(Replicas, "run", limited)
    small = Translator.load(str(model_dir))
    results = small.n_best(texts, 1)
    assert results == [[(row[0][0], pytest.approx(row[0][1], abs=1e-4))] for row in expected]
    assert sum(sizes) == 20
    assert "out of memory: going on with batches of" in caplog.messages[0]
    most = 0
    with pytest.raises(tf.errors.ResourceExhaustedError):
        small("Anna sleeps.")


def test_bfloat16(pocket):
    """Most translations are as in float32, and padding changes no more than rounding."""
    low = Translator.load("pocket-en-de", precision="bfloat16", beam_size=1, extra_decode_length=5)
    kinds = {each.dtype for each in low.model.weights if each.path.endswith(("kernel", "table"))}
    assert kinds == {"bfloat16"}
    texts = [source for source, _ in itertools.islice(read_pairs(), 60)]
    high = Translator(pocket.model, (pocket.source, pocket.target), low.decode)
    outputs = low(texts)
    assert sum(map(str.__eq__, outputs, high(texts))) >= 50
    pairs = list(zip(texts, outputs))
    padded = low.score(pairs)
    assert np.isfinite([each.log_prob for each in padded]).all()
    for pair, of_batch in list(zip(pairs, padded))[:5]:
        (alone,) = low.score([pair])
        np.testing.assert_allclose(of_batch.token_log_probs, alone.token_log_probs, atol=0.1)


def test_prefixes(pocket):
    texts = ["Anna sees the dog.", "My brother has three cats.", "They sleep.", ""]
    prefixes = ["Der", "", "Heute schlafen", "Anna"]
    results = pocket.n_best(texts, 4, target_prefixes=prefixes)
    free = pocket.n_best(texts, 4)
    assert results[1] == [(text, pytest.approx(score, abs=1e-4)) for text, score in free[1]]
    assert results[3] == [("", 0.0)]
    for text, prefix, hypotheses in zip(texts[:3], prefixes, results):
        assert all(found.startswith(prefix) for found, _ in hypotheses)
        best, score = hypotheses[0]
        alone = pocket.n_best([text], 4, target_prefixes=[prefix])
        assert alone[0][0] == (best, pytest.approx(score, abs=1e-4))
        (scored,) = pocket.score([(text, best)])
        assert score == pytest.approx(scored.normalized, abs=1e-3)
    for (best, score), text in zip([row[0] for row in free[:3]], texts):
        words = best.split(" ")
        parts = [" ".join(words[:number]) for number in range(1, len(words) + 1)]
        for (own,) in pocket.n_best([text] * len(parts), 1, target_prefixes=parts):
            assert own == (best, pytest.approx(score, abs=1e-4))


def test_a_prefix_that_is_too_long(translator):
    """The longest outputs of the model have 96 sub-words, with the end token."""
    texts = ["Anna sleeps.", "Anna sleeps."]
    prefixes = ["", "Anna " * 200]
    with pytest.raises(UserError, match="line 2 has a prefix of .* sub-words, .* at most 95"):
        translator.n_best(texts, 1, target_prefixes=prefixes)
    with pytest.raises(UserError, match="1 prefixes of 2 texts"):
        translator.n_best(texts, 1, target_prefixes=prefixes[:1])
    results = translator.n_best(texts, 1, skip_long=True, target_prefixes=prefixes)
    assert results == [translator.n_best(texts[:1], 1)[0], [("", float("-inf"))]]


def test_prefixes_have_room_beside_the_extra_length(model_dir):
    short = Translator.load(str(model_dir), extra_decode_length=1)
    ((text, _),) = short.n_best(["Anna sleeps."], 1, target_prefixes=["a " * 40])[0]
    assert "a " * 39 + "a" in text


def test_lengths_and_the_longest_outputs(model_dir):
    """A barely trained model writes to the limit."""
    texts = ["Anna sleeps.", "", "The dog sees the cat."]
    short = Translator.load(str(model_dir), extra_decode_length=3)
    longest = [len(row) - 1 + 3 for row in short.source.encode(texts).to_list()]
    found = {
        "beam": short.n_best(texts, 2),
        "samples": short.sample(texts, 2),
        "prefixes": short.n_best(texts, 2, target_prefixes=["a", "", ""]),
    }
    for name, (anna, blank, dog) in found.items():
        assert [(each.length, each.truncated) for each in blank] == [(0, False)], name
        for hypotheses, limit in ((anna, longest[0]), (dog, longest[2])):
            for each in hypotheses:
                assert 0 <= each.length < limit
                assert each.truncated == (each.length == limit - 1)
        assert any(each.truncated for each in (*anna, *dog)), name


def test_alignments(pocket):
    """German word order; a tag, and what is not in the result of another batch, have no effect."""
    pairs = [
        ("This man wears a cheap shirt.", "Dieser Mann trägt ein billiges Hemd."),
        ("", "Anna"),
        ("They sleep.", ""),
        ("She believes that she is not at home.", "Sie glaubt, dass sie nicht zu Hause ist."),
        ("long words " * 600, "Anna"),
    ]
    man, *none, home, long = pocket.align(pairs)
    assert {(i, i) for i in range(6)} <= set(man)
    assert none == [[], []] and long == []
    assert {(1, 1), (3, 3), (4, 7), (5, 4)} <= set(home)
    assert pocket.align(pairs[3:4]) == [home]


def test_samples(translator):
    texts = ["Anna sleeps.", "", "The dog sees the cat.", "Anna sleeps."]
    first, blank, dog, second = translator.sample(texts, 3, seed=4)
    assert blank == [("", 0.0)]
    assert first != second  # another line
    assert [len(first), len(dog), len(second)] == [3, 3, 3]
    (alone,) = translator.sample(texts[2:3], 3, seed=4, line_numbers=[3])
    assert alone == [(text, pytest.approx(score, abs=1e-4)) for text, score in dog]
    prefixed = translator.sample(texts[:1], 3, seed=4, target_prefixes=["Der Hund"])[0]
    assert all(text.startswith("Der Hund") for text, _ in prefixed)


def test_score(translator):
    pairs = [
        ("Anna sees the dog.", "Anna sieht den Hund."),
        ("Anna sleeps.", ""),
        ("", "Anna"),
        ("The dog sees the cat.", "Der Hund sieht die Katze und die Katze sieht den Hund. " * 2),
    ]
    together = translator.score(pairs)
    for pair, score in zip(pairs, together):
        (alone,) = translator.score([pair])
        assert alone.pieces == score.pieces
        assert alone.log_prob == pytest.approx(score.log_prob, abs=1e-4)
        assert score.pieces[-1] == "[END]"
        assert len(score.token_log_probs) == len(score.pieces)
        assert score.log_prob == pytest.approx(sum(score.token_log_probs))
        penalty = ((5 + len(score.pieces)) / 6) ** 0.6
        assert score.normalized == pytest.approx(score.log_prob / penalty, rel=1e-5)
        assert score.log_prob < 0
    assert together[1].pieces == ["[END]"]
    with pytest.raises(UserError, match="line 8 has"):
        translator.score([("a", "long words " * 200)], first_line=8)
    (skipped,) = translator.score([("a", "long words " * 200)], skip_long=True)
    assert skipped.log_prob == float("-inf")


def test_a_model_whose_logits_are_not_finite_gives_empty_translations(model_dir):
    broken = Translator.load(str(model_dir), beam_size=1)
    broken.model.set_weights(
        [np.full_like(weight, np.nan) for weight in broken.model.get_weights()]
    )
    assert broken.n_best(["Anna sleeps.", "Otto eats."], 1) == [[("", float("-inf"))]] * 2
