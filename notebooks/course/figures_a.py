"""The drawings of notebooks 01 and A: recurrent cells, encoder-decoders and paths."""

from course.plots import COLORS, MARKERS

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle

BLUE = "#0072B2"
ORANGE = "#D55E00"
GREEN = "#009E73"
GATE = "#FCE0BB"
STATE = "#C5E8F7"
SOURCE = "#C5E8F7"
TARGET = "#CBE6D0"


def _panels(count, width, height, ratios=None):
    figure = Figure(figsize=(width, height), dpi=80, layout="constrained")
    panels = figure.subplots(1, count, squeeze=False, width_ratios=ratios)[0]
    for panel in panels:
        panel.set_axis_off()
        panel.set_aspect("equal")
    return figure, panels


def _wire(panel, *points, color="0.2", arrow=True, width=1.4):
    """Draws a line through points, with an arrowhead at the last one."""
    xs, ys = zip(*points)
    panel.plot(xs, ys, color=color, linewidth=width, solid_capstyle="butt", zorder=1)
    if arrow:
        panel.annotate(
            "",
            xy=points[-1],
            xytext=points[-2],
            arrowprops={
                "arrowstyle": "-|>",
                "color": color,
                "linewidth": width,
                "shrinkA": 0,
                "shrinkB": 0,
            },
            zorder=2,
        )


def _box(panel, x, y, text, fill, width=1.1, height=0.7, size=11):
    corner = (x - width / 2, y - height / 2)
    panel.add_patch(
        FancyBboxPatch(
            corner,
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=fill,
            edgecolor="0.3",
            zorder=3,
        )
    )
    panel.text(x, y, text, ha="center", va="center", fontsize=size, zorder=4)


def _operation(panel, x, y, text):
    panel.add_patch(Circle((x, y), 0.3, facecolor="white", edgecolor="0.2", zorder=3))
    panel.text(x, y, text, ha="center", va="center", fontsize=13, zorder=4)


def _dot(panel, x, y, color="0.2"):
    panel.add_patch(Circle((x, y), 0.08, facecolor=color, edgecolor=color, zorder=3))


def _inputs(panel, h_ends, x_starts, ends):
    """Draws h and x, and the wires from them to the boxes whose centers are `ends`."""
    h_bus, x_bus = 1.3, 0.6  # heights
    _wire(panel, (-0.5, h_bus), (max(h_ends), h_bus), arrow=False)
    _wire(panel, (-0.5, x_bus), (max(x_starts), x_bus), arrow=False, color=BLUE)
    panel.text(-0.6, h_bus, "$h_{t-1}$", ha="right", va="center", fontsize=13)
    panel.text(-0.6, x_bus, "$x_t$", ha="right", va="center", fontsize=13, color=BLUE)
    for x in h_ends:
        _wire(panel, (x, h_bus), (x, ends))
        _dot(panel, x, h_bus)
    for x in x_starts:
        _wire(panel, (x, x_bus), (x, h_bus - 0.08), arrow=False, color=BLUE)
        _wire(panel, (x, h_bus + 0.08), (x, ends), color=BLUE)
        _dot(panel, x, x_bus, BLUE)


