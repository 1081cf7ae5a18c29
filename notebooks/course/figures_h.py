"""The drawings of notebook H. Each function returns a `matplotlib.figure.Figure`."""

from course.plots import COLORS, create_panels

import numpy as np


def plot_latency(lengths, times):
    """The time to each answer against its length, with a straight line.

    Args:
      lengths: sub-words of each translation.
      times: ms.
    Returns: the figure; ms of a translation without sub-words; ms for each sub-word.
    """
    slope, start = np.polyfit(lengths, times, 1)
    figure, (panel,) = create_panels(1, 7.5, 3.8)
    panel.plot(lengths, times, "o", alpha=0.6, color=COLORS[0])
    for end, side in ((min(lengths), "left"), (max(lengths), "right")):
        text = f"{end} sub-words:\n{start + slope * end:.0f} ms"
        panel.annotate(text, (end, start + slope * end), (0, 14), textcoords="offset points",
                       ha=side, color=COLORS[1])  # fmt: skip
    ends = np.array([min(lengths), max(lengths)])
    panel.plot(ends, start + slope * ends, color=COLORS[1])
    panel.set_ylim(0, 1.25 * max(times))
    panel.set(xlabel="sub-words in the translation", ylabel="fastest of three answers, ms",
              title="40 sentences, one at a time: time and length")  # fmt: skip
    panel.grid(alpha=0.3)
    return figure, start, slope


def plot_throughput(series):
    """Sentences per second, with a number at each point.

    Args:
      series: a dict from a name to the numbers of sentences at the same time and the throughputs.
    """
    figure, (panel,) = create_panels(1, 7.5, 3.8)
    highest = np.max([rates for _, rates in series.values()], axis=0)
    for (name, (counts, rates)), color, marker in zip(series.items(), COLORS, "os"):
        panel.plot(counts, rates, marker=marker, color=color, label=name)
        for count, rate, top in zip(counts, rates, highest):
            panel.annotate(f"{rate:.0f}", (count, rate), (0, 8 if rate == top else -16),
                           color=color, textcoords="offset points", ha="center")  # fmt: skip
    panel.set_xscale("log", base=2)
    panel.set_xticks(counts, map(str, counts))
    panel.set_ylim(0, 1.2 * max(max(rates) for _, rates in series.values()))
    panel.set(xlabel="sentences at the same time", ylabel="sentences per second",
              title="Throughput for 48 sentences, sent in two ways")  # fmt: skip
    panel.grid(alpha=0.3)
    panel.legend(loc="lower right")
    return figure
