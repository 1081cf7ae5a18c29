"""BLEU and chrF are as by sacreBLEU; both tokenised BLEU equal hand-computed values."""

import functools
import math

import pytest
import sacrebleu
import sacremoses

from tf_transformer.config import DataConfig
from tf_transformer.errors import UserError
from tf_transformer.evaluation.bleu import (
    compound_split_bleu,
    normalized_bleu,
    score,
    split_compounds,
)
from tf_transformer.evaluation.metrics import corpus_metrics, published_scores, sentence_scorer

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
    assert compound_split_bleu(["Gar nichts."], ["Etwas anderes hier."])[0] == 0.0
    plain, german = ['Er sagte: "Ja, das geht."'], ["Er sagte: „Ja, das geht.“"]
    assert compound_split_bleu(plain, german)[0] == pytest.approx(100)


@pytest.mark.parametrize(("translation", "reference", "language", "precisions"), [
    # 5 of 6 tokens match, without smoothing: ein hund läuft , heute (or morgen) .
    ("Ein Hund läuft, heute.", "ein hund läuft, morgen.", "de", (5 / 6, 3 / 5, 2 / 4, 1 / 3)),
    ("ER SAGTE – „Das geht’s.“", 'Er sagte - "Das geht\'s."', "de", (1, 1, 1, 1)),
    ("Ein Hund (klein) läuft …", "ein Hund (klein) läuft ...", "de", (1, 1, 1, 1)),
    # In French, an apostrophe belongs to the word before it: l' eau est ici maintenant.
    ("L'eau est ici maintenant", "Eau est ici maintenant", "fr", (4 / 5, 3 / 4, 2 / 3, 1 / 2)),
    ("L'eau est ici maintenant", "Eau est ici maintenant", "en", (0, 0, 0, 0)),
])  # fmt: skip
def test_normalized_bleu_by_hand(translation, reference, language, precisions):
    """It ignores case and forms of punctuation, and has the rules of the language."""
    bleu, settings = normalized_bleu([translation], [reference], language)
    assert bleu == pytest.approx(100 * math.prod(precisions) ** 0.25)
    assert "tok:none|smooth:none" in settings
    moses = f"moses.{language}:sacremoses.{sacremoses.__version__}"
    assert settings.endswith(f"text:lower-cased|punctuation:normalised|{moses}")


JAPANESE = ["私はビールを飲みます。", "彼女は赤い本を買いました。"]


@pytest.mark.parametrize("code", ["ja", "jpn", "jpn_Jpan", "zho_Hans", "cmn", "tha_Thai", "khm"])
def test_languages_without_blanks(code, caplog):
    """Their BLEU is of characters, for all forms of their codes."""
    translations = ["私はワインを飲みます。", JAPANESE[1]]
    tokenizer = "zh" if code[0] in "zc" else "char"
    scores = score(translations, JAPANESE, code)
    assert scores.bleu == sacrebleu.corpus_bleu(translations, [JAPANESE], tokenize=tokenizer).score
    assert scores.bleu > 50
    scorer = sentence_scorer("bleu", code)
    assert scorer(translations[0], JAPANESE[0]) > scorer("彼", JAPANESE[0])
    assert sentence_scorer("bleu", code, "13a")(translations[0], JAPANESE[0]) == 0
    (result,) = corpus_metrics(["bleu"], translations, [JAPANESE], language=code)
    assert result.system.score == scores.bleu and not caplog.text


def test_a_given_tokenizer(caplog):
    assert "tok:intl" in score(HYPOTHESES, REFERENCES, "de", "intl").bleu_signature
    joined = ["".join(JAPANESE)]
    corpus_metrics(["bleu"], joined, [joined], language="de")
    assert "--bleu_tokenizer=char" in caplog.text
    with pytest.raises(UserError, match="ja-mecab cannot be used .*pip install"):
        score(JAPANESE, JAPANESE, "ja", "ja-mecab")


def test_published_scores_are_those_of_their_languages():
    def names(source, target):
        data = DataConfig(source=source, target=target)
        return [line.split(" BLEU")[0] for line in published_scores(REFERENCES, REFERENCES, data)]

    assert names("eng", "deu_Latn") == ["tokenised, compound-split", "lower-cased, tokenised"]
    assert names("en", "fr") == ["lower-cased, tokenised"]
    assert names("en", "tr") == []
