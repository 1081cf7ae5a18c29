"""BLEU, chrF, chrF++ and TER with confidence intervals, and the comparison of two systems.

All numbers are those of sacreBLEU, also the paired bootstrap test (Koehn 2004).
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest, Result

from tf_transformer.errors import UserError

# Languages written without blanks between words; Chinese has a tokenizer of its own in sacreBLEU.
UNSPACED = frozenset({"bo", "dz", "ja", "km", "lo", "my", "th"})
CHINESE = frozenset({"wuu", "yue", "zh"})


def bleu_tokenizer(language: str) -> str:
    """The name of sacreBLEU's tokenizer: words, or characters where no blanks are between words."""
    code = re.split("[-_]", language)[0].lower()
    if code in CHINESE:
        return "zh"
    return "char" if code in UNSPACED else "13a"


# Of a language code. Lower is better for TER, higher for the others.
METRICS: dict[str, Callable[[str], Metric]] = {
    "bleu": lambda language: BLEU(tokenize=bleu_tokenizer(language)),
    "chrf": lambda language: CHRF(),
    "chrf++": lambda language: CHRF(word_order=2),
    "ter": lambda language: TER(),
}
NAMES = {"bleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER"}
# The statistics of 1,000 resampled test sets are in memory at the same time: about 1 GB.
MAX_RESAMPLED = 10_000


class MetricResult(NamedTuple):
    """A metric of one system, or of a system and a baseline; `str` formats it."""

    name: str
    signature: str  # the settings of the metric, needed to compare scores
    system: Result  # score; mean and half width of the 95% interval, or None; p-value, or None
    baseline: Result | None  # of the other system

    def __str__(self) -> str:
        text = f"{self.name} {_format(self.system)}"
        if self.baseline:
            # Without a difference, sacreBLEU's p-value is the smallest possible one.
            differ = self.baseline.score != self.system.score
            verdict = f"p = {self.system.p_value:.4f}" if differ else "no difference"
            text += f", baseline {_format(self.baseline)}, {verdict}"
        return f"{text}  ({self.signature})"


def _format(result: Result) -> str:
    """A score in sacreBLEU's form: "33.10 (μ = 33.08 ± 0.72)"."""
    interval = "" if result.mean is None else f" (μ = {result.mean:.2f} ± {result.ci:.2f})"
    return f"{result.score:.2f}{interval}"


def parse_metrics(names: str) -> list[str]:
    """Splits "bleu,chrf" into keys of `METRICS`. Raises: UserError for other names."""
    keys = [name.strip().lower() for name in names.split(",")]
    for key in keys:
        if key not in METRICS:
            raise UserError(f"unknown metric {key!r}: give some of {', '.join(METRICS)}")
    return keys


def corpus_metrics(
    metrics: Sequence[str],
    translations: Sequence[str],
    references: Sequence[Sequence[str]],
    baseline: Sequence[str] | None = None,
    language: str = "en",
) -> list[MetricResult]:
    """Scores translations, and compares them with those of a baseline.

    Up to `MAX_RESAMPLED` translations, each score has a 95% confidence interval of bootstrap
    resampling. The p-value is that of the two-sided paired bootstrap test: the probability of a
    difference as large as this one, or larger, where the two systems are equally good.

    Args:
      metrics: keys of `METRICS`.
      translations: a list of strings, detokenised.
      references: for each set of references a list with a string for each translation.
      baseline: the translations of another system.
      language: code of the language of the texts, such as "ja"; it chooses the tokenizer of BLEU,
        see `bleu_tokenizer`.
    Returns: a `MetricResult` for each metric.
    Raises: UserError when the lengths differ, the lists are empty, or there are too many
      translations to compare them.
    """
    check_lengths(translations, *references, *([baseline] if baseline else []))
    systems = [("system", translations)]
    if baseline:
        systems.insert(0, ("baseline", baseline))
        check_resampling(len(translations))
    results = []
    for key in metrics:
        metric = METRICS[key](language)
        if len(translations) > MAX_RESAMPLED:
            scores = [Result(metric.corpus_score(translations, references).score)]
            signature = metric.get_signature()
        else:
            test = PairedTest(systems, {key: metric}, references, test_type="bs")
            signatures, columns = test()
            (signature,) = signatures.values()
            column = next(column for name, column in columns.items() if name != "System")
            scores = [result for result in column if isinstance(result, Result)]
        first = scores[0] if baseline else None
        results.append(MetricResult(NAMES[key], str(signature), scores[-1], first))
    return results


def check_resampling(pairs: int) -> None:
    """Raises: UserError for more pairs than the bootstrap test has memory for."""
    if pairs > MAX_RESAMPLED:
        raise UserError(
            f"{pairs:,} pairs are too many for the bootstrap test: give "
            f"--max_pairs={MAX_RESAMPLED} or fewer"
        )


def check_lengths(translations: Sequence[str], *references: Sequence[str]) -> None:
    """Raises: UserError when the numbers of lines differ, or there are none."""
    for lines in references:
        if len(translations) != len(lines):
            raise UserError(
                f"{len(translations):,} translations, but {len(lines):,} references: "
                "give one reference for each translation"
            )
    if not translations:
        raise UserError("nothing to score: there are no lines")


def sentence_scorer(metric: str, language: str = "en") -> Callable[[str, str], float]:
    """Returns the function of a translation and a reference that computes its sentence score.

    Args:
      metric: "bleu" or "chrf". BLEU has exponential smoothing and effective order, as for single
        sentences usual: n-grams that are longer than the sentence do not count.
      language: code of their language, such as "ja" or "zh_TW", see `bleu_tokenizer`.
    """
    scorer: Metric = CHRF()
    if metric == "bleu":
        scorer = BLEU(effective_order=True, tokenize=bleu_tokenizer(language))
    return lambda translation, reference: scorer.sentence_score(translation, [reference]).score
