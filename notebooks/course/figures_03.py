"""The drawings of notebook 03. Each function returns a `matplotlib.figure.Figure`."""

from course import plots

import numpy as np
from matplotlib.figure import Figure


def plot_circles(frequencies, positions, start, shift):
    """Draws the pairs (sin, cos) of positions as points on circles, and a shift as a rotation.

    Args:
      frequencies: the angle of each pair for one position, in radians.
      positions: how many positions are drawn.
      start, shift: the arrow goes from position `start` to position `start + shift`.
    """
    count = len(frequencies)
    figure = Figure(figsize=(9.6, 9.6 / count + 0.9), dpi=90, layout="constrained")
    panels = figure.subplots(1, count)
    circle = np.linspace(0, 2 * np.pi, 200)
    for i, (panel, frequency) in enumerate(zip(panels, frequencies)):
        panel.plot(np.sin(circle), np.cos(circle), color="0.8", zorder=1)
        angles = frequency * np.arange(positions)
        xs, ys = np.sin(angles), np.cos(angles)
        panel.scatter(xs, ys, s=30, color=plots.COLORS[0], zorder=3)
        step = int(np.ceil(0.25 / frequency))  # of the labels, which must not overlap
        for position in range(0, positions, step):
            x, y = 1.17 * xs[position], 1.17 * ys[position]
            panel.text(x, y, str(position), ha="center", va="center", fontsize=9)
        ends = frequency * np.array([start, start + shift])
        arc = np.linspace(*ends, 60)
        panel.plot(0.8 * np.sin(arc), 0.8 * np.cos(arc), color=plots.COLORS[1], lw=2)
        for end in ends:
            xs, ys = [0, np.sin(end)], [0, np.cos(end)]
            panel.plot(xs, ys, color=plots.COLORS[1], lw=1)
        panel.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal")
        panel.set_xticks([-1, 0, 1])
        panel.set_yticks([-1, 0, 1])
        panel.set_xlabel(f"sin (column {2 * i})", fontsize=9)
        panel.set_ylabel(f"cos (column {2 * i + 1})", fontsize=9)
        angle = f"{shift} × {frequency:.3g} = {shift * frequency:.3g}"
        panel.set_title(f"pair {i}\n{angle} radians", fontsize=10)
    return figure


def plot_dot_products(products, positions):
    """Plots the dot products of some positions with all, by position and by distance.

    Args:
      products: of all pairs of positions, `[positions, positions]`.
      positions: those with a curve.
    """
    figure = Figure(figsize=(9.6, 3.6), dpi=90, layout="constrained")
    by_position, by_distance = figure.subplots(1, 2, sharey=True)
    every = np.arange(len(products))
    for position, color, style in zip(positions, plots.COLORS, ("-", "--", ":")):
        line = {"color": color, "linestyle": style, "linewidth": 2}
        by_position.plot(every, products[position], **line, label=f"position {position}")
        by_distance.plot(every - position, products[position], **line)
    by_position.set(xlabel="other position", ylabel="PE · PE", title="along the sentence")
    by_distance.set(xlabel="distance: other position - position", title="by distance")
    for panel in (by_position, by_distance):
        panel.grid(alpha=0.3)
    by_position.set_ylim(top=1.3 * products.max())  # space for the legend
    by_position.legend(ncols=len(positions), frameon=False, loc="upper center")
    return figure


def plot_shifts(shifts, accuracies, some_new, all_new):
    """Plots the accuracy over a shift of all positions.

    Args:
      shifts, accuracies: of the curve.
      some_new: the shift beyond which half of the sentences reach positions never seen.
      all_new: the shift from which all positions are new.
    """
    title, curve = "All positions shifted by the same number", {"right": (shifts, accuracies)}
    figure = plots.plot_curves(curve, "shift, positions", "accuracy", title, from_zero=True)
    (panel,) = figure.axes
    panel.set_xscale("symlog", linthresh=5)
    panel.set_xticks(shifts, shifts)
    end = 1.15 * shifts[-1]
    panel.axvspan(some_new, end, color="0.94", label="half of the sentences reach new positions")
    panel.axvspan(all_new, end, color="0.86", label="all positions new: never seen in training")
    panel.set_xlim(-0.3, end)
    panel.legend(loc="lower left")
    return figure
