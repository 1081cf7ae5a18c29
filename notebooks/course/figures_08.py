"""Drawings of notebook 08."""

from course.plots import COLORS, TOKEN_SIZE, labels

from matplotlib.figure import Figure
from matplotlib.lines import Line2D


def plot_lines_from(weights, tokens, query, title="", least=0.02):
    """Draws the weights of one query as lines, as in Figures 3 to 5 of the paper.

    Args:
      weights: `(H, S)`, of one query in each head; a head has a color.
      tokens: S sub-words.
      query: the index of the query.
      title: of the figure.
      least: weights below this number are not drawn.
    """
    figure = Figure(figsize=(10, 3.9), dpi=90, layout="constrained")
    panel = figure.subplots()
    for head, (row, color) in enumerate(zip(weights, COLORS)):
        for key, weight in enumerate(row):
            if weight >= least:
                shift = (head - (len(weights) - 1) / 2) * 0.12
                panel.plot(
                    [query + shift, key + shift],
                    [1, 0],
                    color=color,
                    alpha=float(min(1.0, 0.25 + weight)),
                    linewidth=0.6 + 5 * float(weight),
                )
    for place, token in enumerate(labels(tokens)):
        style = {"rotation": 90, "fontsize": TOKEN_SIZE, "ha": "center"}
        weight = "bold" if place == query else "normal"
        panel.text(place, 1.04, token, va="bottom", weight=weight, **style)
        panel.text(place, -0.04, token, va="top", **style)
    panel.set(xlim=(-0.8, len(tokens) - 0.2), ylim=(-0.75, 1.75))
    panel.set_axis_off()
    scale = f"width = weight, below {least} not drawn"
    panel.set_title(f"{title}\nquery (bold) above, keys below; {scale}", fontsize=10)
    lines = [Line2D([], [], color=COLORS[head], linewidth=3) for head in range(len(weights))]
    names = [f"head {head + 1}" for head in range(len(weights))]
    panel.legend(lines, names, ncols=len(lines), loc="lower center", fontsize=9)
    return figure
