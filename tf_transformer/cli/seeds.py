"""`train --seeds`: the same training with several random seeds, each in its own process."""

from __future__ import annotations

import logging
import os
import sys

from absl import flags

from tf_transformer.config import Config
from tf_transformer.errors import UserError
from tf_transformer.training.child_process import run_process
from tf_transformer.visualization.run_comparison import describe_runs, find_runs

logger = logging.getLogger(__name__)

OWN_FLAGS = ("seeds", "seed", "model_dir")  # that a process gets with other values, or not at all


def train_seeds(values: flags.FlagValues, config: Config, model_dir: str) -> None:
    """Trains a run in MODEL_DIR/seed-N for each seed N of --seeds, then compares the runs.

    Args:
      values: the flags of train.
      config: the settings of all runs, but for the seed.
      model_dir: the folder of all runs.
    Raises: UserError when the flags are not valid, or the training of a seed fails.
    """
    seeds = _parse_seeds(values, config)
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
    for number, (seed, folder) in enumerate(folders.items(), start=1):
        logger.info("seed %d, %d of %d", seed, number, len(seeds))
        ending = run_process([*program, *arguments, f"--seed={seed}", f"--model_dir={folder}"])
        if ending.interrupted:
            print("\nstopped and saved; the same command, without --overwrite, resumes the runs")
            return
        if ending.code:
            raise UserError(
                f"the training with seed {seed} failed: see the messages above; the same command, "
                "without --overwrite, resumes the runs"
            )
    if len(folders) > 1:
        print(f"\n{describe_runs(find_runs(list(folders.values())))}")


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
