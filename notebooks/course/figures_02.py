"""The drawings of notebook 02. Each function returns a `matplotlib.figure.Figure`."""

from course import plots

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

MATMUL = "#DDD6EC"  # fill colors of the boxes of Figure 2
SCALE = "#F8F1BE"
MASK = "#F7DCE5"
SOFTMAX = "#D3EBD0"
CONCAT = "#F8F1BE"
LINEAR = "#E4E4E4"
LINE = "0.3"
X, Q, K, V, Z = "#CBE6D0", "#DDD6EC", "#FCE0BB", "#C5E8F7", "#F7DCE5"


def _box(panel, x, y, text, color, width=1.6, height=0.44, copies=1):
    """Draws a box around (x, y); copies of it lie behind it, up and to the right."""
    for i in reversed(range(copies)):
        corner = (x - width / 2 + 0.1 * i, y - height / 2 + 0.1 * i)
        style = "round,pad=0.04"
        patch = FancyBboxPatch(corner, width, height, style, fc=color, ec=LINE)
        patch.set_zorder(3 - 0.1 * i)
        panel.add_patch(patch)
    panel.text(x, y, text, ha="center", va="center", fontsize=10, zorder=4)


def _arrow(panel, *points):
    """Draws a line through points (x, y), with a head at its end."""
    xs, ys = zip(*points)
    panel.plot(xs, ys, color=LINE, linewidth=1, zorder=1)
    panel.add_patch(
        FancyArrowPatch(
            points[-2],
            points[-1],
            arrowstyle="-|>",
            mutation_scale=11,
            color=LINE,
            shrinkA=0,
            shrinkB=0,
            zorder=2,
        )
    )


def _canvas(width, height, title):
    """A figure whose coordinates are inches, with its title at the top."""
    figure = Figure(figsize=(width, height), dpi=90)
    panel = figure.add_axes((0, 0, 1, 1))
    panel.set(xlim=(0, width), ylim=(0, height))
    panel.set_axis_off()
    panel.text(width / 2, height - 0.2, title, ha="center", va="center", fontsize=12)
    return figure, panel


def plot_scaled_dot_product_attention():
    """Draws the left half of Figure 2."""
    figure, panel = _canvas(3.6, 4.9, "Scaled Dot-Product Attention")
    x, value_x = 1.05, 2.15
    boxes = {"MatMul": MATMUL, "Scale": SCALE, "Mask (opt.)": MASK, "SoftMax": SOFTMAX}
    for i, (text, color) in enumerate(boxes.items()):
        y = 1.05 + 0.7 * i
        _box(panel, x, y, text, color, 1.5)
        _arrow(panel, (x, y + 0.27), (x, y + 0.43 + (i == 3) * 0.01))
    _box(panel, x + 0.5, 3.85, "MatMul", MATMUL, 1.5)
    for name, middle, top in (("Q", x - 0.4, 0.78), ("K", x + 0.4, 0.78), ("V", value_x, 3.59)):
        panel.text(middle, 0.22, f"${name}$", ha="center", fontsize=13)
        _arrow(panel, (middle, 0.45), (middle, top))
    _arrow(panel, (x + 0.5, 4.12), (x + 0.5, 4.42))
    return figure


def plot_multi_head_attention():
    """Draws the right half of Figure 2."""
    figure, panel = _canvas(4.2, 5.1, "Multi-Head Attention")
    for name, x in {"V": 0.65, "K": 1.75, "Q": 2.85}.items():
        panel.text(x, 0.15, f"${name}$", ha="center", fontsize=13)
        _arrow(panel, (x, 0.4), (x, 0.83))
        _box(panel, x, 1.1, "Linear", LINEAR, 0.75, copies=3)
        _arrow(panel, (x, 1.37), (x, 2.08))
    _box(panel, 1.75, 2.35, "Scaled Dot-Product\nAttention", MATMUL, 2.9, 0.5, copies=3)
    panel.text(3.55, 2.52, "$h$", fontsize=13)
    _arrow(panel, (1.75, 2.85), (1.75, 3.1))
    _box(panel, 1.75, 3.36, "Concat", CONCAT, 1.6)
    _arrow(panel, (1.75, 3.63), (1.75, 3.79))
    _box(panel, 1.75, 4.06, "Linear", LINEAR, 1.6)
    _arrow(panel, (1.75, 4.33), (1.75, 4.64))
    return figure


def hand_of_clock(hours):
    """The end of the hand of a clock with 24 hours on its face: hours `[N]` to `[N, 2]`."""
    angles = np.asarray(hours) * 2 * np.pi / 24
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1)


