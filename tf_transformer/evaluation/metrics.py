"""The table of metrics of translations: scores, confidence intervals, comparison of two systems.

`METRICS` are of sacreBLEU, and are named by `--metrics` and `--mbr`. With one reference, `evaluate`
prints the `PUBLISHED` ones too. All intervals and p-values are of sacreBLEU's paired bootstrap test
(Koehn 2004).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sacrebleu.metrics import CHRF, TER
from sacrebleu.metrics.base import Metric as Scorer
from sacrebleu.significance import PairedTest, Result

from tf_transformer.config import DataConfig
from tf_transformer.data.languages import base_language
from tf_transformer.errors import UserError
from tf_transformer.evaluation.bleu import (
    bleu_tokenizer,
    check_tokenizer,
    compound_split_bleu,
    has_papers_bleu,
    make_bleu,
    normalized_bleu,
    scored_segments,
)


class Metric(NamedTuple):
    """A metric of sacreBLEU. The functions are of the name of a tokenizer, which BLEU needs."""

    name: str
    corpus: Callable[[str], Scorer]  # higher is better, except for TER
    sentence: Callable[[str], Scorer] | None = None  # of single sentences, for `--mbr`
    note: str = ""  # in the help


class PublishedMetric(NamedTuple):
    """A metric that makes scores comparable with published ones."""

    name: str
    of: str  # who reports it
    # (translations, references, language code) -> score, settings of the metric
    corpus: Callable[[Sequence[str], Sequence[str], str], tuple[float, str]]
    fits: Callable[[DataConfig], bool]  # of the settings of a model's text


# Validations of a training do not use this table: see `Trainer._translation_scores`.
METRICS = {
    "bleu": Metric(
        "BLEU",
        make_bleu,
        # n-grams that are longer than the sentence do not count; exponential smoothing
        lambda tokenizer: make_bleu(tokenizer, effective_order=True),
    ),
    "chrf": Metric("chrF", lambda _: CHRF(), lambda _: CHRF()),
    "chrf++": Metric("chrF++", lambda _: CHRF(word_order=2)),
    "ter": Metric("TER", lambda _: TER(), note="slow for long sentences"),
}
PUBLISHED = [
    PublishedMetric(
        "tokenised, compound-split BLEU", "the paper", compound_split_bleu, has_papers_bleu
    ),
    PublishedMetric(
        "lower-cased, tokenised BLEU",
        "papers on Multi30k",
        normalized_bleu,
        lambda data: base_language(data.target) in ("cs", "de", "en", "fr"),
    ),
]
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
    """A score in the form of sacreBLEU: "33.10 (μ = 33.08 ± 0.72)"."""
    interval = "" if result.mean is None else f" (μ = {result.mean:.2f} ± {result.ci:.2f})"
    return f"{result.score:.2f}{interval}"


def metrics_help() -> str:
    """Returns the help of `--metrics`."""
    names = [f"{key} ({each.note})" if each.note else key for key, each in METRICS.items()]
    return f"some of {', '.join(names[:-1])} and {names[-1]}, separated by commas"


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
    tokenizer: str = "auto",
) -> list[MetricResult]:
    """Scores translations, and compares them with a baseline.

    Up to `MAX_RESAMPLED` translations, each score has a 95% confidence interval of bootstrap
    resampling. The p-value is of the two-sided paired bootstrap test: the probability of a
    difference as large as this one, or larger, where the two systems are equally good.

    Args:
      metrics: keys of `METRICS`.
      translations: a list of strings, detokenised.
      references: for each set of references a list with a string for each translation.
      baseline: the translations of another system.
      language, tokenizer: as for `bleu_tokenizer`.
    Raises: UserError as `scored_segments` and `make_bleu`, and when there are too many
      translations to compare them.
    """
    outputs = [*([baseline] if baseline else []), translations]
    *references, translations = scored_segments(references, *outputs)
    systems: list[tuple[str, Sequence[str]]] = [("system", translations)]
    if baseline:
        systems.insert(0, ("baseline", references.pop()))
        check_resampling(len(translations))
    tokenizer = bleu_tokenizer(language, tokenizer)
    if "bleu" in metrics:
        check_tokenizer(tokenizer, list(filter(None, references[0])))
    results = []
    for key in metrics:
        metric = METRICS[key].corpus(tokenizer)
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
        results.append(MetricResult(METRICS[key].name, str(signature), scores[-1], first))
    return results


def check_resampling(pairs: int) -> None:
    """Raises: UserError for more pairs than the bootstrap test has memory for."""
    if pairs > MAX_RESAMPLED:
        raise UserError(
            f"{pairs:,} pairs are too many for the bootstrap test: give "
            f"--max_pairs={MAX_RESAMPLED} or fewer"
        )


def published_scores(
    translations: Sequence[str], references: Sequence[str], data: DataConfig
) -> list[str]:
    """Returns a line of text for each metric of `PUBLISHED` that fits the settings of a text."""
    lines = []
    for each in PUBLISHED:
        if each.fits(data):
            score, settings = each.corpus(translations, references, data.target)
            lines.append(f"{each.name} {score:.2f}, as in {each.of}  ({settings})")
    return lines


def sentence_scorer(
    metric: str, language: str = "en", tokenizer: str = "auto"
) -> Callable[[str, str], float]:
    """Returns the function that scores a translation against a reference.

    Args:
      metric: a key of `METRICS` with a `sentence`.
      language, tokenizer: as for `bleu_tokenizer`.
    """
    make = METRICS[metric].sentence
    assert make
    scorer = make(bleu_tokenizer(language, tokenizer))
    return lambda translation, reference: scorer.sentence_score(translation, [reference]).score
