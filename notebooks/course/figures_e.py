"""The figures of notebook E."""

from course.plots import COLORS

import numpy as np
from matplotlib.figure import Figure

# Where the label of a point is, where it would cover another one on the right.
_SIDES = {
    ("English-German", "ConvS2S Ensemble"): "left",
    ("English-French", "MoE"): "left",
    ("English-French", "Deep-Att Ensemble"): "below",
    ("English-French", "GNMT Ensemble"): "below",
    ("English-French", "ConvS2S Ensemble"): "above",
}
_PLACES = {  # shift in points, alignment
    "right": ((8, -3), "left"),
    "left": ((-8, -3), "right"),
    "below": ((0, -14), "center"),
    "above": ((0, 8), "center"),
}
_SHIFTS = {  # of labels in points; from a far one a line leads to its point
    "base": (16, 20),
    "A3": (-34, 16),
    "E": (30, 6),
    "C3": (-24, -20),
    "D2": (-16, -40),
    "A4": (4, -40),
    "A2": (12, 4),
    "C4": (-6, -15),
}


def plot_cost(table):
    """Plots BLEU over training cost, a panel for each language pair.

    Args:
      table: the rows of Table 2: model, two BLEU scores as text, two costs in FLOPs or None.
    """
    figure = Figure(figsize=(9.6, 4.2), dpi=90, layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, title, i in zip(panels, ("English-German", "English-French"), (0, 1)):
        for name, *numbers in table:
            cost = numbers[2 + i]
            if cost is None:
                continue
            bleu = float(numbers[i])
            for part in (" + PosUnk", " + RL", " model", "(", ")"):
                name = name.replace(part, "")
            ours = name.startswith("Transformer")
            color, marker = (COLORS[1], "D") if ours else (COLORS[0], "o")
            panel.plot(cost, bleu, marker=marker, color=color, markersize=8 if ours else 6)
            shift, align = _PLACES[_SIDES.get((title, name), "right")]
            panel.annotate(
                name, (cost, bleu), shift, textcoords="offset points", ha=align, fontsize=9
            )
        panel.set_xscale("log")
        panel.set(xlim=(1e18, 8e21), xlabel="training cost, floating-point operations")
        panel.set(ylabel="BLEU, newstest2014", title=title)
        panel.margins(y=0.08)
        panel.grid(alpha=0.3)
    return figure


def plot_small_rows(rows):
    """Plots a dot for each seed of each row, and the mean, at half time and at the end.

    Args:
      rows: a dict from names to percentages `[seeds, 2]`; the first row is base.
    """
    figure = Figure(figsize=(9.6, 0.4 * len(rows) + 1.4), dpi=90, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    first = next(iter(rows.values()))
    for i, (panel, title) in enumerate(zip(panels, ("half of the updates", "all updates"))):
        low, high = min(first[:, i]), max(first[:, i])
        panel.axvspan(low, high, color=COLORS[0], alpha=0.15, label="range of base")
        for place, row in enumerate(rows.values()):
            values = row[:, i]
            seeds = panel.scatter(values, [place] * len(values), color=COLORS[0], zorder=2)
            mean = panel.scatter(values.mean(), place, marker="|", s=250, color="black")
        panel.set(title=title, xlabel="names of unseen numbers without an error, %", xlim=(-2, 102))
        panel.grid(axis="x", alpha=0.3)
    seeds.set_label("a seed")
    mean.set_label("mean")
    panels[0].set_yticks(range(len(rows)), list(rows), fontsize=10)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def plot_rows(rows, base):
    """Plots the BLEU of the rows of Table 3 as differences from base.

    Args:
      rows: a list of (name with what changes, BLEU, index of the group's color).
      base: BLEU of base.
    """
    figure = Figure(figsize=(7.6, 0.27 * len(rows) + 1.1), dpi=90, layout="constrained")
    panel = figure.subplots()
    for place, (_, bleu, group) in enumerate(rows):
        difference = bleu - base
        panel.barh(place, difference, color=COLORS[group])
        left = difference < 0
        panel.text(
            difference + (-0.04 if left else 0.04),
            place,
            f"{difference:+.1f}",
            va="center",
            ha="right" if left else "left",
            fontsize=9,
        )
    panel.axvline(0, color="black", linewidth=1)
    panel.set_yticks(range(len(rows)), [name for name, _, _ in rows], fontsize=9)
    panel.set(xlim=(-2.6, 1.2), ylim=(len(rows) - 0.4, -0.6))
    panel.set_xlabel(f"BLEU on newstest2013, difference from base ({base})")
    panel.set_title("Table 3: what each change gains or costs")
    panel.grid(axis="x", alpha=0.3)
    return figure


def plot_perplexity(rows):
    """Plots BLEU over perplexity, a point for each row of Table 3.

    Args:
      rows: a dict from names to `PaperRow`s; lines are drawn at the values of "base".
    """
    figure = Figure(figsize=(7.0, 4.4), dpi=90, layout="constrained")
    panel = figure.subplots()
    for name, row in rows.items():
        point, color = (row.perplexity, row.bleu), COLORS[1 if name in ("base", "big") else 0]
        panel.plot(*point, "o", color=color)
        if name == "B2":  # the same point as A4
            continue
        text = "A4, B2" if name == "A4" else name
        shift = _SHIFTS.get(name, (5, 4))
        line = {"arrowstyle": "-", "color": "0.5", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 3}
        style = {"arrowprops": line if np.hypot(*shift) > 20 else None, "fontsize": 9}
        panel.annotate(text, point, shift, textcoords="offset points", **style)
    panel.axvline(rows["base"].perplexity, color="0.6", linestyle=":")
    panel.axhline(rows["base"].bleu, color="0.6", linestyle=":")
    panel.set(xlabel="perplexity per sub-word, newstest2013", ylabel="BLEU, newstest2013")
    panel.set_title("Table 3: a lower perplexity is not always a higher BLEU")
    panel.grid(alpha=0.3)
    return figure


def _place(tree, leaves, depth, nodes, edges):
    """Appends the nodes (x, depth, text, is a leaf) and edges of a tree; returns its x."""
    if isinstance(tree.children, str):
        x = len(leaves)
        leaves.append(tree)
        nodes.append((x, depth, tree.label, False))
        return x
    places = [_place(child, leaves, depth + 1, nodes, edges) for child in tree.children]
    x = sum(places) / len(places)
    nodes.append((x, depth, tree.label, True))
    edges.extend((x, depth, place, depth + 1) for place in places)
    return x


def plot_trees(trees):
    """Draws trees side by side.

    Args:
      trees: a dict from titles to `Tree`s.
    """
    figure = Figure(figsize=(4.9 * len(trees), 4.0), dpi=90, layout="constrained")
    panels = figure.subplots(1, len(trees), squeeze=False)[0]
    for panel, (title, tree) in zip(panels, trees.items()):
        leaves, nodes, edges = [], [], []
        _place(tree, leaves, 0, nodes, edges)
        bottom = max(depth for _, depth, _, _ in nodes) + 1
        for x, depth, child, below in edges:
            panel.plot([x, child], [depth, below], color="0.6", linewidth=1, zorder=1)
        for x, depth, text, phrase in nodes:
            color = COLORS[0] if phrase else "black"
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            style = {"ha": "center", "va": "center", "fontsize": 9, "bbox": box}
            panel.text(x, depth, text, color=color, **style)
            if not phrase:
                panel.plot([x, x], [depth, bottom], color="0.85", linewidth=1, zorder=0)
        for x, leaf in enumerate(leaves):
            panel.text(x, bottom, leaf.children, ha="right", va="top", fontsize=9, rotation=35)
        panel.set(xlim=(-0.8, len(leaves) - 0.3), ylim=(bottom + 1.2, -0.5))
        panel.set_title(title, fontsize=11)
        panel.set_axis_off()
    return figure
