"""The figures of notebook J."""

from course.plots import COLORS, MARKERS

import numpy as np
from matplotlib.figure import Figure

_LABELS = {  # shift in points and alignment of the points whose label is not below on the right
    "feed-forward, training": (0, 12, "right"),
    "attention without a table": (-40, -19, "left"),
}


def plot_rates(lengths, rates, medians):
    """Plots operations per second over the length of a sentence.

    Args:
      lengths: positions, one for each column.
      rates: a dict from layers to billions per second, of the fastest round.
      medians: the same of the median round, for the bars.
    """
    figure = Figure(figsize=(8.0, 4.0), dpi=80, layout="constrained")
    panel = figure.subplots()
    for (name, highest), color, marker in zip(rates.items(), COLORS, MARKERS):
        errors = [highest - medians[name], 0 * highest]
        panel.errorbar(lengths, highest, errors, color=color, marker=marker, capsize=3, label=name)
    panel.set_xscale("log", base=2)
    panel.set_xticks(lengths, lengths)
    panel.set(xlabel="positions n", ylabel="billion multiply-adds per second", ylim=(0, None))
    panel.set_title("Operations divided by time: fastest round (bars: down to the median)")
    panel.grid(alpha=0.3)
    panel.legend()
    return figure


def plot_roofline(work, speed, bandwidth):
    """Plots the highest possible rate over the arithmetic intensity, with work as labelled points.

    Args:
      work: a dict from names to FLOPs per byte.
      speed: FLOPs per second.
      bandwidth: bytes per second.
    """
    figure = Figure(figsize=(8.4, 4.4), dpi=80, layout="constrained")
    panel = figure.subplots()
    roof = np.array([0.5, speed / bandwidth, 2048])
    panel.plot(roof, np.minimum(speed, bandwidth * roof) / 1e12, color="0.4", zorder=1)
    for name, intensity in work.items():
        rate = min(speed, bandwidth * intensity) / 1e12
        color = COLORS[1] if "writing" in name else COLORS[0]
        panel.plot(intensity, rate, "o", color=color)
        x, y, side = _LABELS.get(name, (9, -5, "left"))
        panel.annotate(name, (intensity, rate), (x, y), textcoords="offset points", ha=side)
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.set_yscale("log")
    panel.set(ylim=(2, 2500), xlabel="arithmetic intensity, FLOPs per byte")
    panel.set(ylabel="highest possible rate, TFLOPS")
    panel.set_title("Roofline of an H200 in bfloat16 (orange: writing, blue: training)")
    panel.grid(alpha=0.3)
    return figure