def _plot_lstm(panel):
    panel.set_title("LSTM", fontsize=13)
    bottom, middle, top = 2.4, 4.1, 5.7
    gates = {1.6: "σ", 3.4: "σ", 5.2: "tanh", 7.0: "σ"}
    _inputs(panel, [x - 0.2 for x in gates], [x + 0.2 for x in gates], bottom - 0.35)
    for x, text in gates.items():
        _box(panel, x, bottom, text, GATE)
    _wire(panel, (-0.5, top), (1.3, top))  # the line of c
    _wire(panel, (1.9, top), (4.9, top))
    _wire(panel, (5.5, top), (9.8, top))
    panel.text(-0.6, top, "$c_{t-1}$", ha="right", va="center", fontsize=13)
    panel.text(9.9, top, "$c_t$", ha="left", va="center", fontsize=13)
    _wire(panel, (1.6, bottom + 0.35), (1.6, top - 0.3))
    _operation(panel, 1.6, top, "×")
    _wire(panel, (3.4, bottom + 0.35), (3.4, middle), (4.9, middle))
    _wire(panel, (5.2, bottom + 0.35), (5.2, middle - 0.3))
    _operation(panel, 5.2, middle, "×")
    _wire(panel, (5.2, middle + 0.3), (5.2, top - 0.3))
    _operation(panel, 5.2, top, "+")
    _dot(panel, 8.4, top)
    _wire(panel, (8.4, top), (8.4, 5.25))
    _box(panel, 8.4, 4.9, "tanh", STATE)
    _wire(panel, (8.4, 4.55), (8.4, 3.8))
    _wire(panel, (7.0, bottom + 0.35), (7.0, 3.5), (8.1, 3.5))
    _operation(panel, 8.4, 3.5, "×")
    _wire(panel, (8.7, 3.5), (9.8, 3.5))
    panel.text(9.9, 3.5, "$h_t$", ha="left", va="center", fontsize=13)
    for x, y, text in [
        (1.75, 3.2, "$f_t$"),
        (3.55, 3.2, "$i_t$"),
        (5.35, 3.2, r"$\tilde c_t$"),
        (7.15, 3.1, "$o_t$"),
    ]:
        panel.text(x, y, text, fontsize=13, va="center")
    panel.set(xlim=(-1.7, 10.7), ylim=(0.2, 6.2))


def _plot_gru(panel):
    panel.set_title("GRU", fontsize=13)
    bottom, middle, top = 2.4, 4.1, 5.7
    _inputs(panel, [1.4, 3.6], [1.8, 4.0, 7.3], bottom - 0.35)
    _wire(panel, (3.6, 1.3), (5.4, 1.3), (5.4, bottom - 0.3))  # h to the product with r
    _box(panel, 1.6, bottom, "σ", GATE)
    _box(panel, 3.8, bottom, "σ", GATE)
    _wire(panel, (4.35, bottom), (5.1, bottom))
    _operation(panel, 5.4, bottom, "×")
    _wire(panel, (5.7, bottom), (6.55, bottom))
    _box(panel, 7.1, bottom, "tanh", GATE)
    _wire(panel, (-0.5, top), (1.3, top))  # the line of h
    _wire(panel, (1.9, top), (6.8, top))
    _wire(panel, (7.4, top), (9.8, top))
    panel.text(-0.6, top, "$h_{t-1}$", ha="right", va="center", fontsize=13)
    panel.text(9.9, top, "$h_t$", ha="left", va="center", fontsize=13)
    _wire(panel, (1.6, bottom + 0.35), (1.6, top - 0.3))
    _operation(panel, 1.6, top, "×")
    _dot(panel, 1.6, middle)
    _wire(panel, (1.6, middle), (3.25, middle))
    _box(panel, 3.8, middle, "1 −", STATE)
    _wire(panel, (4.35, middle), (6.8, middle))
    _wire(panel, (7.1, bottom + 0.35), (7.1, middle - 0.3))
    _operation(panel, 7.1, middle, "×")
    _wire(panel, (7.1, middle + 0.3), (7.1, top - 0.3))
    _operation(panel, 7.1, top, "+")
    for x, y, text in [
        (1.75, 3.2, "$z_t$"),
        (4.45, 2.75, "$r_t$"),
        (7.25, 3.2, r"$\tilde h_t$"),
    ]:
        panel.text(x, y, text, fontsize=13, va="center")
    panel.set(xlim=(-1.7, 10.7), ylim=(0.2, 6.2))


def plot_cells():
    """Draws the wiring of an LSTM cell and of a GRU cell."""
    figure, (left, right) = _panels(2, 10, 3.1)
    _plot_lstm(left)
    _plot_gru(right)
    return figure


def _plot_encoder(panel, words, last_states):
    """Draws a bidirectional encoder; `last_states` are the two that the decoder gets."""
    for i, word in enumerate(words):
        x = 1.5 * i
        panel.text(x, -0.75, word, ha="center", va="center", fontsize=11)
        for y, text in ((0.3, "→"), (1.1, "←")):
            fill = GATE if (i, text) in last_states else SOURCE
            _box(panel, x, y, text, fill, 0.8, 0.55)
        _wire(panel, (x, -0.45), (x, 0.03))
        if i:
            _wire(panel, (x - 1.1, 0.3), (x - 0.4, 0.3))
            _wire(panel, (x - 0.4, 1.1), (x - 1.1, 1.1))


def _concatenated(panel, x, number):
    """Draws a frame around the two states of a word: their concatenation."""
    frame = FancyBboxPatch(
        (x - 0.5, -0.1),
        1.0,
        2.05,
        boxstyle="round,pad=0,rounding_size=0.1",
        facecolor="none",
        edgecolor=ORANGE,
        linewidth=1.4,
        zorder=4,
    )
    panel.add_patch(frame)
    panel.text(x, 1.63, rf"$\bar h_{number}$", ha="center", va="center", fontsize=11, zorder=4)


def _plot_decoder(panel, words, bottom=4.0):
    for i, word in enumerate(words):
        x = 1.5 * i
        _box(panel, x, bottom, f"$s_{i + 1}$", TARGET, 0.8, 0.6)
        _wire(panel, (x, bottom + 0.3), (x, bottom + 0.75))
        panel.text(x, bottom + 1.0, word, ha="center", va="center", fontsize=11)
        if i:
            _wire(panel, (x - 1.1, bottom), (x - 0.4, bottom))


def plot_encoder_decoders(source, target, weights):
    """Draws an encoder-decoder with a fixed vector, and one with attention.

    Args:
      source, target: words, as many of both.
      weights: of the source words at the last step of the right panel; drawn as line widths.
    """
    figure, (left, right) = _panels(2, 10, 3.9)
    last = len(source) - 1
    left.set_title("Fixed context vector", fontsize=13)
    _plot_encoder(left, source, {(last, "→"), (0, "←")})
    middle = 1.5 * last / 2
    _wire(left, (0, 1.38), (0, 2.5), (middle - 1.3, 2.5), color=ORANGE)
    end = 1.5 * last
    _wire(left, (end + 0.4, 0.3), (end + 0.8, 0.3), (end + 0.8, 2.5), (middle + 1.3, 2.5),
          color=ORANGE)  # fmt: skip
    _box(left, middle, 2.5, "one vector c", GATE, 2.6, 0.6)
    _wire(left, (middle, 2.8), (middle, 3.2), (-0.9, 3.2), (-0.9, 4.0), (-0.4, 4.0), color=ORANGE)
    _plot_decoder(left, target)

    right.set_title(f"Attention, at the step that writes “{target[-1]}”", fontsize=13)
    _plot_encoder(right, source, {(last, "→"), (0, "←")})
    _box(right, -0.7, 2.9, "c", GATE, 0.7, 0.6)
    _wire(right, (-0.7, 3.2), (-0.7, 4.0), (-0.4, 4.0), color=ORANGE)
    for i, weight in enumerate(weights):
        x = 1.5 * i
        _concatenated(right, x, i + 1)
        right.plot([x, end], [1.95, 2.8], color=ORANGE, linewidth=0.5 + 6 * weight, zorder=1)
    _operation(right, end, 2.9, "+")
    # The context vector passes the state, and joins it on the way to the word (Luong et al. 2015).
    beside = end - 0.62
    _wire(right, (end, 3.2), (end, 3.45), (beside, 3.45), (beside, 4.6), (end, 4.6), color=ORANGE)
    right.text(beside - 0.12, 3.45, f"$c_{last + 1}$", va="center", ha="right", fontsize=13)
    _wire(right, (end + 0.4, 4.0), (end + 0.9, 4.0), (end + 0.9, 2.3), (end + 0.2, 2.3),
          color=GREEN)  # fmt: skip
    right.text(end + 1.0, 3.0, f"query\n$s_{last + 1}$", va="center", fontsize=11, color=GREEN)
    _plot_decoder(right, target)
    for panel in (left, right):
        panel.set(xlim=(-1.3, end + 2.1), ylim=(-1.1, 5.3))
    return figure


def plot_sequence_to_sequence(source, target):
    """Draws two translators with one vector: of Sutskever et al. and of Cho et al. (2014)."""
    figure = Figure(figsize=(9, 5.2), dpi=80, layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(2, 3))
    _plot_sutskever(above, source, target)
    _plot_cho(below, source, target)
    for panel in (above, below):
        panel.set_axis_off()
        panel.set_aspect("equal")
    return figure


