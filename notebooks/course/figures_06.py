"""The drawing of notebook 06."""

from course.plots import COLORS, labels, separate_cells

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

KINDS = {"new": COLORS[0], "computed again": COLORS[4], "read from the cache": "0.85"}


def plot_kv_cache(rows):
    """The rows of keys and values at each step of a search, without and with a cache.

    Args:
      rows: the names "reads → predicts" of the T rows of the decoder.
    """
    T = len(rows)
    step, position = np.arange(T), np.arange(T)[:, np.newaxis]
    colors = ListedColormap(list(KINDS.values()))
    figure = Figure(figsize=(10, 4.4), dpi=85, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    totals = {"without a cache": T * (T + 1) // 2, "with a cache": T}
    for panel, (name, total), earlier in zip(panels, totals.items(), (1, 2)):
        kind = np.where(position == step, 0.0, float(earlier))  # (position, step)
        kind[position > step] = np.nan  # not written yet
        panel.imshow(kind, cmap=colors, vmin=0, vmax=2)
        panel.set_xticks(step, step + 1)
        panel.set_yticks(step, labels(rows))
        separate_cells(panel, T, T)
        panel.set(xlabel="step", title=f"{name}: {total} rows computed")
        for side in panel.spines.values():
            side.set_visible(False)
    panels[0].set_ylabel("row of the decoder: reads → predicts")
    handles = [Patch(color=color, label=name) for name, color in KINDS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure
