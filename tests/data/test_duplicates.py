"""The set of texts that finds duplicates."""

import random

from tf_transformer.data.duplicates import SeenTexts


def test_it_agrees_with_a_set():
    random.seed(1)
    seen, expected = SeenTexts(), set()
    for size in (1, 500, 0, 3, 2000, 40, 500):
        texts = [str(random.randrange(2000)) for _ in range(size)]
        for text, is_new in zip(texts, seen.add(texts), strict=True):
            assert is_new == (text not in expected)
            expected.add(text)
    assert sum(map(len, seen._arrays)) == len(expected)


def test_the_arrays_are_few():
    """Equal windows merge as the digits of a binary counter."""
    seen = SeenTexts()
    for window in range(13):
        assert seen.add([f"{window} {number}" for number in range(10)]).all()
    assert [len(array) for array in seen._arrays] == [80, 40, 10]


def test_odd_text():
    seen = SeenTexts()
    assert seen.add(["", "\udcff", "é", "e\u0301"]).tolist() == [True] * 4
    assert seen.add(["", "\udcff", "é"]).tolist() == [False] * 3
