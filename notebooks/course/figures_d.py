"""The figures of notebook D. Each function returns a `matplotlib.figure.Figure`."""

from course.plots import COLORS, MAX_WIDTH, create_panels, draw_matrix, labels

import numpy as np
from matplotlib.figure import Figure

SIZE = 11  # points of the words


def plot_edges(queries, keys, heads, only=None, title="", threshold=0.1):
    """Draws weights as edges from queries, above, to keys, below, as the paper's Figures 3 to 5.

    The opacity of an edge is its weight, and its color is that of its head.

    Args:
      queries, keys: T and S words.
      heads: a dict from names to weights `[T, S]`.
      only: the positions of the queries that have edges; None for all. These words are bold.
      title: of the figure.
      threshold: edges with a smaller weight are not drawn.
    """
    only = range(len(queries)) if only is None else only
    longer = max(len(queries), len(keys))
    longest = max(len(str(word)) for word in (*queries, *keys))
    width = min(MAX_WIDTH, max(5.0, 0.75 * longer))
    upright = 0.09 * longest < (width - 0.4) / longer
    text = {"fontsize": SIZE, "ha": "center", "rotation": 0 if upright else 90}
    margin = 0.3 if upright else 0.1 * longest + 0.1  # inches of the words
    height = 1.6 + 2 * margin + 0.65
    figure = Figure(figsize=(width, height), dpi=90)
    top = 1 - 0.65 / height
    panel = figure.add_axes((0.02, 0, 0.96, top))
    panel.set(xlim=(-0.6, longer - 0.4), ylim=(-margin / 1.6, 1 + margin / 1.6))
    panel.set_axis_off()
    above, below = (  # the shorter row is spread over the same width
        np.linspace(0, longer - 1, len(words)) if len(words) > 1 else [0]
        for words in (queries, keys)
    )
    for place, word in zip(above, labels(queries)):
        bold = "bold" if len(only) < len(queries) and place in above[list(only)] else "normal"
        panel.text(place, 1.05, word, va="bottom", weight=bold, **text)
    for place, word in zip(below, labels(keys)):
        panel.text(place, -0.05, word, va="top", **text)
    spread = 0.7 * (np.arange(len(heads)) / len(heads) - (len(heads) - 1) / len(heads) / 2)
    for shift, color, (name, weights) in zip(spread, COLORS, heads.items()):
        panel.plot([], [], color=color, linewidth=3, label=name)
        for t in only:
            for s in np.flatnonzero(weights[t] > threshold):
                line = {"color": color, "linewidth": 2.5, "alpha": min(1.0, float(weights[t, s]))}
                panel.plot(
                    (above[t] + shift, below[s] + shift), (1, 0), solid_capstyle="round", **line
                )
    figure.text(0.5, 1 - 0.24 / height, title, ha="center", va="center", fontsize=12)
    legend = {"loc": "center", "bbox_to_anchor": (0.5, 1 - 0.52 / height), "frameon": False}
    figure.legend(ncols=len(heads), fontsize=10, **legend)
    return figure


def plot_tables(tables, rows, columns, high=None, split=None):
    """Draws tables of one shape beside each other, with their numbers.

    Args:
      tables: a dict from titles to `[R, C]`.
      rows, columns: names of the rows and columns.
      high: the number at the end of the colors, which begin at 0, or at -high for a table with
        negative numbers; None for the largest absolute number of each table.
      split: the column before which a gap is drawn.
    """
    width, height = MAX_WIDTH / max(2, len(tables)), 0.36 * len(rows) + 1.3
    figure, panels = create_panels(len(tables), width, height)
    for panel, (title, table) in zip(panels, tables.items()):
        draw_matrix(panel, table, rows, columns, high=high, numbers=".2f")
        panel.set_title(title, fontsize=12)
        panel.set_aspect("auto")
        if split is not None:
            panel.axvline(split - 0.5, color="white", linewidth=8)
    for panel in panels[1:]:
        panel.set_yticks([])
    return figure
