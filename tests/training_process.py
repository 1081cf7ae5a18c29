"""Training runs as separate processes: for kills, signals and other workers."""

import re
import subprocess
import sys

# A tiny model, and a run that logs every update. Some weights have gradients that are zero except
# for rounding. With Adam's default epsilon, 1e-9, their updates have the size of the learning rate
# and random signs: after 100 updates, two runs that differ by rounding differ by 1e-4 in the loss.
FLAGS = {
    "num_layers": 1,
    "d_model": 32,
    "num_heads": 2,
    "dff": 64,
    "vocab_size": 500,
    "batch_tokens": 1024,
    "max_length": 64,
    "precision": "float32",
    "warmup_steps": 100,
    "epsilon": 1e-6,
    "bleu_sentences": 4,
    "log_steps": 1,
}

LOG_LINE = re.compile(r"\d\d:\d\d:\d\d INFO step ([\d,]+) \|")


def train_command(folder, corpus_folder, flags):
    """Returns the command that trains in a model folder, as a list of strings."""
    flags = {**FLAGS, "data": corpus_folder, "model_dir": folder, **flags}
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    return [sys.executable, "-m", "tf_transformer", "train", *arguments]


def start_process(command, **options):
    """Starts a command with standard error merged into standard output, a text pipe.

    Log lines go to standard error, results such as the next commands to standard output.

    Args:
      command: a list of strings.
      **options: of `subprocess.Popen`.
    Returns: a `subprocess.Popen`.
    """
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )


def read_until(process, step):
    """Reads the output of a training process until it has made an update.

    Args:
      process: of `start_process`.
      step: the update.
    Returns: the text read, or None when the process ended before.
    """
    lines = []
    for line in process.stdout:
        lines.append(line)
        match = LOG_LINE.match(line)
        if match and int(match[1].replace(",", "")) >= step:
            return "".join(lines)
    return None
