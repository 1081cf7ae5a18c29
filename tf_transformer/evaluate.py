"""BLEU with its signature, and chrF, by sacreBLEU."""

import dataclasses

import sacrebleu

from tf_transformer.config import UserError


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
    if len(translations) != len(references):
        raise UserError(f"{len(translations):,} translations, but {len(references):,} references: they must be line by line")
    if not references:
        raise UserError("nothing to score: there are no lines")
    bleu, chrf = sacrebleu.metrics.BLEU(), sacrebleu.metrics.CHRF()
    results = [metric.corpus_score(translations, [references]).score for metric in (bleu, chrf)]
    return Scores(*results, str(bleu.get_signature()), str(chrf.get_signature()))
