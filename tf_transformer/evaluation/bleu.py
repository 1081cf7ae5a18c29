"""BLEU with its signature, and chrF, by sacreBLEU; and the BLEU that the paper's English-German figures are."""

import dataclasses
import re

import sacrebleu
import sacremoses

from tf_transformer.errors import UserError

QUOTES = str.maketrans(dict.fromkeys("„“”«»", '"') | dict.fromkeys("‚‘’‹›", "'"))


@dataclasses.dataclass(frozen=True)
class Scores:
    """Corpus scores of detokenised text."""

    bleu: float  # 0 to 100
    chrf: float  # 0 to 100
    bleu_signature: str  # how it was computed, for others to compare
    chrf_signature: str

    def __str__(self):
        return f"BLEU {self.bleu:.2f}  ({self.bleu_signature})\nchrF {self.chrf:.2f}  ({self.chrf_signature})"


def score(translations, references):
    """Scores translations against one reference each.

    Args:
      translations: a list of strings, detokenised.
      references: as many strings.
    Returns: `Scores`.
    Raises: UserError when the numbers differ or there are none.
    """
    _check(translations, references)
    bleu, chrf = sacrebleu.metrics.BLEU(), sacrebleu.metrics.CHRF()
    results = [metric.corpus_score(translations, [references]).score for metric in (bleu, chrf)]
    return Scores(*results, str(bleu.get_signature()), str(chrf.get_signature()))


def _check(translations, references):
    if len(translations) != len(references):
        raise UserError(
            f"{len(translations):,} translations, but {len(references):,} references: they must be line by line"
        )
    if not references:
        raise UserError("nothing to score: there are no lines")


def has_papers_bleu(data):
    """Whether `compound_split_bleu` is to be told of a `DataConfig`'s translations: those from English to German."""
    return (data.source, data.target) == ("en", "de")


def split_compounds(tokens):
    """Makes tokens of hyphens inside words: "Ost-West-Dialog" -> "Ost ##AT##-##AT## West ##AT##-##AT## Dialog".

    Each hyphen between two characters that are no blanks becomes a token, from left to right; a character is used once, so in "a-b-c"
    the second one stays. So does the program of tensor2tensor, `get_ende_bleu.sh`, after which the paper's figures are computed.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", tokens)


def compound_split_bleu(translations, references, language="de"):
    """Tokenised, compound-split BLEU, as the paper reports for English to German: it tends to be higher than sacreBLEU's own.

    On both sides quotation marks become plain ones (as they are in the reference of the paper's authors), Moses' tokeniser finds the
    tokens, compounds are split at their hyphens, and BLEU counts: case-sensitive, without smoothing, one reference.

    Args:
      translations, references, language: as for `score`; the language decides on abbreviations and apostrophes.
    Returns: BLEU from 0 to 100; a line on how it was computed.
    Raises: UserError, as `score` does.
    """
    _check(translations, references)
    tokenizer = sacremoses.MosesTokenizer(lang=language)
    tokens = lambda line: split_compounds(
        tokenizer.tokenize(line.translate(QUOTES), return_str=True)
    )
    sides = [[tokens(line) for line in side] for side in (translations, references)]
    bleu = sacrebleu.metrics.BLEU(tokenize="none", smooth_method="none", force=True)
    found = bleu.corpus_score(sides[0], [sides[1]]).score
    return (
        found,
        f"{bleu.get_signature()}|quotes:plain|moses.{language}:sacremoses.{sacremoses.__version__}|compounds:##AT##-##AT##",
    )
