"""The drawings of notebook 02. Each function returns a `matplotlib.figure.Figure`."""

from course import plots

import inspect
import textwrap

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from tf_transformer import MultiHeadAttention, scaled_dot_product_attention

MATMUL = "#DDD6EC"  # fill colors of the boxes of Figure 2
SCALE = "#F8F1BE"
MASK = "#F7DCE5"
SOFTMAX = "#D3EBD0"
CONCAT = "#F8F1BE"
LINEAR = "#E4E4E4"
CODE = "#0072B2"
LINE = "0.3"


def _code(function, start):
    """The line of a function's source that begins with `start`, without its comment."""
    for line in inspect.getsource(function).split("\n"):
        if line.strip().startswith(start):
            return line.split("  #")[0].strip()
    raise ValueError(f"{function.__name__} has no line that begins with {start!r}")


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


def _write_code(panel, x, y, code, first_x):
    """Writes code beside a box, with a dotted line from the box to the code."""
    lines = textwrap.wrap(code, 66, subsequent_indent="    ")
    text = "\n".join(lines)
    panel.plot([first_x, x - 0.08], [y, y], color="0.6", linestyle=":", linewidth=1)
    style = {"family": "monospace", "fontsize": 9, "color": CODE}
    panel.text(x, y, text, va="center", ha="left", **style)


def plot_scaled_dot_product_attention():
    """Draws the left half of Figure 2 beside the code of its boxes."""
    figure, panel = _canvas(8.9, 4.5)
    x, value_x, code_x = 1.05, 2.5, 3.25
    boxes = [
        ("MatMul", MATMUL, 1.05, "scaled_attention_logits = tf.matmul"),
        ("Scale", SCALE, 1.75, "scaled_q = "),
        ("Mask (opt.)", MASK, 2.45, "scaled_attention_logits += "),
        ("SoftMax", SOFTMAX, 3.15, "attention_weights = "),
        ("MatMul", MATMUL, 3.85, "output = "),
    ]
    for text, color, y, start in boxes:
        last = y == boxes[-1][2]
        _box(panel, x + 0.5 * last, y, text, color, 1.5)
        edge = x + 0.75 + 0.5 * last
        _write_code(panel, code_x, y, _code(scaled_dot_product_attention, start), edge)
    for below, above in zip(boxes[:-2], boxes[1:-1]):
        _arrow(panel, (x, below[2] + 0.27), (x, above[2] - 0.27))
    _arrow(panel, (x, 3.42), (x, 3.59))
    for name, middle in (("Q", x - 0.4), ("K", x + 0.4)):
        panel.text(middle, 0.22, f"${name}$", ha="center", fontsize=13)
        _arrow(panel, (middle, 0.45), (middle, 0.78))
    panel.text(value_x - 0.35, 0.22, "$V$", ha="center", fontsize=13)
    _arrow(panel, (value_x - 0.35, 0.45), (value_x - 0.35, 3.59))
    _arrow(panel, (x + 0.5, 4.12), (x + 0.5, 4.42))
    return figure


