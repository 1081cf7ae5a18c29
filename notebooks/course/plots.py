"""The plots of the notebooks. Each function returns one `matplotlib.figure.Figure`.

The color maps are viridis for sequential values and PuOr for signed values; the colors of
categories are those of Okabe and Ito. Readers with a color vision deficiency can distinguish all
of them. Lines differ in their markers too. A figure is at most `MAX_WIDTH` wide, which is the width
of a notebook.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike

Names = Sequence[Any]  # of rows, columns or bars; tokens, numbers or strings
Numbers = Sequence[float] | np.ndarray

COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"]
MARKERS = "osD^vPX*"
HIDDEN = "0.85"  # the color of keys that a mask hides
MAX_WIDTH = 10.0  # inches of a figure, at 90 dots per inch
TOKEN_SIZE = 9  # points of the tokens on the axes
MAX_CELLS_WITH_NUMBERS = 160  # larger matrices are drawn without their values

ALIVE, ENDED, BEST = "0.45", COLORS[2], COLORS[1]
IMPOSSIBLE = -1e8  # nats; the search gives -1e9 to what cannot be
GAP = 0.15  # between the alive and the ended hypotheses, in rows
BEND = 0.36  # from the middle of a box to the slope of an edge, in steps

Hypothesis = tuple[Sequence[int], float]  # ids with the start token, log-probability in nats
Step = tuple[Sequence[Hypothesis], Sequence[Hypothesis]]  # alive, ended; best first


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


def draw_matrix(
    panel: Axes,
    values: ArrayLike,
    rows: Names | None = None,
    columns: Names | None = None,
    low: float | None = None,
    high: float | None = None,
    numbers: bool | str | None = None,
    hidden: ArrayLike | None = None,
) -> AxesImage:
    """Draws a heat map with tokens on its axes, and the values in the cells of a small matrix.

    Args: as for `plot_matrix`; hidden: a mask that broadcasts to the values. Where it is 1, the
      cell has the color `HIDDEN` and no value.
    Returns: the image.
    """
    values = np.asarray(values)
    if hidden is not None:
        values = np.where(np.asarray(hidden) == 1, np.nan, values)
    signed = np.nanmin(values) < 0 if low is None else low < 0
    if high is None:
        high = max(float(np.nanmax(np.abs(values))), 1e-9)
    if low is None:
        low = -high if signed else 0.0
    if numbers is None:
        numbers = values.size <= MAX_CELLS_WITH_NUMBERS
    image = panel.imshow(
        values,
        cmap=colormaps["PuOr" if signed else "viridis"].with_extremes(bad=HIDDEN),
        vmin=low,
        vmax=high,
        aspect="equal",
        interpolation="nearest",
    )
    _set_labels(panel.yaxis, rows, values.shape[0])
    _set_labels(panel.xaxis, columns, values.shape[1])
    panel.tick_params(length=0, labelsize=TOKEN_SIZE)
    if columns is not None and max(len(str(name)) for name in columns) > 3:
        # The end of a rotated label is below the middle of its column.
        panel.set_xticks(
            panel.get_xticks(), labels(columns), rotation=60, ha="right", rotation_mode="anchor"
        )
    if numbers:
        form = numbers if isinstance(numbers, str) else ""
        _draw_numbers(panel, values.astype(float), low, high, signed, form)
    return image


def separate_cells(panel: Axes, rows: int, columns: int) -> None:
    """Draws white lines between the cells of a matrix."""
    panel.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    panel.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    panel.grid(which="minor", color="white")
    panel.tick_params(which="both", length=0)


def _set_labels(axis: Axis, names: Names | None, length: int) -> None:
    if names is None:
        axis.set_ticks([])
    else:
        axis.set_ticks(range(length), labels(names))


def _draw_numbers(
    panel: Axes, values: np.ndarray, low: float, high: float, signed: bool, form: str
) -> None:
    """Writes the values into the cells, in white on dark colors."""
    for (row, column), value in np.ndenumerate(np.round(values, 2) + 0.0):  # -0.0 becomes 0.0
        if np.isnan(value):
            continue
        shade = (value - low) / (high - low)
        is_dark = abs(shade - 0.5) > 0.35 if signed else shade < 0.6
        if form:
            text = f"{value:{form}}"
        elif float(value).is_integer() and abs(value) >= 10:
            text = f"{value:.0f}"
        else:
            text = f"{value:.2f}".rstrip("0").rstrip(".") or "0"
        color = "white" if is_dark else "black"
        panel.text(column, row, text, ha="center", va="center", fontsize=8, color=color)


def plot_matrix(
    values: ArrayLike,
    rows: Names | None = None,
    columns: Names | None = None,
    title: str = "",
    label: str = "",
    low: float | None = None,
    high: float | None = None,
    numbers: bool | str | None = None,
) -> Figure:
    """Plots a matrix as a heat map.

    Args:
      values: `[R, C]`.
      rows, columns: names of the rows and columns, such as tokens.
      title: of the figure.
      label: of the color bar; without a label there is no color bar.
      low, high: values at the ends of the color map; by default those of the matrix, symmetric
        around 0 where the matrix has negative values.
      numbers: whether to write the values into the cells, or their format, such as ".2f"; by
        default they are written for small matrices.
    """
    height, width = (min(9.0, max(2.0, 1.2 + 0.45 * cells)) for cells in np.shape(values))  # inches
    height += _space_for(columns)
    width += _space_for(rows)
    if label:
        width += 1
    figure, (panel,) = create_panels(1, max(width, 0.1 * len(title)), height)
    image = draw_matrix(panel, values, rows, columns, low, high, numbers)
    panel.set_title(title)
    if label:
        figure.colorbar(image, ax=panel, label=label, shrink=0.8)
    return figure


def _space_for(names: Names | None) -> float:
    """Inches that long names of rows or columns need beside the matrix."""
    longest = max((len(str(name)) for name in names), default=0) if names is not None else 0
    return max(0.0, 0.085 * longest - 0.8)


def plot_product(*parts: Any) -> Figure:
    """Plots matrices with signs between them, as in "X W = Q"; all cells have one size.

    Args:
      *parts: tuples (name, `[R, C]`), optionally followed by the names of the rows and of the
        columns; and strings such as "×", "=" and "softmax". Small matrices get numbers. The
        colors of a matrix named "weights" go from 0 to 1, those of others to its maximum.
    """
    widths = [_width_of_part(part) for part in parts]  # in cells
    tallest = max(np.shape(part[1])[0] for part in parts if not isinstance(part, str))
    named = sum(not isinstance(part, str) and len(part) > 2 for part in parts)
    margins = 0.2 * len(parts) + 0.5 * named + 0.3  # inches
    cell = min(0.5, (MAX_WIDTH - margins) / sum(widths))  # inches
    size = (cell * sum(widths) + margins, cell * tallest + 1.2)
    figure = Figure(figsize=size, dpi=90, layout="constrained")
    panels = figure.subplots(1, len(parts), width_ratios=widths, squeeze=False)[0]
    for panel, part in zip(panels, parts):
        if isinstance(part, str):
            _draw_sign(panel, part)
            continue
        name, values, rows, columns = (*part, None, None)[:4]
        values = np.asarray(values)
        with_numbers = values.size <= MAX_CELLS_WITH_NUMBERS and cell > 0.35
        limits = (0.0, 1.0) if name == "weights" else (None, None)
        draw_matrix(panel, values, rows, columns, *limits, numbers=with_numbers)
        panel.set_title(name, fontsize=11)
        panel.set_xlabel(f"{values.shape[0]} × {values.shape[1]}", fontsize=9)
    return figure


def _width_of_part(part: Any) -> float:
    """The width, in cells, of a matrix or of a sign of `plot_product`."""
    if isinstance(part, str):
        return max(0.5, 0.2 * max(len(line) for line in part.split("\n")))
    return max(np.shape(part[1])[1], 1.5)


def _draw_sign(panel: Axes, text: str) -> None:
    size = 16 if len(text) == 1 else 10  # points
    panel.set_axis_off()
    panel.text(0.5, 0.5, text, fontsize=size, ha="center", va="center", transform=panel.transAxes)


def plot_positional_encoding(encoding: ArrayLike, columns: Sequence[int]) -> Figure:
    """Plots PE as a heat map, and some of its columns as curves beside it (Section 3.5).

    Args:
      encoding: `[positions, d_model]`.
      columns: numbers of the columns with a curve.
    """
    encoding = np.asarray(encoding)
    figure = Figure(figsize=(9.6, 4.5), dpi=90, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
    image = left.imshow(
        encoding, cmap="PuOr", vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
    )
    left.set(xlabel="column (sines even, cosines odd)", ylabel="position in the sentence")
    left.set_title("each row is a vector")
    for column, color, style in zip(columns, COLORS, ("-", "--", ":", "-.")):
        line = {"color": color, "linestyle": style, "label": f"column {column}"}
        right.plot(encoding[:, column], range(len(encoding)), **line)
    right.set(xlabel="PE(position, column)", title="some columns", xlim=(-1.1, 1.1))
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=9)
    figure.colorbar(image, ax=left, label="PE(position, column)", location="left")
    return figure


def plot_curves(
    series: Mapping[str, tuple[Numbers, Numbers]],
    x: str,
    y: str,
    title: str = "",
    log: str = "",
    levels: Mapping[str, float] = MappingProxyType({}),
    marks: Mapping[str, float] = MappingProxyType({}),
    from_zero: bool = False,
) -> Figure:
    """Plots lines over a common axis.

    Args:
      series: a dict from the name of a line to its xs and ys. A name that begins with "_" does not
        appear in the legend.
      x, y: names of the axes, with units.
      title: of the figure.
      log: the logarithmic axes: "", "x", "y" or "xy".
      levels: a dict from a name to the y of a horizontal dashed line, such as chance.
      marks: a dict from a name to the x of a vertical dotted line, such as the longest sentence.
      from_zero: whether the vertical axis starts at 0.
    """
    figure, (panel,) = create_panels(1, 7.5, 4.2)
    for (name, (xs, ys)), color, marker in zip(series.items(), COLORS * 9, MARKERS * 9):
        spacing = max(1, len(xs) // 20)
        panel.plot(xs, ys, label=name, color=color, marker=marker, markevery=spacing, markersize=5)
    if "x" in log:
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if "y" in log:
        panel.set_yscale("log")
    for name, level in levels.items():
        panel.axhline(level, label=name, color="0.4", linestyle="--")
    for name, mark in marks.items():
        panel.axvline(mark, label=name, color="0.4", linestyle=":")
    if from_zero:
        panel.set_ylim(bottom=0)
    panel.set(xlabel=x, ylabel=y, title=title)
    panel.grid(alpha=0.3)
    names = [*series, *levels, *marks]
    if len(names) > 1 and any(not name.startswith("_") for name in names):
        panel.legend(framealpha=1)
    return figure


def plot_batch(ids: ArrayLike, title: str = "") -> Figure:
    """Plots the tokens and the padding of a batch.

    Args:
      ids: `[B, S]`, 0 for padding.
      title: of the figure.
    """
    ids = np.asarray(ids)
    height = min(5.0, 2.0 + 0.04 * ids.shape[0])
    width = min(8.0, 4.5 + 0.05 * ids.shape[1])
    figure, (panel,) = create_panels(1, width, height)
    panel.imshow(ids == 0, cmap="cividis", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    fractions = f"{np.mean(ids != 0):.0%} tokens (dark), {np.mean(ids == 0):.0%} padding (light)"
    panel.set(xlabel="position", ylabel="sentence", title=f"{title}\n{fractions}")
    panel.locator_params(integer=True)
    return figure


def plot_beam(
    steps: Sequence[Step], names: Names, best: Sequence[int] = (), title: str = ""
) -> Figure:
    """Plots a beam search as a tree: a column for each step, a row for each rank.

    Args:
      steps: for each step (alive, ended): the hypotheses that stay alive and those that end, best
        first, as (ids, log-probability in nats). The ids begin with the start token. Hypotheses
        below `IMPOSSIBLE` are left out.
      names: the text of each id.
      best: the ids of the highlighted hypothesis.
      title: of the figure.
    """
    beam_size, most_ended = _rows(steps)
    width = min(MAX_WIDTH, 1.4 + 1.15 * (len(steps) + 1))
    figure, (panel,) = create_panels(1, width, 1.1 + 0.52 * (beam_size + most_ended))
    panel.set_title(title)
    names = labels(names)
    best = tuple(best)
    first_ended = beam_size + GAP if most_ended else beam_size
    places: dict[tuple[int, ...], float] = {}  # ids -> row
    root = (tuple(steps[0][0][0][0][:1]), 0.0)
    for step, (alive, ended) in enumerate([([root], []), *steps]):
        rows: list[tuple[float, str, Hypothesis]] = []
        rows += [(row, ALIVE, hypothesis) for row, hypothesis in enumerate(_possible(alive))]
        rows += [(first_ended + i, ENDED, hypothesis) for i, hypothesis in enumerate(ended)]
        for row, color, (ids, log_prob) in rows:
            ids = tuple(ids)
            highlighted = ids == best[: len(ids)]
            color = BEST if highlighted else color
            if ids[:-1] in places:  # an edge slopes between the boxes and is level behind them
                xs = step - 1, step - 1 + BEND, step - BEND, step
                ys = places[ids[:-1]], places[ids[:-1]], row, row
                line = {"linewidth": 2.5, "zorder": 2} if highlighted else {"linewidth": 1}
                panel.plot(xs, ys, color=color, **line)
            places[ids] = row
            _draw_hypothesis(
                panel, step, row, f"{names[ids[-1]]}\n{log_prob:.2f}", color, highlighted
            )
    ticks: list[tuple[float, str]] = [(row, str(row + 1)) for row in range(beam_size)]
    if most_ended:
        panel.axhline(beam_size - 0.43, color="0.7", linestyle="--", linewidth=1)
        ticks.append((first_ended + (most_ended - 1) / 2, "ended"))
    panel.set_yticks(*zip(*ticks))
    panel.set_xticks(range(len(steps) + 1))
    panel.set(xlim=(-0.45, len(steps) + 0.45), ylim=(first_ended + most_ended - 0.4, -0.55))
    panel.set(
        xlabel="step (sub-words written)", ylabel="rank among the hypotheses\nthat have not ended"
    )
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    return figure


def _possible(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    return [(ids, log_prob) for ids, log_prob in hypotheses if log_prob > IMPOSSIBLE]


def _rows(steps: Sequence[Step]) -> tuple[int, int]:
    """The largest number of alive hypotheses of a step, and of those that end."""
    alive = max(len(_possible(alive)) for alive, _ in steps)
    return alive, max(len(ended) for _, ended in steps)


def _draw_hypothesis(
    panel: Axes, step: int, row: float, text: str, color: str, highlighted: bool
) -> None:
    box = {
        "boxstyle": "round,pad=0.2",
        "facecolor": "white",
        "edgecolor": color,
        "linewidth": 2 if highlighted else 1,
    }
    panel.text(step, row, text, ha="center", va="center", fontsize=8, bbox=box)
