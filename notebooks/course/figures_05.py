"""The drawings of notebook 05. Each function returns a `matplotlib.figure.Figure`."""

from course.plots import COLORS

import numpy as np
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN = COLORS[:3]


def _figure(width=7.5, height=3.8):
    figure = Figure(figsize=(width, height), dpi=80, layout="constrained")
    panel = figure.subplots()
    panel.grid(alpha=0.3)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    return figure, panel


def plot_targets(label, epsilons, vocab_size):
    """The smoothed target q of a label as bars, one panel for each epsilon.

    Args:
      label: its id.
      epsilons: of the label smoothing.
      vocab_size: the number of sub-words.
    """
    figure = Figure(figsize=(8.4, 3.2), dpi=80, layout="constrained")
    panels = figure.subplots(1, len(epsilons), sharey=True)
    for panel, e in zip(panels, epsilons):
        q = np.full(vocab_size, e / vocab_size)
        q[label] += 1 - e
        colors = [ORANGE if i == label else BLUE for i in range(vocab_size)]
        bars = panel.bar(range(vocab_size), q, color=colors)
        panel.bar_label(bars, [f"{value:.2g}" for value in q], padding=2, fontsize=9)
        panel.set(xlabel="sub-word (orange: the label)", title=f"epsilon = {e:g}", ylim=(0, 1.1))
        panel.set_xticks(range(vocab_size))
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    panels[0].set_ylabel("target q")
    figure.suptitle("The target of one position")
    return figure


def plot_smoothed_loss(p_label, losses):
    """Loss of a token against the probability of its label.

    Args:
      p_label: between 0 and 1, (n).
      losses: a dict from epsilon to the losses, (n).
    """
    figure, panel = _figure()
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


def plot_schedules(schedule):
    """Eq. 3 for three settings, each with its peak.

    Args:
      schedule: a class, such as `CustomSchedule`: `schedule(d_model, warmup_steps)(step)`.
    """
    figure, panel = _figure(8.4, 4.0)
    steps = np.arange(1, 24_001, 20, dtype=np.float32)
    settings = (  # name, width, warm-up, style, place of the name
        ("base: width 512, warm-up 4,000", 512, 4000, "-", (4300, 0.00071)),
        ("width 512, warm-up 8,000", 512, 8000, "-.", (8300, 0.00051)),
        ("big: width 1,024, warm-up 4,000", 1024, 4000, "--", (12_400, 0.00012)),
    )
    panel.axvspan(0, 4000, color="0.93", zorder=0)
    panel.text(2000, 0.00078, "warm-up", ha="center", fontsize=10, color="0.35")
    for (name, d_model, warmup, style, place), color in zip(settings, (BLUE, GREEN, ORANGE)):
        rate = schedule(d_model, warmup)
        peak = float(rate(np.float32(warmup)))
        panel.plot(steps, np.asarray(rate(steps)), style, color=color, linewidth=2)
        panel.plot(warmup, peak, "o", color=color)
        panel.text(*place, f"{name}\npeak {peak:.6f}", color=color)
    panel.set_xticks(range(0, 24_001, 4000), [f"{tick:,}" for tick in range(0, 24_001, 4000)])
    panel.set_title("The learning rate of Equation 3")
    panel.set(xlabel="update", ylabel="learning rate", xlim=(0, 24_000), ylim=(0, 0.00085))
    return figure


def plot_training(losses, validation, floor, guess):
    """The loss of each update, and that of unseen sentences.

    Args:
      losses: with smoothing, of all updates.
      validation: a dict from the update to the loss without smoothing.
      floor: the lowest possible loss with smoothing.
      guess: the loss of a guess with equal probabilities.
    """
    figure, panel = _figure(8.4, 4.0)
    panel.plot(np.arange(1, len(losses) + 1), losses, color=BLUE, alpha=0.3, linewidth=0.8)
    smooth = np.convolve(losses, np.ones(50) / 50, "valid")
    middle = np.arange(len(smooth)) + 25
    panel.plot(middle, smooth, color=BLUE, linewidth=2, label="training, with smoothing")
    panel.plot(
        *zip(*validation.items()), "-s", color=ORANGE, ms=4, label="unseen, without smoothing"
    )
    panel.axhline(guess, color="0.4", linestyle=":", label="a blind guess, ln V")
    panel.axhline(floor, color=BLUE, linestyle="--", linewidth=1, label="lowest with smoothing")
    panel.set(xlabel="update", ylabel="loss (nats per token)", title="Your first training")
    panel.set_ylim(bottom=0)
    panel.legend(frameon=False)
    return figure


def plot_averages(singles, averaged):
    """The loss of each checkpoint and of the averages that end with it.

    Args:
      singles: a dict from the update to the loss of its checkpoint.
      averaged: a dict from the update to the loss of the average of the last five.
    """
    figure, panel = _figure(8.4, 3.6)
    panel.plot(*zip(*singles.items()), "-o", color=BLUE, ms=4, label="checkpoint")
    panel.plot(*zip(*averaged.items()), "--s", color=ORANGE, ms=4, label="average of the last five")
    panel.set_yscale("log")  # a difference at the end is small beside the loss of the start
    ticks = [tick for tick in (0.2, 0.5, 1, 2, 5, 10) if panel.get_ylim()[0] < tick]
    panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.minorticks_off()
    panel.set(xlabel="update", ylabel="loss on unseen sentences\n(nats, logarithmic)")
    panel.set_title("One checkpoint, and the average of five")
    panel.set_ylim(top=10)  # the average of the first checkpoints may lie far above
    panel.legend(frameon=False)
    return figure
