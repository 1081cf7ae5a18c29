"""The files of a model folder. This module does not import TensorFlow.

A model folder contains

- `config.json`, the settings;
- `shared.model`, or `source.model` and `target.model`: the vocabularies;
- `checkpoints/step-00001000.npz` and so on: the newest checkpoints;
- `best.npz` and `averaged.npz`: the best and the averaged weights;
- `metrics.jsonl` and `tensorboard/`: the training history;
- `cache/`: the encoded text.
"""

import json
import os
import re

from tf_transformer.config import Config
from tf_transformer.errors import UserError

# Names of checkpoints for --checkpoint. The default is the first that exists.
CHECKPOINT_NAMES = ("averaged", "best", "latest")


def default_model_dir(preset, data):
    """Returns the default model folder: models/PRESET-DATA-SOURCE-TARGET.

    DATA is the last part of a local path, or the complete name of a TFDS data set, with "-" for
    "/". The Makefile has the same formula.

    Args:
      preset: its name.
      data: a `DataConfig`.
    """
    name = data.data
    is_local = name.startswith(("/", ".")) or "," in name or os.path.exists(name)
    if is_local:
        name = os.path.basename(name.rstrip("/"))
    name = name.replace("/", "-").replace(",", "-")
    return os.path.join("models", f"{preset}-{name}-{data.source}-{data.target}")


def step_path(model_dir, step):
    """Returns the path of the checkpoint of an update."""
    return os.path.join(model_dir, "checkpoints", f"step-{step:08d}.npz")


def checkpoint_step(path):
    """Returns the update of a checkpoint whose path `step_path` made."""
    return int(re.search(r"step-(\d+)\.npz$", path)[1])


def step_checkpoints(model_dir):
    """Returns the paths of the checkpoints of a run, oldest first."""
    folder = os.path.join(model_dir, "checkpoints")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(
        os.path.join(folder, name) for name in names if re.fullmatch(r"step-\d+\.npz", name)
    )


def all_checkpoints(model_dir):
    """Returns the paths of `averaged.npz` and `best.npz` if they exist, then `step_checkpoints`."""
    named = [os.path.join(model_dir, f"{name}.npz") for name in ("averaged", "best")]
    return [path for path in named if os.path.exists(path)] + step_checkpoints(model_dir)


def read_metrics(model_dir):
    """Reads `metrics.jsonl`.

    Returns: a list of dicts with the step, the kind ("train", "validation" or "average") and the
      metrics; empty where the file does not exist.
    """
    path = os.path.join(model_dir, "metrics.jsonl")
    if not os.path.exists(path):
        return []
    lines = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                lines.append(json.loads(line))
            except ValueError:  # a partial line of a process that was killed
                continue
    return lines


def find(model_dir, checkpoint=None):
    """Returns the path of a checkpoint.

    Args:
      model_dir: a model folder.
      checkpoint: "averaged", "best", "latest", or a path; None for the first of these names that
        exists.
    Raises: UserError when there is none.
    """
    paths = {name: os.path.join(model_dir, f"{name}.npz") for name in ("averaged", "best")}
    steps = step_checkpoints(model_dir)
    paths["latest"] = steps[-1] if steps else ""
    if checkpoint:
        candidates = [paths.get(checkpoint, checkpoint)]
    else:
        candidates = [paths[name] for name in CHECKPOINT_NAMES]
    for path in candidates:
        if os.path.isfile(path):
            return path
    wanted = f"checkpoint {checkpoint!r}" if checkpoint else "trained model"
    raise UserError(
        f"no {wanted} in {model_dir}: train one with `tf-transformer train --model_dir={model_dir}`"
    )


def load_config(model_dir):
    """Loads the `Config` of a model folder. Raises: UserError when it is missing or damaged."""
    if not os.path.isdir(model_dir):
        raise UserError(
            f"no model folder {model_dir}: train a model with "
            f"`tf-transformer train --model_dir={model_dir}`"
        )
    path = os.path.join(model_dir, "config.json")
    if not os.path.isfile(path):
        raise UserError(
            f"{model_dir} holds no model (no config.json): train one, or give another --model_dir"
        )
    return Config.load(path)
