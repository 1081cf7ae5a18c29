"""What notebook F shows: kinds of errors, and drawings as `matplotlib.figure.Figure`."""

from course.plots import COLORS, plot_curves

import collections
import re

from matplotlib.figure import Figure

from tf_transformer.visualization.history import read_history

_ARTICLES = set("der die das den dem des ein eine einen einem einer eines".split())  # of German


def kinds_of_error(source, translation, reference):
    """The classes of a wrong translation, by comparing its words with the reference."""
    find_words = re.compile(r"\w+").findall
    ours, right = find_words(translation), find_words(reference)
    our_counts, right_counts = collections.Counter(ours), collections.Counter(right)
    extra, missing = set(our_counts - right_counts), set(right_counts - our_counts)
    names = missing & set(find_words(source))  # the same word in both languages

    def beginning(word):
        return "an article" if word.lower() in _ARTICLES else word[:3].lower()

    beginnings = set(map(beginning, missing - names))
    forms = {word for word in extra if beginning(word) in beginnings}
    classes = {
        "a name is wrong or missing": names,
        "another form (first 3 letters equal) or article": forms,
        "another word than the reference": len(extra) > len(forms) + len(names),
        "fewer words than the reference": len(ours) < len(right),
        "more words than the reference": len(ours) > len(right),
        "same words in another order": not extra and not missing,
    }
    return [name for name, applies in classes.items() if applies]


def plot_kinds(counts, total, x):
    """Plots numbers as horizontal bars, with the percentage of `total` beside each.

    Args:
      counts: a dict from the name of a bar to its number.
      total: the number that is 100%.
      x: name of the axis.
    """
    figure = Figure(figsize=(8.0, 0.5 * len(counts) + 0.9), dpi=90)
    figure.set_layout_engine("constrained")
    panel = figure.subplots()
    bars = panel.barh(list(counts), list(counts.values()), color=COLORS[0], height=0.6)
    beside = [f"{number} ({number / total:.0%})" for number in counts.values()]
    panel.bar_label(bars, beside, padding=4)
    panel.set(xlabel=x, xlim=(0, 1.3 * max([1, *counts.values()])))
    panel.invert_yaxis()
    panel.grid(axis="x", alpha=0.3)
    return figure


def plot_losses(model_dir):
    """Plots the training and the validation loss over the updates of a run."""
    names = {"train": "training, with label smoothing", "validation": "validation"}
    series = {}
    for kind, name in names.items():
        lines = read_history(model_dir)[kind]
        series[name] = [line["step"] for line in lines], [line["loss"] for line in lines]
    return plot_curves(series, "updates", "loss, nats per sub-word", from_zero=True)
