"""The command compare: training runs side by side."""

from __future__ import annotations

import collections
import glob
import math
import os
import pathlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from absl import flags

from tf_transformer.checkpoints.model_folder import CONFIG, METRICS, load_config, read_metrics
from tf_transformer.cli.command import Flag, command, is_for, setting_flag
from tf_transformer.cli.evaluation import read_translations
from tf_transformer.config import Config
from tf_transformer.data.readers import corpora_of, open_corpus
from tf_transformer.errors import UserError
from tf_transformer.visualization.history import Line, metric

MAX_CELL = 28  # characters of a setting
TITLE = 26  # characters of the first column


def _flags() -> list[Flag]:
    from tf_transformer.evaluation.metrics import metrics_help

    return [
        Flag("runs", str, "model folders, or folders of some, separated by commas", required=True),
        Flag("split", str, "test what evaluate wrote for this split against the first run"),
        Flag("data", str, "--split: pairs, as for evaluate (default: the first run's)"),
        Flag("max_pairs", int, "--split: pairs to compare, from the start; 0: all", 0, minimum=0),
        Flag("metrics", str, f"--split: {metrics_help()}", "bleu,chrf"),
        setting_flag("bleu_tokenizer"),
    ]


@command("compare", _flags, positional="runs")
def compare(values: flags.FlagValues) -> None:
    """Compare runs: settings, losses, scores, and the mean over random seeds."""
    is_for(values, "split", "data", "metrics", "max_pairs", "bleu_tokenizer")
    runs = find_runs(values.runs.split(","))
    scores, signatures = _scores(values, runs) if values.split else ([], [])
    print(describe_runs(runs, scores))
    if signatures:
        title = "\nintervals of 95% and p-values: paired bootstrap resampling; signatures:"
        print(title, *signatures, sep="\n  ")


def _scores(values: flags.FlagValues, runs: list[Run]) -> tuple[list[Row], list[str]]:
    """The scores of what evaluate wrote, against the first run, and their signatures."""
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
    tokenizer = values.bleu_tokenizer or runs[0].config.train.bleu_tokenizer
    others = [references[:number]], translations[0], language, tokenizer
    results = [corpus_metrics(metrics, lines, *others) for lines in translations[1:]]
    rows, signatures = [], []
    for of_runs in zip(*results):
        name = of_runs[0].name
        systems: list[Any] = [of_runs[0].baseline, *(result.system for result in of_runs)]
        scores = [each.score for each in systems]
        # Without a difference, sacreBLEU's p-value is the smallest possible one.
        p_values = [math.nan if each.score == scores[0] else each.p_value for each in systems]
        rows.append(Row(f"{values.split}: {name}", scores, ".2f", True))
        rows.append(Row("  95% interval ±", [each.ci for each in systems], ".2f"))
        rows.append(Row("  p-value against run 1", p_values, ".4f"))
        signatures.append(f"{name}: {of_runs[0].signature}")
    return rows, signatures


class Run(NamedTuple):
    """A training run."""

    path: str  # its model folder
    config: Config
    lines: list[Line]  # of its `metrics.jsonl`
    vocabulary: tuple[bytes, ...]  # the content of the files of its vocabularies

    @property
    def updates(self) -> int:
        """The updates so far."""
        return max((line["step"] for line in self.lines), default=0)

    @property
    def stopped_early(self) -> str:
        """When each metric was best, where that ended the run; else ""."""
        return self.lines[-1].get("stopped_early", "") if self.lines else ""

    @property
    def state(self) -> str:
        """How far the run is; a complete one ends with the validation of the average."""
        if not any(line["kind"] == "average" for line in self.lines[-1:]):
            return "unfinished"
        return "stopped early" if self.stopped_early else "complete"

    def of_kind(self, kind: str) -> list[Line]:
        """The lines of "train", "validation" or "average"."""
        return [line for line in self.lines if line["kind"] == kind]

    def best(self, name: str, better: Callable[..., Line]) -> Line:
        """The validation with the lowest loss, by `min`, or the highest BLEU, by `max`."""
        lines = [line for line in self.of_kind("validation") if not math.isnan(metric(line, name))]
        return better(lines, key=lambda line: metric(line, name), default={})

    def minutes(self) -> float:
        """The time of the updates, without validations and interruptions."""
        seconds, step = 0.0, 0
        for line in self.of_kind("train"):
            if (speed := metric(line, "steps_per_second")) > 0:
                seconds += (line["step"] - step) / speed
            step = line["step"]
        return seconds / 60


class Row(NamedTuple):
    """A row of the table."""

    title: str
    values: Sequence[float]  # one for each run; NaN where there is none
    form: str  # format specification
    is_result: bool = False  # whether the mean over random seeds is of interest

    def cells(self) -> list[str]:
        """The values as text."""
        return ["-" if math.isnan(value) else format(value, self.form) for value in self.values]


def find_runs(folders: Sequence[str]) -> list[Run]:
    """Reads the runs in model folders, or in folders that contain some.

    Raises: UserError when a folder has no run, or there are fewer than two runs.
    """

    def has_config(folder: str) -> bool:
        return os.path.isfile(os.path.join(folder, CONFIG))

    found: list[str] = []
    for folder in folders:
        # Exports have a config.json too, and no history.
        pattern = os.path.join(glob.escape(folder), "*", METRICS)
        inside = sorted(filter(has_config, map(os.path.dirname, glob.glob(pattern))))
        found += [folder] if has_config(folder) or not inside else inside
    unique = {os.path.realpath(path): path.rstrip("/") for path in found}
    runs = [read_run(path) for path in unique.values()]
    if len(runs) < 2:
        names = ", ".join(run.path for run in runs) or "no folder"
        raise UserError(f"compare needs at least two runs, and got {names}: give more folders")
    return runs