def plot_kernel_regression(hours, measured, every, curves):
    """Plots measurements as dots, and what soft look-ups make of them.

    Args:
      hours, measured: `[S]`.
      every: the hours of the look-ups, `[T]`.
      curves: a dict from names to `[T]`.
    """
    figure, (panel,) = plots.create_panels(1, 7.5, 4.2)
    for (name, values), color, style in zip(curves.items(), plots.COLORS, ("--", "-", ":")):
        panel.plot(every, values, label=name, color=color, linestyle=style, linewidth=2)
    panel.scatter(hours, measured, color="0.3", zorder=3, label="measured")
    panel.set(xlabel="hour of the day", ylabel="°C", title="Soft look-ups at all hours")
    panel.set_xticks(range(0, 25, 3))
    panel.grid(alpha=0.3)
    panel.legend()
    return figure


def plot_three_uses(source, target):
    """Draws which keys each query may see in the three uses of attention (Section 3.2.3).

    Args:
      source, target: S and T tokens; "[PAD]" is hidden.
    """
    uses = {
        "encoder self-attention": (source, source),
        "decoder self-attention": (target, target),
        "encoder-decoder attention": (target, source),
    }
    figure, panels = plots.create_panels(3, 3.2, 3.4)
    for panel, (name, (queries, keys)) in zip(panels, uses.items()):
        row, column = np.indices((len(queries), len(keys)))
        hidden = np.array(keys)[column] == "[PAD]"
        if queries is keys is target:
            hidden |= column > row
        shown = np.ones(hidden.shape)
        look = {"low": 0, "high": 1.4, "numbers": False, "hidden": hidden}
        plots.draw_matrix(panel, shown, queries, keys, **look)
        plots.separate_cells(panel, len(queries), len(keys))
        panel.set_title(name, fontsize=11)
        panel.set(xlabel="keys", ylabel="queries")
    return figure


def plot_masked(panels, rows, columns):
    """Draws matrices of one attention beside each other, each with its mask.

    Args:
      panels: a dict from a title to (`[T, S]`, mask that broadcasts to it; where it is 1, the
        cell is gray), optionally followed by the text of the gray cells. Matrices with negative
        values share their colors; those of the others go from 0 to 1.
      rows, columns: the queries and the keys.
    """
    figure, axes = plots.create_panels(len(panels), 3.0, 2.9)
    limit = max(np.max(np.abs(values)) for values, *_ in panels.values())
    for panel, (title, (values, hidden, *texts)) in zip(axes, panels.items()):
        low, high = (-limit, limit) if np.min(values) < 0 else (0, 1)
        plots.draw_matrix(panel, values, rows, columns, low, high, hidden=hidden)
        for row, column in np.argwhere(np.broadcast_to(hidden, np.shape(values))):
            panel.text(column, row, *(texts or [""]), ha="center", va="center", fontsize=8)
        panel.set_title(title, fontsize=11)
    axes[0].set_ylabel("queries")
    axes[0].set_xlabel("keys")
    return figure


def plot_fanned_out(words, heads):
    """Draws all heads of an attention layer, from the word vectors to the output.

    Args:
      words: the two words of the sentence.
      heads: their number.
    """
    figure, panel = _canvas(9.9, 0.62 * heads + 1.5, f"Multi-head attention with {heads} heads")
    top = 0.62 * heads + 0.25
    titles = {0.85: "1 words", 3.75: "2 queries, keys, values,\neach with its matrix",
              5.87: "3 weights", 6.75: "4 $Z_i$", 8.65: "5 side by side,\ntimes $W^O$"}  # fmt: skip
    for x, text in titles.items():
        panel.text(x, top + 0.5, text, ha="center", va="center", fontsize=11)
    middle = top / 2
    panel.text(0.75, middle + 0.55, "\n".join(words), ha="center", va="center", fontsize=10)
    _grid(panel, 0.45, middle - 0.15, 2, 4, X)
    panel.text(0.75, middle - 0.45, "$X$", ha="center", va="center", fontsize=11)
    for i in range(heads):
        y = top - 0.62 * (i + 0.7)
        _arrow(panel, (1.15, middle), (1.75, y))
        panel.text(1.95, y, f"$W_{i + 1}$", ha="center", va="center", fontsize=10)
        for j, color in enumerate((Q, K, V)):
            _grid(panel, 2.25 + 0.48 * j, y - 0.24, 4, 3, color, 0.12)
            _grid(panel, 4.0 + 0.48 * j, y - 0.12, 2, 3, color, 0.12)
        for x in (3.62, 5.37, 6.12):
            _arrow(panel, (x, y), (x + 0.33, y))
        _grid(panel, 5.75, y - 0.12, 2, 2, SCALE, 0.12)
        _grid(panel, 6.55, y - 0.12, 2, 3, Z, 0.12)
        panel.text(7.1, y, f"$Z_{i + 1}$", ha="center", va="center", fontsize=10)
        _grid(panel, 7.65 + 0.25 * i, top - 0.9, 2, 3, Z, 0.25 / 3)
    panel.plot((7.35, 7.35), (top - 0.3, y - 0.15), color=LINE, linewidth=1)
    _arrow(panel, (7.35, top - 0.82), (7.6, top - 0.82))
    panel.text(8.65, top - 0.6, f"$Z_1 \\ldots Z_{heads}$", ha="center", fontsize=11)
    panel.text(7.75, middle - 0.5, "×", ha="center", va="center", fontsize=14)
    _grid(panel, 8.0, middle - 1.5, 24, 4, LINEAR, 0.25 / 3)
    panel.text(8.17, middle - 1.75, "$W^O$", ha="center", va="center", fontsize=11)
    panel.text(8.65, middle - 0.5, "=", ha="center", va="center", fontsize=14)
    _grid(panel, 8.95, middle - 0.65, 2, 4, X)
    panel.text(9.25, middle - 0.95, "output", ha="center", va="center", fontsize=10)
    return figure


