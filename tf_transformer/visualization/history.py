"""The history of a training run, from the `metrics.jsonl` of its folder: as a table, and as a picture."""

import datetime

from tf_transformer.checkpoints.paths import read_metrics
from tf_transformer.errors import UserError

ROWS = 12  # of the table


def read_history(model_dir):
    """The lines of `metrics.jsonl` by kind: a dict of lists for "train", "validation" and "average".

    Raises: UserError when there is nothing.
    """
    lines = read_metrics(model_dir)
    if not lines:
        raise UserError(
            f"{model_dir} has no history (no metrics.jsonl): train first, or give another --model_dir"
        )
    return {
        kind: [line for line in lines if line["kind"] == kind]
        for kind in ("train", "validation", "average")
    }


def describe_history(model_dir):
    """A table of the loss, the speed and the scores over the updates, with some `ROWS` rows, as text. Raises: as `read_history`."""
    history = read_history(model_dir)
    train, validations = history["train"], history["validation"]
    lines = [line for kind in history.values() for line in kind]
    first, last = (
        datetime.datetime.fromtimestamp(end(line["time"] for line in lines)) for end in (min, max)
    )
    steps = max(line["step"] for line in lines)
    text = [
        f"  history          {steps:,} updates, {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
    ]
    skipped = train[-1].get("skipped_updates", 0) if train else 0
    if skipped:
        text[0] += f"; {skipped:,} skipped for gradients that are not finite"
    text.append(
        f"    {'step':>9} {'loss':>7} {'rate':>9} {'tokens/s':>9}   {'valid. loss':>11} {'perplexity':>10} {'BLEU':>6}"
    )
    marks = sorted({line["step"] for line in validations or train})
    chosen = (
        {marks[round(i * (len(marks) - 1) / (ROWS - 1))] for i in range(ROWS)} if marks else set()
    )
    for step in sorted(chosen):
        before = [line for line in train if line["step"] <= step]
        at = [line for line in validations if line["step"] == step]
        text.append(_row(f"{step:,}", before[-1] if before else None, at[-1] if at else None))
    for line in history["average"][-1:]:
        text.append(_row("average", None, line))
    return "\n".join(text)


def _row(name, train, validation):
    left, right = f"{'':7} {'':9} {'':9}", ""
    if train:
        left = f"{train['loss']:7.3f} {train['learning_rate']:9.2e} {train['target_tokens_per_second']:9,.0f}"
    if validation:
        bleu = f"{validation['BLEU']:6.2f}" if "BLEU" in validation else ""
        right = f"{validation['loss']:11.3f} {validation['perplexity']:10.2f} {bleu}"
    return f"    {name:>9} {left}   {right}".rstrip()


def plot_history(model_dir, path):
    """Draws loss, BLEU, learning rate and tokens per second over the updates into a PNG. Raises: as `read_history`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    history = read_history(model_dir)
    figure, panels = pyplot.subplots(2, 2, figsize=(11, 7), sharex=True, layout="constrained")
    figure.suptitle(model_dir)
    drawings = (
        (panels[0, 0], "loss (nats a token)", "loss", ("train", "validation", "average")),
        (panels[0, 1], "BLEU of greedy translations", "BLEU", ("validation", "average")),
        (panels[1, 0], "learning rate (Eq. 3)", "learning_rate", ("train",)),
        (panels[1, 1], "target tokens a second", "target_tokens_per_second", ("train",)),
    )
    looks = {"train": "C0-", "validation": "C1.-", "average": "C2*"}
    labels = {
        "train": "training (label smoothing included)",
        "validation": "validation",
        "average": "averaged checkpoints",
    }
    for panel, title, name, kinds in drawings:
        panel.set_title(title)
        for kind in kinds:
            lines = [line for line in history[kind] if name in line]
            if lines:
                panel.plot(
                    [line["step"] for line in lines],
                    [line[name] for line in lines],
                    looks[kind],
                    label=labels[kind],
                )
        panel.grid(alpha=0.3)
        if panel.lines and len(kinds) > 1:
            panel.legend()
        elif not panel.lines:
            panel.text(0.5, 0.5, "not measured", transform=panel.transAxes, ha="center")
    for panel in panels[1]:
        panel.set_xlabel("updates")
    panels[1, 1].set_ylim(bottom=0)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
