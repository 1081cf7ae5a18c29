"""Training runs: in this process, and as processes of their own for kills and other workers."""

import re
import subprocess
import sys

import numpy as np

from tf_transformer.checkpoints.model_folder import read_metrics
from tf_transformer.data.readers import corpus_of_run
from tf_transformer.training.distribution import Workers, make_strategy
from tf_transformer.training.run_directory import RunDirectory
from tf_transformer.training.trainer import Trainer

# A tiny model, and a run that logs every update. Some weights have gradients that are zero except
# for rounding. With Adam's default epsilon, 1e-9, their updates have the size of the learning rate
# and random signs: after 100 updates, two runs that differ by rounding differ by 1e-4 in the loss.
FLAGS = {
    "num_layers": 1, "d_model": 32, "num_heads": 2, "dff": 64, "vocab_size": 500,
    "batch_tokens": 1024, "max_length": 64, "precision": "float32", "warmup_steps": 100,
    "epsilon": 1e-6, "bleu_sentences": 4, "log_steps": 1,
}  # fmt: skip

# The program of `stopped`.
STOPPED = """
import itertools, signal
from tf_transformer.__main__ import run
from {module} import {owner}
calls, method = itertools.count(), {owner}.{name}
def stopping(*arguments, **options):
    for each in {signals} if next(calls) == {number} else []:
        signal.raise_signal(each)
    return method(*arguments, **options)
{owner}.{name} = stopping
run()
"""

LOG_LINE = re.compile(r"\d\d:\d\d:\d\d INFO step ([\d,]+) \|")


def make_trainer(config, folder, trainer=Trainer, directory=RunDirectory):
    """A run as of `build_trainer`, of other classes."""
    workers = Workers(make_strategy(config.train.logical_devices))
    return trainer(config, corpus_of_run(config.data), directory(str(folder)), workers)


def arrays(path, prefix=""):
    """The arrays of a checkpoint whose names have a prefix, by the rest of their names."""
    with np.load(path) as file:
        names = [name for name in file.files if name.startswith(prefix)]
        return {name.removeprefix(prefix): file[name] for name in names}


def values_of(update):
    """The values of the variables of an `Update`, and the state of its loss scale."""
    variables = [*update.model.variables, *update.optimizer.variables]
    return [variable.numpy() for variable in variables], update.loss_scale.state()


def assert_unchanged(update, expected):
    """An `Update` has these `values_of`, to the last bit."""
    values, scale = values_of(update)
    assert scale == expected[1]
    for left, right in zip(values, expected[0], strict=True):
        assert left.tobytes() == right.tobytes()


def assert_same_arrays(path, expected_path):
    """Two checkpoints are equal to the last bit: weights, optimizer and training state."""
    found, expected = arrays(path), arrays(expected_path)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=f"{path} {name}")


def losses(folder):
    """Step, kind, loss and BLEU of each line of the metrics of a run."""
    return [
        (line["step"], line["kind"], line["loss"], line.get("BLEU"))
        for line in read_metrics(str(folder))
    ]


def train_command(folder, corpus_folder, flags):
    """Returns the command that trains in a model folder, as a list of strings."""
    flags = {**FLAGS, "data": corpus_folder, "model_dir": folder, **flags}
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    return [sys.executable, "-m", "tf_transformer", "train", *arguments]


def stopped(command, method, number, *signals):
    """Returns this command, of a process that sends itself signals before a call of a method.

    Args:
      command: of `train_command`.
      method: the function in its class.
      number: of the call, from 0.
      *signals: in their order.
    """
    owner, name = method.__qualname__.split(".")
    program = STOPPED.format(
        module=method.__module__,
        owner=owner,
        name=name,
        number=number,
        signals=[*map(int, signals)],
    )
    return [command[0], "-c", program, *command[3:]]


def start_process(command, **options):
    """Starts a command with standard error merged into standard output, a text pipe."""
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )


def read_until(process, step):
    """Reads the output of a training process until it has made an update.

    Returns: the text read, or None when the process ended before.
    """
    lines = []
    for line in process.stdout:
        lines.append(line)
        match = LOG_LINE.match(line)
        if match and int(match[1].replace(",", "")) >= step:
            return "".join(lines)
    return None
