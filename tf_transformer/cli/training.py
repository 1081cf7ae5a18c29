"""The commands train and average."""

from __future__ import annotations

import dataclasses
import glob
import logging
import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING, Any

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import initial_settings
from tf_transformer.cli.command import SETTINGS, Flag, command, given, is_for, one_of, train_flags
from tf_transformer.cli.messages import log_to_folder, record_in_run_log
from tf_transformer.cli.seeds import train_seeds
from tf_transformer.cli.terminal import explain_out_of_memory, start_tensorflow
from tf_transformer.config import NOAM, TREES, Config, DataConfig
from tf_transformer.data.readers import corpus_names
from tf_transformer.errors import UserError
from tf_transformer.host import memory_limit
from tf_transformer.presets import PRESETS, VARIATIONS, preset

if TYPE_CHECKING:
    from absl import flags

    from tf_transformer.training.distribution import Workers
    from tf_transformer.training.trainer import Trainer

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
        Flag(
            "dry_run", bool,
            "print the plan, make two updates of the largest batch without saving, and stop",
            False,
        ),
        Flag(
            "seeds", str,
            "train once with each of these seeds, such as 1,2,3, in MODEL_DIR/seed-1 and so on, "
            "and print the mean and the standard deviation",
        ),
        Flag(
            "parallel_seeds", int,
            "seeds that train at the same time, on CPUs, each on its share of the cores",
            1, minimum=1,
        ),
        Flag(
            "overwrite", bool,
            "remove the run or the model that is in the model folder, and start a new run",
            False,
        ),
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
        return train_seeds(values, config, model_dir)
    is_for(values, "seeds", "parallel_seeds")
    _train_run(values, config, model_dir)
    return None


def _train_run(values: flags.FlagValues, config: Config, model_dir: str) -> None:
    """Trains, resumes, or with --dry_run plans one run."""
    start_tensorflow()
    from tf_transformer.training.distribution import Workers, make_strategy, split_cpu
    from tf_transformer.training.trainer import build_trainer

    split_cpu(config.train.logical_devices)
    workers = Workers(make_strategy(config.train.logical_devices))
    _check_model_size(config, workers)
    if workers.is_chief and not values.dry_run:
        log_to_folder(model_dir)
    with explain_out_of_memory(config.train.micro_batch_tokens):
        trainer = build_trainer(config, model_dir, values.overwrite)
        try:
            _check_batch_size(trainer)
        except UserError:
            trainer.directory.close()
            raise
        if values.dry_run:
            plan = trainer.dry_run()
            if trainer.workers.is_chief:
                print(plan)
            return
        complete = trainer.run(second_interrupt=signal.SIG_DFL)
    if not trainer.workers.is_chief:
        return
    program = f"{_python()} -m tf_transformer"
    if complete:
        _print_samples(trainer)
        _print_next_commands(trainer.config.data, model_dir, program)
        return
    ending = f"stopped and saved after {trainer.step:,} updates"
    record_in_run_log(ending, logging.INFO)
    print(f"\n{ending}; this command resumes the run:")
    resuming = [
        argument
        for argument in sys.argv[1:]
        if argument.partition("=")[0] not in ("--overwrite", "-overwrite")
    ]
    print(f"  {program} {shlex.join(resuming)}")