def read_run(path: str) -> Run:
    """Reads the run in a model folder. Raises: UserError when there are no settings."""
    vocabulary = (file.read_bytes() for file in sorted(pathlib.Path(path).glob("*.model")))
    return Run(path, load_config(path), read_metrics(path), tuple(vocabulary))


def result_rows(runs: Sequence[Run]) -> list[Row]:
    """The rows of the results that training measured, without those that no run has."""
    lowest = [run.best("loss", min) for run in runs]
    highest = [run.best("BLEU", max) for run in runs]
    last, average = (
        [(run.of_kind(kind) or [{}])[-1] for run in runs] for kind in ("validation", "average")
    )

    def row(title: str, lines: list[Line], name: str, form: str, is_result: bool = True) -> Row:
        return Row(title, [metric(line, name) for line in lines], form, is_result)

    rows = [
        Row("parameters", [run.config.model.parameters() for run in runs], ",.0f"),
        Row("updates", [run.updates for run in runs], ",.0f"),
        Row("minutes of training", [run.minutes() for run in runs], ",.1f"),
        row("lowest validation loss", lowest, "loss", ".4f"),
        row("  after updates", lowest, "step", ",.0f", False),
        row("last validation loss", last, "loss", ".4f", False),
        row("highest BLEU", highest, "BLEU", ".2f"),
        row("average: loss", average, "loss", ".4f"),
        row("average: perplexity", average, "perplexity", ".3f"),
        row("average: BLEU", average, "BLEU", ".2f"),
    ]
    return [row for row in rows if not all(map(math.isnan, row.values))]


def describe_runs(runs: Sequence[Run], scores: Sequence[Row] = ()) -> str:
    """Formats the settings that differ and the results of runs as a table, with notes below it.

    `scores` are more rows, such as the scores on a test set.
    """
    rows = [*result_rows(runs), *scores]
    numbers = [str(number) for number in range(1, len(runs) + 1)]
    settings = [("", numbers)]
    for name in runs[0].config.values():
        cells = [str(run.config.values()[name]) for run in runs]
        if len(set(cells)) > 1:
            cut = [
                each if len(each) <= MAX_CELL else f"...{each[3 - MAX_CELL :]}" for each in cells
            ]
            settings.append((name, cut))
    results = [("state", [run.state for run in runs]), *((row.title, row.cells()) for row in rows)]
    columns = zip(*(cells for _, cells in [*settings, *results]))
    widths = [max(map(len, column)) for column in columns]

    def line(row: tuple[str, list[str]]) -> str:
        aligned = (f"{cell:>{width}}" for cell, width in zip(row[1], widths))
        return f"  {row[0]:{TITLE}} {'  '.join(aligned)}"

    text = ["runs", *(f"  {number}  {run.path}" for number, run in zip(numbers, runs))]
    text += ["", "settings that differ" if settings[1:] else "all settings are equal"]
    text += [*map(line, settings), "", "results", *map(line, results)]
    for paragraph in (*_notes(runs), *_over_seeds(runs, rows)):
        text += ["", paragraph]
    return "\n".join(text)


def _notes(runs: Sequence[Run]) -> Iterator[str]:
    """Why runs stopped early, and what cannot be compared."""
    for number, run in enumerate(runs, start=1):
        if run.stopped_early:
            yield f"Run {number} stopped early at update {run.updates:,}: {run.stopped_early}."
    texts = {(run.config.data.data, run.config.data.source, run.config.data.target) for run in runs}
    if len(texts) > 1:
        yield "The runs have different data: losses, perplexities and BLEU cannot be compared."
    elif len({run.vocabulary for run in runs}) > 1:
        yield (
            "The runs have different vocabularies: losses and perplexities, which are of a "
            "sub-word,\ncannot be compared; BLEU can."
        )
    if len({run.config.train.bleu_sentences for run in runs}) > 1:
        yield "The BLEU of the runs is of different numbers of sentences (bleu_sentences)."


def _over_seeds(runs: Sequence[Run], rows: Sequence[Row]) -> Iterator[str]:
    """The mean of the results, for the complete runs that differ only in the seed."""
    groups: dict[tuple[Config, tuple[bytes, ...]], list[int]] = collections.defaultdict(list)
    for index, run in enumerate(runs):
        if run.state != "unfinished":
            groups[run.config.replace(seed=0), run.vocabulary].append(index)
    for indices in groups.values():
        if len({runs[index].config.train.seed for index in indices}) < max(2, len(indices)):
            continue
        names = ", ".join(str(index + 1) for index in indices)
        title = f"mean ± sample standard deviation of runs {names}, which differ in the seed"
        updates = sorted(runs[index].updates for index in indices)
        if updates[0] < updates[-1]:  # as after early stopping or `train_minutes`
            title += f",\nand in the number of updates, from {updates[0]:,} to {updates[-1]:,}"
        lines = [title]
        for row in rows:
            values = [row.values[index] for index in indices]
            if row.is_result and not any(map(math.isnan, values)):
                mean, deviation = statistics.mean(values), statistics.stdev(values)
                lines.append(f"  {row.title:{TITLE}} {mean:{row.form}} ± {deviation:{row.form}}")
        yield "\n".join(lines)
