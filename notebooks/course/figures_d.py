"""The figures of notebook D."""

from course.plots import create_panels, draw_matrix

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
