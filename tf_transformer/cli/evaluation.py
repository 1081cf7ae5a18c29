"""The command evaluate."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from typing import TYPE_CHECKING

from absl import flags

from tf_transformer.checkpoints import paths, pretrained
from tf_transformer.checkpoints.model_lists import model_list
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import open_output, required
from tf_transformer.cli.translation import (
    check_diversity,
    explain_decoding_memory,
    load_translator,
    progress_bar,
)
from tf_transformer.config import TREES, ControlConfig, DataConfig, DecodeConfig
from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.decoding.translator import Translator

Pairs = list[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class _TestSet:
    """The pairs that are scored."""

    split: str
    description: str  # the split and the name of its corpus
    pairs: Pairs  # at most --max_pairs
    size: int  # without this limit
    references: list[list[str]]  # one or more for each pair
    data: DataConfig  # the settings of the model's data, with the languages of these pairs

    def __str__(self) -> str:
        return f"{self.description}: {len(self.pairs):,} pairs"

    @property
    def sources(self) -> list[str]:
        return [source for source, _ in self.pairs]


def evaluate(values: flags.FlagValues) -> None:
    """Translates or parses a test set, and scores it; or scores given translations of it."""
    from tf_transformer.evaluation.metrics import parse_metrics

    check_diversity(values)
    models = model_list(required(values, "model_dir"), values.checkpoint)
    model_dir = models[0][0]  # its data and languages hold for an ensemble
    data = paths.load_config(model_dir).data
    metrics = parse_metrics(values.metrics)
    if data.target == TREES and (values.references or values.baseline or values.translations):
        raise UserError(
            "--references, --baseline and --translations are for translations; this model is a "
            "parser"
        )
    if values.translations:
        _check_only_scored(values, len(models))
        test = _read_test_set(values, data)
        outputs = _read_aligned(values.translations, test.size, "translation")
        baseline = _baseline_translations(values, data, test)
        print(f"{test}, translations in {values.translations}")
        _score_translations(test, metrics, outputs[: len(test.pairs)], baseline)
        return
    translator = load_translator(values, values.model_dir, values.checkpoint)
    test = _read_test_set(values, data)
    baseline = _baseline_translations(values, data, test)
    output = values.output or translations_path(model_dir, data, values.data, test.split)
    if len(models) > 1 and not values.output:  # the file without prefix is that of the first model
        output = os.path.join(os.path.dirname(output), f"ensemble.{os.path.basename(output)}")
    with open_output(output) as file:  # a wrong path is reported before the translation
        start = time.monotonic()
        outputs = _translate(translator, test.sources)
        seconds = time.monotonic() - start
        file.writelines(f"{text}\n" for text in outputs)
    print(f"{test}, beam {translator.decode.beam_size}")
    if data.target == TREES:
        kind = "trees"
        _score_parses(test.pairs, outputs, output)
    else:
        kind = "translations"
        _score_translations(test, metrics, outputs, baseline)
    print(f"{len(outputs) / seconds:,.1f} sentences/s; {kind} in {output}")


def _read_test_set(values: flags.FlagValues, data: DataConfig) -> _TestSet:
    """Reads the pairs of --data and --split, or those of the model's own test set.

    Args:
      values: the flags.
      data: the settings of the text that the model was trained on.
    Raises: UserError when there are none, or a file of references has another number of lines.
    """
    from tf_transformer.data.corpus_names import absolute_path, languages_of
    from tf_transformer.data.sources import open_corpus

    own_data = not values.data or absolute_path(values.data) == absolute_path(data.data)
    tag = values.tag or (data.tag if own_data else data.tag.split(",")[0])
    corpus = open_corpus(values.data or data.data, data.source, data.target, tag)
    split = values.split or corpus.default_test(seen=own_data)
    pairs = list(corpus.read(split))
    if not pairs:
        raise UserError(f"nothing to score: {corpus.describe(split)} has no pairs")
    number = min(len(pairs), values.max_pairs or len(pairs))
    references = [lines[:number] for lines in _read_references(values.references, pairs)]
    source, target = languages_of(values.data or data.data, data.source, data.target)
    languages = dataclasses.replace(data, source=source, target=target)
    pairs, size = pairs[:number], len(pairs)
    return _TestSet(split, corpus.describe(split), pairs, size, references, languages)


def _check_only_scored(values: flags.FlagValues, models: int) -> None:
    """Checks the flags that are given with --translations.

    Args:
      values: the flags.
      models: number of models that --model_dir and --checkpoint name.
    Raises: UserError for several models, and for flags that have no effect: those of the output,
      and those of the search, unless --baseline is a model that translates.
    """
    without_effect = [name for name in ("checkpoint", "output") if values[name].present]
    if not values.baseline or os.path.isfile(values.baseline):
        without_effect += given(values, (DecodeConfig, ControlConfig))
    if without_effect:
        raise UserError(
            f"--{without_effect[0]} has no effect with --translations={values.translations}, which "
            "is scored as it is: leave out one of them"
        )
    if models > 1:
        raise UserError(
            f"--translations={values.translations} is scored with the data and the languages of "
            "one model: give one folder in --model_dir"
        )


def translations_path(model_dir: str, data: DataConfig, test_data: str | None, split: str) -> str:
    """Returns where evaluate writes the translations of a test set.

    Args:
      model_dir: the model folder.
      data: the settings of the text that the model was trained on.
      test_data: the value of --data.
      split: of the text.
    """
    from tf_transformer.data.corpus_names import absolute_path

    name = split
    if test_data and absolute_path(test_data) != absolute_path(data.data):
        name = f"{_as_file_name(test_data)}.{split}"
    folder = os.path.join(pretrained.writable_folder(model_dir), "evaluation")
    return os.path.join(folder, f"{name}.{data.target}")


def _translate(translator: Translator, sources: list[str]) -> list[str]:
    """The best translation of each source."""
    with (
        explain_decoding_memory(translator.decode),
        progress_bar(total=len(sources)) as progress,
    ):
        return [hypotheses[0][0] for hypotheses in translator.n_best(sources, 1, progress)]


def _as_file_name(data: str) -> str:
    """The value of --data as a part of a file name."""
    return re.sub(r"[^\w.+-]+", "-", data).strip("-")[-100:]


def _read_references(paths_of_files: str | None, pairs: Pairs) -> list[list[str]]:
    """The sets of references: those of the files, or the targets of the pairs."""
    if not paths_of_files:
        return [[target for _, target in pairs]]
    return [_read_aligned(path, len(pairs), "reference") for path in paths_of_files.split(",")]


def _read_aligned(path: str, number: int, kind: str) -> list[str]:
    """The lines of a file that has a line for each pair. Raises: UserError when it has not."""
    from tf_transformer.data.corpus import read_lines

    lines = list(read_lines(path))
    if len(lines) != number:
        raise UserError(
            f"{path} has {len(lines):,} lines, and the test set {number:,} pairs: give one {kind} "
            "on each line"
        )
    return lines


def _baseline_translations(
    values: flags.FlagValues, data: DataConfig, test: _TestSet
) -> list[str] | None:
    """The translations of --baseline, a file or a model; None without the flag."""
    if not values.baseline:
        return None
    if os.path.isfile(values.baseline):
        return _read_aligned(values.baseline, test.size, "translation")[: len(test.pairs)]
    model_dir = pretrained.find_model_dir(values.baseline)
    other = paths.load_config(model_dir).data
    if (other.source, other.target) != (data.source, data.target):
        raise UserError(
            f"the baseline {model_dir} translates {other.source} to {other.target}, and this model "
            f"{data.source} to {data.target}: give a model for the same languages"
        )
    return _translate(load_translator(values, model_dir), test.sources)


def _score_translations(
    test: _TestSet, metrics: list[str], translations: list[str], baseline: list[str] | None
) -> None:
    """Prints the metrics, then with one reference also the tokenised BLEU of published scores."""
    from tf_transformer.evaluation.bleu import (
        compound_split_bleu,
        has_papers_bleu,
        normalized_bleu,
    )
    from tf_transformer.evaluation.metrics import corpus_metrics

    references, target = test.references, test.data.target
    for result in corpus_metrics(metrics, translations, references, baseline, target):
        print(result)
    if len(references) > 1:
        return
    if has_papers_bleu(test.data):
        bleu, signature = compound_split_bleu(translations, references[0])
        print(f"tokenised, compound-split BLEU {bleu:.2f}, as in the paper  ({signature})")
    bleu, signature = normalized_bleu(translations, references[0], target)
    print(f"lower-cased, tokenised BLEU {bleu:.2f}, as in papers on Multi30k  ({signature})")


def _score_parses(pairs: Pairs, outputs: list[str], path: str) -> None:
    """Replaces the raw outputs in a file by trees, and writes EVALB's table beside it."""
    from tf_transformer.data.treebank import restore
    from tf_transformer.parsing.parser import evaluate_parses

    gold = [restore(tree, words.split(" ")) for words, tree in pairs]
    evaluation = evaluate_parses(gold, outputs)
    with open_output(path) as trees:
        trees.writelines(f"{tree}\n" for tree in evaluation.trees)
    with open_output(f"{path}.evalb") as table:
        table.write(evaluation.table)
    print(f"{evaluation}\nEVALB's table in {path}.evalb")
