"""What notebook 10 shows: drawings, as `matplotlib.figure.Figure`, and messages."""

from course.plots import COLORS, labels

import numpy as np
from matplotlib.figure import Figure

from tf_transformer import UserError, open_corpus


def message_of(data):
    """Reads a corpus, as `open_corpus(data, "en", "es")`, and returns the error message."""
    try:
        list(open_corpus(data, "en", "es").read("all"))
    except UserError as error:
        return f"UserError: {error}"
    return "no error"


def plot_kinds(counts, total, x):
    """Plots numbers as horizontal bars, with the percentage of `total` beside each.

    Args:
      counts: a dict from the name of a bar to its number.
      total: the number that is 100%.
      x: name of the axis.
    """
    figure = Figure(figsize=(8.0, 0.5 * len(counts) + 0.9), dpi=90)
    figure.set_layout_engine("constrained")
    panel = figure.subplots()
    bars = panel.barh(list(counts), list(counts.values()), color=COLORS[0], height=0.6)
    beside = [f"{number} ({number / total:.0%})" for number in counts.values()]
    panel.bar_label(bars, beside, padding=4)
    panel.set(xlabel=x, xlim=(0, 1.3 * max([1, *counts.values()])))
    panel.invert_yaxis()
    panel.grid(axis="x", alpha=0.3)
    return figure


def plot_rows(panels):
    """Plots rows of attention weights, one panel below the other, with their values.

    Args:
      panels: a list of (title, weights [R, C], R row tokens, C column tokens).
    """
    width = max(len(columns) for _, _, _, columns in panels)
    heights = [len(rows) + 2.4 for _, _, rows, _ in panels]
    size = (0.66 * width + 1.9, 0.36 * sum(heights))
    figure = Figure(figsize=size, dpi=90, layout="constrained")
    axes = figure.subplots(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
    for panel, (title, weights, rows, columns) in zip(axes, panels, strict=True):
        image = panel.imshow(weights, cmap="viridis", vmin=0, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(weights):
            color = "white" if value < 0.6 else "black"
            panel.text(
                column,
                row,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=9,
                color=color,
            )
        panel.set_xticks(range(len(columns)), labels(columns), fontsize=10)
        panel.set_yticks(range(len(rows)), labels(rows), fontsize=10)
        panel.tick_params(length=0)
        panel.set_xlim(-0.5, width - 0.5)
        panel.set_frame_on(False)
        panel.set_title(title, fontsize=11, loc="left")
        panel.set_ylabel("predicted token")
    axes[-1].set_xlabel("source token")
    figure.colorbar(image, ax=list(axes), label="attention weight", shrink=0.5)
    return figure
