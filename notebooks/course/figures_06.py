"""The drawings of notebook 06. Each function returns a `matplotlib.figure.Figure`."""

from course.plots import COLORS

import numpy as np
from matplotlib.figure import Figure

from tf_transformer import CustomSchedule

BLUE, ORANGE, GREEN, PINK = COLORS[:4]


def _figure(columns=1, width=7.5, height=3.8):
    figure = Figure(figsize=(width, height), dpi=80, layout="constrained")
    panels = list(figure.subplots(1, columns, squeeze=False)[0])
    for panel in panels:
        panel.grid(alpha=0.3)
    return figure, panels


def plot_padded_losses(losses, mask, rows):
    """The loss at each position of a batch.

    Args:
      losses: nats, (B, T).
      mask: (B, T), true for a token.
      rows: the sub-words of each sentence.
    """
    width = max(7.5, 0.68 * losses.shape[1] + 1)
    figure, (panel,) = _figure(1, width, 0.75 * len(losses) + 1.3)
    panel.grid(visible=False)
    image = panel.imshow(losses, cmap="cividis", vmin=0, aspect="auto")
    for (row, column), value in np.ndenumerate(losses):
        dark = value < 0.55 * losses.max()
        text = rows[row][column] if mask[row, column] else "[PAD]"
        panel.text(
            column,
            row,
            f"{text}\n{value:.2f}",
            ha="center",
            va="center",
            fontsize=9,
            color="white" if dark else "black",
        )
    panel.set_xticks(range(losses.shape[1]))
    panel.set_yticks(range(len(losses)), range(1, len(losses) + 1))
    panel.set(xlabel="target position", ylabel="sentence")
    panel.set_title("Label and its loss (nats)")
    figure.colorbar(image, ax=panel, label="nats", shrink=0.9)
    return figure


def plot_smoothed_loss(p_label, losses):
    """Loss of a token against the probability of its label.

    Args:
      p_label: between 0 and 1, (n).
      losses: a dict from epsilon to the losses, (n).
    """
    figure, (panel,) = _figure()
    odds = np.log(p_label / (1 - p_label))
    for (e, loss), color, style in zip(losses.items(), COLORS, ("-", "--", "-.")):
        panel.plot(odds, loss, style, color=color, label=f"epsilon = {e:g}")
        lowest = int(np.argmin(loss))
        if 0 < lowest < len(loss) - 1:
            panel.plot(odds[lowest], loss[lowest], "o", color=color)
    ticks = np.array([0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999])
    panel.set_xticks(np.log(ticks / (1 - ticks)), [f"{tick:g}" for tick in ticks])
    panel.set(xlabel="p(label), on a logit scale", ylabel="loss (nats)", ylim=(0, 6))
    panel.set_title("Loss of one token; dots: the minimum")
    panel.legend()
    return figure


def plot_overfitting(histories):
    """Training and validation loss by epoch, one panel for each dropout rate.

    Args:
      histories: a dict from the rate to the history of `fit`.
    """
    figure, panels = _figure(len(histories), 9, 3.8)
    top = max(max(run["val_loss"]) for run in histories.values())
    for panel, (rate, run) in zip(panels, histories.items()):
        epochs = np.arange(1, len(run["loss"]) + 1)
        panel.plot(epochs, run["val_loss"], "-s", color=ORANGE, ms=4, label="validation")
        panel.plot(epochs, run["loss"], "-o", color=BLUE, ms=4, label="training")
        best = int(np.argmin(run["val_loss"]))
        panel.axvline(best + 1, color="0.4", linestyle=":", label="lowest validation")
        panel.set(xlabel="epoch of 200 pairs", ylim=(0, top * 1.05))
        panel.set_title(f"dropout rate {rate}")
    panels[0].set_ylabel("loss (nats a token)")
    panels[0].legend(loc="center right")
    return figure


def plot_schedules():
    """Eq. 3: the two terms of the base model, and three settings."""
    figure, (left, right) = _figure(2, 8.8, 3.5)
    steps = np.arange(1, 20_001, 50, dtype=np.float32)
    rate = CustomSchedule(512, 4000)(steps).numpy()
    left.plot(steps, 512**-0.5 * steps * 4000**-1.5, "--", color=ORANGE, label="step · warmup^-1.5")
    left.plot(steps, 512**-0.5 * steps**-0.5, "-.", color=GREEN, label="step^-0.5")
    left.plot(steps, rate, color=BLUE, linewidth=2.5, label="the smaller one: lrate")
    left.axvline(4000, color="0.4", linestyle=":")
    left.set_title("The two terms (base, times 512^-0.5)")
    settings = (
        ("base: 512, warm-up 4,000", 512, 4000, "-"),
        ("big: 1,024, warm-up 4,000", 1024, 4000, "--"),
        ("512, warm-up 8,000", 512, 8000, "-."),
    )
    for (name, d_model, warmup, style), color in zip(settings, COLORS):
        values = CustomSchedule(d_model, warmup)(steps).numpy()
        right.plot(steps, values, style, color=color, label=name)
    right.set_title("d_model and warm-up")
    for panel in (left, right):
        ticks = range(0, 20_001, 5000)
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        panel.set(xlabel="update", ylabel="learning rate", ylim=(0, 0.001))
        panel.legend(fontsize=9)
    return figure


def plot_run(run):
    """Loss and gradient norm of each update.

    Args:
      run: losses and norms, (updates, 2).
    """
    figure, panels = _figure(2, 8.8, 3.0)
    names = ("loss with smoothing (nats a token)", "gradient norm")
    for panel, values, name, color in zip(panels, run.T, names, (BLUE, ORANGE)):
        panel.plot(np.arange(1, len(values) + 1), values, "-o", ms=3, color=color)
        panel.set(xlabel="update", ylabel=name)
        panel.set_ylim(bottom=0)
    return figure


def plot_averages(singles, averaged):
    """The loss of each checkpoint and of the averages that end with it.

    Args:
      singles: a dict from the update to the loss of its checkpoint.
      averaged: a dict from the update to the loss of the average of the last five.
    """
    figure, (panel,) = _figure()
    panel.plot(*zip(*singles.items()), "-o", color=BLUE, label="checkpoint")
    panel.plot(*zip(*averaged.items()), "--s", color=ORANGE, label="average of the last five")
    panel.set(xlabel="update", ylabel="validation loss (nats a token)")
    panel.set_ylim(bottom=0)
    panel.legend()
    return figure
