"""The figures of notebook G."""

from course.plots import COLORS

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch


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
        for row, (probability, color) in enumerate(zip(probabilities, colors)):
            panel.plot(-0.05, row, "s", color=color, ms=6)  # short bars do not show their color
            panel.text(probability + 0.02, row, f"{probability:.3f}", va="center", fontsize=9)
        panel.axhline(kept_k - 0.5, color=COLORS[1], linestyle="--")
        panel.set_yticks(range(len(tokens)), [token.replace("▁", "") for token in tokens])
        panel.set_ylim(len(tokens) - 0.4, -0.6)
        panel.set_xlim(-0.1, 1.19)
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


def _box(panel, x, y, text, color, width=1.5):
    """A box with its center at (x, y)."""
    style = {"boxstyle": "round,pad=0.03", "facecolor": color, "edgecolor": color, "alpha": 0.25}
    panel.add_patch(FancyBboxPatch((x - width / 2, y - 0.3), width, 0.6, **style))
    panel.text(x, y, text, ha="center", va="center", fontsize=9)


def _path(panel, points, color="0.3", width=1.2):
    """A line through the points with an arrow head at its end."""
    *line, start, end = points
    xs, ys = zip(*line, start)
    panel.plot(xs, ys, color=color, linewidth=width, solid_capstyle="round")
    style = {"arrowstyle": "-|>", "color": color, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    panel.annotate("", end, start, arrowprops=style)


def _panels(titles, width, height, xlim, ylim):
    """A figure with a row of panels without axes."""
    figure = Figure(figsize=(width * len(titles), height), dpi=90, layout="constrained")
    panels = figure.subplots(1, len(titles), squeeze=False)[0]
    for panel, title in zip(panels, titles):
        panel.set_axis_off()
        panel.set(xlim=xlim, ylim=ylim)
        panel.set_title(title, fontsize=11)
    return figure, panels


def plot_norm_placement():
    """One layer with its norms after the additions (post-norm) and before (pre-norm)."""
    titles = "post-norm (2017)", "pre-norm"
    figure, (post, pre) = _panels(titles, 3.6, 4.6, (-0.6, 3.6), (-0.2, 8.3))
    names = "self-attention", "feed-forward"
    for i, name in enumerate(names):
        y = 4 * i
        for panel, has_norm_first in ((post, False), (pre, True)):
            if has_norm_first:
                _box(panel, 2.4, y + 0.9, "norm", COLORS[2])
                _box(panel, 2.4, y + 2.0, name, COLORS[0])
                _path(panel, [(0.4, y + 0.2), (2.4, y + 0.2), (2.4, y + 0.57)])
                _path(panel, [(2.4, y + 1.23), (2.4, y + 1.67)])
                _path(panel, [(2.4, y + 2.33), (2.4, y + 3.0), (0.62, y + 3.0)])
                _path(panel, [(0.4, y - 0.2), (0.4, y + 2.78)], COLORS[1], 3)
                _path(panel, [(0.4, y + 3.22), (0.4, y + 3.8)], COLORS[1], 3)
            else:
                _box(panel, 2.4, y + 1.1, name, COLORS[0])
                _path(panel, [(0.4, y + 0.2), (2.4, y + 0.2), (2.4, y + 0.77)])
                _path(panel, [(2.4, y + 1.43), (2.4, y + 2.0), (0.62, y + 2.0)])
                _path(panel, [(0.4, y - 0.2), (0.4, y + 1.78)], COLORS[1], 3)
                _path(panel, [(0.4, y + 2.22), (0.4, y + 2.6)], COLORS[1], 3)
                _box(panel, 0.4, y + 2.95, "norm", COLORS[2])
                _path(panel, [(0.4, y + 3.3), (0.4, y + 3.8)], COLORS[1], 3)
            at = y + (3.0 if has_norm_first else 2.0)
            panel.text(0.4, at, "+", ha="center", va="center", fontsize=13, weight="bold")
    for panel in (post, pre):
        panel.text(0.6, -0.1, "x", fontsize=11, style="italic")
    return figure


def plot_feed_forward():
    """The feed-forward network of the paper beside SwiGLU."""
    titles = "ReLU (2017)", "SwiGLU"
    figure, (relu, swiglu) = _panels(titles, 3.6, 3.9, (-0.4, 4.2), (-0.5, 6.2))
    for panel in (relu, swiglu):
        panel.text(1.9, -0.4, "x", ha="center", fontsize=11, style="italic")
        _box(panel, 1.9, 5.2, "$W_2$", COLORS[0])
        _path(panel, [(1.9, 5.53), (1.9, 6.1)])
    _box(relu, 1.9, 1.0, "$W_1$", COLORS[0])
    _box(relu, 1.9, 2.6, "ReLU", COLORS[2])
    for bottom, top in ((-0.1, 0.67), (1.33, 2.27), (2.93, 4.87)):
        _path(relu, [(1.9, bottom), (1.9, top)])
    for x, name in ((0.8, "$W_1$"), (3.0, "$W_3$")):
        _box(swiglu, x, 1.0, name, COLORS[0])
        _path(swiglu, [(1.9, -0.1), (1.9, 0.2), (x, 0.2), (x, 0.67)])
    _box(swiglu, 0.8, 2.6, "SiLU (the gate)", COLORS[2], 1.9)
    _path(swiglu, [(0.8, 1.33), (0.8, 2.27)])
    _path(swiglu, [(0.8, 2.93), (0.8, 3.9), (1.68, 3.9)])
    _path(swiglu, [(3.0, 1.33), (3.0, 3.9), (2.12, 3.9)])
    swiglu.text(1.9, 3.9, r"$\odot$", ha="center", va="center", fontsize=15)
    _path(swiglu, [(1.9, 4.15), (1.9, 4.87)])
    return figure


def plot_shared_heads(groups):
    """Which head of keys and values each head of queries reads.

    Args:
      groups: a dict from titles to the number of key heads, for eight query heads.
    """
    figure, panels = _panels(list(groups), 3.4, 2.4, (-0.6, 7.6), (-0.5, 3.3))
    for panel, count in zip(panels, groups.values()):
        for i in range(8):
            group = i * count // 8
            x = (group + 0.5) * 8 / count - 0.5
            _box(panel, i, 2.7, "q", COLORS[0], 0.55)
            panel.plot([i, x], [2.35, 0.75], color="0.5", linewidth=1)
        for group in range(count):
            x = (group + 0.5) * 8 / count - 0.5
            _box(panel, x, 0.4, "k v", COLORS[1], 0.7)
        panel.text(3.5, -0.45, f"in the cache: {count} of 8", ha="center", fontsize=9)
    return figure
