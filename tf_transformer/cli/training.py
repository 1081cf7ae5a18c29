"""The commands train and average.

`train --seeds` trains once with each of several random seeds, each in its own process. With
--parallel_seeds, several processes train at the same time, each on its share of the cores: one
training of a small model does not keep several cores busy.
"""

from __future__ import annotations

import dataclasses
import glob
import logging
import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import initial_settings
from tf_transformer.cli.command import (
    SETTINGS,
    Flag,
    command,
    given,
    given_arguments,
    is_for,
    one_of,
    train_flags,
)
from tf_transformer.cli.messages import SIGNAL, log_to_folder, record_in_run_log
from tf_transformer.cli.terminal import has_nvidia_device, start_tensorflow
from tf_transformer.config import BEFORE_FORMAT_2, NOAM, TREES, Config, DataConfig
from tf_transformer.data.readers import absolute_path
from tf_transformer.errors import UserError
from tf_transformer.host import affinity, memory, number_of_cores
from tf_transformer.presets import PRESETS, VARIATIONS, preset
from tf_transformer.training.child_process import Ending, run_processes
from tf_transformer.visualization.run_comparison import describe_runs, find_runs, read_run

if TYPE_CHECKING:
    from absl import flags

    from tf_transformer.training.distribution import Workers
    from tf_transformer.training.trainer import Trainer

logger = logging.getLogger(__name__)

# How a process ends after Ctrl-C or SIGTERM: 0 where it could save, otherwise by the signal.
INTERRUPTED = (0, SIGNAL + 2, SIGNAL + 15, -signal.SIGINT, -signal.SIGTERM)
# The settings that a run chooses for its text, its devices and its initial model.
CHOSEN = {
    "input_vocab_size", "target_vocab_size", "shared_embeddings", "max_shapes",
    "extra_decode_length", "init_from",
}  # fmt: skip
RESUME = "the same command, without --overwrite, resumes"
PRESET_NAMES = f"{', '.join(PRESETS)}, or a row of Table 3: {', '.join(VARIATIONS)}"


@command(
    "train",
    "train a model on sentence pairs, or resume a run",
    lambda: [
        Flag("preset", str, f"the settings to start from: {PRESET_NAMES}", "pocket"),
        Flag(
            "model_dir", str,
            "model folder; a run in it is resumed (default: models/PRESET-DATA-SOURCE-TARGET)",
        ),
        Flag("dry_run", bool, "print the plan, make two updates without saving, and stop", False),
        Flag("seeds", str, "train with each of these seeds, such as 1,2,3, in MODEL_DIR/seed-N"),
        Flag(
            "parallel_seeds", int, "seeds that train at the same time, each on its cores of a CPU",
            1, minimum=1,
        ),
        Flag("overwrite", bool, "remove what is in the model folder, and start a new run", False),
        *train_flags(),
    ],
)  # fmt: skip
def train(values: flags.FlagValues) -> int | None:
    """Trains, or resumes a run; then prints five translations and the next commands.

    With --seeds it trains several runs, and then compares them.

    Returns: the exit code; None for 0.
    """
    one_of(values, "overwrite", "dry_run")
    config, model_dir = _config(values)
    if values.seeds:
        return _train_seeds(values, config, model_dir)
    is_for(values, "seeds", "parallel_seeds")
    _train_run(values, config, model_dir)
    return None


def _train_run(values: flags.FlagValues, config: Config, model_dir: str) -> None:
    """Trains, resumes, or with --dry_run plans one run."""
    start_tensorflow(model_dir="" if "TF_CONFIG" in os.environ else model_dir)
    from tf_transformer.training.distribution import make_workers, split_cpu
    from tf_transformer.training.trainer import build_trainer

    if values.dry_run and os.environ.pop("TF_CONFIG", None):
        logger.warning("the plan is that of this host alone, without the other workers")
    split_cpu(config.train.logical_devices)
    workers = make_workers(config.train)
    _check_memory(config, workers)
    if workers.is_chief and not values.dry_run:
        log_to_folder(model_dir)
    trainer = build_trainer(config, model_dir, values.overwrite)
    result = trainer.dry_run() if values.dry_run else trainer.run(second_interrupt=signal.SIG_DFL)
    program = f"{sys.executable} -m tf_transformer"
    if not trainer.workers.is_chief:
        return
    if values.dry_run:
        print(result)
    elif result:  # the run is complete
        _print_samples(trainer)
        _print_next_commands(trainer.config.data, shlex.quote(model_dir), program)
    else:
        ending = f"stopped and saved after {trainer.step:,} updates"
        record_in_run_log(ending, logging.INFO)
        print(f"\n{ending}; {RESUME}")


