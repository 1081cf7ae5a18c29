"""A beam search as a tree."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tf_transformer.decoding.scores import is_possible
from tf_transformer.visualization.style import (
    COLORS,
    MAX_WIDTH,
    TOKEN_SIZE,
    Names,
    create_panels,
    labels,
)

Numbers = Sequence[float] | np.ndarray


def plot_beam(steps: Sequence[tuple[Names, Numbers, Numbers]], best: Sequence[int] = ()) -> Figure:
    """Plots a beam search as a tree: a column for each step, a row for each rank in the beam.

    Args:
      steps: for each step (tokens, beam_indices, log_probs) of the alive hypotheses, best first:
        the last token, the row of the hypothesis in the step before, and the log-probability in
        nats. Impossible hypotheses (see `decoding.scores.is_possible`) are left out.
      best: the row of the highlighted hypothesis in each step, from the first step on.
    """
    rows = max(sum(map(is_possible, log_probs)) for _, _, log_probs in steps)
    width = min(MAX_WIDTH, 1.1 * (len(steps) + 1) + 0.5)
    figure, (panel,) = create_panels(1, width, 0.75 * rows + 0.7)
    draw_beam(panel, steps, best)
    return figure


def draw_beam(
    panel: Axes, steps: Sequence[tuple[Names, Numbers, Numbers]], best: Sequence[int] = ()
) -> None:
    """Draws a beam search as a tree. Args: as for `plot_beam`."""
    rows = max(sum(map(is_possible, log_probs)) for _, _, log_probs in steps)
    columns = len(steps) + 1
    _draw_hypothesis(panel, 0, 0, "[START]", COLORS[1] if best else "0.45")
    for step, (tokens, beam_indices, log_probs) in enumerate(steps, start=1):
        for row, (token, parent, log_prob) in enumerate(
            zip(labels(tokens), beam_indices, log_probs)
        ):
            if not is_possible(log_prob):
                continue
            highlighted = step <= len(best) and best[step - 1] == row
            color = COLORS[1] if highlighted else "0.45"
            width = 2.5 if highlighted else 1
            parent = parent if step > 1 else 0  # the root
            panel.plot([step - 1, step], [parent, row], color=color, linewidth=width, zorder=1)
            _draw_hypothesis(panel, step, row, f"{token}\n{log_prob:.2f}", color)
    panel.set(xlim=(-0.6, columns - 0.4), ylim=(rows - 0.4, -0.6))
    panel.set(xlabel="step", ylabel="rank in the beam")
    panel.set_xticks(range(columns))
    panel.set_yticks(range(rows), [str(row + 1) for row in range(rows)])


def _draw_hypothesis(panel: Axes, step: int, row: int, text: str, color: str) -> None:
    box = {"boxstyle": "round", "facecolor": "white", "edgecolor": color}
    panel.text(step, row, text, ha="center", va="center", fontsize=TOKEN_SIZE, bbox=box)
