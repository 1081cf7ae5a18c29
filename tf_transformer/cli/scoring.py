"""The commands score and rescore: the probability of given translations."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import model_list
from tf_transformer.cli.command import Flag, command, length_penalty_flag, model_flags, tag_flag
from tf_transformer.cli.terminal import open_output, start_tensorflow
from tf_transformer.cli.translation import load_translator, progress_bar, write_results
from tf_transformer.config import Config
from tf_transformer.data.tags import add_tag, check_tag, split_tag
from tf_transformer.data.text_files import read_lines, read_pair_windows
from tf_transformer.decoding.extras.reranking import read_n_best
from tf_transformer.decoding.extras.reranking import rescore as sorted_lists
from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.decoding.translator import PairScore, Progress


@contextlib.contextmanager
def explain_scoring_memory() -> Iterator[None]:
    """Turns a device's out-of-memory error into a `UserError`; the batches have no flag."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise UserError(
            "out of memory: leave out the longest pairs, or compute on the CPU with "
            "CUDA_VISIBLE_DEVICES=-1"
        ) from error


@command(
    "score",
    "compute the log-probability that a model gives to translations",
    lambda: [
        *model_flags(),
        Flag(
            "input", str,
            "sentence pairs: a TSV file, or two files SOURCE_FILE,TARGET_FILE (default: TSV on "
            "standard input)",
        ),
        Flag("output", str, "file for the scores (default: standard output)"),
        Flag(
            "tokens", bool, "write two more columns: the sub-words, and their log-probabilities",
            False,
        ),
        Flag(
            "normalize", bool,
            "divide by the length penalty, as the scores of translate --n_best", False,
        ),
        Flag(
            "skip_long_lines", bool,
            "write -inf and a warning for a pair with more sub-words than the model has "
            "positions, instead of stopping there", False,
        ),
        length_penalty_flag(),
    ],
)  # fmt: skip
def score(values: flags.FlagValues) -> None:
    """Computes the probability of given translations."""
    translator = load_translator(values, values.model_dir, values.checkpoint)

    def format_window(
        window: list[tuple[str, str]], first_line: int, progress: Progress
    ) -> Iterator[str]:
        results = translator.score(window, progress, first_line, values.skip_long_lines)
        for result in results:
            yield _format_score(result, values)

    with explain_scoring_memory():
        write_results(values, read_pair_windows(values.input), format_window)


def _format_score(result: PairScore, values: flags.FlagValues) -> str:
    columns = [f"{result.normalized if values.normalize else result.log_prob:.4f}"]
    if values.tokens:
        columns.append(" ".join(result.pieces))
        columns.append(" ".join(f"{log_prob:.4f}" for log_prob in result.token_log_probs))
    return "\t".join(columns)


@command(
    "rescore",
    "choose among the translations of n-best lists with the scores of several models",
    lambda: [
        Flag(
            "input", str,
            "n-best list of translate --n_best, plain or .gz (default: standard input)",
        ),
        Flag("sources", str, "file of the lines that were translated", required=True),
        Flag(
            "model_dir", str,
            "model folders or names, separated by commas; the score of each is a feature",
        ),
        Flag(
            "reverse_model_dir", str,
            "the same for models of the opposite direction, which give the probability of the "
            "source",
        ),
        tag_flag("the lines have their tags; for --model_dir"),
        Flag(
            "reverse_tag", str,
            "tag to put before each translation for --reverse_model_dir (default: none)",
        ),
        Flag(
            "weights", str,
            "weights, separated by commas: of the score in the list, of each --model_dir, of each "
            "--reverse_model_dir (default: 1 for all)",
        ),
        Flag(
            "n_best", int,
            "translations of each line to write; with more than 1, each is written as "
            "LINE NUMBER<tab>SCORE<tab>TRANSLATION", 1, minimum=1,
        ),
        Flag("output", str, "file for the translations (default: standard output)"),
        length_penalty_flag(),
    ],
)  # fmt: skip
def rescore(values: flags.FlagValues) -> None:
    """Sorts n-best lists by the weighted sum of the scores of several models."""
    forward, backward = _folders(values.model_dir), _folders(values.reverse_model_dir)
    if not forward + backward:
        raise UserError("--model_dir and --reverse_model_dir are missing: give at least one model")
    weights = _weights(values.weights, 1 + len(forward) + len(backward))
    _check_models(forward, values.tag, "tag", "model_dir")
    _check_models(backward, values.reverse_tag, "reverse_tag", "reverse_model_dir")
    sources = list(read_lines(values.sources))
    hypotheses = read_n_best(values.input, len(sources))
    pairs = [(sources[each.line - 1], each.text) for each in hypotheses]
    tagged = [(add_tag(values.tag, source), target) for source, target in pairs]
    # The tag of a line says what a forward model translates to. It is no text.
    reversed_pairs = [(add_tag(values.reverse_tag, y), split_tag(x, None)[1]) for x, y in pairs]
    features = [[each.score for each in hypotheses]]
    models = [(folder, tagged) for folder in forward]
    models += [(folder, reversed_pairs) for folder in backward]
    for weight, (folder, texts) in zip(weights[1:], models):
        unused = [0.0] * len(pairs)  # a model of weight 0 does not compute
        features.append(_scores(values, folder, texts) if weight else unused)
    with open_output(values.output) as output:
        for best in sorted_lists(hypotheses, features, weights):
            for each in best[: values.n_best]:
                output.write(f"{each.text if values.n_best == 1 else each}\n")


def _folders(names: str | None) -> list[str]:
    return [folder for folder, _ in model_list(names)] if names else []


def _check_models(folders: list[str], tag: str | None, flag: str, folder_flag: str) -> None:
    """Checks model folders and their tag, before the first model computes.

    Args:
      folders: the model folders.
      tag: the tag to put before their sources, or None.
      flag, folder_flag: the names of the flags of both.
    Raises: UserError for a wrong folder, for a tag that a model does not have, or without models.
    """
    if tag and not folders:
        raise UserError(f"--{flag} is for --{folder_flag}: give a model, or leave it out")
    configs = [model_folder.load_config(folder) for folder in folders]
    for folder, config in zip(folders, configs):
        if tag:
            _check_tag(folder, config, tag, flag)


def _check_tag(folder: str, config: Config, tag: str, flag: str) -> None:
    """Checks a tag with the vocabulary of a model; arguments as for `_check_models`."""
    start_tensorflow()
    from tf_transformer.data.tokenizer import load_tokenizers

    source, _ = load_tokenizers(folder, config.data.shared_vocab)
    check_tag(tag, lambda texts: source.encode(texts).to_list(), flag)


def _weights(text: str | None, number: int) -> list[float]:
    """The weights of the features. Raises: UserError."""
    if text is None:
        return [1.0] * number
    try:
        weights = [float(weight) for weight in text.split(",")]
    except ValueError:
        weights = []
    if len(weights) != number or not all(map(math.isfinite, weights)):
        raise UserError(
            f"--weights={text}: give {number} numbers, separated by commas: of the score in the "
            "list, then of each model"
        )
    return weights


def _scores(values: flags.FlagValues, model_dir: str, pairs: list[tuple[str, str]]) -> list[float]:
    """The normalised log-probability of each target; -inf where a text is too long."""
    translator = load_translator(values, model_dir)
    with (
        explain_scoring_memory(),
        progress_bar(total=len(pairs)) as progress,
    ):
        scores = translator.score(pairs, progress, skip_long=True)
    return [score.normalized for score in scores]
