"""The pictures of the notebooks: each function draws one figure and returns it (a `matplotlib.figure.Figure`).

Sequential values are in viridis and signed ones in PuOr, categories in the colours of Okabe and Ito: all can be told apart by readers
with any kind of colour vision, and lines differ in their marks too.
"""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from tf_transformer.decoding.scores import is_possible

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"]
MARKS = "osD^vPX*"
NUMBERS_UP_TO = 160  # cells of a matrix in which the values are written


def _panels(count, width, height, columns=4):
    """A figure with `count` panels of that size in inches, at most `columns` in a row -> figure, list of axes."""
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = Figure(figsize=(columns * width, rows * height), dpi=90, layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in axes[count:]:
        panel.set_axis_off()
    return figure, axes[:count]


def _draw_matrix(panel, values, rows=None, columns=None, low=None, high=None, numbers=None):
    """A heat map with tokens on its axes, and its values in the cells where there are few."""
    values = np.asarray(values)
    signed = values.min() < 0 if low is None else low < 0
    high = max(float(np.abs(values).max()), 1e-9) if high is None else high
    low = (-high if signed else 0.0) if low is None else low
    colours = "PuOr" if signed else "viridis"
    image = panel.imshow(
        values, cmap=colours, vmin=low, vmax=high, aspect="equal", interpolation="nearest"
    )
    for axis, labels, length in (
        (panel.yaxis, rows, values.shape[0]),
        (panel.xaxis, columns, values.shape[1]),
    ):
        axis.set_ticks(
            range(length) if labels is not None else [], labels if labels is not None else []
        )
    panel.tick_params(length=0)
    if columns is not None and sum(map(len, columns)) > 3 * len(columns):
        panel.tick_params(axis="x", rotation=60)
    if numbers or (numbers is None and values.size <= NUMBERS_UP_TO):
        for (row, column), value in np.ndenumerate(np.round(values.astype(float), 2) + 0.0):
            shade = (value - low) / (high - low)
            dark = abs(shade - 0.5) > 0.35 if signed else shade < 0.6
            text = (
                f"{value:.0f}"
                if float(value).is_integer() and abs(value) >= 10
                else f"{value:.2f}".rstrip("0").rstrip(".") or "0"
            )
            panel.text(
                column,
                row,
                text,
                ha="center",
                va="center",
                fontsize=8,
                color="white" if dark else "black",
            )
    return image


def plot_matrix(
    values, rows=None, columns=None, title="", label="", low=None, high=None, numbers=None
):
    """A matrix as a heat map.

    Args:
      values: `[R, C]`.
      rows, columns: names of its rows and columns, such as tokens.
      title: of the figure.
      label: of the colour bar; none is drawn without it.
      low, high: values at the ends of the colours; by default those of the matrix, around 0 where it has negative ones.
      numbers: whether to write the values into the cells; by default where there are few.
    """
    cells = np.shape(values)
    height, width = (min(9.0, max(2.0, 1.2 + 0.45 * cells[i])) for i in (0, 1))
    for_rows, for_columns = (
        max(0.0, 0.085 * max((len(str(name)) for name in names or []), default=0) - 0.8)
        for names in (rows, columns)
    )
    width = max(width + for_rows + (1 if label else 0), 0.1 * len(title))  # inches
    figure, (panel,) = _panels(1, width, height + for_columns)
    image = _draw_matrix(panel, values, rows, columns, low, high, numbers)
    panel.set_title(title)
    if label:
        figure.colorbar(image, ax=panel, label=label, shrink=0.8)
    return figure


def plot_product(*parts, numbers=None):
    """Matrices with signs between them, drawn with cells of one size, as "X W = Q".

    Args:
      *parts: (name, `[R, C]`), with names of the rows and then of the columns where wanted; and strings such as "×" and "=".
      numbers: whether to write the values into the cells; by default where there are few.
    """
    widths = [0.5 if isinstance(part, str) else max(np.shape(part[1])[1], 1.5) for part in parts]
    tallest = max(np.shape(part[1])[0] for part in parts if not isinstance(part, str))
    cell = min(0.5, 11 / sum(widths))  # inches
    figure = Figure(
        figsize=(cell * sum(widths) + 0.35 * len(parts), cell * tallest + 0.9),
        dpi=90,
        layout="constrained",
    )
    panels = figure.subplots(1, len(parts), width_ratios=widths, squeeze=False)[0]
    for panel, part in zip(panels, parts):
        if isinstance(part, str):
            panel.set_axis_off()
            panel.text(
                0.5, 0.5, part, ha="center", va="center", fontsize=16, transform=panel.transAxes
            )
            continue
        name, values, *tokens = part
        values = np.asarray(values)
        _draw_matrix(
            panel,
            values,
            *tokens,
            numbers=numbers
            if numbers is not None
            else values.size <= NUMBERS_UP_TO and cell > 0.35,
        )
        panel.set_title(name, fontsize=11)
        panel.set_xlabel(f"{values.shape[0]} × {values.shape[1]}", fontsize=9)
    return figure


def plot_attention_heads(weights, queries, keys, title=""):
    """The attention weights of each head of a layer, or of several layers.

    Args:
      weights: `[H, T, S]`, or `[L, H, T, S]` of L layers; row t says where query t looks.
      queries: T tokens, down the side.
      keys: S tokens, along the bottom.
      title: of the figure.
    """
    size = min(3.5, max(2.4, 0.7 + 0.16 * max(len(queries), len(keys))))  # inches
    layers = np.reshape(weights, (-1, *np.shape(weights)[-3:]))  # (L, H, T, S)
    count, columns = len(layers) * len(layers[0]), 4
    figure, panels = _panels(count, size, size, columns)
    figure.suptitle(title)
    for i, (panel, values) in enumerate(zip(panels, np.concatenate(layers))):
        layer, head = divmod(i, len(layers[0]))
        tokens = (
            queries if i % columns == 0 else None,
            keys if i + columns >= count else None,
        )  # once for each row and column
        image = _draw_matrix(panel, values, *tokens, 0.0, 1.0, numbers=False)
        panel.tick_params(labelsize=8 if size < 3.5 else 7)
        panel.tick_params(axis="x", rotation=90)
        panel.set_title(
            f"layer {layer + 1} head {head + 1}" if len(layers) > 1 else f"head {head + 1}",
            fontsize=10,
        )
    figure.colorbar(image, ax=panels, label="attention weight", shrink=0.8)
    return figure


def plot_positional_encoding(encoding):
    """PE `[positions, d_model]` as a heat map (Sec. 3.5)."""
    figure, (panel,) = _panels(1, 8, 4.5)
    image = panel.imshow(
        np.asarray(encoding), cmap="PuOr", vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
    )
    panel.set_xlabel("column of the vector (sines even, cosines odd)")
    panel.set_ylabel("position in the sentence")
    figure.colorbar(image, ax=panel, label="PE(pos, column)")
    return figure


def plot_curves(series, x, y, title="", log=""):
    """Lines over a common axis.

    Args:
      series: xs and ys by the name of the line; a name that begins with "_" is not in the legend.
      x, y: names of the axes, units included.
      title: of the figure.
      log: "x", "y" or "xy", the axes that are logarithmic.
    """
    figure, (panel,) = _panels(1, 7.5, 4.2)
    for (name, (xs, ys)), colour, mark in zip(series.items(), COLOURS * 9, MARKS * 9):
        panel.plot(
            xs,
            ys,
            color=colour,
            marker=mark,
            markevery=max(1, len(xs) // 20),
            markersize=5,
            label=name,
        )
    if "x" in log:
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if "y" in log:
        panel.set_yscale("log")
    panel.set(xlabel=x, ylabel=y, title=title)
    panel.grid(alpha=0.3)
    if any(not name.startswith("_") for name in series) and (len(series) > 1):
        panel.legend()
    return figure


def plot_bars(groups, names, y, title=""):
    """Bars side by side.

    Args:
      groups: heights by the name of the group, each as long as `names`.
      names: what the bars are of, along the bottom.
      y: name of the vertical axis, unit included.
      title: of the figure.
    """
    inches = max(4.5, min(11.0, 1.5 + 0.5 * len(names) * len(groups) ** 0.5))
    figure, (panel,) = _panels(1, inches, 3.8)
    width = 0.8 / len(groups)
    for i, ((group, heights), colour) in enumerate(zip(groups.items(), COLOURS)):
        places = np.arange(len(names)) + (i - (len(groups) - 1) / 2) * width
        panel.bar(
            places,
            heights,
            width,
            label=group,
            color=colour,
            edgecolor="white",
            hatch=["", "//", "..", "xx"][i % 4],
        )
    crowded = (
        len(names) * 0.09 * max(len(line) for name in names for line in str(name).split("\n"))
        > inches - 1
    )
    panel.set_xticks(
        range(len(names)), names, rotation=60 if crowded else 0, ha="right" if crowded else "center"
    )
    panel.set(ylabel=y, title=title)
    panel.grid(axis="y", alpha=0.3)
    if len(groups) > 1:
        panel.margins(y=0.25)  # room for the legend
        panel.legend()
    return figure


def plot_histograms(samples, x, title="", bins=40):
    """How values are spread: one panel for each of them, all with the same axis.

    Args:
      samples: arrays by name.
      x: name of the axis, unit included.
      title: of the figure.
      bins: of each.
    """
    figure, panels = _panels(len(samples), 3.2, 2.8)
    figure.suptitle(title)
    ends = (
        min(np.min(values) for values in samples.values()),
        max(np.max(values) for values in samples.values()),
    )
    for panel, (name, values), colour in zip(panels, samples.items(), COLOURS * 9):
        panel.hist(np.ravel(values), bins=bins, range=ends, density=True, color=colour)
        panel.set_title(name, fontsize=10)
        panel.set_xlabel(x)
    panels[0].set_ylabel("density")
    return figure


def plot_batch(ids, title=""):
    """A batch as it lies in memory: words and padding.

    Args:
      ids: `[B, S]`, 0 where there is padding.
      title: of the figure.
    """
    ids = np.asarray(ids)
    figure, (panel,) = _panels(
        1, min(8.0, 4.5 + 0.05 * ids.shape[1]), min(5.0, 2.0 + 0.04 * ids.shape[0])
    )
    panel.imshow(ids == 0, cmap="cividis", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    shares = f"{np.mean(ids != 0):.0%} words (dark), {np.mean(ids == 0):.0%} padding (light)"
    panel.set(xlabel="position", ylabel="sentence", title=f"{title}\n{shares}")
    panel.locator_params(integer=True)
    return figure


def plot_beam(steps, best=()):
    """A beam search as a tree: a column for each step, a row for each hypothesis that is alive, best first.

    Args:
      steps: for each step, (words, parents, log_probs) of its hypotheses: the word that each ends with, the row of the one of the step
        before that it goes on from, and its log-probability in nats. What cannot be (`decoding.scores.is_possible`) is left out.
      best: the rows of the hypothesis to set off, from the first step on.
    """
    rows = max(len(words) for words, _, _ in steps)
    figure, (panel,) = _panels(1, min(15.0, 1.25 * len(steps) + 0.5), 0.75 * rows + 0.7)
    for t, (words, parents, log_probs) in enumerate(steps):
        for row, (word, parent, log_prob) in enumerate(zip(words, parents, log_probs)):
            if not is_possible(log_prob):
                continue
            chosen = t < len(best) and best[t] == row
            colour = COLOURS[1] if chosen else "0.45"
            if t:
                panel.plot(
                    [t - 1, t],
                    [parent, row],
                    color=colour,
                    linewidth=2.5 if chosen else 1,
                    zorder=1,
                )
            panel.text(t, row, f"{word}\n{log_prob:.2f}", ha="center", va="center", fontsize=9,
                       bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": colour, "linewidth": 2 if chosen else 1})  # fmt: skip
    panel.set(
        xlim=(-0.6, len(steps) - 0.4),
        ylim=(rows - 0.4, -0.6),
        xlabel="step",
        ylabel="rank in the beam",
    )
    panel.set_xticks(range(len(steps)))
    panel.set_yticks(range(rows), range(1, rows + 1))
    return figure


# Figure 1: for each box its key in the shapes, its text, its column (0 encoder, 1 decoder), its height, and its colour.
BOXES = [
    ("inp", "Inputs", 0, 0, "none"), ("enc_embedding", "Input Embedding\n+ Positional Encoding", 0, 1, "#FBE3E4"),
    ("enc_attention", "Multi-Head\nAttention", 0, 2.4, "#FCE0BB"), ("enc_norm1", "Add & Norm", 0, 3.3, "#F3F6C2"),
    ("enc_ffn", "Feed Forward", 0, 4.2, "#C5E8F7"), ("enc_norm2", "Add & Norm", 0, 5.1, "#F3F6C2"),
    ("tar", "Outputs\n(shifted right)", 1, 0, "none"), ("dec_embedding", "Output Embedding\n+ Positional Encoding", 1, 1, "#FBE3E4"),
    ("dec_attention1", "Masked Multi-Head\nAttention", 1, 2.4, "#FCE0BB"), ("dec_norm1", "Add & Norm", 1, 3.3, "#F3F6C2"),
    ("dec_attention2", "Multi-Head\nAttention", 1, 4.2, "#FCE0BB"), ("dec_norm2", "Add & Norm", 1, 5.1, "#F3F6C2"),
    ("dec_ffn", "Feed Forward", 1, 6.0, "#C5E8F7"), ("dec_norm3", "Add & Norm", 1, 6.9, "#F3F6C2"),
    ("logits", "Linear", 1, 8.2, "#DDE0F1"), ("probabilities", "Softmax", 1, 9.1, "#CBE6D0"),
]  # fmt: skip
STACKS = [("enc_attention", "enc_norm2"), ("dec_attention1", "dec_norm3")]
ROUND = [("enc_attention", "enc_norm1"), ("enc_ffn", "enc_norm2"), ("dec_attention1", "dec_norm1"), ("dec_attention2", "dec_norm2"),
         ("dec_ffn", "dec_norm3")]  # fmt: skip


def plot_transformer(shapes, num_layers):
    """Figure 1, with the shape of what leaves each box.

    Args:
      shapes: by the key of the box, which are those of `BOXES`.
      num_layers: N.
    """
    figure, (panel,) = _panels(1, 8.5, 9.5)
    places = {key: (4.4 * column, height) for key, _, column, height, _ in BOXES}

    def arrow(start, end):
        panel.add_patch(
            FancyArrowPatch(
                start, end, arrowstyle="-|>", mutation_scale=10, color="0.3", shrinkA=0, shrinkB=0
            )
        )

    for (key, text, column, height, colour), (below, *_) in zip(BOXES, [BOXES[0], *BOXES]):
        x = places[key][0]
        if colour != "none":
            panel.add_patch(
                FancyBboxPatch(
                    (x - 1.0, height - 0.22),
                    2.0,
                    0.44,
                    "round,pad=0.05",
                    facecolor=colour,
                    edgecolor="0.3",
                )
            )
        panel.text(x, height, text, ha="center", va="center", fontsize=9)
        look = {
            "ha": "left" if column else "right",
            "fontsize": 9,
            "family": "monospace",
            "color": COLOURS[0],
        }
        panel.text(
            x + (1.5 if column else -1.5), height, str(tuple(shapes[key])), va="center", **look
        )
        if places[below][0] == x and below != key:
            arrow((x, places[below][1] + 0.28), (x, height - 0.28))
    for start, end in ROUND:  # the residual connections
        (x, low), (_, high) = places[start], places[end]
        side = 1.05 if x else -1.05
        panel.plot(
            [x, x + 1.14 * side, x + 1.14 * side],
            [low - 0.4, low - 0.4, high],
            color="0.3",
            linewidth=1,
        )
        arrow((x + 1.14 * side, high), (x + side, high))
    x, high = places["enc_norm2"]  # the encoder's output is what the decoder attends to
    panel.plot(
        [x, x, 2.2, 2.2], [high + 0.28, high + 0.6, high + 0.6, 4.2], color="0.3", linewidth=1
    )
    arrow((2.2, 4.2), (4.4 - 1.05, 4.2))
    for first, last in STACKS:
        (x, low), (_, high) = places[first], places[last]
        panel.add_patch(
            FancyBboxPatch(
                (x - 1.25, low - 0.45),
                2.5,
                high - low + 0.8,
                "round,pad=0.05",
                facecolor="none",
                edgecolor="0.6",
            )
        )
        panel.text(
            x + (-1.4 if x else 1.4),
            high + 0.45,
            f"{num_layers}×",
            fontsize=12,
            ha="right" if x else "left",
            va="center",
        )
    panel.text(4.4, 9.75, "Output Probabilities", ha="center", fontsize=9)
    arrow((4.4, 9.38), (4.4, 9.65))
    panel.set(xlim=(-3.8, 8.4), ylim=(-0.5, 10))
    panel.set_axis_off()
    return figure
