"""The history of a training run, from the `metrics.jsonl` of its folder: a table and a plot."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Any

from tf_transformer.checkpoints.model_folder import METRIC_KINDS as KINDS
from tf_transformer.checkpoints.model_folder import load_config, read_metrics
from tf_transformer.config import NOAM
from tf_transformer.errors import UserError
from tf_transformer.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line = dict[str, Any]  # of `metrics.jsonl`
History = dict[str, list[Line]]  # a list for each of `KINDS`

ROWS = 12  # of the table, without the averaged checkpoint


def read_history(model_dir: str) -> History:
    """Reads the lines of `metrics.jsonl`.

    Args:
      model_dir: a folder written by `tf-transformer train`.
    Returns: a dict with a list of lines, which are dicts, for each of "train", "validation" and
      "average".
    Raises: UserError when there are no lines.
    """
    lines = read_metrics(model_dir)
    if not lines:
        raise UserError(
            f"{model_dir} has no history (no metrics.jsonl): train first, or give another "
            "--model_dir"
        )
    return {kind: [line for line in lines if line["kind"] == kind] for kind in KINDS}


def describe_history(model_dir: str) -> str:
    """Formats loss, speed and scores over the updates as a table of at most `ROWS` rows.

    Args:
      model_dir: as for `read_history`.
    Returns: text of several lines.
    Raises: UserError, as `read_history` does.
    """
    history = read_history(model_dir)
    train = history["train"]
    validations = history["validation"]
    text = [
        _title(history),
        f"    {'step':>9} {'loss':>7} {'lr':>9} {'tokens/s':>9}   "
        f"{'valid. loss':>11} {'perplexity':>10} {'BLEU':>6}",
    ]
    for step in _evenly_spaced(sorted({line["step"] for line in validations or train})):
        train_before = [line for line in train if line["step"] <= step]
        validations_at = [line for line in validations if line["step"] == step]
        text.append(_row(f"{step:,}", _last(train_before), _last(validations_at)))
    average = _last(history["average"])
    last = average or _last(validations) or {}
    rows = {"average": average} if average else {}
    for name in _further_texts(history):
        own = f"{name}/"
        rows[name] = {key.removeprefix(own): last[key] for key in last if key.startswith(own)}
    text += [_row(name, None, row) for name, row in rows.items()]
    if average and "stopped_early" in average:
        text.append(f"    stopped early at update {average['step']:,}: {average['stopped_early']}")
    return "\n".join(text)


def _further_texts(history: History) -> list[str]:
    """The names of the validation texts besides the run's own: before the / of their metrics."""
    names = (name.rpartition("/")[0] for line in history["validation"] for name in line)
    return list(filter(None, dict.fromkeys(names)))


def _title(history: History) -> str:
    """The number of updates, the time of the first and the last line, and skipped updates."""
    lines = [line for kind in KINDS for line in history[kind]]
    times = [datetime.datetime.fromtimestamp(line["time"]) for line in lines]
    steps = max(line["step"] for line in lines)
    title = (
        f"  history          {steps:,} updates, "
        f"{min(times):%Y-%m-%d %H:%M} to {max(times):%Y-%m-%d %H:%M}"
    )
    skipped = metric(_last(history["train"]) or {}, "skipped_steps")
    if skipped > 0:
        title += f"; {skipped:,.0f} skipped because gradients were not finite"
    return title


def _evenly_spaced(steps: list[int]) -> list[int]:
    """At most `ROWS` of the given steps, with the first and the last."""
    indices = {round(i * (len(steps) - 1) / (ROWS - 1)) for i in range(ROWS)}
    return [steps[i] for i in sorted(indices)] if steps else []


def _last(lines: list[Line]) -> Line | None:
    return lines[-1] if lines else None


def _row(name: str, train: Line | None, validation: Line | None) -> str:
    left = f"{'':7} {'':9} {'':9}"
    if train:
        left = (
            f"{metric(train, 'loss'):7.3f} {metric(train, 'learning_rate'):9.2e} "
            f"{metric(train, 'target_tokens_per_second'):9,.0f}"
        )
    right = ""
    if validation:
        bleu = f"{metric(validation, 'BLEU'):6.2f}" if "BLEU" in validation else ""
        loss, perplexity = metric(validation, "loss"), metric(validation, "perplexity")
        right = f"{loss:11.3f} {perplexity:10.2f} {bleu}"
    return f"    {name:>9} {left}   {right}".rstrip()


def metric(line: Line, name: str) -> float:
    """Returns a metric of a line of `metrics.jsonl`; NaN where it is missing or not finite."""
    value = line.get(name)
    if isinstance(value, (int, float)) and abs(value) < 1e300:
        return float(value)
    return math.nan


def plot_history(model_dir: str, path: str) -> None:
    """Plots loss, BLEU, learning rate and tokens per second over the updates.

    Args:
      model_dir: as for `read_history`.
      path: the PNG file to write.
    Raises: UserError, as `read_history` does, or when there are no settings. OSError when the file
      cannot be written.
    """
    from matplotlib.figure import Figure

    history = read_history(model_dir)
    settings = load_config(model_dir).train
    figure = Figure(figsize=(11, 7), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True)
    figure.suptitle(model_dir)
    rate = "Eq. 3" if settings.learning_rate_schedule == NOAM else settings.learning_rate_schedule
    train = {"train": "training (with label smoothing)"}
    scores = {"validation": "validation", "average": "averaged checkpoints"}
    _plot_panel(panels[0, 0], "loss (nats per token)", history, "loss", train | scores)
    _plot_panel(panels[0, 1], "BLEU of greedy translations", history, "BLEU", scores)
    _plot_panel(panels[1, 0], f"learning rate ({rate})", history, "learning_rate", train)
    _plot_panel(
        panels[1, 1], "target tokens per second", history, "target_tokens_per_second", train
    )
    for panel in panels[1]:
        panel.set_xlabel("updates")
    panels[1, 1].set_ylim(bottom=0)
    with atomic_write(path, "wb") as file:
        figure.savefig(file, dpi=120, format="png")


def _plot_panel(
    panel: Axes, title: str, history: History, name: str, labels: dict[str, str]
) -> None:
    """Plots one metric over the updates, with a line for each kind in `labels`.

    Where these have validations, each further validation text has a line too.
    """
    formats = {"train": "C0-", "validation": "C1.-", "average": "C2*"}
    panel.set_title(title)
    panel.grid(alpha=0.3)
    series = [(kind, name, formats[kind], label) for kind, label in labels.items()]
    if "validation" in labels:
        for text in _further_texts(history):
            series.append(("validation", f"{text}/{name}", ".--", text))
    for kind, key, style, label in series:
        lines = [line for line in history[kind] if key in line]
        if lines:
            steps = [line["step"] for line in lines]
            panel.plot(steps, [metric(line, key) for line in lines], style, label=label)
    if not panel.lines:
        panel.text(0.5, 0.5, "not measured", transform=panel.transAxes, ha="center")
    elif len(series) > 1:
        panel.legend()
