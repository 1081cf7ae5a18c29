"""A copy of a model's training run that goes on in a process of its own, and that is killed: nothing of the model's folder is changed."""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import time

from tf_transformer.checkpoints.paths import checkpoint_step, find, step_checkpoints
from tf_transformer.errors import UserError

EVERY = 2  # updates between checkpoints
SMALL_BATCH = 1024  # most tokens in a batch
SECONDS = 600  # after which a run is given up


def first_checkpoint(folder, step):
    """The path of the first checkpoint of a run at an update or a later one; None where there is none."""
    return next((path for path in step_checkpoints(folder) if checkpoint_step(path) >= step), None)


@contextlib.contextmanager
def resumed_run(model_dir, folder, config, replicas, until):
    """Lets the run of a model go on in another folder, from its own newest checkpoint, on the processor, until the block is left.

    There is no end of the run, no validation and no average: when the block is left, the process is killed (SIGKILL).

    Args:
      model_dir: the model folder.
      folder: the copy's, made when it is not there; else the copy's run goes on.
      config: the model's `Config`.
      replicas: how many.
      until: the update whose checkpoint is wanted; where it is there already, nothing is started.
    Yields: a function that waits until there is a checkpoint of that update or a later one, and returns the path of the first; it
      raises UserError when the run ends before that.
    """
    config = config.replace(
        batch_tokens=max(min(config.data.batch_tokens, SMALL_BATCH), config.data.max_length), logical_devices=replicas,
        train_steps=10**9, train_minutes=0.0, early_stopping_patience=0, eval_steps=10**9, bleu_sentences=0, save_steps=EVERY, max_checkpoints=1000, log_steps=1,
        precision="float32", jit_compile="off",
    )  # fmt: skip
    if not os.path.exists(folder):
        _copy_run(model_dir, config, folder)
    if found := first_checkpoint(folder, until):
        yield lambda: found
        return
    with open(folder + ".log", "w") as log:
        process = subprocess.Popen(
            _command(config, folder), stdout=subprocess.DEVNULL, stderr=log, env=_environment()
        )
    try:
        yield lambda: _wait(process, folder, until)
    finally:
        process.kill()
        process.wait()


def _copy_run(model_dir, config, folder):
    """Copies settings, vocabulary and newest checkpoint; the ids of the text stay where they are."""
    newest, cache = find(model_dir, "latest"), os.path.join(model_dir, "cache")
    for part in ("checkpoints", "cache"):
        os.makedirs(os.path.join(folder, part))
    for path in [*pathlib.Path(model_dir).glob("*.model"), newest]:
        shutil.copy(path, os.path.join(folder, os.path.relpath(path, model_dir)))
    for name in os.listdir(cache) if os.path.isdir(cache) else ():
        os.symlink(os.path.abspath(os.path.join(cache, name)), os.path.join(folder, "cache", name))
    config.save(os.path.join(folder, "config.json"))


def _command(config, folder):
    settings = {
        key: value for part in dataclasses.asdict(config).values() for key, value in part.items()
    }
    flags = [
        f"--{key}={value}"
        for key, value in settings.items()
        if key not in ("input_vocab_size", "target_vocab_size")
    ]
    return [sys.executable, "-m", "tf_transformer", "train", f"--model_dir={folder}", *flags]


def _environment():
    """That of this process, with this package to be found and without GPUs and other machines."""
    package = str(pathlib.Path(__file__).parents[2])
    changes = {
        "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]),
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    return {key: value for key, value in (os.environ | changes).items() if key != "TF_CONFIG"}


def _wait(process, folder, until):
    started = time.monotonic()
    while not (found := first_checkpoint(folder, until)):
        if process.poll() is not None or time.monotonic() - started > SECONDS:
            log = pathlib.Path(folder + ".log").read_text(
                "utf-8", "replace"
            ).strip().splitlines() or ["it does not say why"]
            raise UserError(f"a training ended, or took more than {SECONDS} s: {log[-1]}")
        time.sleep(0.01)
    return found
