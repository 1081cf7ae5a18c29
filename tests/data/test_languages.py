"""Splitting text into sentences."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_transformer.data.languages import base_language, split_sentences
from tf_transformer.errors import UserError


@pytest.mark.parametrize("language, text, expected", [
    ("en", "Mr. Smith came.  He left.", [("Mr. Smith came.", "  "), ("He left.", "")]),
    ("en_GB", " Is it?\tYes! ", [("", " "), ("Is it?", "\t"), ("Yes!", " ")]),
    ("de", "Das ist z. B. gut. Am 3. Mai?", [("Das ist z. B. gut.", " "), ("Am 3. Mai?", "")]),
    ("ja", "私は学生です。昨日、見た？", [("私は学生です。", ""), ("昨日、見た？", "")]),
    ("zh", "我是学生。太好了！", [("我是学生。", ""), ("太好了！", "")]),
    ("none", "One.\u3000Two.", [("One.", "\u3000"), ("Two.", "")]),
    ("en", "B\xa0. He came.", [("B\xa0.", " "), ("He came.", "")]),
    ("en", " \t", [("", " \t")]),
    ("en", "", []),
])  # fmt: skip
def test_examples(language, text, expected):
    assert split_sentences(text, language) == expected


PARTS = [*'Mr. J. z. 1. . ! 。 " ( ) 「 」 … [1] B'.split(), "z. B.", "- "]
SPACES = [" ", "  ", "\t", "\r", "\xa0", "\u2028", "\u3000", "\x85", "\x0b", "\n\n"]
TEXTS = st.lists(st.sampled_from(PARTS + SPACES) | st.text(max_size=3), max_size=20).map("".join)


@given(TEXTS, st.sampled_from(["en", "de", "ja", "zh", "fr", "hi", "xx", ""]))
def test_nothing_is_lost(text, language):
    pairs = split_sentences(text, language)
    assert "".join(sentence + space for sentence, space in pairs) == text
    for number, (sentence, space) in enumerate(pairs):
        assert sentence == sentence.strip()
        assert not space.strip()
        assert sentence or (number == 0 and space)


def test_codes_of_languages():
    assert [base_language(code) for code in ("pt_BR", "zh-Hant-TW", "EN")] == ["pt", "zh", "en"]
    for codes, expected in {
        "ja jpn jpn_Jpan ja-JP": "ja", "zh zho chi cmn zho_Hans yue zh_TW": "zh",
        "tha_Thai tha": "th", "khm_Khmr": "km", "ger deu de-AT": "de", "ell gre": "el",
        "heb iw": "he", "haw": "haw",
        "words": "words", "src": "src", "arb_Arab ar": "ar", "pes": "fa", "lvs_Latn": "lv",
        "ja_tokenized": "ja", "en_US.UTF-8": "en",
    }.items():  # fmt: skip
        assert {base_language(code) for code in codes.split()} == {expected}


def test_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(UserError, match="pip install sentencex"):
        split_sentences("One. Two.", "en")
