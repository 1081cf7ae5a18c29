"""The command compare."""

from __future__ import annotations

import math

from absl import flags

from tf_transformer.cli.command import Flag, command, is_for, setting_flag
from tf_transformer.cli.evaluation import read_translations
from tf_transformer.data.readers import corpora_of, open_corpus
from tf_transformer.errors import UserError
from tf_transformer.visualization import run_comparison
from tf_transformer.visualization.run_comparison import Row, Run


def _flags() -> list[Flag]:
    from tf_transformer.evaluation.metrics import metrics_help

    return [
        Flag(
            "runs", str,
            "model folders, or folders that contain some, separated by commas; `compare FOLDER "
            "FOLDER` does the same", required=True,
        ),
        Flag("plot", str, "PNG file for the losses and BLEU of the runs over the updates"),
        Flag(
            "split", str,
            "compare what evaluate wrote for this split, by a paired bootstrap test against the "
            "first run",
        ),
        Flag("data", str, "--split: pairs, as for evaluate (default: those of the first run)"),
        Flag("max_pairs", int, "--split: pairs to compare, from the start; 0: all", 0, minimum=0),
        Flag("metrics", str, f"--split: {metrics_help()}", "bleu,chrf"),
        setting_flag("bleu_tokenizer"),
    ]  # fmt: skip


@command(
    "compare",
    "compare runs: settings, losses, scores, and the mean over random seeds",
    _flags,
    positional="runs",
)
def compare(values: flags.FlagValues) -> None:
    """Prints the settings and the results of runs side by side, and plots their curves."""
    is_for(values, "split", "data", "metrics", "max_pairs", "bleu_tokenizer")
    runs = run_comparison.find_runs(values.runs.split(","))
    scores, signatures = _scores(values, runs) if values.split else ([], [])
    print(run_comparison.describe_runs(runs, scores))
    if signatures:
        print("\nintervals of 95% and p-values: paired bootstrap resampling; signatures:")
    for signature in signatures:
        print(f"  {signature}")
    if values.plot:
        run_comparison.plot_runs(runs, values.plot)
        print(f"\ndrew {values.plot}")


def _scores(values: flags.FlagValues, runs: list[Run]) -> tuple[list[Row], list[str]]:
    """The scores of the translations that evaluate wrote, and the signatures of the metrics.

    Raises: UserError for runs of other languages, or without translations of the test set.
    """
    from tf_transformer.evaluation.metrics import corpus_metrics, parse_metrics

    metrics = parse_metrics(values.metrics)
    data = runs[0].config.data
    for run in runs:
        other = run.config.data
        if (other.source, other.target) != (data.source, data.target):
            raise UserError(
                f"--split: {run.path} is for {other.source} to {other.target}, {runs[0].path} for "
                f"{data.source} to {data.target}: give translation runs of the same languages"
            )
    test_data = values.data or data.data  # one text for all runs
    corpus = open_corpus(test_data, data.source, data.target, hold_out=data.hold_out)
    held_out = corpus.parts(values.split)[0].held_out
    if values.split in held_out and len({run.config.data.hold_out for run in runs}) > 1:
        raise UserError(
            f"--split={values.split}: the runs differ in hold_out, so they were validated on other "
            "pairs: give another --split or --data"
        )
    _, _, language = corpora_of(test_data, data.source, data.target)[0]
    references = [target for _, target in corpus.read(values.split)]
    number = values.max_pairs or len(references)
    translations = [
        read_translations(run.path, test_data, values.split, len(references), number)
        for run in runs
    ]
    of_text = language, values.bleu_tokenizer or runs[0].config.train.bleu_tokenizer
    # The first run is not compared with anything.
    results = [
        corpus_metrics(metrics, lines, [references[:number]], translations[0], *of_text)
        for lines in translations[1:]
    ]
    rows: list[Row] = []
    signatures = []
    for of_runs in zip(*results):
        name, first = of_runs[0].name, of_runs[0].baseline
        systems = [first, *(result.system for result in of_runs)]
        intervals = [math.nan if each.ci is None else each.ci for each in systems]
        p_values = [
            # Without a difference, sacreBLEU's p-value is the smallest possible one.
            math.nan if each.p_value is None or each.score == first.score else each.p_value
            for each in systems
        ]
        rows.append(Row(f"{values.split}: {name}", [each.score for each in systems], ".2f", True))
        rows.append(Row("  95% interval ±", intervals, ".2f"))
        rows.append(Row("  p-value against run 1", p_values, ".4f"))
        signatures.append(f"{name}: {of_runs[0].signature}")
    return rows, signatures
