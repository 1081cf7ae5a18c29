"""The flags --mbr and --mbr_samples of translate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from absl import flags

from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.decoding.translator import Progress

Ranked = list[list[tuple[str, float]]]  # for each line pairs (translation, score)
NBest = Callable[[list[tuple[str, str]], int, "Progress | None"], Ranked]

DEFAULT_SAMPLES = 32


def check_mbr_flags(values: flags.FlagValues) -> None:
    """Raises: UserError for flags that cannot be given with --mbr, or without it."""
    if values["mbr_samples"].present and not (values.mbr and values.sampling):
        raise UserError("--mbr_samples is for --mbr with --sampling")
    if values.mbr and values.split_sentences:
        raise UserError("--mbr and --split_sentences: give one of them")
    if values.mbr and values.sampling and values.n_best > number_of_samples(values):
        raise UserError(
            f"--n_best={values.n_best} of {number_of_samples(values)} samples: give a larger "
            "--mbr_samples"
        )


def number_of_samples(values: flags.FlagValues) -> int:
    """The samples that --mbr draws for each line."""
    return values.mbr_samples or DEFAULT_SAMPLES


def number_of_candidates(values: flags.FlagValues, beam_size: int) -> int:
    """The translations of each line that the search or the sampler gives.

    Raises: UserError where --mbr has nothing to compare.
    """
    if not values.mbr:
        return values.n_best
    number = number_of_samples(values) if values.sampling else max(beam_size, values.n_best)
    if number == 1:
        raise UserError(
            "--mbr compares the candidates of the beam, and a beam of 1 has only one: give a "
            "larger --beam_size, or --sampling"
        )
    return number


def with_minimum_bayes_risk(values: flags.FlagValues, n_best: NBest, language: str) -> NBest:
    """Returns a function that ranks the candidates of `n_best` as --mbr says; itself without it.

    All scores are utilities, except -inf for a line that is too long.

    Args:
      values: the flags.
      n_best: returns the candidates of lines.
      language: code of the target language.
    """
    if not values.mbr:
        return n_best
    from tf_transformer.decoding.extras.reranking import mean_utilities
    from tf_transformer.evaluation.metrics import sentence_scorer

    utility_of = sentence_scorer(values.mbr, language)

    def ranked(lines: list[tuple[str, str]], first_line: int, progress: Progress | None) -> Ranked:
        results = []
        for pairs in n_best(lines, first_line, progress):
            possible = [text for text, score in pairs if score > float("-inf")]
            best = mean_utilities(possible, utility_of)[: values.n_best]
            results.append(best or pairs)  # the pair of a line that is too long
        return results

    return ranked
