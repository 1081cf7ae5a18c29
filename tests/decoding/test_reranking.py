"""Minimum Bayes risk decoding, and rescoring of n-best lists."""

import math

import pytest
import sacrebleu

from tf_transformer.decoding.reranking import (
    Hypothesis,
    mean_utilities,
    read_n_best,
    rescore,
)
from tf_transformer.errors import UserError
from tf_transformer.evaluation.metrics import sentence_scorer

TEXTS = ["the cat sat on the mat", "a cat sat on a mat", "the dog", "a cat sat on a mat", "the cat"]


def test_utilities_are_those_of_brute_force():
    scores = {
        "bleu": lambda a, b: sacrebleu.sentence_bleu(a, [b]).score,
        "chrf": lambda a, b: sacrebleu.sentence_chrf(a, [b]).score,
    }
    for metric, score in scores.items():
        expected = {  # the mean over the texts at other positions
            text: sum(score(text, other) for j, other in enumerate(TEXTS) if j != i) / 4
            for i, text in enumerate(TEXTS)
        }
        found = mean_utilities(TEXTS, sentence_scorer(metric))
        assert dict(found) == pytest.approx(expected, abs=1e-9)
        assert [value for _, value in found] == sorted(dict(found).values(), reverse=True)


LIST = "1\t-1.5\ta\n1\t-2.0\tb\tc\n2\t0.0000\t\n"


def test_read_a_list(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text(LIST)
    expected = [Hypothesis(1, -1.5, "a"), Hypothesis(1, -2.0, "b\tc"), Hypothesis(2, 0.0, "")]
    assert read_n_best(str(path), 2) == expected
    assert [str(each) for each in expected[:1]] == ["1\t-1.5000\ta"]
    problems = {
        "1\t-1.5\n": ":1: give LINE NUMBER<tab>SCORE<tab>TRANSLATION",
        LIST + "x\t1\ta\n": ":4: give LINE",
        LIST + "3\t1\ta\n": ":4: a translation of line 3 of 2 sources",
        "2\t1\ta\n": "no translation of line 1",
    }
    for text, message in problems.items():
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            read_n_best(str(path), 2)


def test_weighted_sums_by_hand():
    hypotheses = [Hypothesis(2, -1.0, "x"), Hypothesis(1, -1.0, "a"), Hypothesis(1, -2.0, "b")]
    features = [[-1.0, -1.0, -2.0], [-math.inf, -3.0, -1.0]]
    assert rescore(hypotheses, features, [1.0, 0.0]) == [
        [Hypothesis(1, -1.0, "a"), Hypothesis(1, -2.0, "b")],
        [Hypothesis(2, -1.0, "x")],
    ]
    assert rescore(hypotheses, features, [0.5, 2.0]) == [
        [Hypothesis(1, -3.0, "b"), Hypothesis(1, -6.5, "a")],
        [Hypothesis(2, -math.inf, "x")],
    ]
    last = rescore(hypotheses, features, [1.0, -2.0])[1]  # impossible, whatever the sign
    assert last == [Hypothesis(2, -math.inf, "x")]
    ties = rescore(hypotheses[1:], [[1.0, 1.0]], [1.0])
    assert [each.text for each in ties[0]] == ["a", "b"]
