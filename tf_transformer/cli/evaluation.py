"""The command evaluate."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import model_list
from tf_transformer.cli.evaluation_data import (
    Pairs,
    TestSet,
    read_aligned,
    read_test_set,
    tag_for,
    translations_path,
)
from tf_transformer.cli.flags import given
from tf_transformer.cli.terminal import open_output, required
from tf_transformer.cli.translation import (
    check_diversity,
    check_translator_tag,
    explain_decoding_memory,
    load_translator,
    progress_bar,
)
from tf_transformer.config import TREES, ControlConfig, DataConfig, DecodeConfig
from tf_transformer.data.tags import add_tag
from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.decoding.translator import Translator


def evaluate(values: flags.FlagValues) -> None:
    """Translates or parses a test set, and scores it; or scores given translations of it."""
    from tf_transformer.evaluation.metrics import parse_metrics

    check_diversity(values)
    models = model_list(required(values, "model_dir"), values.checkpoint)
    model_dir = models[0][0]  # its data and languages hold for an ensemble
    data = model_folder.load_config(model_dir).data
    metrics = parse_metrics(values.metrics)
    if data.target == TREES and (values.references or values.baseline or values.translations):
        raise UserError(
            "--references, --baseline and --translations are for translations; this model is a "
            "parser"
        )
    if values.translations:
        _check_only_scored(values, len(models))
        test = read_test_set(values, data)
        outputs = read_aligned(values.translations, test.size, "translation")
        baseline = _baseline_translations(values, data, test)
        print(f"{test}, translations in {values.translations}")
        _score_translations(test, metrics, outputs[: len(test.pairs)], baseline)
        return
    translator = load_translator(values, values.model_dir, values.checkpoint)
    check_translator_tag(values.tag, translator)
    test = read_test_set(values, data)
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


def _translate(translator: Translator, sources: list[str]) -> list[str]:
    """The best translation of each source."""
    with (
        explain_decoding_memory(translator.decode),
        progress_bar(total=len(sources)) as progress,
    ):
        return [hypotheses[0][0] for hypotheses in translator.n_best(sources, 1, progress)]


def _baseline_translations(
    values: flags.FlagValues, own: DataConfig, test: TestSet
) -> list[str] | None:
    """The translations of --baseline, a file or a model; None without the flag.

    Args:
      values: the flags.
      own: the settings of the data of the evaluated model.
      test: the test set.
    """
    if not values.baseline:
        return None
    if os.path.isfile(values.baseline):
        return read_aligned(values.baseline, test.size, "translation")[: len(test.pairs)]
    model_dir = model_folder.find_model_dir(values.baseline)
    data = model_folder.load_config(model_dir).data
    languages = test.data.source, test.data.target
    tag = tag_for(data, *languages)
    if tag is None and tag_for(own, *languages) is None:  # it has other names for languages
        is_same = (data.source, data.target) == (own.source, own.target)
        tag = data.tag.split(",")[0] if is_same else None
    if tag is None:
        raise UserError(
            f"the baseline {model_dir} translates {data.source} to {data.target}, and the test set "
            f"has {test.data.source} and {test.data.target}: give a model for these languages"
        )
    sources = [add_tag(tag, source) for source in test.sources_without_tags]
    return _translate(load_translator(values, model_dir), sources)


def _score_translations(
    test: TestSet, metrics: list[str], translations: list[str], baseline: list[str] | None
) -> None:
    """Prints the metrics, then with one reference also the tokenised BLEU of published scores."""
    from tf_transformer.evaluation.metrics import corpus_metrics, published_scores

    references, target = test.references, test.data.target
    results = corpus_metrics(metrics, translations, references, baseline, target)
    print(*results, sep="\n")
    if len(references) == 1:
        print(*published_scores(translations, references[0], test.data), sep="\n")


def _score_parses(pairs: Pairs, outputs: list[str], path: str) -> None:
    """Replaces the raw outputs in a file by trees, and writes EVALB's table beside it."""
    from tf_transformer.data.trees import restore
    from tf_transformer.evaluation.parser import evaluate_parses

    gold = [restore(tree, words.split(" ")) for words, tree in pairs]
    evaluation = evaluate_parses(gold, outputs)
    with open_output(path) as trees:
        trees.writelines(f"{tree}\n" for tree in evaluation.trees)
    with open_output(f"{path}.evalb") as table:
        table.write(evaluation.table)
    print(f"{evaluation}\nEVALB's table in {path}.evalb")
