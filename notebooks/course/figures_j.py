"""The figures of notebook J."""

from course.plots import COLORS, MARKERS

import numpy as np
from matplotlib.figure import Figure

_LABELS = {  # shift in points and alignment of the points whose label is not below on the right
    "feed-forward, training": (0, 12, "right"),
    "attention without a table": (-40, -19, "left"),
}


def plot_rates(lengths, rates, medians, times, crossings):
    """Plots operations per second, and the time, over the length of a sentence.

    Args:
      lengths: positions, one for each column.
      rates: a dict from layers to billions per second, of the fastest round.
      medians: the same of the median round, for the bars.
      times: a dict from layers to seconds, of the fastest round.
      crossings: a dict from names to the lengths at which two counts are equal.
    """
    figure = Figure(figsize=(10, 4.2), dpi=80, layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, highest), color, marker in zip(rates.items(), COLORS, MARKERS):
        style = {"color": color, "marker": marker, "label": name}
        left.errorbar(lengths, highest, [highest - medians[name], 0 * highest], capsize=3, **style)
        right.plot(lengths, 1000 * times[name], **style)
    for name, length in crossings.items():
        right.axvline(length, color="0.4", linestyle="--")
        right.text(length, 0.02, f" {name}", transform=right.get_xaxis_transform())
    for panel in (left, right):
        panel.set_xscale("log", base=2)
        panel.set_xticks(lengths, lengths)
        panel.set_xlabel("positions n")
        panel.grid(alpha=0.3)
    left.set(ylabel="billion multiply-adds per second", ylim=(0, None))
    left.set_title("Operations divided by time\n(fastest round; bars: down to the median)")
    right.set(ylabel="milliseconds", yscale="log")
    right.set_title("Time (dashed: the counts equal the LSTM's,\nmulti-head at 2d, Eq. 1 at 4d)")
    right.legend()
    return figure


def plot_shares(lengths, shares, equal):
    """Plots what share of the operations each part has, as stacked areas over the length.

    Args:
      lengths: numbers of sub-words.
      shares: a function of them; returns a dict from parts to percentages.
      equal: the length at which scores and sums are as many as the feed-forward layers.
    """
    figure = Figure(figsize=(8.0, 4.0), dpi=80, layout="constrained")
    panel = figure.subplots()
    parts = shares(lengths)
    order = ["scores and sums", "feed-forward", "projections", "logits"]
    panel.stackplot(lengths, [parts[part] for part in order], colors=COLORS, alpha=0.7)
    panel.text(2500, 15, order[0])
    for part, y in zip(order[1:], (20, 55, 85)):
        panel.text(20, y, part, va="center")
    panel.axvline(equal, color="0.2", linestyle="--")
    panel.text(equal, 101, f"equal to feed-forward: n = {equal:,.0f}", ha="center")
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.set(xlim=(lengths[0], lengths[-1]), ylim=(0, 100), xlabel="sub-words n")
    panel.set_ylabel("share of the operations, %")
    panel.set_title("Your base model: operations by the length n", pad=18)
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
