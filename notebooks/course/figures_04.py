"""The figures of notebook 04."""

from course import plots

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

COLORS = ListedColormap(["#D6E8F5", plots.HIDDEN, "#F0E442"])  # a cell, padding, of one mean


def plot_normalizations(sentences, columns=6):
    """Draws which numbers share a mean in layer and in batch normalization.

    Args:
      sentences: of a batch, a string each; "[PAD]" is gray.
      columns: of a word vector.
    """
    figure, panels = plots.create_panels(2, 4.6, 3.2)
    tokens = " ".join(sentences).split()
    rows = np.arange(len(tokens))[:, np.newaxis]
    hidden = np.array(tokens)[:, np.newaxis] == "[PAD]"
    shared = {
        "layer normalization:\none mean for each position": rows == 1,
        "batch normalization:\none mean for each column": np.arange(columns) == 1,
    }
    for panel, (title, cells) in zip(panels, shared.items()):
        kinds = np.where(cells, 2, np.broadcast_to(hidden, (len(tokens), columns)))
        panel.imshow(kinds, COLORS, vmin=0, vmax=2, aspect="auto")
        plots.separate_cells(panel, *kinds.shape)
        for end in np.cumsum([len(sentence.split()) for sentence in sentences])[:-1]:
            panel.axhline(end - 0.5, color="black")
        panel.set_yticks(range(len(tokens)), tokens)
        panel.set(title=title, xlabel="column of the vector", xticks=range(columns))
    panels[0].set_ylabel(f"positions of {len(sentences)} sentences")
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
