"""Where things stand in a model folder. Nothing here needs TensorFlow.

A model folder holds `config.json`, the vocabulary (`shared.model`, or `source.model` and `target.model`), the newest checkpoints
(`checkpoints/step-00001000.npz` ...), `best.npz` and `averaged.npz`, `metrics.jsonl`, `tensorboard/`, and the ids in `cache/`.
"""

import json
import os
import re

from tf_transformer.config import Config
from tf_transformer.errors import UserError

CHOICES = (
    "averaged",
    "best",
    "latest",
)  # names for --checkpoint; where none is given, the first that is there


def default_model_dir(preset, data):
    """The folder of a model that has been given none: models/PRESET-DATA-SOURCE-TARGET.

    Args:
      preset: its name.
      data: a `DataConfig`.
    """
    name = os.path.basename(data.data.rstrip("/")).replace(",", "-")
    return os.path.join("models", f"{preset}-{name}-{data.source}-{data.target}")


def step_path(model_dir, step):
    """Where the checkpoint of an update stands."""
    return os.path.join(model_dir, "checkpoints", f"step-{step:08d}.npz")


def checkpoint_step(path):
    """The update of a checkpoint that stands where `step_path` says."""
    return int(re.search(r"step-(\d+)\.npz$", path)[1])


def step_checkpoints(model_dir):
    """The paths of the checkpoints of a run, oldest first."""
    folder = os.path.join(model_dir, "checkpoints")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(
        os.path.join(folder, name) for name in names if re.fullmatch(r"step-\d+\.npz", name)
    )


def all_checkpoints(model_dir):
    """The paths of `averaged.npz` and `best.npz` where they are there, then of the checkpoints of the run, oldest first."""
    found = [os.path.join(model_dir, f"{name}.npz") for name in ("averaged", "best")]
    return [path for path in found if os.path.exists(path)] + step_checkpoints(model_dir)


def read_metrics(model_dir):
    """What `metrics.jsonl` holds: a list of dicts with step, kind ("train", "validation" or "average") and figures; [] when not there."""
    path, lines = os.path.join(model_dir, "metrics.jsonl"), []
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    lines.append(json.loads(line))
                except ValueError:  # the last one of a run that was killed while writing it
                    continue
    return lines


def find(model_dir, choice=None):
    """The path of a checkpoint.

    Args:
      model_dir: a model folder.
      choice: "averaged", "best", "latest", a path, or None for the first of these that is there.
    Raises: UserError when there is none.
    """
    named = {name: os.path.join(model_dir, f"{name}.npz") for name in ("averaged", "best")}
    named["latest"] = (step_checkpoints(model_dir) or [""])[-1]
    candidates = [named.get(choice, choice)] if choice else [named[name] for name in CHOICES]
    for path in candidates:
        if os.path.isfile(path):
            return path
    wanted = f"checkpoint {choice!r}" if choice else "trained model"
    raise UserError(
        f"no {wanted} in {model_dir}: train one with `tf-transformer train --model_dir={model_dir}`"
    )


def load_config(model_dir):
    """The `Config` of a model folder. Raises: UserError when the folder holds no model."""
    if not os.path.isdir(model_dir):
        raise UserError(
            f"no model folder {model_dir}: train one with `tf-transformer train --model_dir={model_dir}`"
        )
    path = os.path.join(model_dir, "config.json")
    if not os.path.isfile(path):
        raise UserError(
            f"{model_dir} holds no model (no config.json): train one, or give another --model_dir"
        )
    return Config.load(path)
