"""Minimum Bayes risk decoding."""

import pytest
import sacrebleu

from tf_transformer.decoding.extras.minimum_bayes_risk import mean_utilities
from tf_transformer.evaluation.metrics import sentence_scorer

TEXTS = ["the cat sat on the mat", "a cat sat on a mat", "the dog", "a cat sat on a mat", "the cat"]


def brute_force(texts, score):
    """The mean utility of each text against those at other positions."""
    return [
        sum(score(text, other) for j, other in enumerate(texts) if j != i) / (len(texts) - 1)
        for i, text in enumerate(texts)
    ]


def test_utilities_are_those_of_brute_force():
    scores = {
        "bleu": lambda a, b: sacrebleu.sentence_bleu(a, [b]).score,
        "chrf": lambda a, b: sacrebleu.sentence_chrf(a, [b]).score,
    }
    for metric, score in scores.items():
        expected = dict(zip(TEXTS, brute_force(TEXTS, score)))
        found = mean_utilities(TEXTS, sentence_scorer(metric))
        assert dict(found) == pytest.approx(expected, abs=1e-9)
        assert [value for _, value in found] == sorted(dict(found).values(), reverse=True)


def test_bleu_ranks_languages_without_blanks():
    for language, texts in {
        "ja": ["猫がマットの上に座った。", "猫がマットに座った。", "犬が走る。"],
        "zh_TW": ["猫坐在垫子上。", "猫坐在垫上。", "狗跑了吧。"],
        "th": ["แมวนั่งบนเสื่อ", "แมวนั่งบนพรม", "สุนัขวิ่ง"],
    }.items():
        found = mean_utilities(texts, sentence_scorer("bleu", language))
        assert found[-1][0] == texts[2] and found[0][1] > found[-1][1] + 5, language


def test_equal_candidates_are_scored_once_and_ties_keep_their_order():
    calls = []

    def same(text, other):
        calls.append((text, other))
        return float(text == other)

    # "b" occurs twice: one of the 3 others is equal to it.
    assert mean_utilities(["a", "b", "c", "b"], same) == [("b", 1 / 3), ("a", 0), ("c", 0)]
    assert len(calls) == len(set(calls)) == 7  # 3 x 3 without ("a", "a") and ("c", "c")
    assert mean_utilities(["a", "b"], lambda text, other: 1.0) == [("a", 1.0), ("b", 1.0)]
    assert mean_utilities(["a"], same) == [("a", 1.0)]
