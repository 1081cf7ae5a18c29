"""The command back-translate: training pairs from text of the target language alone.

A model of the opposite direction translates the text. Its translations are the sources, and the
lines of the text the targets (Sennrich et al. 2016, "Improving Neural Machine Translation Models
with Monolingual Data"). They are drawn from the model's distribution, which gives better training
text than the best translations (Edunov et al. 2018, "Understanding Back-Translation at Scale").
"""

from __future__ import annotations

import collections
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import first_model_dir
from tf_transformer.cli.command import (
    command,
    file_flags,
    given,
    model_flags,
    sampling_flags,
    search_flags,
    tag_flag,
)
from tf_transformer.cli.translation import (
    check_translator_tag,
    explain_decoding_memory,
    load_translator,
    write_results,
)
from tf_transformer.config import TREES, SamplingConfig
from tf_transformer.data.tags import add_tag, split_tag
from tf_transformer.data.text_files import read_windows
from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.decoding.translator import Progress

logger = logging.getLogger(__name__)


@command(
    "back-translate",
    "make training pairs of text in the target language, with a reverse model",
    lambda: [
        *model_flags(),
        *file_flags("text of its source language", "pairs, TSV: translation, line"),
        tag_flag(),
        *sampling_flags("; false: beam search", default=True),
        *search_flags(),
    ],
)
def back_translate(values: flags.FlagValues) -> None:
    """Writes a TSV line for each line of the input: its translation, a tab, the line.

    The tag of a line, which chooses the language of the translation, is not written.
    """
    _check(values)
    model_dir = values.model_dir
    if model_folder.load_config(first_model_dir(model_dir)).data.target == TREES:
        raise UserError(f"the model in {model_dir} is a parser: give one that translates")
    translator = load_translator(values, model_dir, values.checkpoint)
    check_translator_tag(values.tag, translator)
    sampling = SamplingConfig(**given(values, (SamplingConfig,)))
    seed = values.seed or 0
    count: collections.Counter[str] = collections.Counter()

    def format_window(window: list[str], first_line: int, progress: Progress) -> Iterator[str]:
        lines = list(map(_one_column, window))
        texts = [add_tag(values.tag, line) for line in lines]
        options = progress, range(first_line, first_line + len(lines)), True
        if values.sampling:
            results = translator.sample(texts, 1, sampling, seed, *options)
        else:
            results = translator.n_best(texts, 1, *options)
        for line, [(output, _), *_] in zip(lines, results):
            translation = _one_column(output)
            kind = "blank" if not line else "pairs" if translation else "left out"
            count[kind] += 1
            if kind == "pairs":
                _, target = split_tag(line, translator.tags)
                yield f"{translation}\t{target}"

    with explain_decoding_memory(translator.decode, "" if values.sampling else None):
        write_results(values, read_windows(values.input), format_window)
    logger.info(
        "%s pairs; left out: %s blank lines, %s that are too long or have an empty translation",
        *(f"{count[kind]:,}" for kind in ("pairs", "blank", "left out")),
    )


def _one_column(text: str) -> str:
    """The text of a TSV column: a sampled character can be a tab too."""
    return text.replace("\t", " ").strip()


def _check(values: flags.FlagValues) -> None:
    """Raises: UserError for flags that cannot be given together."""
    for flag in ("temperature", "top_k", "top_p", "seed"):
        if values[flag].present and not values.sampling:
            raise UserError(f"--{flag} is for sampling: leave out --sampling=false")
    if values.sampling and values["beam_size"].present:
        raise UserError("--beam_size is for --sampling=false; sampling has no beam")