def plot_multi_head_attention():
    """Draws the right half of Figure 2 beside the code of its boxes."""
    figure, panel = _canvas(9.2, 4.7)
    code_x = 4.05
    attend, keys_values = MultiHeadAttention.attend, MultiHeadAttention.keys_values
    columns = {"V": 0.65, "K": 1.75, "Q": 2.85}
    for name, x in columns.items():
        panel.text(x, 0.15, f"${name}$", ha="center", fontsize=13)
        _arrow(panel, (x, 0.4), (x, 0.83))
        _box(panel, x, 1.1, "Linear", LINEAR, 0.75, copies=3)
        _arrow(panel, (x, 1.37), (x, 2.08))
    projections = (
        _code(attend, "q = self.split"), _code(keys_values, "keys = self.split"),
        _code(keys_values, "values = self.split"),
    )  # fmt: skip
    for y, code in zip((1.36, 1.1, 0.84), projections):
        panel.text(
            code_x, y, code, va="center", fontsize=9, color=CODE, family="monospace"
        )  # fmt: skip
    panel.plot([3.5, code_x - 0.08], [1.1, 1.1], color="0.6", linestyle=":", linewidth=1)
    _box(panel, 1.75, 2.35, "Scaled Dot-Product\nAttention", MATMUL, 2.9, 0.5, copies=3)
    panel.text(3.55, 2.52, "$h$", fontsize=13)
    _write_code(panel, code_x, 2.3, _code(attend, "scaled_attention, "), 3.3)
    _arrow(panel, (1.75, 2.85), (1.75, 3.1))
    _box(panel, 1.75, 3.36, "Concat", CONCAT, 1.6)
    _write_code(panel, code_x, 3.36, _code(attend, "concat_attention = "), 2.6)
    _arrow(panel, (1.75, 3.63), (1.75, 3.79))
    _box(panel, 1.75, 4.06, "Linear", LINEAR, 1.6)
    _write_code(panel, code_x, 4.06, _code(attend, "output = "), 2.6)
    _arrow(panel, (1.75, 4.33), (1.75, 4.64))
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
          words: whether the rows are words, of which one is highlighted.
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
        if options.get("words", True):
            corner = (-0.5, self.highlighted - 0.5)
            style = {"fill": False, "ec": "black", "lw": 1.8, "clip_on": False}
            panel.add_patch(Rectangle(corner, values.shape[1], 1, **style))
        return panel


def _colors(high):
    """The values at the two ends of a color map."""
    return f"colors −{high:.2g} to {high:.2g}"


def plot_five_steps(tokens, row, vectors, weights, head, concat, output, head_number):
    """Draws the whole computation of one attention layer on one page.

    Args:
      tokens: S tokens.
      row: the index of the token that is outlined.
      vectors: word vectors, position vectors and their sum, `[S, D]` each.
      weights: W^Q, W^K, W^V `[D, K]` of the head, and W^O `[D, D]`.
      head: a dict with q, k, v, z `[S, K]`, scores and weights `[S, S]` of the head.
      concat, output: `[S, D]`.
      head_number: of the head, from 1.
    """
    page = _Page(9.9, 11.2, row)
    i, strip, tall = head_number, 1.2, 1.6
    high = np.abs(vectors[2]).max()
    text = "1  Word vectors: rows of the table × √128, plus positions"
    page.text(0.1, 0.2, f"{text}   ({_colors(high)})")
    names = ("word vectors", "positions", "$X$")
    for name, values, x, sign in zip(names, vectors, (1.0, 4.05, 7.1), ("", "+", "=")):
        rows = tokens if sign == "" else None
        page.matrix(name, values, x, 0.6, 2.65, tall, high, tokens=rows)
        page.text(x - 0.28, 1.4, sign, 16)

    high = max(np.abs(head[name]).max() for name in "qk")
    value_high = max(np.abs(head["v"]).max(), np.abs(concat).max())
    spread = 4 * np.std(weights[0])
    page.text(0.1, 2.75, f"2  Queries, keys and values of head {i}   ($W$: {_colors(spread)};"
              f" $Q$, $K$: {_colors(high)}; $V$: {_colors(value_high)})")  # fmt: skip
    highs = (high, high, value_high)
    for name, matrix, x, limit in zip("QKV", weights, (0.08, 3.36, 6.64), highs):
        page.text(x, 3.95, "$X$ ×", 12)
        title = f"$W^{name}_{i}$"
        page.matrix(title, matrix, x + 0.43, 3.15, 0.55, tall, spread, words=False)
        page.text(x + 1.02, 3.95, "=", 14)
        values = head[name.lower()]
        box = (x + 1.97, 3.15, strip, tall)
        page.matrix(f"${name}_{i}$", values, *box, limit, tokens=tokens)

    page.text(0.1, 5.3, "3  Scores, scale and softmax (nothing is masked here)")
    scores, attention_weights = head["scores"], head["weights"]
    options = {"tokens": tokens, "columns": tokens, "numbers": True}
    limit = np.abs(scores).max()
    box = (0.95, 5.7, 3.6, 2.2)
    page.matrix(f"scores $Q_{i} K_{i}^T$", np.round(scores, 1), *box, limit, **options)
    page.text(4.62, 6.7, "÷ √32,\nsoftmax →", 10)
    box = (6.15, 5.7, 3.6, 2.2)
    page.matrix("weights", attention_weights, *box, 1.0, positive=True, **options)

    page.text(0.1, 8.95, "4  Weighted sum of values")
    page.text(0.1, 10.15, f"weights\n× $V_{i}$ =", 10)
    page.matrix(f"$Z_{i}$", head["z"], 1.45, 9.35, strip, tall, value_high, tokens=tokens)
    text = "5  All heads side by side, times $W^O$"
    page.text(3.1, 8.95, f"{text}   ($Z$ and output: {_colors(value_high)})")
    box = (3.1, 9.35, 2.65, tall)
    panel = page.matrix("$Z_1 \\ldots Z_4$", concat, *box, value_high)
    size = concat.shape[1] // 4
    for edge in range(size, 4 * size, size):
        panel.axvline(edge - 0.5, color="black", linewidth=0.8)
    page.text(5.85, 10.15, "×", 14)
    page.matrix("$W^O$", weights[3], 6.1, 9.35, 0.75, tall, spread, words=False)
    page.text(6.92, 10.15, "=", 14)
    page.matrix("output", output, 7.2, 9.35, 2.6, tall, value_high)
    return page.figure