def _config(values: flags.FlagValues) -> tuple[Config, str]:
    """The settings of the preset, then of the initial model, then of the flags; the model folder.

    A run that is resumed does not need the initial model any more: its folder has the settings. So
    it has those that a later version would start with another value.
    """
    config = preset(values.preset)
    own = given(values, SETTINGS)
    data = dataclasses.replace(config.data, **given(values, (DataConfig,)))
    model_dir = values.model_dir or model_folder.default_model_dir(values.preset, data)
    folders = [model_dir]
    if values.seeds:
        folders = sorted(glob.glob(os.path.join(glob.escape(model_dir), "seed-*")))
    started = [] if values.overwrite else list(filter(model_folder.step_checkpoints, folders))
    initial = {}
    if values.init_from:
        initial = initial_settings(started[0] if started else values.init_from)
    if started:
        run = model_folder.load_config(started[0]).values()
        initial |= {name: run[name] for added in BEFORE_FORMAT_2.values() for name in added}
    schedule = own.get("learning_rate_schedule", config.train.learning_rate_schedule)
    if "extra_decode_length" in own:
        own.setdefault("decode_length_coverage", 0.0)
    if schedule == NOAM:
        own.setdefault("learning_rate", 0.0)  # a preset may have the peak of its own schedule
    elif "learning_rate_scale" in own and not started:
        raise UserError(
            f"--learning_rate_scale is for --learning_rate_schedule={NOAM}, and this one is "
            f"{schedule}: give --learning_rate"
        )
    return config.replace(**{**initial, **own}), model_dir


def _check_memory(config: Config, workers: Workers) -> None:
    """Checks that the weights fit into the memory of this host, where CPUs compute the updates.

    Without this check, the kernel would end the process without a message. The vocabularies are not
    known yet. They have at most `vocab_size` sub-words, or those of the initial model.

    Raises: UserError when they do not fit.
    """
    import tensorflow as tf

    from tf_transformer.training.memory_plan import state_bytes

    if tf.config.list_logical_devices("GPU") and not config.train.logical_devices:
        return  # the memory of a GPU has its own error
    size = config.data.vocab_size
    if config.train.init_from:
        size = config.model.target_vocab_size
    model = config.with_vocabularies(size, size).model
    replicas = workers.replicas // workers.count
    needed = replicas * state_bytes(model, 1, config.train.ema_decay)
    if needed > memory():
        raise UserError(
            f"training needs about {needed / 1e9:,.1f} GB for {replicas} replicas, this computer "
            f"has {memory() / 1e9:,.1f} GB: give a smaller --d_model, --dff, --num_layers or "
            "--vocab_size"
        )


def _print_samples(trainer: Trainer) -> None:
    """Prints five translations of the validation split."""
    from tf_transformer.decoding.translator import Translator

    pairs = trainer.samples("validation", 5)
    translator = Translator(trainer.model, trainer.tokenizers, trainer.config.decode)
    translations = translator([source for source, _ in pairs])
    for (source, reference), translation in zip(pairs, translations):
        print(f"\n  source     {source}\n  model      {translation}\n  reference  {reference}")


def _print_next_commands(data: DataConfig, model_dir: str, program: str) -> None:
    """Prints what can be done with a trained model; `data` is a `DataConfig`."""
    names = ["translate", "evaluate", "export", "serve"]
    if data.target == TREES:
        names = ["parse", "evaluate"]
    print(f"\nThe model is in {model_dir} (averaged weights first). Next:")
    for name in names:
        print(f"  {program} {name} --model_dir={model_dir}")


