"""`train --seeds`: the same training with several random seeds, each in its own process.

With --parallel_seeds, several processes train at the same time, each on its share of the cores: one
training of a small model does not keep several cores busy.
"""

from __future__ import annotations

import logging
import os
import signal
import sys

from absl import flags

from tf_transformer.checkpoints.model_folder import CONFIG, initial_name
from tf_transformer.cli.command import given_arguments, one_of
from tf_transformer.cli.messages import SIGNAL
from tf_transformer.cli.terminal import has_nvidia_device
from tf_transformer.config import Config
from tf_transformer.data.readers import absolute_path
from tf_transformer.errors import UserError
from tf_transformer.host import affinity, number_of_cores
from tf_transformer.training.child_process import Ending, run_process, run_side_by_side
from tf_transformer.visualization.run_comparison import describe_runs, find_runs, read_run

logger = logging.getLogger(__name__)

# How a process ends after Ctrl-C or SIGTERM: 0 where it could save, otherwise by the signal.
INTERRUPTED = (0, SIGNAL + 2, SIGNAL + 15, -signal.SIGINT, -signal.SIGTERM)


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
    if os.path.exists(os.path.join(model_dir, CONFIG)):
        raise UserError(
            f"{model_dir} is the model folder of one run: give another --model_dir for the folder "
            "of all seeds"
        )
    folders = {seed: os.path.join(model_dir, f"seed-{seed}") for seed in seeds}
    left = []
    for seed in seeds:
        keeps = not values.overwrite and not values.dry_run
        if keeps and _is_complete(folders[seed], config.replace(seed=seed)):
            logger.info("seed %d is complete", seed)
        else:
            left.append(seed)
    program = [sys.executable, "-m", "tf_transformer", "train"]
    program += given_arguments(values, "seeds", "parallel_seeds", "seed", "model_dir")
    at_once = min(_number_at_once(values.parallel_seeds), len(seeds))
    advice = "the same command resumes the runs"
    if values.overwrite:
        advice = "the same command without --overwrite resumes the runs"
    for start in range(0, len(left), at_once):
        group = {seed: folders[seed] for seed in left[start : start + at_once]}
        logger.info("training: seeds %s of %s", ", ".join(map(str, group)), values.seeds)
        endings = _run(program, group, at_once)
        if failed := [seed for seed in group if endings[seed].code not in INTERRUPTED]:
            reason = "failed: see its messages above"
            if endings[failed[0]].code == -signal.SIGKILL:
                reason = (
                    "was killed by signal 9; if memory is short, give a smaller --parallel_seeds "
                    "or --micro_batch_tokens"
                )
            raise UserError(f"the training with seed {failed[0]} {reason}; {advice}")
        codes = [SIGNAL - code if code < 0 else code for code, _ in endings.values()]
        if values.dry_run:  # all processes have the same plan
            return max(codes)
        interrupted = any(codes) or any(ending.interrupted for ending in endings.values())
        # A process that gets a signal itself saves, and ends with code 0 too.
        if interrupted or not all(read_run(folder).complete for folder in group.values()):
            saved = "stopped and saved" if not any(codes) else "stopped, and not all are saved"
            print(f"\n{saved}; {advice}")
            return max(codes)
    if len(folders) > 1:
        print(f"\n{describe_runs(find_runs(list(folders.values())))}")
    return 0


def _run(program: list[str], folders: dict[int, str], at_once: int) -> dict[int, Ending]:
    """Runs the processes of one or several seeds. Returns: how each of them ended, by seed."""
    commands = {
        f"seed {seed}": [*program, f"--seed={seed}", f"--model_dir={folder}"]
        for seed, folder in folders.items()
    }
    if at_once == 1:
        return {seed: run_process(each) for seed, each in zip(folders, commands.values())}
    return dict(zip(folders, run_side_by_side(commands, at_once)))


def _number_at_once(wanted: int) -> int:
    """How many processes train at the same time.

    It is 1 on GPUs, which one process takes all of; where a process cannot be confined to cores, as
    on macOS; and where a container limits the CPU time, which all cores share.

    Args:
      wanted: the value of --parallel_seeds.
    """
    if wanted > 1 and (has_nvidia_device() or affinity() != number_of_cores()):
        logger.info(
            "--parallel_seeds has no effect: it needs CPU cores that processes can be confined to, "
            "and no GPU"
        )
        return 1
    return min(wanted, number_of_cores())


def _is_complete(folder: str, config: Config) -> bool:
    """Whether the run in a folder has these settings and has reached its end."""
    try:
        run = read_run(folder)
        sizes = run.config.model.input_vocab_size, run.config.model.target_vocab_size
        config = config.with_vocabularies(*sizes).replace(data=absolute_path(config.data.data))
    except UserError:  # there is no run, or one of other settings, which its process will refuse
        return False
    initial = run.config.train.init_from
    if initial_name(initial) == initial_name(config.train.init_from):
        config = config.replace(init_from=initial)
    return run.complete and run.config == config


def _parse_seeds(values: flags.FlagValues, config: Config) -> list[int]:
    """The numbers of --seeds. Raises: UserError when they are not valid."""
    one_of(values, "seeds", "seed")
    if "TF_CONFIG" in os.environ:
        raise UserError("--seeds is for one host: unset TF_CONFIG")
    try:
        seeds = [int(text) for text in values.seeds.split(",")]
    except ValueError:
        raise UserError(f"--seeds={values.seeds}: give whole numbers, such as 1,2,3") from None
    if len(set(seeds)) < len(seeds):
        raise UserError(f"--seeds={values.seeds}: each seed once")
    for seed in seeds:
        config.replace(seed=seed)  # which checks the range
    return seeds
