"""The figure of notebook 01."""

from course import plots

from matplotlib.figure import Figure


def plot_what_is_remembered(lengths, accuracies, chance, weights, rows, columns):
    """Plots how much two models remember of a list, and where one of them looks.

    Args:
      lengths: of the lists.
      accuracies: a dict from the name of a model to a fraction for each length.
      chance: the fraction that guessing gets right.
      weights: of attention, for one list, `[T, S]`.
      rows, columns: their names.
    """
    figure = Figure(figsize=(9.8, 4.4), dpi=90, layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, values), color, marker in zip(accuracies.items(), plots.COLORS, plots.MARKERS):
        left.plot(lengths, values, color=color, marker=marker, linewidth=2)
        above = {"xytext": (0, 9), "textcoords": "offset points"}
        left.annotate(name, (lengths[2], values[2]), color=color, fontsize=11, **above)
    left.axhline(chance, color="0.4", linestyle=":")
    left.text(lengths[0], chance + 0.02, "guessing", color="0.4", fontsize=9)
    left.set(xlabel="words in the list", ylabel="fraction of the words that are right")
    left.set(ylim=(0, 1.1), xticks=lengths, title="What is remembered")
    left.grid(alpha=0.3)
    image = plots.draw_matrix(right, weights, rows, columns, low=0, high=1, numbers=False)
    right.set(title="Where attention looks", xlabel="the list", ylabel="reads → writes")
    figure.colorbar(image, ax=right, label="attention weight", shrink=0.8)
    return figure