def _plot_sutskever(panel, source, target):
    panel.set_title("Sutskever et al.: c is where the decoder starts", fontsize=12)
    read = [*source, "[END]", *target]
    written = [""] * len(source) + [*target, "[END]"]
    for i, (below, above) in enumerate(zip(read, written)):
        x = 1.6 * i
        _box(panel, x, 0, "LSTM", TARGET if above else SOURCE, 1.1, 0.7, size=10)
        _wire(panel, (x, -0.9), (x, -0.35))
        panel.text(x, -1.15, below, ha="center", va="center", fontsize=11)
        if above:
            _wire(panel, (x, 0.35), (x, 0.9))
            panel.text(x, 1.15, above, ha="center", va="center", fontsize=11)
        if i:
            color = ORANGE if i == len(source) else "0.2"
            _wire(
                panel,
                (x - 1.05, 0),
                (x - 0.55, 0),
                color=color,
                width=2.2 if i == len(source) else 1.4,
            )
    x = 1.6 * len(source) - 0.5  # left of the arrow to the first word
    panel.text(x, 0.55, "the vector c", ha="right", color=ORANGE, fontsize=11)
    panel.set(xlim=(-0.8, 1.6 * len(read) - 0.8), ylim=(-1.5, 1.5))


def _plot_cho(panel, source, target):
    panel.set_title("Cho et al.: each step and each output of the decoder gets c", fontsize=12)
    for i, word in enumerate([*source, "[END]"]):
        x = 1.6 * i
        _box(panel, x, 0, f"$h_{i + 1}$", SOURCE, 1.0, 0.6)
        _wire(panel, (x, -0.8), (x, -0.3))
        panel.text(x, -1.05, word, ha="center", va="center", fontsize=11)
        if i:
            _wire(panel, (x - 1.1, 0), (x - 0.5, 0))
    end, first, bus = 1.6 * len(source), 1.6 * (len(source) + 1.6), 1.5
    _box(panel, end, bus, "c", GATE, 0.8, 0.6)
    _wire(panel, (end, 0.3), (end, bus - 0.3), color=ORANGE)
    last = first + 1.6 * len(target)
    _wire(panel, (end + 0.4, bus), (last + 0.3, bus), color=ORANGE, arrow=False)
    for i, word in enumerate([*target, "[END]"]):
        x = first + 1.6 * i
        _box(panel, x, 0, f"$s_{i + 1}$", TARGET, 1.0, 0.6)
        _wire(panel, (x, 0.3), (x, 2.35))
        _wire(panel, (x - 0.3, bus), (x - 0.3, 0.3), color=ORANGE)
        _wire(panel, (x + 0.3, bus), (x + 0.3, 2.35), color=ORANGE)
        panel.text(x, 2.65, word, ha="center", va="center", fontsize=11)
        if i:
            _wire(panel, (x - 1.1, 0), (x - 0.5, 0))
            _wire(panel, (x - 1.1, 2.65), (x - 0.8, 2.65), (x - 0.8, -0.8), (x, -0.8), (x, -0.3),
                  color="0.6", width=1.0)  # fmt: skip
    panel.set(xlim=(-0.8, last + 0.8), ylim=(-1.4, 3.0))


