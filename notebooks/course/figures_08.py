"""The figures of notebook 08."""

from course.plots import COLORS, create_panels, draw_matrix, labels

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

SIZE = 11  # points of the tokens


def plot_heads(heads, queries, keys, high=1.0):
    """Draws the weights of some heads as maps, two in a row.

    Args:
      heads: a dict from titles to weights `(T, S)`; row t holds the weights of query t.
      queries, keys: the tokens of the rows and of the columns.
      high: the weight at the end of the color map.
    """
    width = 0.5 if len(heads) == 1 else 0.34  # inches of a column
    figure, panels = create_panels(
        len(heads), width * len(keys) + 1.4, width * len(queries) + 0.9, columns=2
    )
    for panel, (title, weights) in zip(panels, heads.items()):
        image = draw_matrix(panel, weights, queries, keys, 0.0, high, numbers=False)
        panel.set_title(title, fontsize=12)
        panel.tick_params(labelsize=SIZE)
    figure.colorbar(image, ax=panels, label="attention weight", shrink=0.6)
    return figure


def plot_lines_from(heads, words, query, title):
    """Draws the weights of one query as lines, as in Figures 3 to 5 of the paper.

    Args:
      heads: a dict from names to weights `(S)`, of the query in each head.
      words: S words.
      query: the index of the query.
      title: of the figure.
    """
    figure = Figure(figsize=(10, 4.6), dpi=90, layout="constrained")
    panel = figure.subplots()
    for i, (weights, color) in enumerate(zip(heads.values(), COLORS)):
        shift = (i - (len(heads) - 1) / 2) * 0.16
        for key, weight in enumerate(weights):
            if weight >= 0.05:
                ends = [query + shift, key + shift], [1, 0]
                alpha, width = float(min(1.0, 0.25 + weight)), 0.6 + 7 * float(weight)
                panel.plot(*ends, color=color, alpha=alpha, linewidth=width)
    for place, word in enumerate(labels(words)):
        style = {"rotation": 90, "fontsize": SIZE, "ha": "center"}
        bold = "bold" if place == query else "normal"
        panel.text(place, 1.05, word, va="bottom", weight=bold, **style)
        panel.text(place, -0.05, word, va="top", **style)
    panel.set(xlim=(-0.8, len(words) - 0.2), ylim=(-0.9, 2.2))
    panel.set_axis_off()
    panel.set_title(title, fontsize=12)
    lines = [Line2D([], [], color=color, linewidth=3) for color in COLORS[: len(heads)]]
    panel.legend(lines, heads, ncols=len(heads), loc="upper center", fontsize=SIZE)
    return figure
