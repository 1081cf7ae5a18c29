"""`train --seeds`: the same training with several random seeds, each in its own process."""

from __future__ import annotations

import logging
import os
import sys

from absl import flags

from tf_transformer.checkpoints.initial_model import initial_name
from tf_transformer.cli.failures import SIGNAL
from tf_transformer.config import Config
from tf_transformer.data.corpus_names import absolute_path
from tf_transformer.errors import UserError
from tf_transformer.training.child_process import Ending, run_process
from tf_transformer.visualization.run_comparison import describe_runs, find_runs, read_run

logger = logging.getLogger(__name__)

RESUMING = "the same command resumes the runs"
RESUMING_NEW = (
    "the same command without --overwrite resumes the runs, and keeps those that were not replaced"
)
OWN_FLAGS = ("seeds", "seed", "model_dir")  # that a process gets with other values, or not at all


def train_seeds(values: flags.FlagValues, config: Config, model_dir: str) -> int:
    """Trains a run in MODEL_DIR/seed-N for each seed N of --seeds, then compares the runs.

    A run that is complete is not started again: it would train for --train_minutes once more.

    Args:
      values: the flags of train.
      config: the settings of all runs, but for the seed.
      model_dir: the folder of all runs.
    Returns: the exit code.
    Raises: UserError when the flags are not valid, or the training of a seed fails.
    """
    seeds = _parse_seeds(values, config)
    if os.path.isfile(model_dir):
        raise UserError(f"--model_dir={model_dir} is a file: give a folder for the runs")
    if os.path.exists(os.path.join(model_dir, "config.json")):
        raise UserError(
            f"{model_dir} is the model folder of one run: give another --model_dir for the folder "
            "of all seeds"
        )
    folders = {seed: os.path.join(model_dir, f"seed-{seed}") for seed in seeds}
    arguments = [
        values[name].serialize()
        for name in values
        if values[name].present and name not in OWN_FLAGS
    ]
    program = [sys.executable, "-m", "tf_transformer", "train"]
    advice = RESUMING_NEW if values.overwrite else RESUMING
    for number, (seed, folder) in enumerate(folders.items(), start=1):
        if not values.overwrite and _is_complete(folder, config.replace(seed=seed)):
            logger.info("seed %d, %d of %d, is complete", seed, number, len(seeds))
            continue
        logger.info("seed %d, %d of %d", seed, number, len(seeds))
        ending = run_process([*program, *arguments, f"--seed={seed}", f"--model_dir={folder}"])
        complete = not values.overwrite and _is_complete(folder, config.replace(seed=seed))
        if ending.interrupted and complete:
            print(f"\nstopped; the run with seed {seed} is complete; {RESUMING}")
            return 0
        # A process that gets a signal itself saves, and ends with code 0 too.
        if ending.interrupted or ending.code or not read_run(folder).complete:
            return _stop(seed, ending, advice)
    if len(folders) > 1:
        print(f"\n{describe_runs(find_runs(list(folders.values())))}")
    return 0


def _is_complete(folder: str, config: Config) -> bool:
    """Whether the run in a folder has these settings and has reached its end."""
    try:
        run = read_run(folder)
        sizes = run.config.model.input_vocab_size, run.config.model.target_vocab_size
        config = config.with_vocabularies(*sizes).replace(data=absolute_path(config.data.data))
        initial = run.config.train.init_from
        if initial_name(initial) == initial_name(config.train.init_from):
            config = config.replace(init_from=initial)
    except UserError:  # there is no run, or one of other settings, which its process will refuse
        return False
    return run.complete and run.config == config


def _stop(seed: int, ending: Ending, advice: str) -> int:
    """Says how the training with a seed ended, which did not reach its end.

    Args:
      seed: the seed.
      ending: of its process.
      advice: how to go on.
    Returns: the exit code.
    Raises: UserError when it failed.
    """
    code = SIGNAL - ending.code if ending.code < 0 else ending.code  # a signal ended the process
    if not code:
        print(f"\nstopped and saved; {advice}")
    elif ending.interrupted and code > SIGNAL:
        print(f"\nstopped; the training with seed {seed} was not saved now; {advice}")
    else:
        raise UserError(f"the training with seed {seed} failed: see the messages above; {advice}")
    return code


def _parse_seeds(values: flags.FlagValues, config: Config) -> list[int]:
    """The numbers of --seeds. Raises: UserError when they are not valid."""
    for name in ("seed", "dry_run"):
        if values[name].present:
            raise UserError(f"--seeds and --{name}: give one of them")
    if "TF_CONFIG" in os.environ:
        raise UserError("--seeds is for one host: unset TF_CONFIG")
    texts = values.seeds.split(",")
    try:
        seeds = [int(text) for text in texts]
    except ValueError:
        raise UserError(f"--seeds={values.seeds}: give whole numbers, such as 1,2,3") from None
    if len(set(seeds)) < len(seeds):
        raise UserError(f"--seeds={values.seeds}: each seed once")
    for seed in seeds:
        config.replace(seed=seed)  # which checks the range
    return seeds
