"""BLEU and chrF equal those of sacreBLEU; both tokenised BLEU equal hand-computed values."""

import functools

import pytest
import sacrebleu
import sacremoses

from tf_transformer.errors import UserError
from tf_transformer.evaluation.bleu import (
    compound_split_bleu,
    moses_language,
    normalized_bleu,
    score,
    split_compounds,
)

HYPOTHESES = ["Der Hund läuft im Garten herum.", "Sie hat ein rotes Buch gekauft."]
REFERENCES = ["Der Hund läuft durch den Garten.", "Sie hat ein rotes Buch gekauft."]


def test_scores():
    scores = score(HYPOTHESES, REFERENCES)
    assert scores.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert scores.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert "tok:13a" in scores.bleu_signature
    assert f"version:{sacrebleu.__version__}" in scores.bleu_signature
    assert score(REFERENCES, REFERENCES).bleu == pytest.approx(100)
    assert str(scores).startswith(f"BLEU {scores.bleu:.2f}  (nrefs:1|case:mixed")


def test_errors():
    by_language = functools.partial(normalized_bleu, language="de")
    for metric in (score, compound_split_bleu, by_language):
        with pytest.raises(UserError, match="1 translations, but 2 references"):
            metric(HYPOTHESES[:1], REFERENCES)
        with pytest.raises(UserError, match="nothing to score"):
            metric([], [])


def test_compounds_are_split_as_by_the_papers_program():
    assert split_compounds("ein rot-weißes Auto - und") == "ein rot ##AT##-##AT## weißes Auto - und"
    assert split_compounds("Ost-West-Dialog") == "Ost ##AT##-##AT## West ##AT##-##AT## Dialog"
    assert split_compounds("a-b-c") == "a ##AT##-##AT## b-c"  # b matches once, as in Perl


def test_compound_split_bleu_by_hand():
    """8 of 9 tokens match, without smoothing.

    Tokens: Der Ost ##AT##-##AT## West ##AT##-##AT## Dialog (or Konflikt) geht weiter .
    """
    hypothesis = ["Der Ost-West-Dialog geht weiter."]
    reference = ["Der Ost-West-Konflikt geht weiter."]
    bleu, settings = compound_split_bleu(hypothesis, reference)
    product_of_precisions = (8 / 9) * (6 / 8) * (4 / 7) * (2 / 6)
    assert bleu == pytest.approx(100 * product_of_precisions**0.25)
    assert "tok:none|smooth:none" in settings
    assert "quotes:plain|moses.de:sacremoses." in settings
    assert "##AT##-##AT##" in settings
    # sacreBLEU keeps a compound as one token: here all of it is wrong.
    assert bleu > score(hypothesis, reference).bleu


def test_compound_split_bleu_at_its_limits():
    """Quotation marks are normalised."""
    assert compound_split_bleu(["Gar nichts."], ["Etwas anderes hier."])[0] == 0.0
    plain, german = ['Er sagte: "Ja, das geht."'], ["Er sagte: „Ja, das geht.“"]
    assert compound_split_bleu(plain, german)[0] == pytest.approx(100)


def test_normalized_bleu_by_hand():
    """5 of 6 tokens match, without smoothing: ein hund läuft , heute (or morgen) ."""
    bleu, settings = normalized_bleu(["Ein Hund läuft, heute."], ["ein hund läuft, morgen."], "de")
    product_of_precisions = (5 / 6) * (3 / 5) * (2 / 4) * (1 / 3)
    assert bleu == pytest.approx(100 * product_of_precisions**0.25)
    assert "tok:none|smooth:none" in settings
    assert "text:lower-cased|punctuation:normalised|moses.de:sacremoses." in settings


def test_normalized_bleu_ignores_case_and_forms_of_punctuation():
    translations = ["ER SAGTE – „Das geht’s.“", "Ein Hund (klein) läuft …"]
    references = ['Er sagte - "Das geht\'s."', "ein Hund (klein) läuft ..."]
    assert normalized_bleu(translations, references, "de")[0] == pytest.approx(100)


def test_normalized_bleu_has_the_rules_of_the_language():
    """In French, an apostrophe belongs to the word before it: l' eau est ici maintenant."""
    translations, references = ["L'eau est ici maintenant"], ["Eau est ici maintenant"]
    bleu, settings = normalized_bleu(translations, references, "fr")
    assert bleu == pytest.approx(100 * ((4 / 5) * (3 / 4) * (2 / 3) * (1 / 2)) ** 0.25)
    assert settings.endswith(f"moses.fr:sacremoses.{sacremoses.__version__}")
    bleu, settings = normalized_bleu(translations, references, "eo")
    assert bleu == 0  # English rules: l 'eau est ici maintenant
    assert settings.endswith("|no rules for eo: English")


def test_moses_language():
    for language, rules in (("de", "de"), ("pt_BR", "pt"), ("zh-Hans", "zh"), ("ja", "ja")):
        assert moses_language(language) == rules
    for language in ("eo", "xx", "en-GB", ""):
        assert moses_language(language) == "en"
