"""A copy of a training run that continues in another process, which can be killed.

Nothing in the model folder of the original run is changed. `python -m
tf_transformer.paper.resumed_run FOLDER` is that other process.
"""

import contextlib
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from tf_transformer.checkpoints.model_folder import checkpoint_step, find, step_checkpoints
from tf_transformer.config import Config
from tf_transformer.errors import UserError

SAVE_STEPS = 2  # updates between checkpoints
MAX_BATCH_TOKENS = 1024  # of one side of a batch, unless a single sentence may be longer
TIMEOUT = 600  # seconds to wait for a checkpoint


@contextlib.contextmanager
def resumed_run(
    model_dir: str, folder: str, config: Config, replicas: int, until: int
) -> Iterator[Callable[[], str]]:
    """Resumes a run from its newest checkpoint, in another folder and on the CPU.

    The copied run neither ends nor validates nor averages. When the block is left, its process is
    killed (SIGKILL).

    Args:
      model_dir: the model folder.
      folder: the folder of the copy, created where it does not exist; otherwise its run resumes.
      config: the `Config` of the model.
      replicas: number of replicas.
      until: the update whose checkpoint is wanted. If the checkpoint exists, no process is started.
    Yields: a function that waits for the checkpoint of that update or of a later one, and returns
      the path of the first of them. It raises UserError when the process ends before.
    """
    if not os.path.exists(folder):
        _copy_run(model_dir, folder)
    if path := _first_checkpoint(folder, until):
        yield lambda: path
        return
    _endless(config, replicas).save(os.path.join(folder, "config.json"))
    with open(f"{folder}.log", "w") as log:
        command = [sys.executable, "-m", "tf_transformer.paper.resumed_run", folder]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=log, env=_environment()
        )
    try:
        yield lambda: _wait(process, folder, until)
    finally:
        process.kill()
        process.wait()


def _endless(config: Config, replicas: int) -> Config:
    """The `Config` of the copied run: it only trains and writes checkpoints, and never ends."""
    batch_tokens = min(config.data.batch_tokens, MAX_BATCH_TOKENS)
    never = 10**9
    return config.replace(
        batch_tokens=max(batch_tokens, config.data.max_length),
        logical_devices=replicas,
        train_steps=never,
        train_minutes=0.0,
        early_stopping_patience=0,
        eval_steps=never,
        bleu_sentences=0,
        save_steps=SAVE_STEPS,
        max_checkpoints=1000,
        log_steps=1,
        precision="float32",
        jit_compile="off",
    )


def _first_checkpoint(folder: str, step: int) -> str | None:
    """The path of the first checkpoint of an update or a later one; None where there is none."""
    for path in step_checkpoints(folder):
        if checkpoint_step(path) >= step:
            return path
    return None


def _copy_run(model_dir: str, folder: str) -> None:
    """Copies the vocabulary and the newest checkpoint, and links the encoded text."""
    for part in ("checkpoints", "cache"):
        os.makedirs(os.path.join(folder, part))
    vocabularies = map(str, pathlib.Path(model_dir).glob("*.model"))
    for path in [*vocabularies, find(model_dir, "latest")]:
        shutil.copy(path, os.path.join(folder, os.path.relpath(path, model_dir)))
    cache = os.path.abspath(os.path.join(model_dir, "cache"))
    if os.path.isdir(cache):
        for name in os.listdir(cache):
            os.symlink(os.path.join(cache, name), os.path.join(folder, "cache", name))


def _environment() -> dict[str, str]:
    """This process's environment, with this package in the path, without GPUs or other workers."""
    package = str(pathlib.Path(__file__).parents[2])
    environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    environment["PYTHONPATH"] = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    environment["CUDA_VISIBLE_DEVICES"] = "-1"
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    return environment


def _wait(process: subprocess.Popen[bytes], folder: str, until: int) -> str:
    """Waits for a checkpoint; see `resumed_run`."""
    started = time.monotonic()
    while not (path := _first_checkpoint(folder, until)):
        if process.poll() is not None or time.monotonic() - started > TIMEOUT:
            log = pathlib.Path(f"{folder}.log").read_text("utf-8", "replace")
            lines = log.strip().splitlines() or ["it wrote no message"]
            raise UserError(f"a training run ended, or took more than {TIMEOUT} s: {lines[-1]}")
        time.sleep(0.01)
    return path


def train(folder: str) -> None:
    """Trains in a folder with the settings in its `config.json`; the work of the other process."""
    from tf_transformer.training.distribution import split_cpu
    from tf_transformer.training.trainer import build_trainer

    logging.basicConfig(level=logging.INFO)
    config = Config.load(os.path.join(folder, "config.json"))
    split_cpu(config.train.logical_devices)
    try:
        build_trainer(config, folder).run()
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    train(sys.argv[1])
