"""The drawings of notebook B. Each function returns a `matplotlib.figure.Figure`."""

from course.plots import COLORS

import itertools

import numpy as np
from matplotlib.figure import Figure

WORD_COLORS = ["#D6E8F5", "#FBE3CF"]  # light, in turns: where one word ends
CHARACTER = 0.092  # inches of a character at 11 points
MAX_WIDTH = 9.9  # inches


def _shown(piece):
    """SentencePiece's "▁" is hardly visible in a drawing."""
    return piece.replace("\u2581", "_")


def _box(panel, middle, y, text, color, below=""):
    style = {"boxstyle": "round,pad=0.25", "facecolor": color, "edgecolor": "0.5"}
    panel.text(
        middle,
        y,
        text,
        ha="center",
        va="center",
        fontsize=11,
        family="monospace",
        bbox=style,
    )
    if below:
        panel.text(middle, y - 0.36, below, ha="center", va="center", fontsize=9)


def plot_pieces(rows, ids=None):
    """Plots how sentences are divided into pieces; the color changes with each word.

    Args:
      rows: a dict from the name of a row to its pieces, a list of strings.
      ids: a dict with the ids of the rows, written below the pieces.
    """
    gap = 0.2  # inches between two pieces
    left = 0.1 + 0.09 * max(map(len, rows))
    lengths = [sum(CHARACTER * len(piece) + gap for piece in row) for row in rows.values()]
    width = min(MAX_WIDTH, left + max(lengths) + 0.1)
    height = (0.75 if ids else 0.45) * len(rows) + 0.1
    figure = Figure(figsize=(width, height), dpi=90)
    panel = figure.add_axes((0, 0, 1, 1))
    panel.set(xlim=(0, width), ylim=(-len(rows) + 0.4, 0.6))
    panel.set_axis_off()
    for number, (name, pieces) in enumerate(rows.items()):
        panel.text(0.05, -number, name, va="center", fontsize=10)
        x = left
        word = 0
        for i, piece in enumerate(pieces):
            word += piece.startswith(("\u2581", "["))
            end = x + CHARACTER * len(piece) + gap
            below = str(ids[name][i]) if ids else ""
            _box(
                panel,
                (x + end) / 2,
                -number,
                _shown(piece),
                WORD_COLORS[word % 2],
                below,
            )
            x = end
    return figure


def plot_merges(word, rank):
    """Plots the merges of a word as a tree: its characters at the bottom, its pieces at the top.

    Args:
      word: a string.
      rank: a dict from a sub-word to its id; the pair with the smallest id is merged first.
    """
    nodes = [(character, i, 0) for i, character in enumerate(["\u2581", *word])]
    figure = Figure(figsize=(min(MAX_WIDTH, 0.9 * len(nodes) + 0.6), 4.2), dpi=90)
    panel = figure.add_axes((0.01, 0.01, 0.98, 0.98))
    panel.set_axis_off()
    for text, x, _ in nodes:
        _box(panel, x, 0, _shown(text), "white")
    for step in itertools.count(1):
        texts = [text for text, _, _ in nodes]
        options = [
            (rank[first + second], i)
            for i, (first, second) in enumerate(itertools.pairwise(texts))
            if first + second in rank
        ]
        if not options:
            break
        number, i = min(options)
        (first, x1, y1), (second, x2, y2) = nodes[i : i + 2]
        x, y = (x1 + x2) / 2, step
        for x_part, y_part in ((x1, y1), (x2, y2)):
            panel.plot([x_part, x], [y_part, y], color="0.6", zorder=0)
        _box(panel, x, y, f"{_shown(first + second)}  {number}", WORD_COLORS[0])
        nodes[i : i + 2] = [(first + second, x, y)]
    panel.set(xlim=(-0.7, len(word) + 0.7), ylim=(-0.6, step - 0.4))
    return figure


def plot_shift(tar_inp, tar_real):
    """Plots what the decoder reads and what it must predict at each position.

    Args:
      tar_inp, tar_real: the sub-words, two lists of one length.
    """
    figure = Figure(figsize=(MAX_WIDTH, 2.3), dpi=90)
    panel = figure.add_axes((0, 0, 1, 1))
    panel.set(xlim=(-1.75, len(tar_inp) - 0.4), ylim=(-0.9, 1.5))
    panel.set_axis_off()
    panel.text(-1.7, 1, "tar_real:\nto predict", va="center", fontsize=10)
    panel.text(-1.7, 0, "tar_inp:\nis read", va="center", fontsize=10)
    panel.text(-1.7, -0.65, "position", va="center", fontsize=10)
    for i, (read, predicted) in enumerate(zip(tar_inp, tar_real)):
        arrow = {"arrowstyle": "->", "color": COLORS[0], "shrinkA": 12, "shrinkB": 12}
        panel.annotate("", (i, 1), (i, 0), arrowprops=arrow)
        if i:  # the same token, one position later
            line = {"arrowstyle": "-", "color": "0.6", "linestyle": ":", "shrinkA": 12}
            panel.annotate("", (i, 0), (i - 1, 1), arrowprops={**line, "shrinkB": 12})
        for token, y, color in ((read, 0, "white"), (predicted, 1, WORD_COLORS[1])):
            style = {
                "boxstyle": "round,pad=0.3",
                "facecolor": color,
                "edgecolor": "0.5",
            }
            panel.text(i, y, _shown(token), ha="center", va="center", fontsize=9.5, bbox=style)
        panel.text(i, -0.65, str(i + 1), ha="center", va="center", fontsize=10)
    return figure


def plot_lengths(samples, x):
    """Plots distributions of lengths as lines in one panel.

    Args:
      samples: a dict from the name of a sample to its lengths.
      x: name of the axis, with its unit.
    """
    figure = Figure(figsize=(7.0, 3.4), dpi=90, layout="constrained")
    panel = figure.subplots()
    for (name, lengths), color, line in zip(samples.items(), COLORS, ("-", "--", ":")):
        counts = np.bincount(lengths)
        panel.plot(np.arange(len(counts)), counts, line, color=color, linewidth=2, label=name)
    panel.set(xlabel=x, ylabel="sentence pairs", ylim=(0, None), xlim=(0, None))
    panel.grid(alpha=0.3)
    panel.legend()
    return figure


def plot_fractions(fractions, x, title):
    """Plots percentages as horizontal bars from 0 to 100, with their values.

    Args:
      fractions: a dict from the name of a bar to its fraction, 0 to 1.
      x: name of the axis.
      title: of the figure.
    """
    figure = Figure(figsize=(8.0, 0.5 * len(fractions) + 0.9), dpi=90, layout="constrained")
    panel = figure.subplots()
    values = [100 * fraction for fraction in fractions.values()]
    bars = panel.barh(list(fractions), values, color=COLORS[0], height=0.6)
    panel.bar_label(bars, [f"{value:.0f}%" for value in values], padding=4)
    panel.set(xlim=(0, 108), xlabel=x, title=title)
    panel.invert_yaxis()
    panel.grid(axis="x", alpha=0.3)
    return figure
