"""The model with which fine-tuning starts. This module does not import TensorFlow."""

import dataclasses
import os
from typing import Any

from tf_transformer.checkpoints.model_folder import find, load_config
from tf_transformer.checkpoints.pretrained import find_model_dir, is_built_in
from tf_transformer.config import Config, ModelConfig, TrainConfig
from tf_transformer.errors import UserError


def initial_config(init_from: str) -> Config:
    """Loads the settings of the model. Raises: UserError when there is none."""
    try:
        return load_config(find_model_dir(init_from))
    except UserError as error:
        raise UserError(f"--init_from={init_from}: {error}") from None


def initial_checkpoint(settings: TrainConfig) -> str:
    """Returns the checkpoint with which a run starts.

    Args:
      settings: a `TrainConfig` with `init_from`.
    Returns: the path of the averaged weights, or else of the best or the newest ones, as for other
      commands; with `init_optimizer` that of the newest checkpoint, which has an optimizer.
    Raises: UserError when there is none.
    """
    folder = find_model_dir(settings.init_from)
    try:
        return find(folder, "latest" if settings.init_optimizer else None)
    except UserError as error:
        flags = "--init_optimizer" if settings.init_optimizer else "--init_from"
        raise UserError(f"{flags}: {error}") from None


def initial_settings(model_dir: str) -> dict[str, Any]:
    """Returns the settings that a run takes over from the model with which it starts.

    These are the model's sizes, with its dropout rate, its vocabularies, and its search.

    Args:
      model_dir: a model folder, or the name of a built-in model.
    Returns: the values by the names of fields, for `Config.replace`.
    Raises: UserError when there is no model.
    """
    config = initial_config(model_dir)
    return {
        **dataclasses.asdict(config.model),
        **dataclasses.asdict(config.decode),
        "vocab_size": config.data.vocab_size,
        "subword_model": config.data.subword_model,
        "shared_vocab": config.data.shared_vocab,
    }


def absolute_model_dir(model_dir: str) -> str:
    """Returns what `config.json` records: an absolute path, or the name of a built-in model."""
    path = find_model_dir(model_dir)
    return os.path.basename(path) if is_built_in(path) else os.path.abspath(path)


def initial_name(init_from: str) -> str:
    """Returns what a run that is resumed compares: the name of the folder, which may have moved."""
    return os.path.basename(os.path.abspath(init_from)) if init_from else ""


def check_other_folder(init_from: str, model_dir: str) -> None:
    """Raises: UserError where a run would start with the model that it replaces."""
    if os.path.realpath(find_model_dir(init_from)) == os.path.realpath(model_dir):
        raise UserError(
            f"--init_from and --model_dir are both {model_dir}: give another --model_dir"
        )


def check_same_model(config: Config) -> None:
    """Checks that a run has the sizes of the model in its setting `init_from`.

    The dropout rate may differ, and the number of positions where they are not learned. With
    `init_optimizer`, the settings on which the state of the optimizer depends are compared too.

    Raises: UserError that names the sizes which differ.
    """
    init_from = config.train.init_from
    initial = initial_config(init_from)
    free = {"dropout_rate"}
    if initial.model.positional_encoding == "sinusoidal":
        free |= {"pe_input", "pe_target"}
    pairs = {
        field.name: (getattr(initial.model, field.name), getattr(config.model, field.name))
        for field in dataclasses.fields(ModelConfig)
        if field.name not in free
    }
    for name in ("vocab_size", "subword_model", "shared_vocab"):
        pairs[name] = (getattr(initial.data, name), getattr(config.data, name))
    if config.train.init_optimizer:  # its state belongs to the same weights
        pairs["freeze"] = (initial.train.freeze or "none", config.train.freeze or "none")
        pairs["ema_decay"] = (initial.train.ema_decay, config.train.ema_decay)
    differences = [f"{name} {old} (now {new})" for name, (old, new) in pairs.items() if old != new]
    if differences:
        raise UserError(
            f"the model {init_from} has {', '.join(differences)}: fine-tuning keeps these "
            "settings, leave the flags out or give the same values"
        )
