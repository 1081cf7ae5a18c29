"""Scores equal sacreBLEU's own command, with its signature."""

import pytest
import sacrebleu

from tf_transformer.config import UserError
from tf_transformer.evaluate import score

HYPOTHESES = ["Der Hund läuft im Garten herum.", "Sie hat ein rotes Buch gekauft."]
REFERENCES = ["Der Hund läuft durch den Garten.", "Sie hat ein rotes Buch gekauft."]


def test_scores():
    scores = score(HYPOTHESES, REFERENCES)
    assert scores.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert scores.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert "tok:13a" in scores.bleu_signature and f"version:{sacrebleu.__version__}" in scores.bleu_signature
    assert score(REFERENCES, REFERENCES).bleu == pytest.approx(100)
    assert str(scores).startswith(f"BLEU {scores.bleu:.2f}  (nrefs:1|case:mixed")


def test_errors():
    with pytest.raises(UserError, match="1 translations, but 2 references"):
        score(HYPOTHESES[:1], REFERENCES)
    with pytest.raises(UserError, match="nothing to score"):
        score([], [])
