"""The figures of notebook 04."""

from course import plots

import numpy as np
from matplotlib.figure import Figure

SHARED = 0.45  # where the colors of numbers that share a mean are in viridis


def plot_normalizations(tokens, columns=6):
    """Draws which numbers share a mean in layer and in batch normalization.

    Args:
      tokens: of the sentences of a batch, one after the other; "[PAD]" is gray.
      columns: of a word vector.
    """
    figure, panels = plots.create_panels(2, 4.6, 3.2)
    rows = np.arange(len(tokens))[:, np.newaxis]
    hidden = np.array(tokens)[:, np.newaxis] == "[PAD]"
    shared = {
        "layer normalization:\none mean for each position": rows == 1,
        "batch normalization:\none mean for each column": np.arange(columns) == 1,
    }
    for panel, (title, cells) in zip(panels, shared.items()):
        values = np.broadcast_to(cells, (len(tokens), columns)) * SHARED + 0.5
        gray = hidden & ~cells
        look = {"low": 0.0, "high": 1.0, "numbers": False, "hidden": gray}
        plots.draw_matrix(panel, np.where(cells, values, 0.0), tokens, range(columns), **look)
        panel.set(title=title, xlabel="column of the vector", aspect="auto")
        panel.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
        panel.set_yticks(np.arange(len(tokens) + 1) - 0.5, minor=True)
        panel.grid(which="minor", color="white")
        panel.tick_params(which="minor", length=0)
    return figure


def plot_streams(stages, cosines, moves):
    """Plots what happens to one vector in sentences with different nouns.

    Args:
      stages: names of the places in the model, in order.
      cosines: a dict from the gender of nouns to the cosine with the vector of our sentence,
        `[nouns, stages]`.
      moves: a dict from the same genders to the vectors before and after an attention,
        `[nouns, 2, D]`.
    """
    figure = Figure(figsize=(9.8, 4.2), dpi=90, layout="constrained")
    left, right = figure.subplots(1, 2)
    after = np.concatenate([vectors[:, 1] for vectors in moves.values()])
    *_, axes = np.linalg.svd(after - after.mean(axis=0), full_matrices=False)
    for (gender, values), color, marker in zip(cosines.items(), plots.COLORS, plots.MARKERS):
        line = {"color": color, "marker": marker, "label": gender}
        left.plot(stages, values.mean(axis=0), **line)
        left.fill_between(stages, values.min(axis=0), values.max(axis=0), color=color, alpha=0.2)
        for start, end in (moves[gender] - after.mean(axis=0)) @ axes[:2].T:
            arrow = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0}
            right.annotate("", end, start, arrowprops=arrow)
            right.plot(*start, "o", color="0.5", markersize=4)
            right.plot(*end, marker, color=color)
    left.set(ylabel="cosine with the vector of our sentence", title="the vector of _a")
    left.tick_params(axis="x", rotation=30)
    left.grid(alpha=0.3)
    left.legend(title="German noun")
    right.set(title="how attention 2 moves it (gray: before)", aspect="equal")
    right.set(xlabel="first direction", ylabel="second direction")
    right.grid(alpha=0.3)
    return figure
