"""The command rescore."""

from __future__ import annotations

import math

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import model_list
from tf_transformer.cli.terminal import open_output, required, start_tensorflow
from tf_transformer.cli.translation import (
    explain_scoring_memory,
    load_translator,
    progress_bar,
)
from tf_transformer.config import Config
from tf_transformer.data.tags import add_tag, check_tag, split_tag
from tf_transformer.data.text_files import read_lines
from tf_transformer.decoding.extras.reranking import read_n_best, rescore
from tf_transformer.errors import UserError


def rescoring(values: flags.FlagValues) -> None:
    """Sorts n-best lists by the weighted sum of the scores of several models."""
    forward, backward = _folders(values.model_dir), _folders(values.reverse_model_dir)
    if not forward + backward:
        raise UserError("--model_dir and --reverse_model_dir are missing: give at least one model")
    weights = _weights(values.weights, 1 + len(forward) + len(backward))
    _check_models(forward, values.tag, "tag", "model_dir")
    _check_models(backward, values.reverse_tag, "reverse_tag", "reverse_model_dir")
    sources = list(read_lines(required(values, "sources")))
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
        for best in rescore(hypotheses, features, weights):
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