def plot_memory_and_self_attention():
    """Draws a memory network (Sukhbaatar et al. 2015) and structured self-attention (Lin 2017)."""
    figure, (left, middle, right) = _panels(3, 10, 2.7, (10.5, 7.4, 6.6))
    _plot_hops(middle)
    left.set_title("Memory network, one hop", fontsize=12)
    _box(left, 0.6, 1.6, "question u", TARGET, 2.0, 0.7, size=10)
    for i, weight in enumerate((0.1, 0.7, 0.2)):
        x = 3.0 + 2.0 * i
        _box(left, x, 0.6, f"$m_{i + 1}$", SOURCE, 0.9, 0.6)
        _box(left, x, 2.6, f"$c_{i + 1}$", SOURCE, 0.9, 0.6)
        left.plot([1.6, x], [1.6, 0.9], color=GREEN, linewidth=1, zorder=1)
        left.plot([x, 8.2], [2.9, 3.9], color=ORANGE, linewidth=0.5 + 6 * weight, zorder=1)
        left.text(x, -0.15, f"sentence {i + 1}", ha="center", fontsize=9)
    left.text(3.6, 1.6, "softmax of u · m", fontsize=10, color=GREEN, va="center")
    _operation(left, 8.3, 4.0, "+")
    _wire(left, (0.6, 1.95), (0.6, 4.0), (8.0, 4.0))
    _wire(left, (8.6, 4.0), (9.4, 4.0))
    left.text(9.0, 3.35, "next u", ha="center", fontsize=10)
    left.set(xlim=(-0.7, 9.8), ylim=(-0.5, 4.6))

    right.set_title("Structured self-attention, r = 2", fontsize=12)
    words = "I bought a car".split()
    rows = {"row 1": (0.1, 0.7, 0.1, 0.1), "row 2": (0.05, 0.05, 0.2, 0.7)}
    for i, word in enumerate(words):
        _box(right, 1.6 * i, 0.6, f"$h_{i + 1}$", SOURCE, 0.9, 0.6)
        right.text(1.6 * i, -0.15, word, ha="center", fontsize=10)
    for (name, weights), x, color in zip(rows.items(), (0.8, 4.0), (ORANGE, GREEN)):
        for i, weight in enumerate(weights):
            line = {"color": color, "linewidth": 0.5 + 6 * weight, "zorder": 1}
            right.plot([1.6 * i, x], [0.9, 3.2], **line)
        _box(right, x, 3.5, f"M, {name}", TARGET, 1.7, 0.6, size=10)
    right.set(xlim=(-0.9, 5.7), ylim=(-0.5, 4.6))
    return figure


def _plot_hops(panel):
    """Draws three hops of a memory network, with weights for illustration."""
    panel.set_title("Three hops", fontsize=12)
    hops = ((0.1, 0.7, 0.2), (0.6, 0.1, 0.3), (0.05, 0.05, 0.9))
    _wire(panel, (5.6, -0.6), (5.6, 4.9))
    for i, weights in enumerate(hops):
        y = 0.35 + 1.55 * i
        _operation(panel, 5.6, y, "+")
        panel.bar((0.5, 1.5, 2.5), weights, 0.7, bottom=y - 0.4, color=ORANGE)
        panel.plot((0, 3), (y - 0.4, y - 0.4), color="0.3", linewidth=1)
        _wire(panel, (3.3, y), (5.3, y), color=ORANGE)
        panel.text(5.75, y + 0.75, f"$u_{i + 2}$", fontsize=11)
    panel.text(5.75, -0.5, "$u_1$: question", fontsize=10)
    panel.text(5.6, 5.0, "answer", ha="center", fontsize=10)
    panel.text(1.5, -0.6, "weights of sentences 1 to 3", ha="center", fontsize=9)
    panel.set(xlim=(-0.2, 8.0), ylim=(-0.9, 5.4))


def _names(results):
    return list(dict.fromkeys(name for name, _ in results))


def plot_experiment(results, lengths, longest, chance):
    """Plots what three models get right over the length of a list.

    Args:
      results: a dict from (name, seed) to the marks of the words for each length, `(rows, n)`.
      lengths: of the lists.
      longest: length in the training.
      chance: fraction of the words that guessing gets right.
    """
    figure = Figure(figsize=(9.8, 4), dpi=80, layout="constrained")
    panels = figure.subplots(1, 2)
    measures = {"Words": np.mean, "Lists without any error": lambda m: m.all(axis=1).mean()}
    for panel, (title, measure) in zip(panels, measures.items()):
        for name, color, marker in zip(_names(results), COLORS, MARKERS):
            marks = [found for (other, _), found in results.items() if other == name]
            values = np.array([[measure(m) for m in found] for found in marks])  # (seeds, n)
            mean = values.mean(axis=0)
            spread = [mean - values.min(axis=0), values.max(axis=0) - mean]
            style = {"color": color, "marker": marker, "label": name, "capsize": 3}
            panel.errorbar(lengths, mean, spread, **style)
        panel.axvline(longest, color="0.4", linestyle="--")
        panel.text(longest - 0.2, 1.07, "longest in training", fontsize=9, ha="right", va="center")
        panel.set(xlabel="words in the list", ylim=(0, 1.12), xticks=lengths, title=title)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("fraction correct")
    panels[0].axhline(chance, color="0.4", linestyle=":")
    panels[1].legend(fontsize=9)
    return figure


