"""The figures of notebook 00."""

from course.plots import labels

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

HIDDEN = "0.85"  # the gray of keys that a mask hides


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
