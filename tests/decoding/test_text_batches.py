"""Lines, their sentences, and the joined translations."""

from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.decoding.text_batches import SplitLines, Translation, word_indices

LINES = [" One.  Two.\tThree. ", "", "\u2028Four.\x85Five.", " "]


def results(*texts):
    return [
        Translation((text, -float(number)), number, text == "d")
        for number, text in enumerate(texts, start=1)
    ]


def test_sentences_and_their_lines():
    split = SplitLines(LINES, "en", "de")
    assert split.sentences == ["One.", "Two.", "Three.", "Four.", "Five."]
    assert split.line_indices == [0, 0, 0, 2, 2]
    assert SplitLines([], "en", "de").join([]) == []


def test_join():
    """White space stays, line separators become blanks; the line has the lowest score."""
    joined = SplitLines(LINES, "en", "de").join(results("a", "b", "c", "d", "e"))
    assert joined == [(" a  b\tc ", -3.0), ("", 0.0), (" d e", -5.0), (" ", 0.0)]
    assert [each.length for each in joined] == [6, 0, 9, 0]
    assert [each.truncated for each in joined] == [False, False, True, False]


def test_white_space_that_the_target_language_has():
    japanese = ["一。二。", "三。 四。"]
    assert SplitLines(japanese, "ja", "en").join(results("1.", "2.", "3.", "4."))[0][0] == "1. 2."
    english = [" One. Two.  Three. "]
    joined = SplitLines(english, "en", "ja_JP").join(results("一。", "二。", "三。"))
    assert joined == [(" 一。二。  三。 ", -3.0)]


def test_a_line_with_an_impossible_sentence_has_no_translation():
    split = SplitLines(["One. Two.", "Three."], "en", "de")
    for impossible in (float("-inf"), NEGATIVE_INFINITY):
        joined = split.join([*map(Translation, [("a", -1.0), ("", impossible), ("c", -2.0)])])
        assert joined == [("", impossible), ("c", -2.0)]


def test_each_sentence_has_the_tag_of_its_line():
    """Without the tags of a model, the tags of languages are tags."""
    lines = ["<2de> One. Two.", ">>de<< Three.", "<b> Four. Five."]
    split = SplitLines(lines, "en", "de")
    expected = ["<2de> One.", "<2de> Two.", ">>de<< Three.", "<b> Four.", "Five."]
    assert split.sentences == expected
    assert split.join(results("a", "b", "c", "d", "e"))[0][0] == "a b"
    split = SplitLines(lines, "en", "de", {"<b>": 4})
    assert split.sentences == ["<2de> One.", "Two.", ">>de<< Three.", "<b> Four.", "<b> Five."]


def test_words_of_sub_words():
    pieces = ["\u2581", "Gr", "\u00fc", "\u00dfe", "\u2581\u2581an", "\u2581Anna", ".", "[END]"]
    assert word_indices(pieces) == [0, 0, 0, 0, 1, 2, 2, 2]
    assert word_indices(["", "\u2581a", "\u2581b"]) == [0, 0, 1]  # a tag is no word
