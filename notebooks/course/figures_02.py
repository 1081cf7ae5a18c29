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


def _canvas(width, height):
    """A figure whose coordinates are inches."""
    figure = Figure(figsize=(width, height), dpi=90)
    panel = figure.add_axes((0, 0, 1, 1))
    panel.set(xlim=(0, width), ylim=(0, height))
    panel.set_axis_off()
    return figure, panel


def plot_scaled_dot_product_attention():
    """Draws the left half of Figure 2."""
    figure, panel = _canvas(3.6, 4.5)
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
    figure, panel = _canvas(4.2, 4.7)
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
        plots.draw_matrix(panel, ~hidden * 1.0, queries, keys, low=0, high=1, numbers=False)
        panel.set_title(name, fontsize=11)
        panel.set(xlabel="keys", ylabel="queries")
    return figure


class _Page:
    """A page of matrices, placed in inches from its upper left corner."""

    def __init__(self, width, height, highlighted):
        self.figure, self.paper = _canvas(width, height)
        self.width, self.height = width, height
        self.highlighted = highlighted

    def text(self, x, y, text, size=11, **options):
        """Writes text; (x, y) is its left end and its middle."""
        self.paper.text(x, self.height - y, text, va="center", fontsize=size, **options)

    def matrix(self, name, values, x, y, width, height, high, **options):
        """Draws a heat map with its name above and its shape below.

        Args:
          high: the value at the end of the color map.
          tokens, columns: names of the rows and of the columns.
          numbers: whether to write the values.
        """
        box = (x / self.width, 1 - (y + height) / self.height)
        panel = self.figure.add_axes((*box, width / self.width, height / self.height))
        values = np.asarray(values)
        low = 0 if options.get("positive") else -high
        rows, columns = options.get("tokens"), options.get("columns")
        numbers = options.get("numbers", False)
        plots.draw_matrix(panel, values, rows, columns, low, high, numbers)
        panel.set_aspect("auto")
        panel.set_title(name, fontsize=11, pad=3)
        if columns is None:
            shape = f"{values.shape[0]} × {values.shape[1]}"
            panel.set_xlabel(shape, fontsize=9, labelpad=2)
        corner = (-0.5, self.highlighted - 0.5)
        style = {"fill": False, "ec": "black", "lw": 1.8, "clip_on": False}
        panel.add_patch(Rectangle(corner, values.shape[1], 1, **style))
        return panel

    def learned(self, name, shape, x, y, width, height):
        """Draws a learned matrix as a box: its numbers show nothing to the eye."""
        corner = (x, self.height - y - height)
        self.paper.add_patch(Rectangle(corner, width, height, fc=LINEAR, ec=LINE))
        self.text(x + width / 2, y + height / 2, name, ha="center")
        self.text(x + width / 2, y + height + 0.12, f"{shape[0]} × {shape[1]}", 9, ha="center")


def _colors(high):
    """The values at the two ends of a color map."""
    return f"colors −{high:.2g} to {high:.2g}"


def plot_five_steps(tokens, row, x, shape, head, concat, output, head_number):
    """Draws the five steps of an attention layer on one page.

    Args:
      tokens: S tokens.
      row: the index of the token that is outlined.
      x: the word vectors `[S, D]`.
      shape: of W^Q, W^K and W^V of the head, (D, K).
      head: a dict with q, k, v, z `[S, K]`, scores and weights `[S, S]` of the head.
      concat, output: `[S, D]`.
      head_number: of the head, from 1.
    """
    page = _Page(9.9, 11.95, row)
    i, strip, tall = head_number, 1.2, 1.9
    high = max(np.abs(head[name]).max() for name in "qk")
    value_high = max(np.abs(head["v"]).max(), np.abs(concat).max())
    x_high = np.abs(x).max()
    page.text(0.1, 0.2, f"1  Word vectors, each with its position   ({_colors(x_high)})")
    page.matrix("$X$", x, 1.45, 0.6, 8.3, tall, x_high, tokens=tokens)

    page.text(0.1, 2.9, f"2  Queries, keys and values of head {i}   ($Q$, $K$: {_colors(high)};"
              f" $V$: {_colors(value_high)})")  # fmt: skip
    highs = (high, high, value_high)
    for name, left, limit in zip("QKV", (0.08, 3.36, 6.64), highs):
        page.text(left, 4.25, "$X$ ×", 12)
        page.learned(f"$W^{name}_{i}$", shape, left + 0.43, 3.3, 0.55, tall)
        page.text(left + 1.02, 4.25, "=", 14)
        values = head[name.lower()]
        box = (left + 1.97, 3.3, strip, tall)
        page.matrix(f"${name}_{i}$", values, *box, limit, tokens=tokens)

    page.text(0.1, 5.75, "3  Scores, scale and softmax (nothing is masked here)")
    scores, attention_weights = head["scores"], head["weights"]
    options = {"tokens": tokens, "columns": tokens, "numbers": True}
    limit = np.abs(scores).max()
    box = (0.95, 6.15, 3.6, 2.2)
    page.matrix(f"scores $Q_{i} K_{i}^T$", np.round(scores, 1), *box, limit, **options)
    page.text(4.62, 7.15, "÷ √32,\nsoftmax →", 10)
    box = (6.15, 6.15, 3.6, 2.2)
    page.matrix("weights", attention_weights, *box, 1.0, positive=True, **options)

    page.text(0.1, 9.4, "4  Weighted sum of values")
    page.text(0.1, 10.75, f"weights\n× $V_{i}$ =", 10)
    page.matrix(f"$Z_{i}$", head["z"], 1.45, 9.8, strip, tall, value_high, tokens=tokens)
    text = "5  All heads side by side, times $W^O$"
    page.text(3.1, 9.4, f"{text}   ($Z$ and output: {_colors(value_high)})")
    box = (3.1, 9.8, 2.65, tall)
    panel = page.matrix("$Z_1 \\ldots Z_4$", concat, *box, value_high)
    size = concat.shape[1] // 4
    for edge in range(size, 4 * size, size):
        panel.axvline(edge - 0.5, color="black", linewidth=0.8)
    page.text(5.85, 10.75, "×", 14)
    page.learned("$W^O$", (len(x[0]), len(x[0])), 6.1, 9.8, 0.75, tall)
    page.text(6.92, 10.75, "=", 14)
    page.matrix("output", output, 7.2, 9.8, 2.6, tall, value_high)
    return page.figure