def _grid(panel, x, y, rows, columns, color, cell=0.15):
    """Draws a small matrix; (x, y) is its lower left corner."""
    for row, column in np.ndindex(rows, columns):
        corner = (x + cell * column, y + cell * row)
        panel.add_patch(Rectangle(corner, cell, cell, fc=color, ec=LINE, lw=0.5, zorder=3))


def plot_five_steps(tokens, row, scores, weights, d_model, heads, head_number):
    """Draws the five steps of an attention layer: the third with its numbers, the others as boxes.

    Args:
      tokens: S tokens.
      row: the index of the token that is outlined.
      scores, weights: of a head, `[S, S]`.
      d_model, heads: of the layer.
      head_number: of the head, from 1.
    """
    figure, panel = _canvas(9.9, 5.6, f"Attention in five steps, head {head_number}")
    s, i, depth, middle = len(tokens), head_number, d_model // heads, 4.15
    blocks = {  # name: left end, rows, columns, color
        "$X$": (0.25, s, d_model, X),
        f"$Q_{i}$": (2.1, s, depth, Q),
        f"$K_{i}$": (2.65, s, depth, K),
        f"$V_{i}$": (3.2, s, depth, V),
        f"$Z_{i}$": (4.2, s, depth, Z),
        f"$Z_1 \\ldots Z_{heads}$": (5.0, s, d_model, Z),
        "$W^O$": (6.75, d_model, d_model, LINEAR),
        "output": (8.45, s, d_model, X),
    }
    center = {"ha": "center", "va": "center"}
    outline = {"fill": False, "ec": "black", "lw": 1.8, "clip_on": False}
    for name, (left, rows, columns, color) in blocks.items():
        width, height = columns / 100, 0.7 if rows == s else 0.9
        corner = (left, middle - height / 2)
        panel.add_patch(Rectangle(corner, width, height, fc=color, ec=LINE))
        panel.text(left + width / 2, middle + height / 2 + 0.13, name, fontsize=11, **center)
        shape = f"{rows} × {columns}"
        panel.text(left + width / 2, middle - height / 2 - 0.12, shape, fontsize=9, **center)
        if rows == s:
            top = middle + height / 2 - row * height / s
            panel.add_patch(Rectangle((left, top), width, -height / s, **outline))
    edges = 5.0 + np.arange(1, heads) * depth / 100
    panel.vlines(edges, middle - 0.35, middle + 0.35, color=LINE, linewidth=1)
    for left, right in ((1.6, 2.0), (3.6, 4.1), (4.6, 4.9)):
        _arrow(panel, (left, middle), (right, middle))
    titles = {0.9: "1  word vectors", 2.8: f"2  head {i}: $X W$", 4.36: f"4  weights × $V_{i}$",
              7.4: "5  all heads side by side, times $W^O$"}  # fmt: skip
    for x, text in titles.items():
        panel.text(x, 5.08, text, fontsize=11, **center)
    for x, y, text in ((3.83, 4.32, "3"), (6.52, middle, "×"), (8.24, middle, "=")):
        panel.text(x, y, text, fontsize=13, **center)
    panel.text(5.3, 1.95, f"÷ √{depth},\nsoftmax →", fontsize=10, **center)
    limit = np.abs(scores).max()
    for left, title, values, *look in (
        (0.95, f"3  scores $Q_{i} K_{i}^T$", np.round(scores, 1), -limit, limit, ".1f"),
        (6.2, "3  weights", weights, 0.0, 1.0, ".2f"),
    ):
        table = figure.add_axes((left / 9.9, 0.85 / 5.6, 3.6 / 9.9, 2.15 / 5.6))
        plots.draw_matrix(table, values, tokens, tokens, *look)
        table.set_aspect("auto")
        table.set_title(title, fontsize=11)
        table.add_patch(Rectangle((-0.5, row - 0.5), s, 1, **outline))
    return figure