def _train_seeds(values: flags.FlagValues, config: Config, model_dir: str) -> int:
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
    if os.path.exists(os.path.join(model_dir, model_folder.CONFIG)):
        raise UserError(
            f"{model_dir} is the model folder of one run: give another --model_dir for the folder "
            "of all seeds"
        )
    folders = {seed: os.path.join(model_dir, f"seed-{seed}") for seed in seeds}
    left = []
    for seed, folder in folders.items():
        keeps = not values.overwrite and not values.dry_run
        if keeps and _is_complete(folder, config.replace(seed=seed)):
            logger.info("seed %d is complete", seed)
        else:
            left.append(seed)
    program = [sys.executable, "-m", "tf_transformer", "train"]
    program += given_arguments(values, "seeds", "parallel_seeds", "seed", "model_dir")
    at_once = min(_number_at_once(values.parallel_seeds), len(seeds))
    for start in range(0, len(left), at_once):
        group = {seed: folders[seed] for seed in left[start : start + at_once]}
        logger.info("training: seeds %s of %s", ", ".join(map(str, group)), values.seeds)
        endings = _run(program, group, at_once)
        if failed := [seed for seed in group if endings[seed].code not in INTERRUPTED]:
            raise UserError(
                f"the training with seed {failed[0]} failed: see its messages above, or give a "
                f"smaller --parallel_seeds where the memory is short; {RESUME}"
            )
        code = max(SIGNAL - code if code < 0 else code for code, _ in endings.values())
        if values.dry_run:  # all processes have the same plan
            return code
        interrupted = code or any(ending.interrupted for ending in endings.values())
        # A process that gets a signal itself saves, and ends with code 0 too.
        if interrupted or not all(read_run(folder).complete for folder in group.values()):
            print(
                f"\n{'stopped, and not all are saved' if code else 'stopped and saved'}; {RESUME}"
            )
            return code
    if len(folders) > 1:
        print(f"\n{describe_runs(find_runs(list(folders.values())))}")
    return 0


def _run(program: list[str], folders: dict[int, str], at_once: int) -> dict[int, Ending]:
    """Runs the processes of one or several seeds. Returns: how each of them ended, by seed."""
    commands = {
        f"seed {seed}": [*program, f"--seed={seed}", f"--model_dir={folder}"]
        for seed, folder in folders.items()
    }
    return dict(zip(folders, run_processes(commands, at_once)))


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
    except UserError:
        return False
    wanted = config.replace(data=absolute_path(config.data.data)).values()
    has = run.config.values()
    return run.complete and all(has[name] == wanted[name] for name in has.keys() - CHOSEN)


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


@command(
    "average",
    "average the newest, or the best, checkpoints of a run",
    lambda: [
        Flag("model_dir", str, "model folder", required=True),
        Flag("last", int, "average so many (default: those of the last eighth of the updates)"),
        Flag("best", int, "average so many, those with the best validation scores"),
        Flag("output", str, "file for the average (default: MODEL_DIR/averaged.npz)"),
    ],
)  # fmt: skip
def average(values: flags.FlagValues) -> None:
    """Averages checkpoints."""
    model_dir, last, best = values.model_dir, values.last, values.best
    config = model_folder.load_config(model_dir)
    one_of(values, "last", "best")
    if config.train.ema_decay and (best is not None or not values.output):
        raise UserError(
            f"averaged.npz and the validations of {model_dir} are of its moving average "
            "(--ema_decay): give --last, and --output=FILE for an average of the updates' weights"
        )
    kept = model_folder.step_checkpoints(model_dir)
    if not 1 <= (1 if last is None else last) <= len(kept):
        raise UserError(
            f"{model_dir} has {len(kept)} checkpoints (train keeps --max_checkpoints of them)"
        )
    start_tensorflow()
    from tf_transformer.checkpoints import checkpoint

    if best is not None:
        chosen = checkpoint.best_checkpoints(kept, best)
    elif last is not None:
        chosen = kept[-last:]
    else:
        first_step = checkpoint.read_state(kept[-1]).get("first_step", 0)
        chosen = checkpoint.last_eighth(kept, first_step)
    output = values.output or os.path.join(model_dir, model_folder.AVERAGED)
    checkpoint.average(chosen, output)
    print(f"averaged {', '.join(os.path.basename(path) for path in chosen)} into {output}")
