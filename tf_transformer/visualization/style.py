"""Colors, sizes and labels of all plots.

The colors of categories are those of Okabe and Ito. Readers with a color vision deficiency can
distinguish all of them.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

Names = Sequence[Any]  # of rows, columns or bars; tokens, numbers or strings

COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"]
MARKERS = "osD^vPX*"
HATCHES = ["", "//", "..", "xx"]
MAX_WIDTH = 10.0  # inches of a figure, at 90 dots per inch
TOKEN_SIZE = 9  # points of the tokens on the axes


def create_panels(
    count: int, width: float, height: float, columns: int = 4
) -> tuple[Figure, list[Axes]]:
    """Creates a figure with several panels.

    Args:
      count: the number of panels.
      width, height: of a panel, in inches.
      columns: the number of panels in a row, at most.
    Returns: the figure; a list of its axes.
    """
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = Figure(figsize=(columns * width, rows * height), dpi=90, layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in axes[count:]:
        panel.set_axis_off()
    return figure, axes[:count]


def labels(names: Names) -> list[str]:
    """Replaces SentencePiece's "▁", the start of a word, which is hardly visible, by "_"."""
    return [str(name).replace("\u2581", "_") for name in names]
