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
        shown = np.ones(hidden.shape)
        look = {"low": 0, "high": 1.4, "numbers": False, "hidden": hidden}
        plots.draw_matrix(panel, shown, queries, keys, **look)
        panel.set_xticks(np.arange(len(keys) + 1) - 0.5, minor=True)
        panel.set_yticks(np.arange(len(queries) + 1) - 0.5, minor=True)
        panel.grid(which="minor", color="white")
        panel.tick_params(which="minor", length=0)
        panel.set_title(name, fontsize=11)
        panel.set(xlabel="keys", ylabel="queries")
    return figure


def plot_masked(panels, rows, columns):
    """Draws matrices of one attention beside each other, each with its mask.

    Args:
      panels: a dict from a title to (`[T, S]`, mask that broadcasts to it; where it is 1, the
        cell is gray).
      rows, columns: the queries and the keys.
    """
    figure, axes = plots.create_panels(len(panels), 3.0, 2.9)
    for panel, (title, (values, hidden)) in zip(axes, panels.items()):
        plots.draw_matrix(panel, values, rows, columns, hidden=hidden)
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
    figure, panel = _canvas(9.9, 0.62 * heads + 1.2)
    top = 0.62 * heads + 0.25
    titles = {0.85: "1 words", 2.75: "2 projections", 5.05: "3 queries, keys,\nvalues",
              6.75: "4 attention", 8.7: "5 side by side,\ntimes $W^O$"}  # fmt: skip
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
            _grid(panel, 2.25 + 0.65 * j, y - 0.24, 4, 3, color, 0.12)
            _grid(panel, 4.45 + 0.65 * j, y - 0.12, 2, 3, color, 0.12)
        _arrow(panel, (4.05, y), (4.35, y))
        _arrow(panel, (6.2, y), (6.5, y))
        _grid(panel, 6.55, y - 0.12, 2, 3, Z, 0.12)
        panel.text(7.1, y, f"$Z_{i + 1}$", ha="center", va="center", fontsize=10)
        _grid(panel, 7.65 + 0.25 * i, top - 0.9, 2, 3, Z, 0.25 / 3)
        _arrow(panel, (7.3, y), (7.6, top - 0.8))
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


class _Page:
    """A page of matrices, placed in inches from its upper left corner."""

    def __init__(self, width, height, tokens, highlighted):
        self.figure, self.paper = _canvas(width, height)
        self.width, self.height = width, height
        self.tokens, self.highlighted = plots.labels(tokens), highlighted

    def text(self, x, y, text, size=11, **options):
        """Writes text; (x, y) is its left end and its middle."""
        self.paper.text(x, self.height - y, text, va="center", fontsize=size, **options)

    def scores(self, name, values, x, y, width, height, low, high):
        """Draws a matrix of tokens as a heat map, with its numbers and its name above."""
        box = (x / self.width, 1 - (y + height) / self.height)
        panel = self.figure.add_axes((*box, width / self.width, height / self.height))
        plots.draw_matrix(panel, values, self.tokens, self.tokens, low, high, True)
        panel.set_aspect("auto")
        panel.set_title(name, fontsize=11, pad=3)
        corner, outline = (-0.5, self.highlighted - 0.5), {"fill": False, "ec": "black", "lw": 1.8}
        panel.add_patch(Rectangle(corner, len(self.tokens), 1, clip_on=False, **outline))

    def block(self, name, shape, x, y, width, height, color, rows=True):
        """Draws a matrix without its numbers, which show nothing to the eye, and its shape below.

        Args:
          rows: whether it has a row for each token; the highlighted one is outlined.
        """
        top = self.height - y
        self.paper.add_patch(Rectangle((x, top - height), width, height, fc=color, ec=LINE))
        row = height / len(self.tokens)
        for i, token in enumerate(self.tokens if rows else ()):
            self.paper.plot((x, x + width), (top - row * i,) * 2, color="white", lw=1)
            self.text(x - 0.06, y + row * (i + 0.5), token, 8, ha="right")
        if rows:
            corner = (x, top - row * (self.highlighted + 1))
            outline = {"fill": False, "ec": "black", "lw": 1.8, "zorder": 3}
            self.paper.add_patch(Rectangle(corner, width, row, **outline))
        self.text(x + width / 2, y - 0.13, name, ha="center")
        self.text(x + width / 2, y + height + 0.12, f"{shape[0]} × {shape[1]}", 9, ha="center")


def plot_five_steps(tokens, row, scores, weights, d_model, heads, head_number):
    """Draws the five steps of an attention layer on one page.

    Args:
      tokens: S tokens.
      row: the index of the token that is outlined.
      scores, weights: of a head, `[S, S]`.
      d_model, heads: of the layer.
      head_number: of the head, from 1.
    """
    page = _Page(9.9, 10.0, tokens, row)
    i, depth, s, tall = head_number, d_model // heads, len(tokens), 1.7
    page.text(0.1, 0.2, "1  Word vectors, each with its position")
    page.block("$X$", (s, d_model), 1.0, 0.65, 3.0, tall, X)
    page.text(4.6, 0.2, f"2  Queries, keys and values of head {i}: $X W$")
    for name, left, color in zip("QKV", (5.2, 6.9, 8.6), (Q, K, V)):
        page.block(f"${name}_{i}$", (s, depth), left + 0.2, 0.65, 0.9, tall, color)

    page.text(0.1, 2.95, "3  Scores, scale and softmax (nothing is masked here)")
    limit = np.abs(scores).max()
    box = (0.95, 3.35, 3.6, 2.4)
    page.scores(f"scores $Q_{i} K_{i}^T$", np.round(scores, 1), *box, -limit, limit)
    page.text(4.62, 4.45, f"÷ √{depth},\nsoftmax →", 10)
    page.scores("weights", weights, 6.15, 3.35, 3.6, 2.4, 0.0, 1.0)

    page.text(0.1, 6.85, f"4  weights × $V_{i}$")
    page.block(f"$Z_{i}$", (s, depth), 1.0, 7.3, 0.9, tall, Z)
    page.text(2.6, 6.85, "5  All heads side by side, times $W^O$")
    width = 0.9 * heads
    page.block(f"$Z_1 \\ldots Z_{heads}$", (s, d_model), 3.2, 7.3, width, tall, Z)
    for edge in range(1, heads):
        x = 3.2 + 0.9 * edge
        page.paper.plot((x, x), (10 - 7.3 - tall, 10 - 7.3), color=LINE, lw=1)
    page.text(3.2 + width + 0.1, 7.3 + tall / 2, "×", 14)
    page.block("$W^O$", (d_model, d_model), 3.2 + width + 0.4, 7.3, 0.8, tall, LINEAR, False)
    page.text(3.2 + width + 1.25, 7.3 + tall / 2, "=", 14)
    page.block("output", (s, d_model), 3.2 + width + 2.1, 7.3, 0.9, tall, X)
    return page.figure