def plot_strips(queries, heads, tokens):
    """Draws the queries of all heads as one matrix, and the pieces after `split_heads`.

    Args:
      queries: X W^Q `[S, H*K]`.
      heads: the result of `split_heads`, `[H, S, K]`.
      tokens: S tokens.
    """
    count, _, depth = heads.shape
    high = np.abs(queries).max()
    page = _Page(9.0, 4.9, 0)
    gap, left, wide, tall = 0.25, 1.0, 7.0, 1.55
    page_options = {"tokens": tokens, "words": False}
    box = (left, 0.35, wide, tall)
    panel = page.matrix("$X W^Q$", queries, *box, high, **page_options)
    for edge in range(depth, count * depth, depth):
        panel.axvline(edge - 0.5, color="black", linewidth=1.5)
    page.text(left + wide / 2 - 0.55, 2.42, "↓ split_heads", 11)
    each = (wide + 0.85 - (count - 1) * gap) / count
    for i in range(count):
        x = left + i * (each + gap)
        rows = tokens if i == 0 else None
        box = (x, 2.95, each, tall)
        panel = page.matrix(f"$Q_{i + 1}$", heads[i], *box, high, tokens=rows, words=False)
    return page.figure


def plot_uses(maps):
    """Draws attention maps side by side, with one color scale.

    Args:
      maps: tuples (title, weights `[T, S]`, names of the rows, names of the columns).
    """
    ratios = [np.shape(weights)[1] for _, weights, _, _ in maps]
    figure = Figure(figsize=(10, 3.9), dpi=90, layout="constrained")
    panels = figure.subplots(1, len(maps), width_ratios=ratios)
    for panel, (title, weights, rows, columns) in zip(panels, maps):
        image = plots.draw_matrix(panel, weights, rows, columns, 0.0, 1.0, numbers=False)
        panel.set_title(title, fontsize=10)
        panel.set_ylabel("query", fontsize=9)
        panel.set_xlabel("key", fontsize=9)
        panel.tick_params(axis="x", rotation=90)
        for label in panel.get_xticklabels():
            label.set(ha="right", va="center", rotation_mode="anchor")
    bar = figure.colorbar(image, ax=panels, location="bottom", shrink=0.4, aspect=40)
    bar.set_label("attention weight")
    return figure
