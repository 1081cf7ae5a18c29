"""The commands train and average."""

from __future__ import annotations

import dataclasses
import logging
import os
import pathlib
import shlex
import signal
import sys
from typing import TYPE_CHECKING

from absl import flags

from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.model_folder import initial_settings
from tf_transformer.cli.command import SETTINGS, Flag, command, given, one_of, train_flags
from tf_transformer.cli.messages import log_to_folder, record_in_run_log
from tf_transformer.cli.terminal import start_tensorflow
from tf_transformer.config import BEFORE_FORMAT_2, NOAM, TREES, Config, DataConfig
from tf_transformer.errors import UserError
from tf_transformer.host import memory
from tf_transformer.presets import PRESETS, VARIATIONS, preset

if TYPE_CHECKING:
    from tf_transformer.training.distribution import Workers
    from tf_transformer.training.trainer import Trainer

logger = logging.getLogger(__name__)

PRESET_NAMES = f"{', '.join(PRESETS)}, or a row of Table 3: {', '.join(VARIATIONS)}"


@command("train", lambda: [
    Flag("preset", str, f"the settings to start from: {PRESET_NAMES}", "pocket"),
    Flag("config", str, "file to start from in place of --preset: the config.json of a run"),
    Flag("model_dir", str,
         "model folder; a run in it is resumed (default: models/PRESET-DATA-SOURCE-TARGET)"),
    Flag("dry_run", bool, "print the plan, make two updates without saving, and stop", False),
    Flag("overwrite", bool, "remove what is in the model folder, and start a new run", False),
    *train_flags(),
])  # fmt: skip
def train(values: flags.FlagValues) -> None:
    """Train a model on sentence pairs, or resume a run."""
    one_of(values, "overwrite", "dry_run")
    one_of(values, "config", "preset")
    config, model_dir = _config(values)
    start_tensorflow(model_dir="" if "TF_CONFIG" in os.environ else model_dir)
    from tf_transformer.training.distribution import make_workers, split_cpu
    from tf_transformer.training.trainer import build_trainer

    if values.dry_run and os.environ.pop("TF_CONFIG", None):
        logger.warning("the plan is for this host alone, without the other workers")
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
        print(f"\nThe model is in {shlex.quote(model_dir)} (averaged weights first). Next:")
        parses = trainer.config.data.target == TREES
        names = "parse evaluate" if parses else "translate evaluate export serve"
        for name in names.split():
            print(f"  {program} {name} --model_dir={shlex.quote(model_dir)}")
    else:
        ending = f"stopped and saved after {trainer.step:,} updates"
        record_in_run_log(ending, logging.INFO)
        print(f"\n{ending}; the same command, without --overwrite, resumes")


def _config(values: flags.FlagValues) -> tuple[Config, str]:
    """The settings of the preset or file, the initial model, and the flags; the model folder.

    For a run that is resumed, its folder has the settings of the initial model, and those that this
    version would start with another value.
    """
    name, config = values.preset, preset(values.preset)
    if values.config:
        name, config = pathlib.Path(values.config).stem, _read_config(values.config)
    own = given(values, SETTINGS)
    data = dataclasses.replace(config.data, **given(values, (DataConfig,)))
    model_dir = values.model_dir or model_folder.default_model_dir(name, data)
    started = not values.overwrite and model_folder.step_checkpoints(model_dir)
    initial = {}
    if values.init_from:
        initial = initial_settings(model_dir if started else values.init_from)
    if started:
        run = model_folder.load_config(model_dir).values()
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


def _read_config(path: str) -> Config:
    """Reads the settings of a run, without those that `with_vocabularies` chose for its text."""
    config = Config.load(path)
    size = max(config.model.input_vocab_size, config.model.target_vocab_size)
    shared = config.model.shared_embeddings or not config.data.shared_vocab
    return config.replace(input_vocab_size=size, target_vocab_size=size, shared_embeddings=shared)


def _check_memory(config: Config, workers: Workers) -> None:
    """Raises: UserError when the weights do not fit into the memory of this host, without GPUs.

    The kernel would end the process without a message.
    """
    import tensorflow as tf

    if tf.config.list_logical_devices("GPU"):
        return  # whose memory has its own error
    # The vocabularies are not known yet, and this is their largest size.
    size = config.model.target_vocab_size if config.train.init_from else config.data.vocab_size
    model = config.with_vocabularies(size, size).model
    replicas = workers.replicas // workers.count
    needed = replicas * 4 * 4 * model.parameters()  # weights, gradients, Adam's moments: float32
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


@command("average", lambda: [
    Flag("model_dir", str, "model folder", required=True),
    Flag("last", int, "average so many (default: all of the last eighth of the updates)"),
    Flag("best", int, "average so many, those with the best validation scores"),
    Flag("output", str, "file for the average (default: MODEL_DIR/averaged.npz)"),
])  # fmt: skip
def average(values: flags.FlagValues) -> None:
    """Average the newest, or the best, checkpoints of a run."""
    model_dir, last, best = values.model_dir, values.last, values.best
    model_folder.load_config(model_dir)  # a folder without settings is none of a run
    one_of(values, "last", "best")
    kept = model_folder.step_checkpoints(model_dir)
    if not 1 <= (1 if last is None else last) <= len(kept):
        kept_by_train = "train keeps --max_checkpoints of them"
        raise UserError(f"{model_dir} has {len(kept)} checkpoints ({kept_by_train})")
    start_tensorflow()
    from tf_transformer.checkpoints import checkpoint

    chosen = kept[-last:] if last else checkpoint.last_eighth(kept)
    if best is not None:
        chosen = checkpoint.best_checkpoints(kept, best)
    output = values.output or os.path.join(model_dir, model_folder.AVERAGED)
    checkpoint.average(chosen, output)
    print(f"averaged {', '.join(os.path.basename(path) for path in chosen)} into {output}")