def plot_learning(logs, chance):
    """Plots the accuracy of each run over its updates and over its CPU time.

    Args:
      logs: a dict from (name, seed) to rows (update, seconds, accuracy).
      chance: accuracy of guessing.
    """
    figure = Figure(figsize=(9.8, 3.8), dpi=80, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    styles = dict(zip(_names(logs), zip(COLORS, MARKERS)))
    for (name, _), rows in logs.items():
        color, marker = styles.pop(name, (None, None))
        label = name if color else None
        color = color or left.lines[-1].get_color()
        marker = marker or left.lines[-1].get_marker()
        updates, seconds, accuracy = np.transpose(rows)
        style = {"color": color, "marker": marker, "markersize": 4}
        left.plot(updates, accuracy, label=label, **style)
        right.plot(seconds, accuracy, **style)
    figure.suptitle("Learning: words of the longest lists")
    left.set(xlabel="updates", ylabel="fraction correct", ylim=(0, 1.05), xlim=0)
    left.set_title("by updates", fontsize=11)
    right.set(xlabel="CPU time, seconds", xlim=0)
    right.set_title("by time", fontsize=11)
    for panel in (left, right):
        panel.axhline(chance, color="0.4", linestyle=":")
        panel.grid(alpha=0.3)
    left.legend(fontsize=9)
    return figure


def plot_influence(maps):
    """Draws how target words change when a source word is replaced, a panel for each model.

    A frame marks the last row, of the moved word.
    """
    figure = Figure(figsize=(9.8, 3.7), dpi=80, layout="constrained")
    panels = figure.subplots(1, len(maps), sharey=True)
    for panel, (name, changes) in zip(panels, maps.items()):
        image = panel.imshow(changes, vmin=0, vmax=1, cmap="viridis")
        panel.set(title=name, xlabel="replaced source word")
        size = len(changes)
        panel.set_xticks(range(size), range(1, size + 1), fontsize=9)
        panel.set_yticks(range(size), range(1, size + 1), fontsize=9)
        outline = {"fill": False, "edgecolor": ORANGE, "linewidth": 2, "clip_on": False}
        panel.add_patch(Rectangle((-0.5, size - 1.5), size, 1, **outline))
    panels[0].set_ylabel("target word")
    figure.colorbar(image, ax=panels, label="change of the probabilities", shrink=0.85)
    return figure


def plot_relatives():
    """Draws local attention (Luong et al. 2015) and GNMT (Wu et al. 2016)."""
    figure, (left, right) = _panels(2, 9.5, 4.0)
    left.set_title("Local attention (local-p)", fontsize=12)
    positions = np.arange(11)
    p, d_window = 6.3, 2
    for x in positions:
        inside = abs(x - p) <= d_window
        _box(left, x, 0.4, "", ORANGE if inside else SOURCE, 0.7, 0.7)
        if inside:
            height = 1.8 * np.exp(-((x - p) ** 2) / (2 * (d_window / 2) ** 2))
            left.bar(x, height, 0.5, bottom=1.0, color=GREEN)
    fine = np.linspace(p - d_window, p + d_window, 60)
    left.plot(fine, 1 + 1.8 * np.exp(-((fine - p) ** 2) / 2), color="0.2", linewidth=1.2)
    left.annotate("", xy=(p - d_window, -0.5), xytext=(p + d_window, -0.5),
                  arrowprops={"arrowstyle": "<->", "color": "0.2"})  # fmt: skip
    left.text(p, -1.15, "window from $p_t - D$ to $p_t + D$", ha="center", fontsize=11)
    left.text(p, 3.1, "$p_t$: predicted position", ha="center", fontsize=11)
    left.text(1.5, 1.3, "source states", ha="center", fontsize=11)
    left.set(xlim=(-0.8, 10.8), ylim=(-3.0, 5.4))

    right.set_title("GNMT: 8 + 8 layers of LSTM", fontsize=12)
    for layer in range(8):
        y = 0.75 * layer
        text = "LSTM ⇄" if layer == 0 else "LSTM →"
        _box(right, 1.5, y, text, SOURCE, 2.2, 0.5, size=10)
        _box(right, 8.5, y, "LSTM →", TARGET, 2.2, 0.5, size=10)
        if layer:
            for x in (1.5, 8.5):
                _wire(right, (x, y - 0.5), (x, y - 0.25))
    right.text(1.5, -0.65, "encoder (lowest layer\nin both directions)", ha="center",
               va="top", fontsize=10)  # fmt: skip
    right.text(8.5, -0.65, "decoder", ha="center", va="top", fontsize=10)
    _box(right, 4.6, 2.6, "attention", ORANGE, 2.0, 0.6, size=11)
    _wire(right, (2.6, 5.25), (4.0, 5.25), (4.0, 2.9), color=ORANGE)
    right.text(2.8, 5.5, "top states", fontsize=10)
    _wire(right, (7.4, 0.0), (4.6, 0.0), (4.6, 2.3), color=GREEN)
    right.text(4.7, 0.15, "query", fontsize=10)
    _wire(right, (5.6, 2.6), (6.8, 2.6), arrow=False, color=ORANGE)
    for layer in range(1, 8):
        y = 0.75 * layer
        _wire(right, (6.8, 2.6), (6.8, y), (7.4, y), color=ORANGE, width=1.0)
    right.text(6.6, 4.1, "context to\nlayers 2 to 8", fontsize=10, va="center", ha="right")
    right.set(xlim=(-0.2, 10.2), ylim=(-1.8, 6.0))
    return figure


def plot_paths(count=9):
    """Draws how the last of some positions depends on the first, in four kinds of layer."""
    figure, panels = _panels(4, 10, 2.7)
    last = count - 1
    pairs = [(j, i) for i in range(count) for j in range(count)]
    chain = [(i, 0, i, 1) for i in range(count)] + [(i, 1, i + 1, 1) for i in range(last)]
    plans = {  # name: what the path needs, lines, rows of positions above the input
        "recurrent": (f"{last} steps", chain, 1),
        "convolution, k = 3": (f"{last // 2} layers", _neighbors(count, last // 2), last // 2),
        "dilated convolution, k = 3": ("2 layers", _dilated(count), 2),
        "self-attention": ("1 layer", [(j, 0, i, 1) for j, i in pairs], 1),
    }
    for panel, (name, (steps, lines, rows)) in zip(panels, plans.items()):
        panel.set_aspect("auto")
        panel.set_title(f"{name}\n{steps}", fontsize=11)
        path = _shortest(lines, last, rows)
        for x, y, end_x, end_y in lines:
            on_path = (x, y, end_x, end_y) in path
            panel.plot(
                [x, end_x],
                [y / rows, end_y / rows],
                color=ORANGE if on_path else "0.85",
                linewidth=2.5 if on_path else 0.7,
                zorder=2 if on_path else 1,
            )
        for row in range(rows + 1):
            panel.scatter(range(count), [row / rows] * count, s=28, color=BLUE, zorder=3)
        panel.text(0, -0.1, "first", ha="center", va="top", fontsize=10)
        panel.text(last, -0.1, "last", ha="center", va="top", fontsize=10)
        panel.set(xlim=(-0.9, last + 0.9), ylim=(-0.3, 1.08))
    return figure


def _neighbors(count, layers):
    return [
        (j, layer, i, layer + 1)
        for layer in range(layers)
        for i in range(count)
        for j in (i - 2, i - 1, i)
        if j >= 0
    ]


def _dilated(count):
    return [
        (j, layer, i, layer + 1)
        for layer, gap in enumerate((1, 3))
        for i in range(count)
        for j in (i, i - gap, i - 2 * gap)
        if j >= 0
    ]


def _shortest(lines, last, top):
    """A path of lines from the first position of row 0 to the last position of row `top`."""
    reached = {(0, 0): []}
    changed = True
    while changed:
        changed = False
        for line in lines:
            start, end = line[:2], line[2:]
            if start in reached and end not in reached:
                reached[end] = [*reached[start], line]
                changed = True
    return reached[(last, top)]
