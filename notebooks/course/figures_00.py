"""The figures of notebook 00."""

from course.architecture_diagram import ATTENTION, NORM
from course.plots import COLORS, HIDDEN, labels

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure


def plot_two_maps(queries, keys, panels, hidden, title):
    """Plots two matrices of attention weights beside each other, on one scale.

    Args:
      queries, keys: T and S tokens.
      panels: a dict of two, from the name of a matrix to its weights `[T, S]`.
      hidden: a dict from the same names to masks that broadcast to `[T, S]`, 1 = hidden.
      title: of the figure.
    """
    figure = Figure(figsize=(9.6, 4.9), dpi=90, layout="constrained")
    axes = figure.subplots(1, 2)
    figure.suptitle(title, fontsize=12)
    colors = colormaps["viridis"].with_extremes(bad=HIDDEN)
    for axis, (name, weights) in zip(axes, panels.items()):
        is_hidden = np.broadcast_to(hidden[name], weights.shape) == 1
        shown = np.where(is_hidden, np.nan, weights)
        image = axis.imshow(shown, cmap=colors, vmin=0, vmax=1)
        axis.set_title(name, fontsize=11)
        axis.set_xticks(range(len(keys)), labels(keys), fontsize=10, rotation=60)
        for label in axis.get_xticklabels():
            label.set(ha="right", va="center", rotation_mode="anchor")
        axis.set_xlabel("keys")
        axis.tick_params(length=0)
    axes[0].set_yticks(range(len(queries)), labels(queries), fontsize=10)
    axes[0].set_ylabel("queries")
    axes[1].set_yticks([])
    figure.colorbar(image, ax=axes, label="attention weight", shrink=0.8)
    return figure


def plot_writing(source, target, first=3):
    """Draws some steps of a translation: the encoder runs once, the decoder once per step.

    Args:
      source, target: S and T sub-words.
      first: the number of steps of the decoder that are shown before the last one.
    """
    figure = Figure(figsize=(9.6, 2.9), dpi=90, layout="constrained")
    read = ["[START]", *labels(target)]
    arrow = {"arrowstyle": "-|>", "color": "0.3"}
    steps = [*range(first + 1), len(target)]
    for step, axis in zip(steps, figure.subplots(1, len(steps))):
        axis.set(xlim=(0, 1), ylim=(0, 1), title=f"step {step}" if step else "once")
        axis.set_axis_off()
        name, color = ("decoder", ATTENTION) if step else ("encoder", NORM)
        below = read[:step] if step else labels(source)
        if step > first:
            below = [*read[:2], "…", *read[step - 2 : step]]
            axis.text(-0.14, 0.6, "…", ha="center", va="center", fontsize=14)
        above = read[step] if step else f"z: {len(source)} vectors"
        box = {"boxstyle": "round,pad=0.6", "fc": color, "ec": "0.3"}
        axis.text(0.5, 0.6, name, ha="center", va="center", fontsize=11, bbox=box)
        axis.annotate("", (0.5, 0.5), (0.5, 0.38), arrowprops=arrow)
        axis.annotate("", (0.5, 0.84), (0.5, 0.7), arrowprops=arrow)
        written = COLORS[1] if step else "black"
        axis.text(0.5, 0.9, above, ha="center", va="center", fontsize=11, color=written)
        lines = below if step else (" ".join(below[:4]), " ".join(below[4:]))
        for i, line in enumerate(lines):
            color = COLORS[1] if step and i else "black"  # what it has written
            axis.text(0.5, 0.32 - 0.11 * i, line, ha="center", va="center", color=color)
        if step:
            axis.annotate("", (0.26, 0.6), (0.06, 0.6), arrowprops=arrow)
            axis.text(0.03, 0.6, "z", ha="center", va="center", fontsize=11)
    return figure
