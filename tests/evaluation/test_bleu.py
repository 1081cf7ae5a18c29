"""Scores equal sacreBLEU's own command, with its signature."""

import pytest
import sacrebleu

from tf_transformer.errors import UserError
from tf_transformer.evaluation.bleu import compound_split_bleu, score, split_compounds

HYPOTHESES = ["Der Hund läuft im Garten herum.", "Sie hat ein rotes Buch gekauft."]
REFERENCES = ["Der Hund läuft durch den Garten.", "Sie hat ein rotes Buch gekauft."]


def test_scores():
    scores = score(HYPOTHESES, REFERENCES)
    assert scores.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert scores.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert (
        "tok:13a" in scores.bleu_signature
        and f"version:{sacrebleu.__version__}" in scores.bleu_signature
    )
    assert score(REFERENCES, REFERENCES).bleu == pytest.approx(100)
    assert str(scores).startswith(f"BLEU {scores.bleu:.2f}  (nrefs:1|case:mixed")


def test_errors():
    with pytest.raises(UserError, match="1 translations, but 2 references"):
        score(HYPOTHESES[:1], REFERENCES)
    with pytest.raises(UserError, match="nothing to score"):
        score([], [])
    with pytest.raises(UserError, match="1 translations, but 2 references"):
        compound_split_bleu(HYPOTHESES[:1], REFERENCES)


def test_compounds_are_split_as_by_the_papers_program():
    assert split_compounds("ein rot-weißes Auto - und") == "ein rot ##AT##-##AT## weißes Auto - und"
    assert split_compounds("Ost-West-Dialog") == "Ost ##AT##-##AT## West ##AT##-##AT## Dialog"
    assert split_compounds("a-b-c") == "a ##AT##-##AT## b-c"  # the b is used up, as in Perl


def test_compound_split_bleu_by_hand():
    """Tokens: Der Ost ##AT##-##AT## West ##AT##-##AT## Dialog geht weiter . against ... Konflikt ...: 8 of 9, and no smoothing."""
    bleu, how = compound_split_bleu(
        ["Der Ost-West-Dialog geht weiter."], ["Der Ost-West-Konflikt geht weiter."]
    )
    precisions = [8 / 9, 6 / 8, 4 / 7, 2 / 6]
    assert bleu == pytest.approx(
        100 * (precisions[0] * precisions[1] * precisions[2] * precisions[3]) ** 0.25
    )
    assert (
        "tok:none|smooth:none" in how
        and "quotes:plain|moses.de:sacremoses." in how
        and "##AT##-##AT##" in how
    )
    assert compound_split_bleu(["Gar nichts."], ["Etwas anderes hier."])[0] == 0.0
    assert compound_split_bleu(REFERENCES, REFERENCES)[0] == pytest.approx(100)
    assert compound_split_bleu(['Er sagte: "Ja, das geht."'], ["Er sagte: „Ja, das geht.“"])[
        0
    ] == pytest.approx(100)
    # For sacreBLEU a compound is one token, so it is wrong as a whole.
    assert (
        bleu
        > score(["Der Ost-West-Dialog geht weiter."], ["Der Ost-West-Konflikt geht weiter."]).bleu
    )
