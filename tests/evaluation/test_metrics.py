"""The metrics are as by sacreBLEU, with several references and with a baseline."""

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from tf_transformer.errors import UserError
from tf_transformer.evaluation import metrics
from tf_transformer.evaluation.bleu import compound_split_bleu, score
from tf_transformer.evaluation.metrics import METRICS, corpus_metrics, parse_metrics

SYSTEM = ["Der Hund läuft im Garten herum.", "Sie hat ein rotes Buch gekauft.", "Es regnet."]
BASELINE = ["Hund läuft Garten.", "Sie hat Buch gekauft.", "Regen."]
FIRST = ["Der Hund läuft durch den Garten.", "Sie kaufte ein rotes Buch.", "Es regnet."]
SECOND = ["Der Hund läuft im Garten.", "Sie hat ein rotes Buch gekauft.", "Es fällt Regen."]


def test_scores_of_two_references():
    results = corpus_metrics(["bleu", "chrf", "chrf++", "ter"], SYSTEM, [FIRST, SECOND])
    expected = [BLEU(), CHRF(), CHRF(word_order=2), TER()]
    assert [result.name for result in results] == ["BLEU", "chrF", "chrF++", "TER"]
    for result, metric in zip(results, expected):
        score = metric.corpus_score(SYSTEM, [FIRST, SECOND], n_bootstrap=1000)
        assert result.system.score == pytest.approx(score.score)
        interval = f"(μ = {result.system.mean:.2f} ± {result.system.ci:.2f})"
        assert interval in score.format(width=2)
        assert "nrefs:2|bs:1000|seed:12345" in result.signature
    assert "nw:2" in results[2].signature
    one_reference = corpus_metrics(["bleu"], SYSTEM, [FIRST])[0]
    assert results[0].system.score > one_reference.system.score
    assert str(one_reference).startswith(f"BLEU {one_reference.system.score:.2f} (μ = ")


def test_comparison_with_a_baseline():
    sources = 20
    result = corpus_metrics(
        ["chrf"], SYSTEM * sources, [FIRST * sources], baseline=BASELINE * sources
    )[0]
    assert result.system.score > result.baseline.score
    assert result.system.p_value == pytest.approx(1 / 1001)
    assert f"baseline {result.baseline.score:.2f} (μ = " in str(result)
    assert "p = 0.0010" in str(result)
    other_order = corpus_metrics(["chrf"], BASELINE, [FIRST], baseline=SYSTEM)[0]
    assert other_order.system.score == pytest.approx(result.baseline.score)
    same = corpus_metrics(["chrf"], SYSTEM, [FIRST], baseline=SYSTEM)[0]
    assert "no difference" in str(same)
    assert "p = " not in str(same)


def test_a_large_test_set_has_no_intervals(monkeypatch):
    monkeypatch.setattr(metrics, "MAX_RESAMPLED", 2)
    (result,) = corpus_metrics(["bleu"], SYSTEM, [FIRST])
    assert str(result).startswith(f"BLEU {BLEU().corpus_score(SYSTEM, [FIRST]).score:.2f}  (nrefs")
    with pytest.raises(UserError, match="--max_pairs=2"):
        corpus_metrics(["bleu"], SYSTEM, [FIRST], baseline=BASELINE)


def test_blank_references_do_not_count(caplog):
    """A blank among several references of a segment does not count either."""
    blanks = ["", " \t", "\u00a0"]
    names = list(METRICS)
    for result in corpus_metrics(names, ["", ""], [["a", "b"]]):
        assert result.system.score == (100 if result.name == "TER" else 0)
    expected = [str(each) for each in corpus_metrics(names, SYSTEM, [FIRST], BASELINE)]
    assert not caplog.records
    padded = [[*lines, *SYSTEM] for lines in (SYSTEM, BASELINE)]
    results = corpus_metrics(names, padded[0], [FIRST + blanks], padded[1])
    assert list(map(str, results)) == expected
    assert "3 of 6 references are blank, and are left out: 3 of 6 translations" in caplog.text
    corpus_score = score(padded[0], FIRST + blanks)
    assert [corpus_score.bleu, corpus_score.chrf] == [each.system.score for each in results[:2]]
    assert compound_split_bleu(padded[0], FIRST + blanks) == compound_split_bleu(SYSTEM, FIRST)

    second = [SECOND[0], "", SECOND[2]]
    (both,) = corpus_metrics(["bleu"], padded[0], [FIRST + blanks, second + blanks])
    one = BLEU().corpus_score(SYSTEM, [FIRST, [SECOND[0], None, SECOND[2]]]).score
    assert both.system.score == pytest.approx(one)
    assert "nrefs:var" in both.signature
    assert "7 of 12 references are blank" in caplog.text
    with pytest.raises(UserError, match="nothing to score: .* all references are blank"):
        corpus_metrics(["bleu"], SYSTEM, [blanks])


def test_errors():
    assert parse_metrics("bleu, chrF++") == ["bleu", "chrf++"]
    with pytest.raises(UserError, match="unknown metric 'meteor': give some of bleu, chrf"):
        parse_metrics("bleu,meteor")
    with pytest.raises(UserError, match="3 translations, but 2 references"):
        corpus_metrics(["bleu"], SYSTEM, [FIRST, SECOND[:2]])
