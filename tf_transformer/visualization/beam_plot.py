"""A beam search as a tree."""

from collections.abc import Sequence

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

ALIVE, ENDED, BEST = "0.45", COLORS[2], COLORS[1]
GAP = 0.15  # between the alive and the ended hypotheses, in rows

Hypothesis = tuple[Sequence[int], float]  # ids with the start token, log-probability in nats
Step = tuple[Sequence[Hypothesis], Sequence[Hypothesis]]  # alive, ended; best first


def plot_beam(
    steps: Sequence[Step], names: Names, best: Sequence[int] = (), title: str = ""
) -> Figure:
    """Plots a beam search as a tree: a column for each step, a row for each rank.

    Args:
      steps: for each step (alive, ended): the hypotheses that stay alive and those that end, best
        first, as (ids, log-probability in nats). The ids begin with the start token. Impossible
        hypotheses (see `decoding.scores.is_possible`) are left out.
      names: the text of each id.
      best: the ids of the highlighted hypothesis.
      title: of the figure.
    """
    alive, ended = _rows(steps)
    width = min(MAX_WIDTH, 1.4 + 1.15 * (len(steps) + 1))
    figure, (panel,) = create_panels(1, width, 1.1 + 0.52 * (alive + ended))
    draw_beam(panel, steps, names, best)
    panel.set_title(title)
    return figure


def draw_beam(panel: Axes, steps: Sequence[Step], names: Names, best: Sequence[int] = ()) -> None:
    """Draws a beam search as a tree. Args: as for `plot_beam`."""
    names = labels(names)
    best = tuple(best)
    beam_size, most_ended = _rows(steps)
    first_ended = beam_size + GAP if most_ended else beam_size
    places: dict[tuple[int, ...], tuple[int, float]] = {}  # ids -> step, row
    root = (tuple(steps[0][0][0][0][:1]), 0.0)
    for step, (alive, ended) in enumerate([([root], []), *steps]):
        rows: list[tuple[float, str, Hypothesis]] = []
        rows += [(row, ALIVE, hypothesis) for row, hypothesis in enumerate(_possible(alive))]
        rows += [(first_ended + i, ENDED, hypothesis) for i, hypothesis in enumerate(ended)]
        for row, color, (ids, log_prob) in rows:
            ids = tuple(ids)
            highlighted = ids == best[: len(ids)]
            color = BEST if highlighted else color
            if ids[:-1] in places:
                xs, ys = zip(places[ids[:-1]], (step, row))
                panel.plot(xs, ys, color=color, linewidth=2.5 if highlighted else 1, zorder=1)
            places[ids] = (step, row)
            _draw_hypothesis(
                panel, step, row, f"{names[ids[-1]]}\n{log_prob:.2f}", color, highlighted
            )
    ticks: list[tuple[float, str]] = [(row, str(row + 1)) for row in range(beam_size)]
    if most_ended:
        panel.axhline(beam_size - 0.43, color="0.7", linestyle="--", linewidth=1)
        ticks.append((first_ended + (most_ended - 1) / 2, "ended"))
    panel.set_yticks(*zip(*ticks))
    panel.set_xticks(range(len(steps) + 1))
    panel.set(xlim=(-0.55, len(steps) + 0.55), ylim=(first_ended + most_ended - 0.4, -0.55))
    panel.set(
        xlabel="step (sub-words written)", ylabel="rank among the hypotheses\nthat have not ended"
    )
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def _possible(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    return [(ids, log_prob) for ids, log_prob in hypotheses if is_possible(log_prob)]


def _rows(steps: Sequence[Step]) -> tuple[int, int]:
    """The largest number of alive hypotheses of a step, and of those that end."""
    alive = max(len(_possible(alive)) for alive, _ in steps)
    return alive, max(len(ended) for _, ended in steps)


def _draw_hypothesis(
    panel: Axes, step: int, row: float, text: str, color: str, highlighted: bool
) -> None:
    box = {
        "boxstyle": "round,pad=0.22",
        "facecolor": "white",
        "edgecolor": color,
        "linewidth": 2 if highlighted else 1,
    }
    panel.text(step, row, text, ha="center", va="center", fontsize=TOKEN_SIZE, bbox=box)
