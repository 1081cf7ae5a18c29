"""Several models in one flag, `--model_dir=a,b` or `--checkpoint=x,y`. Without TensorFlow."""

import os

from tf_transformer.checkpoints.pretrained import find_model_dir
from tf_transformer.errors import UserError


def model_list(model_dir: str, checkpoint: str | None = None) -> list[tuple[str, str | None]]:
    """Returns the models that --model_dir and --checkpoint name.

    Args:
      model_dir: a model folder or the name of a built-in model, or several, separated by commas.
        A folder whose name has a comma is one model.
      checkpoint: as for `paths.find`, or several, separated by commas; None for the default.
    Returns: (folder, checkpoint) of each model. One folder has all checkpoints, and all folders
      have one checkpoint; several folders and several checkpoints belong together in order.
    Raises: UserError for an empty name, or for numbers that do not fit together.
    """
    folders = [model_dir] if os.path.isdir(model_dir) else _split("model_dir", model_dir)
    folders = [find_model_dir(folder) for folder in folders]
    checkpoints: list[str | None] = [None]
    if checkpoint:
        checkpoints = [checkpoint]
        if not os.path.isfile(checkpoint):
            checkpoints = list(_split("checkpoint", checkpoint))
    number = max(len(folders), len(checkpoints))
    if 1 < len(folders) < number or 1 < len(checkpoints) < number:
        raise UserError(
            f"--model_dir names {len(folders)} models and --checkpoint {len(checkpoints)}: give "
            "one of them once, or as many of both"
        )
    folders *= number // len(folders)
    checkpoints *= number // len(checkpoints)
    return list(zip(folders, checkpoints))


def first_model_dir(model_dir: str) -> str:
    """Returns the first folder of --model_dir, whose languages and search settings hold for all."""
    return model_list(model_dir)[0][0]


def _split(flag: str, value: str) -> list[str]:
    names = value.split(",")
    if not all(names):
        raise UserError(f"--{flag}={value}: there is an empty name between the commas")
    return names
