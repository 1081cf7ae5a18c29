"""The figures of notebook 11."""

from course.plots import COLORS

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch


def plot_rotations(vectors, titles):
    """Plots two-dimensional vectors at several positions as arrows, a panel for each pair.

    Args:
      vectors: `[pairs, positions, 2]`.
      titles: of the panels.
    """
    figure = Figure(figsize=(3.0 * len(titles), 3.2), dpi=90, layout="constrained")
    panels = figure.subplots(1, len(titles), squeeze=False)[0]
    limit = 1.35 * np.abs(vectors).max()
    for panel, pair, title in zip(panels, vectors, titles):
        last = len(pair) - 1
        crowded = np.linalg.norm(pair[last] - pair[0]) < 0.3  # one label for all arrows
        for position, (x, y) in enumerate(pair):
            arrow = {"arrowstyle": "->", "color": COLORS[0], "linewidth": 1.5}
            panel.annotate("", (x, y), (0, 0), arrowprops=arrow)
            if not crowded or position == last:
                text = f"0 to {last}" if crowded else position
                panel.text(1.2 * x, 1.2 * y, text, ha="center", va="center", fontsize=9)
        panel.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
        panel.set_xlabel("first number of the pair")
        panel.set_title(title, fontsize=10)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("second number of the pair")
    return figure


def plot_scores(matrices, positions):
    """Plots matrices of scores side by side, with the same scale.

    Args:
      matrices: a dict from titles to `[T, T]`.
      positions: T.
    """
    figure = Figure(figsize=(4.2 * len(matrices), 3.7), dpi=90, layout="constrained")
    panels = figure.subplots(1, len(matrices), squeeze=False)[0]
    high = max(np.abs(matrix).max() for matrix in matrices.values())
    for panel, (title, matrix) in zip(panels, matrices.items()):
        image = panel.imshow(matrix, cmap="PuOr", vmin=-high, vmax=high)
        panel.set_title(title, fontsize=11)
        panel.set(xlabel="position of the key", ylabel="position of the query")
        panel.set_xticks(range(0, positions, 4))
        panel.set_yticks(range(0, positions, 4))
    figure.colorbar(image, ax=panels, label="q · k", shrink=0.85)
    return figure


def plot_patterns(patterns):
    """Plots who sees whom, a panel for each pattern.

    Args:
      patterns: a dict from titles to pairs: T tokens, and `[T, T]` of 0 and 1, where 1 is seen.
    """
    figure = Figure(figsize=(3.25 * len(patterns), 3.7), dpi=90, layout="constrained")
    panels = figure.subplots(1, len(patterns), squeeze=False)[0]
    for panel, (title, (tokens, pattern)) in zip(panels, patterns.items()):
        panel.imshow(1 - np.asarray(pattern), cmap="Blues_r", vmin=-0.6, vmax=1)
        panel.set_xticks(range(len(tokens)), tokens, rotation=60, ha="right", fontsize=9)
        panel.set_yticks(range(len(tokens)), tokens, fontsize=9)
        panel.set_xticks(np.arange(len(tokens)) - 0.5, minor=True)
        panel.set_yticks(np.arange(len(tokens)) - 0.5, minor=True)
        panel.grid(which="minor", color="0.8", linewidth=1)
        panel.tick_params(which="both", length=0)
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("seen token (key)")
    panels[0].set_ylabel("reading token (query)")
    return figure


def plot_next_token(panels_data, tokens, kept_k):
    """Plots probabilities of the next token at several temperatures.

    Args:
      panels_data: a dict from titles to pairs: probabilities `[N]`, and `[N]` of bool, whether
        top-p keeps the token.
      tokens: N strings, most probable first.
      kept_k: number of tokens that top-k keeps.
    """
    figure = Figure(figsize=(3.2 * len(panels_data), 4.4), dpi=90, layout="constrained")
    panels = figure.subplots(1, len(panels_data), squeeze=False, sharex=True)[0]
    for panel, (title, (probabilities, kept)) in zip(panels, panels_data.items()):
        colors = [COLORS[0] if keep else "0.75" for keep in kept]
        panel.barh(range(len(tokens)), probabilities, color=colors)
        for row, probability in enumerate(probabilities):
            panel.text(probability + 0.02, row, f"{probability:.3f}", va="center", fontsize=9)
        panel.axhline(kept_k - 0.5, color=COLORS[1], linestyle="--")
        panel.set_yticks(range(len(tokens)), [token.replace("▁", "") for token in tokens])
        panel.set_ylim(len(tokens) - 0.4, -0.6)
        panel.set_xlim(0, 1.19)
        panel.set_xticks([0, 0.5, 1])
        panel.set_xlabel("probability")
        panel.set_title(title, fontsize=11)
    handles = [
        Patch(color=COLORS[0], label="kept by top-p"),
        Patch(color="0.75", label="removed by top-p"),
        Line2D([], [], color=COLORS[1], linestyle="--", label=f"above: top-k, k = {kept_k}"),
    ]
    panels[0].legend(handles=handles, loc="lower right", fontsize=9)
    return figure
