"""The drawings of notebook I. Each function returns a `matplotlib.figure.Figure`."""

from course.plots import COLORS

import numpy as np
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN = COLORS[:3]


def _box(panel, x, y, width, height, text, color):
    from matplotlib.patches import FancyBboxPatch

    patch = FancyBboxPatch(
        (x, y),
        width,
        height,
        boxstyle="round,pad=0.02",
        facecolor=color,
        alpha=0.18,
        edgecolor=color,
    )
    panel.add_patch(patch)
    panel.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=10)


def _arrow(panel, start, end, number):
    style = {"arrowstyle": "-|>", "color": "0.25", "linewidth": 1.2}
    panel.annotate("", end, start, arrowprops=style)
    circle = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": "none"}
    x, y = (np.array(start) + end) / 2
    panel.text(x - 0.05, y, number, ha="center", va="center", weight="bold", bbox=circle)


def plot_data_parallel():
    """One update by two replicas."""
    figure = Figure(figsize=(9.5, 3.6), dpi=90, layout="constrained")
    panel = figure.subplots()
    panel.set_axis_off()
    panel.set(xlim=(0, 10.4), ylim=(0, 4), title="One update by two replicas")
    _box(panel, 0.1, 1.45, 1.3, 1.1, "batch\n(B rows)", "0.3")
    for i, y in enumerate((2.65, 0.35)):
        color = (BLUE, ORANGE)[i]
        name = ("even rows", "odd rows")[i]
        _box(panel, 2.2, y, 1.5, 1.0, f"replica {i}\n{name}", color)
        _box(panel, 4.3, y, 1.7, 1.0, "loss and\ngradients of\nits rows", color)
        _box(panel, 8.6, y, 1.7, 1.0, "the same\nupdate of\nits copy", color)
        _arrow(panel, (1.45, 2.2 - 0.4 * i), (2.15, y + 0.5), 1)
        _arrow(panel, (3.75, y + 0.5), (4.25, y + 0.5), 2)
        _arrow(panel, (6.05, y + 0.5), (6.6, 2.25 - 0.5 * i), 3)
        _arrow(panel, (8.05, 2.25 - 0.5 * i), (8.55, y + 0.5), 4)
    _box(panel, 6.6, 1.45, 1.4, 1.1, "all-reduce:\nsum of the\ngradients", GREEN)
    return figure


def plot_differences(differences):
    """A point for each batch, a row for each kind of batches, and the medians.

    Args:
      differences: {weights: {kind of batches: the relative difference of each}}, for random
        weights (hollow points) and trained ones.
    """
    figure = Figure(figsize=(8.4, 3.6), dpi=90, layout="constrained")
    panel = figure.subplots()
    for kinds, face, shift in zip(differences.values(), ("none", None), (-0.2, 0.13)):
        for row, (values, color) in enumerate(zip(kinds.values(), COLORS)):
            panel.plot(values, np.full(len(values), row + shift), "o", color=color,
                       markerfacecolor=face, alpha=0.5)  # fmt: skip
            middle = np.median(values)
            panel.annotate(f"{100 * middle:.2g}%", (middle, row + shift), (0, 6), ha="center",
                           textcoords="offset points", color=color, weight="bold")  # fmt: skip
    panel.set_yticks(range(len(kinds)), list(kinds))
    panel.set_title("Mean of eight means: a point per batch (hollow: random weights)")
    panel.set_xlabel("difference, as a part of the gradient (numbers: medians)")
    panel.set(xscale="log", ylim=(-0.5, len(kinds) - 0.3), xlim=(1e-4, 2))
    panel.set_xticks([0.001, 0.01, 0.1, 1], ["0.1%", "1%", "10%", "100%"])
    panel.grid(axis="x", alpha=0.3)
    return figure
