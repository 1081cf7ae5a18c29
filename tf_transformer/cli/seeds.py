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
from tf_transformer.cli.command import one_of
from tf_transformer.cli.messages import SIGNAL
from tf_transformer.cli.terminal import has_nvidia_device
from tf_transformer.config import Config
from tf_transformer.data.readers import absolute_path
from tf_transformer.errors import UserError
from tf_transformer.host import affinity, number_of_cores
from tf_transformer.training.child_process import Ending, run_process, run_side_by_side
from tf_transformer.visualization.run_comparison import describe_runs, find_runs, read_run

logger = logging.getLogger(__name__)

RESUMING = "the same command resumes the runs"
RESUMING_NEW = (
    "the same command without --overwrite resumes the runs, and keeps those that were not replaced"
)
# Those that a process gets with other values, or not at all.
OWN_FLAGS = ("seeds", "parallel_seeds", "seed", "model_dir")


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
    if os.path.exists(os.path.join(model_dir, CONFIG)):
        raise UserError(
            f"{model_dir} is the model folder of one run: give another --model_dir for the folder "
            "of all seeds"
        )
    folders = {seed: os.path.join(model_dir, f"seed-{seed}") for seed in seeds}
    commands = _commands(values, folders)

    def is_complete(seed: int) -> bool:
        return not values.overwrite and _is_complete(folders[seed], config.replace(seed=seed))

    at_once = min(_number_at_once(values.parallel_seeds), len(seeds))
    if values.dry_run:  # all processes have the same plan
        endings = _run(seeds[:at_once], commands, at_once)
        return max(map(_exit_code, endings.values()))
    left = []
    for seed in seeds:
        if is_complete(seed):
            logger.info("seed %d is complete", seed)
        else:
            left.append(seed)
    advice = RESUMING_NEW if values.overwrite else RESUMING
    for start in range(0, len(left), at_once):
        group = left[start : start + at_once]
        logger.info("training: %s of %s", _name(group), values.seeds)
        endings = _run(group, commands, at_once)
        if endings[group[0]].interrupted and all(map(is_complete, group)):
            print(f"\nstopped; {_name(group)}: complete; {RESUMING}")
            return 0
        # A process that gets a signal itself saves, and ends with code 0 too.
        incomplete = [
            seed
            for seed, ending in endings.items()
            if ending.interrupted or ending.code or not read_run(folders[seed]).complete
        ]
        if incomplete:
            seed = max(incomplete, key=lambda seed: _severity(endings[seed]))
            return _stop(seed, endings[seed], advice)
    if len(folders) > 1:
        print(f"\n{describe_runs(find_runs(list(folders.values())))}")
    return 0


def _commands(values: flags.FlagValues, folders: dict[int, str]) -> dict[int, list[str]]:
    """The command that trains with a seed in its folder, by seed."""
    arguments = [
        values[name].serialize()
        for name in values
        if values[name].present and name not in OWN_FLAGS
    ]
    program = [sys.executable, "-m", "tf_transformer", "train", *arguments]
    return {
        seed: [*program, f"--seed={seed}", f"--model_dir={folder}"]
        for seed, folder in folders.items()
    }


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


def _run(seeds: list[int], commands: dict[int, list[str]], at_once: int) -> dict[int, Ending]:
    """Runs the commands of one or several seeds. Returns: how each process ended, by seed."""
    if at_once == 1:
        return {seed: run_process(commands[seed]) for seed in seeds}
    named = {f"seed {seed}": commands[seed] for seed in seeds}
    return dict(zip(seeds, run_side_by_side(named, at_once)))


def _name(seeds: list[int]) -> str:
    """The seeds for a message, such as "seeds 1, 2"."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


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
    code = _exit_code(ending)
    if not code:
        print(f"\nstopped and saved; {advice}")
    elif ending.interrupted and code > SIGNAL:
        print(f"\nstopped; the training with seed {seed} was not saved now; {advice}")
    elif ending.code == -signal.SIGKILL:
        raise UserError(
            f"the training with seed {seed} was killed by signal 9; if memory is short, give a "
            f"smaller --parallel_seeds or --micro_batch_tokens; {advice}"
        )
    else:
        raise UserError(f"the training with seed {seed} failed: see its messages above; {advice}")
    return code


def _severity(ending: Ending) -> int:
    """Orders endings: saved, ended by a signal, failed."""
    code = _exit_code(ending)
    return 0 if not code else 1 if code > SIGNAL else 2


def _exit_code(ending: Ending) -> int:
    """The exit code of a process as a shell has it, also where a signal ended it."""
    return SIGNAL - ending.code if ending.code < 0 else ending.code


def _parse_seeds(values: flags.FlagValues, config: Config) -> list[int]:
    """The numbers of --seeds. Raises: UserError when they are not valid."""
    one_of(values, "seeds", "seed")
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
