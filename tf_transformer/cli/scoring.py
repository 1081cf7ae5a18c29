"""The commands score and rescore: the probability of given translations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl import flags

from tf_transformer.checkpoints.model_folder import first_model_dir, load_config, model_list
from tf_transformer.cli.command import (
    Flag,
    command,
    file_flags,
    is_for,
    model_flags,
    setting_flag,
    tag_flag,
)
from tf_transformer.cli.terminal import open_output
from tf_transformer.cli.translation import (
    N_BEST_FLAG,
    SKIP_FLAG,
    load_translator,
    print_flags,
    progress_bar,
    write_results,
)
from tf_transformer.data.readers import PAIR_FORMATS, read_pair_windows, split_paths
from tf_transformer.data.tags import TagWarnings, add_tag, split_tag
from tf_transformer.data.text_files import read_lines
from tf_transformer.decoding import reranking
from tf_transformer.decoding.text_batches import format_alignment, format_length
from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.data.corpus import WeightedPair
    from tf_transformer.decoding.translator import Progress


@command("score", lambda: [
    *model_flags(),
    Flag("input", str,
         f"sentence pairs: a file (.{', .'.join(PAIR_FORMATS)}), or two files "
         "SOURCE_FILE,TARGET_FILE (default: TSV on standard input)"),
    Flag("output", str, "file for the scores (default: standard output)"),
    Flag("tokens", bool, "add columns: the sub-words, and their log-probabilities", False),
    Flag("normalize", bool, "divide by the length penalty, as translate --n_best", False),
    SKIP_FLAG,
    *print_flags(),
    setting_flag("length_penalty"),
])  # fmt: skip
def score(values: flags.FlagValues) -> None:
    """Compute the log-probability that a model gives to translations."""
    translator = load_translator(values, values.model_dir, values.checkpoint)
    data = load_config(first_model_dir(values.model_dir)).data
    tag_warnings = TagWarnings(translator.tags, data.tag)
    if values.print_alignment:
        translator.align([])  # refuses an ensemble

    def format_window(
        window: list[WeightedPair], first_line: int, progress: Progress
    ) -> Iterator[str]:
        pairs = [(source, target) for source, target, _ in window]
        tag_warnings.check((source for source, _ in pairs), itertools.count(first_line))
        scores = translator.score(pairs, progress, first_line, values.skip_long_lines)
        alignments = translator.align(pairs) if values.print_alignment else [[]] * len(pairs)
        for each, alignment in zip(scores, alignments):
            columns = [f"{each.normalized if values.normalize else each.log_prob:.4f}"]
            if values.tokens:
                log_probs = (f"{log_prob:.4f}" for log_prob in each.token_log_probs)
                columns += [" ".join(each.pieces), " ".join(log_probs)]
            if values.print_length:
                columns.append(format_length(max(len(each.pieces) - 1, 0), each.truncated))
            if values.print_alignment:
                columns.append(format_alignment(alignment))
            yield "\t".join(columns)

    paths = split_paths(values.input) if values.input else []
    write_results(values, read_pair_windows(paths, (data.source, data.target)), format_window)


@command("rescore", lambda: [
    *file_flags("n-best list of translate --n_best, plain, .gz, .bz2 or .xz", "translations"),
    Flag("sources", str, "file of the lines that were translated", required=True),
    Flag("model_dir", str, "models, separated by commas; the score of each is a feature"),
    Flag("reverse_model_dir", str, "the same for models of the opposite direction"),
    tag_flag("the lines have their tags; for --model_dir"),
    Flag("reverse_tag", str, "tag before each translation, for --reverse_model_dir"),
    Flag("weights", str,
         "weights, separated by commas: of the score in the list, of each --model_dir, of each "
         "--reverse_model_dir (default: 1 for all)"),
    N_BEST_FLAG,
    setting_flag("length_penalty"),
])  # fmt: skip
def rescore(values: flags.FlagValues) -> None:
    """Choose among the translations of n-best lists with the scores of several models."""
    models: list[tuple[str, str]] = []  # the folder of each, and the flag of its tag
    for flag, tag_name in (("model_dir", "tag"), ("reverse_model_dir", "reverse_tag")):
        is_for(values, flag, tag_name)
        if names := values[flag].value:
            models += [(folder, tag_name) for folder, _ in model_list(names)]
    if not models:
        raise UserError("--model_dir and --reverse_model_dir are missing: give at least one model")
    for folder, _ in models:
        load_config(folder)  # a wrong one is reported before the first one computes
    weights = _weights(values.weights, 1 + len(models))
    sources = list(read_lines(values.sources))
    hypotheses = reranking.read_n_best(values.input, len(sources))
    features = [[each.score for each in hypotheses]]
    for weight, (folder, tag_name) in zip(weights[1:], models):
        pairs = [(sources[each.line - 1], each.text) for each in hypotheses]
        if tag_name == "reverse_tag":  # a tag of a line says what to translate to, and is no text
            pairs = [(target, split_tag(source, None)[1]) for source, target in pairs]
        tag = values[tag_name].value
        pairs = [(add_tag(tag, source), target) for source, target in pairs]
        scores = [0.0] * len(pairs)
        if weight:  # otherwise the model does not compute
            translator = load_translator(values, folder, None, tag_name)
            with progress_bar(total=len(pairs)) as progress:
                found = translator.score(pairs, progress, skip_long=True)
            scores = [each.normalized for each in found]
        features.append(scores)
    with open_output(values.output) as output:
        for best in reranking.rescore(hypotheses, features, weights):
            for each in best[: values.n_best]:
                output.write(f"{each.text if values.n_best == 1 else each}\n")


def _weights(text: str | None, number: int) -> list[float]:
    """The weights of the features. Raises: UserError."""
    try:
        weights = [float(weight) for weight in text.split(",")] if text else [1.0] * number
    except ValueError:
        weights = []
    if len(weights) != number or not all(map(math.isfinite, weights)):
        raise UserError(f"--weights={text}: give {number} numbers: of the list, of each model")
    return weights
