"""The drawings of notebook C. Each function returns a `matplotlib.figure.Figure`."""

from course.plots import create_panels, draw_matrix, plot_curves, separate_cells

import numpy as np


def plot_heads(rows, columns, heads, title):
    """Draws the attention of one head in several files.

    Args:
      rows, columns: what is read and predicted, and the sub-words; T and S of them.
      heads: a dict from the name of a panel to weights (T, S).
      title: of the figure.
    """
    figure, panels = create_panels(len(heads), 4.9, 4.3)
    for panel, (name, weights) in zip(panels, heads.items()):
        draw_matrix(panel, weights, rows, columns, 0.0, 1.0, numbers=False)
        panel.set_title(name)
    image = panels[-1].images[0]
    figure.colorbar(image, ax=panels, label="attention weight", shrink=0.7)
    figure.suptitle(title)
    return figure


def plot_copying(losses):
    """Draws the losses of the copying task, and the lowest possible one.

    Args:
      losses: a dict from the name of a file to the losses of 300 updates.
    """
    updates = np.arange(5, 300, 10)  # the middle of ten
    lines = {name: (updates, np.reshape(line, (-1, 10)).mean(1)) for name, line in losses.items()}
    label, other = 0.9 + 0.1 / 14, 0.1 / 14  # the smoothed target of 14 ids
    levels = {"lowest possible": -label * np.log(label) - 13 * other * np.log(other)}
    names = "update", "loss (nats)", "The copying task"
    return plot_curves(lines, *names, levels=levels, from_zero=True)


def plot_findings(findings, rounding):
    """Draws which invariant each file breaks.

    Args:
      findings: a dict from the name of a file to a dict from the invariant to its difference.
      rounding: the largest difference that counts as zero.
    """
    invariants = list(next(iter(findings.values())))
    values = np.array([[row[name] for name in invariants] for row in findings.values()])
    figure, (panel,) = create_panels(1, 9.5, 5.2)
    is_broken = values > rounding
    panel.imshow(is_broken, cmap="cividis", vmin=-0.6, vmax=1.2, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if is_broken[row, column]:
            panel.text(column, row, f"{value:.2g}", ha="center", va="center", fontsize=9)
    panel.set_xticks(range(len(invariants)), invariants, rotation=30, ha="right")
    panel.set_yticks(range(len(findings)), list(findings))
    separate_cells(panel, *values.shape)
    panel.set_title("Light: the file breaks the invariant, by this difference")
    return figure
