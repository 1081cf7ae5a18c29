"""Notebook D measures the heads of `my_transformer.py`."""

import numpy as np
import pytest
from course import SENTENCE, TRANSLATION
from course.blanks import SOLUTION, my_transformer
from course.head_measurements import (
    Example,
    MyTranslator,
    by_words,
    nouns_to_the_right,
    replaced,
    words_of,
)

from tf_transformer import Translator


@pytest.fixture(scope="module")
def small():
    return MyTranslator(my_transformer(SOLUTION), "pocket-en-de")


def test_weights_are_those_of_the_package(small):
    source, target, weights = small.attention(SENTENCE)
    expected = Translator.load("pocket-en-de").attention(SENTENCE, TRANSLATION)
    assert (source, target) == tuple(map(list, expected[:2]))
    assert weights.keys() == expected[2].keys()
    for name, values in expected[2].items():
        assert weights[name] == pytest.approx(values, abs=1e-4)


def test_padding_does_not_change_the_weights(small):
    pairs = [(SENTENCE, TRANSLATION), (f"{SENTENCE} {SENTENCE}", TRANSLATION)]
    alone, in_a_batch = small.attention(*pairs[0]).weights, small.attentions(pairs)[0].weights
    for name, values in alone.items():
        assert in_a_batch[name] == pytest.approx(values, abs=1e-4)


def test_a_layer_gets_its_weights_back(small):
    layer = small.model.encoder.enc_layers[0].mha.dense
    before = layer.get_weights()
    with pytest.raises(KeyError), replaced(layer, [np.zeros_like(each) for each in before]):
        assert not np.any(layer.get_weights()[0])
        raise KeyError
    assert all(map(np.array_equal, before, layer.get_weights()))


def test_weights_of_words_are_the_mean_of_queries_and_the_sum_of_keys():
    words = words_of(["▁a", "▁b", "ou", "."])
    assert words == [("a", [0]), ("bou", [1, 2]), (".", [3])]
    joined = by_words(np.arange(16.0).reshape(4, 4), words, words)
    assert joined.tolist() == [[0, 3, 3], [6, 15, 9], [12, 27, 15]]


def test_goal_is_the_next_noun_on_the_right():
    source = ["▁The", "▁red", "▁car", "▁sees", "▁a", "▁very", "▁small", "▁dog", ".", "[END]"]
    kinds = nouns_to_the_right([Example(source, [], {})])
    found = {kind: [(case.query, case.goals) for case in cases] for kind, cases in kinds.items()}
    assert found == {
        "determiners": [(4, [7]), (0, [2])],
        "adjectives": [(6, [7]), (1, [2])],
        "nouns": [(2, [7])],
        "other words": [(5, [7]), (3, [7])],
    }
