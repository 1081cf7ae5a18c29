"""Trainings as processes of their own, for what happens to processes: kills, signals, other machines."""

import re
import sys

# A tiny model, and a run whose every update prints a line.
FLAGS = {
    "num_layers": 1, "d_model": 32, "num_heads": 2, "dff": 64, "vocab_size": 500, "batch_tokens": 1024, "max_length": 64,
    "precision": "float32", "warmup_steps": 100, "bleu_sentences": 4, "log_steps": 1,
}  # fmt: skip


def train_command(folder, corpus_folder, flags):
    """The words that train in a model folder."""
    flags = {**FLAGS, "data": corpus_folder, "model_dir": folder, **flags}
    return [
        sys.executable,
        "-m",
        "tf_transformer",
        "train",
        *(f"--{name}={value}" for name, value in flags.items()),
    ]


def read_until(process, step):
    """Reads what a training prints until it has made an update. Returns: it, or None when the training ended before."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        found = re.match(r"step ([\d,]+) \|", line)
        if found and int(found[1].replace(",", "")) >= step:
            return "".join(lines)
    return None
