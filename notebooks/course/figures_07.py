"""Drawings of notebook 07."""

from matplotlib.figure import Figure

from tf_transformer.visualization.plots import COLORS, TOKEN_SIZE, labels

ALIVE, FINISHED, BEST = "0.45", COLORS[2], COLORS[1]


def plot_beam_tree(history, names, best=(), title=""):
    """Draws a beam search as a tree, with the root, and the finished hypotheses below.

    Args:
      history: for each step (alive, ended): lists of (prefix, log-probability), best first.
        A prefix is a list of ids that begins with the start token.
      names: the text of each id.
      best: the prefix of the returned hypothesis, drawn in orange.
      title: of the figure.
    """
    beam_size = max(len(alive) for alive, _ in history)
    ends = max(len(ended) for _, ended in history)
    width = min(10.0, 1.4 + 1.15 * (len(history) + 1))
    figure = Figure(figsize=(width, 1.1 + 0.52 * (beam_size + ends)), dpi=90, layout="constrained")
    panel = figure.subplots()
    names = labels(names)
    places = {}
    for step, (alive, ended) in enumerate([([(history[0][0][0][0][:1], 0.0)], [])] + history):
        rows = [*alive, *ended]
        for row, (prefix, log_prob) in enumerate(rows):
            prefix = tuple(prefix)
            is_end = row >= len(alive)
            place = (step, beam_size + 0.15 + row - len(alive) if is_end else row)
            on_best_path = prefix == tuple(best[: len(prefix)])
            color = BEST if on_best_path else FINISHED if is_end else ALIVE
            if prefix[:-1] in places:
                xs, ys = zip(places[prefix[:-1]], place)
                panel.plot(xs, ys, color=color, linewidth=2.5 if on_best_path else 1, zorder=1)
            places[prefix] = place
            panel.text(
                *place,
                f"{names[prefix[-1]]}\n{log_prob:.2f}",
                ha="center",
                va="center",
                fontsize=TOKEN_SIZE,
                bbox={
                    "boxstyle": "round,pad=0.22",
                    "facecolor": "white",
                    "edgecolor": color,
                    "linewidth": 2 if on_best_path else 1,
                },
            )
    bottom = beam_size + ends - 0.4
    if ends:
        panel.axhline(beam_size - 0.43, color="0.7", linestyle="--", linewidth=1)
    ticks = list(range(beam_size))
    ranks = [str(rank + 1) for rank in ticks]
    if ends:
        ticks.append(beam_size + 0.15 + (ends - 1) / 2)
        ranks.append("ended")
    panel.set_yticks(ticks, ranks)
    panel.set(xlim=(-0.55, len(history) + 0.55), ylim=(bottom + 0.15, -0.55))
    panel.set(xlabel="step (sub-words written)", ylabel="rank among the alive", title=title)
    panel.set_xticks(range(len(history) + 1))
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    return figure
