"""The figures of notebook G."""

from course import plots
from course.plots import COLORS

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch


def plot_scores(matrices):
    """Draws matrices of scores side by side, each with its own scale, in which white is 0.

    Args:
      matrices: a dict from titles to `[T, T]`.
    """
    figure, panels = plots.create_panels(len(matrices), 4.4, 3.7)
    for panel, (title, matrix) in zip(panels, matrices.items()):
        image = plots.draw_matrix(panel, matrix, low=-np.abs(matrix).max(), numbers=False)
        panel.set_title(title, fontsize=11)
        panel.set(xlabel="position of the key", ylabel="position of the query")
        panel.set_xticks(range(0, len(matrix), 4))
        panel.set_yticks(range(0, len(matrix), 4))
        figure.colorbar(image, ax=panel, label="q · k", shrink=0.85)
    return figure


def plot_patterns(*masks):
    """Draws who sees whom in the three kinds of stacks, and in a prefix language model.

    Args:
      masks: encoder-only, decoder-only `[6, 6]`, encoder-decoder `[7, 7]`, of which the first four
        tokens are the source; 1 is hidden.
    """
    titles = "encoder-only (BERT)", "decoder-only (GPT)", "encoder-decoder", "prefix language model"
    texts = *["I bought a red car ."] * 2, *["I bought it . Ich habe es"] * 2
    figure, panels = plots.create_panels(4, 2.5, 3.2)
    for panel, title, text, mask in zip(panels, titles, texts, (*masks, masks[-1])):
        tokens = text.split()
        shades = np.ones(np.shape(mask))
        if title == "encoder-decoder":  # a color for each of its three attentions
            shades[:, :4], shades[:4] = 0.6, 0.25
        look = {"low": 0, "high": 1.4, "numbers": False, "hidden": mask}
        plots.draw_matrix(panel, shades, tokens, tokens, **look)
        plots.separate_cells(panel, len(tokens), len(tokens))
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("token that is seen (key)")
    panels[0].set_ylabel("token that reads (query)")
    panels[2].axhline(3.5, color="black", linewidth=2)
    panels[2].axvline(3.5, color="black", linewidth=2)
    style = {"ha": "center", "va": "center", "fontsize": 8, "weight": "bold", "linespacing": 2}
    panels[2].text(1.5, 1.5, "encoder\nself", color="white", **style)
    panels[2].text(1.5, 4.5, "encoder-\ndecoder", color="white", **style)
    panels[2].text(4.9, 5.5, "decoder\nself", **style)
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