def _config(values: flags.FlagValues) -> tuple[Config, str]:
    """The settings of the preset, then of the initial model, then of the flags; the model folder.

    A run that is resumed does not need the initial model any more: its folder has the settings.
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
    schedule = own.get("learning_rate_schedule", config.train.learning_rate_schedule)
    if schedule == NOAM and "learning_rate" not in own:
        own["learning_rate"] = 0.0  # a preset may have the peak of its own schedule
    if not started:
        _check_effects(own, data.data, schedule)
    return config.replace(**{**initial, **own}), model_dir


def _check_effects(own: dict[str, Any], data: str, schedule: str) -> None:
    """Checks the settings of a new run. Raises: UserError for one without an effect.

    Args:
      own: the settings that the user gave.
      data, schedule: of the run.
    """
    if schedule != NOAM and "learning_rate_scale" in own:
        raise UserError(
            f"--learning_rate_scale is for --learning_rate_schedule={NOAM}, and this one is "
            f"{schedule}: give --learning_rate"
        )
    for name in ("data_weights", "data_temperature"):
        if name in own and len(corpus_names(data)) == 1:
            raise UserError(f"--{name} is for several corpora, and --data names one: leave it out")


def _check_model_size(config: Config, workers: Workers) -> None:
    """Checks that the weights fit into memory, before the text is read.

    The vocabularies are not known yet. They have at most `vocab_size` sub-words, or those of the
    initial model and `extend_vocab` more.

    Raises: UserError when they do not fit.
    """
    from tf_transformer.training.memory_plan import state_bytes

    size = config.data.vocab_size
    if config.train.init_from:
        size = config.model.target_vocab_size + config.train.extend_vocab
    model = config.with_vocabularies(size, size).model
    state = state_bytes(model, 1, config.train.ema_decay)
    positional_encodings = 4 * (model.pe_input + model.pe_target) * model.d_model
    advice = "--d_model, --dff, --num_layers or --vocab_size"
    _check_memory(state + positional_encodings, config, workers, advice)


def _check_batch_size(trainer: Trainer) -> None:
    """Checks that the largest batch fits into memory. Raises: UserError when it does not."""
    from tf_transformer.training.memory_plan import activation_bytes, state_bytes

    config, workers = trainer.config, trainer.workers
    bucket, rows = trainer.plan.largest()
    activations = activation_bytes(config.model, rows, bucket.length, trainer.plan.precision)
    needed = state_bytes(config.model, 1, config.train.ema_decay) + activations
    _check_memory(needed, config, workers, "--micro_batch_tokens")


def _check_memory(needed: int, config: Config, workers: Workers, advice: str) -> None:
    """Checks that the replicas fit into the memory of this host, where CPUs compute the updates.

    Without this check, the kernel would end the process without a message.

    Args:
      needed: bytes of a replica.
      config, workers: of the run.
      advice: the flags that reduce it.
    Raises: UserError when they do not fit.
    """
    import tensorflow as tf

    if tf.config.list_logical_devices("GPU") and not config.train.logical_devices:
        return  # the memory of a GPU has its own error
    replicas = workers.replicas // workers.count
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    memory = min(memory, memory_limit() or memory)
    if replicas * needed > memory:
        raise UserError(
            f"training needs about {replicas * needed / 1e9:,.1f} GB for {replicas} replicas, this "
            f"computer has {memory / 1e9:,.1f} GB: give a smaller {advice}"
        )


def _python() -> str:
    """The interpreter, relative to the working directory where it is below it."""
    return os.path.relpath(sys.executable) if os.getcwd() in sys.executable else sys.executable


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
    print(f"\nThe model is in {model_dir} (averaged weights first). Next:")
    quoted = shlex.quote(model_dir)
    if data.target == TREES:
        print(f"  echo 'The dog barks .' | {program} parse --model_dir={quoted}")
        print(f"  {program} evaluate --model_dir={quoted}    # bracket F1 on held-out trees")
        return
    reverse = ("de", "en") if (data.source, data.target) == ("en", "de") else ("en", "de")
    source, target = reverse
    print(f"  {program} translate --model_dir={quoted}   # type a sentence, Ctrl-D ends")
    print(f"  {program} evaluate --model_dir={quoted}    # BLEU on held-out text")
    print(f"  {program} export --model_dir={quoted}      # for TensorFlow Serving, or for:")
    print(f"  {program} serve --model_dir={quoted}       # http://127.0.0.1:8501, with a page")
    print(
        f"  {program} train --data=pocket --source={source} --target={target} "
        f"--model_dir=models/pocket-{source}-{target}"
    )
    print("  or --data=FOLDER with train.en, train.de, val.en, ...; the README lists other forms")


@command(
    "average",
    "average the newest, or the best, checkpoints of a run",
    lambda: [
        Flag("model_dir", str, "model folder", required=True),
        Flag(
            "last", int,
            "number of newest checkpoints to average (default: those of the last eighth of the "
            "updates)",
        ),
        Flag(
            "best", int,
            "number of checkpoints to average, those with the best validation scores of all that "
            "are kept",
        ),
        Flag(
            "output", str, "file for the averaged weights (default: MODEL_DIR/averaged.npz)"
        ),
    ],
)  # fmt: skip
def average(values: flags.FlagValues) -> None:
    """Averages checkpoints."""
    model_dir = values.model_dir
    config = model_folder.load_config(model_dir)
    one_of(values, "last", "best")
    if config.train.ema_decay:
        _check_moving_average(values, model_dir)
    _check_number(model_dir, values.last, model_folder.step_checkpoints(model_dir))
    start_tensorflow()
    output = values.output or os.path.join(model_dir, model_folder.AVERAGED)
    chosen = _average(model_dir, values.last, values.best, output)
    print(f"averaged {', '.join(os.path.basename(path) for path in chosen)} into {output}")


def _check_moving_average(values: flags.FlagValues, model_dir: str) -> None:
    """Raises: UserError where a run with --ema_decay has no weights that the flags would average.

    Its checkpoints have the weights of the updates, and its validations are of the moving average.
    """
    if values.best is not None:
        raise UserError(
            f"--best: the validations of {model_dir} are of its moving average, not of the weights "
            "that are averaged: give --last"
        )
    if not values.output:
        raise UserError(
            f"averaged.npz in {model_dir} is for the moving average of the run (--ema_decay): give "
            "--output=FILE for an average of the weights of checkpoints"
        )


def _average(model_dir: str, last: int | None, best: int | None, output: str) -> list[str]:
    """Averages the newest or the best checkpoints. Returns: their paths.

    A run that trains in the folder meanwhile removes its oldest checkpoints. Then those that it has
    now are chosen.
    """
    from tf_transformer.checkpoints import checkpoint

    while True:
        kept = model_folder.step_checkpoints(model_dir)
        try:
            if best is not None:
                chosen = checkpoint.best_checkpoints(kept, best)
            elif last is not None:
                chosen = kept[-_check_number(model_dir, last, kept) :]
            else:
                _check_number(model_dir, last, kept)
                first_step = checkpoint.read_state(kept[-1]).get("first_step", 0)
                chosen = checkpoint.last_eighth(kept, first_step)
            checkpoint.average(chosen, output)
            return chosen
        except UserError:
            if all(os.path.exists(path) for path in kept):
                raise


def _check_number(model_dir: str, last: int | None, kept: list[str]) -> int:
    """The number of newest checkpoints to average. Raises: UserError when there are fewer."""
    number = len(kept) if last is None else last
    if not 1 <= number <= len(kept):
        flag = "" if last is None else f"--last={last}: "
        raise UserError(
            f"{flag}{model_dir} has {len(kept)} checkpoints (train keeps --max_checkpoints of them)"
        )
    return number
