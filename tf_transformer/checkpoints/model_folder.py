"""What a model folder contains, how to find it, and the built-in models.

A built-in model is an ordinary model folder below `checkpoints/built_in/`, which is never written
to. Its name can be given where a model folder is expected.

This module does not import TensorFlow.
"""

import contextlib
import glob
import json
import logging
import os
import re
from typing import Any

from tf_transformer.config import MAX_INTEGER, Config, DataConfig
from tf_transformer.errors import UserError

logger = logging.getLogger(__name__)

BUILT_IN_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "built_in")
DEFAULT_MODEL = "tatoeba-en-de"  # the model of `translate` without --model_dir
SERVED_MODELS = (DEFAULT_MODEL, "tatoeba-de-en")  # of `serve`

# The names in a model folder. The names of the vocabularies are in `data/tokenizer.py`.
CONFIG = "config.json"  # the settings
CHECKPOINTS = "checkpoints"  # the newest checkpoints of a run: step-00001000.npz and so on
BEST = "best.npz"  # the weights with the best validation score
AVERAGED = "averaged.npz"  # the averaged weights
METRICS = "metrics.jsonl"  # the training history
TENSORBOARD = "tensorboard"  # the same for TensorBoard
LOG = "train.log"  # the messages of a run
CACHE = "cache"  # the encoded text
CARD = "README.md"  # the model card, which a folder can have
LOCK = "training.lock"  # one process trains in a folder at a time

LAST_TIME = 253_370_764_800  # the year 9999, the last one of `datetime`, in seconds since 1970
METRIC_KINDS = ("train", "validation", "average")  # of the lines in `metrics.jsonl`


def default_model_dir(preset: str, data: DataConfig) -> str:
    """Returns the default model folder: models/PRESET-DATA-SOURCE-TARGET, as the Makefile does.

    DATA is the last part of a local path, or for two files, the last parts of both, joined by "-".
    For a TFDS data set it is the complete name, with "-" for "/".
    """
    name = data.data
    if name.startswith(("/", ".")) or "," in name or os.path.exists(name):
        name = "-".join(os.path.basename(path.rstrip("/")) for path in name.split(","))
    name = name.replace("/", "-")
    return os.path.join("models", f"{preset}-{name}-{data.source}-{data.target}")


def step_path(model_dir: str, step: int) -> str:
    """Returns the path of the checkpoint of an update."""
    return os.path.join(model_dir, CHECKPOINTS, f"step-{step:08d}.npz")


def checkpoint_step(path: str) -> int:
    """Returns the update of a checkpoint whose path `step_path` made."""
    return int(path.rpartition("step-")[2].removesuffix(".npz"))


def step_checkpoints(model_dir: str) -> list[str]:
    """Returns the paths of the checkpoints of a run, oldest first.

    Raises: OSError where the folder cannot be read, which is not taken for a new run.
    """
    folder, names = os.path.join(model_dir, CHECKPOINTS), []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        names = os.listdir(folder)
    return sorted(
        os.path.join(folder, name) for name in names if re.fullmatch(r"step-\d+\.npz", name)
    )


def all_checkpoints(model_dir: str) -> list[str]:
    """Returns the paths of `averaged.npz` and `best.npz` if they exist, then `step_checkpoints`."""
    named = [os.path.join(model_dir, name) for name in (AVERAGED, BEST)]
    return [path for path in named if os.path.exists(path)] + step_checkpoints(model_dir)


def read_metrics(model_dir: str) -> list[dict[str, Any]]:
    """Reads `metrics.jsonl`.

    Returns: a list of dicts with the step, the kind (one of `METRIC_KINDS`), the time and the
      metrics; empty where the file does not exist. Damaged lines are left out.
    """
    path = os.path.join(model_dir, METRICS)
    if not os.path.exists(path):
        return []
    lines = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            # A process that was killed leaves a partial line.
            with contextlib.suppress(ValueError, RecursionError):
                lines.append(json.loads(line))
    return list(filter(_is_metrics, lines))


def _is_metrics(line: Any) -> bool:
    """Whether a line of `metrics.jsonl` has a step, a kind and a time."""
    if not isinstance(line, dict) or line.get("kind") not in METRIC_KINDS:
        return False
    step, seconds = line.get("step"), line.get("time")
    is_step = isinstance(step, int) and 0 <= step <= MAX_INTEGER
    return is_step and isinstance(seconds, (int, float)) and 0 <= seconds <= LAST_TIME


def find(model_dir: str, checkpoint: str | None = None) -> str:
    """Returns the path of a checkpoint.

    Args:
      checkpoint: "averaged", "best", "latest", or a path; None for the first of these names that
        exists.
    Raises: UserError when there is none.
    """
    named = {
        "averaged": os.path.join(model_dir, AVERAGED),
        "best": os.path.join(model_dir, BEST),
        "latest": (step_checkpoints(model_dir) or [""])[-1],
    }
    candidates = [named.get(checkpoint, checkpoint)] if checkpoint else list(named.values())
    for path in candidates:
        if os.path.isfile(path):
            return path
    existing = ", ".join(name for name, path in named.items() if os.path.isfile(path))
    if existing:
        raise UserError(f"no checkpoint {checkpoint!r} in {model_dir}: it has {existing}")
    wanted = f"checkpoint {checkpoint!r}" if checkpoint else "trained model"
    raise UserError(
        f"no {wanted} in {model_dir}: train one with `tf-transformer train --model_dir={model_dir}`"
    )


def is_older_than_model(path: str, model_dir: str) -> bool:
    """Whether a file or folder is older than the default weights; OSError if it is not there."""
    return os.path.getmtime(path) < os.path.getmtime(find(model_dir))


def load_config(model_dir: str) -> Config:
    """Loads the `Config` of a model folder. Raises: UserError when it is missing or damaged."""
    if os.path.isfile(model_dir):
        raise UserError(
            f"{model_dir} is a file, and a model is a folder; `keras.models.load_model` reads "
            "what `model.save` has written"
        )
    if not os.path.isdir(model_dir):
        raise UserError(
            f"no model folder {model_dir}: train a model with "
            f"`tf-transformer train --model_dir={model_dir}`; built-in models: "
            f"{', '.join(built_in_models())}"
        )
    path = os.path.join(model_dir, CONFIG)
    if not os.path.isfile(path):
        raise UserError(
            f"{model_dir} holds no model (no {CONFIG}): train one, or give another --model_dir"
        )
    return Config.load(path)


def built_in_models() -> list[str]:
    """Returns the names of the built-in models, sorted."""
    return sorted(os.path.basename(path) for path in glob.glob(os.path.join(BUILT_IN_FOLDER, "*")))


def is_built_in(model_dir: str) -> bool:
    """Whether a path is the folder of a built-in model."""
    return os.path.dirname(os.path.realpath(model_dir)) == os.path.realpath(BUILT_IN_FOLDER)


def find_model_dir(model_dir: str) -> str:
    """Returns the folder of a model, given that folder or the name of a built-in model.

    A folder of that name in the working directory takes precedence over the built-in model. A name
    that is neither of them is returned unchanged; loading it then fails.
    """
    if model_dir not in built_in_models():
        return model_dir
    if os.path.isdir(model_dir):
        logger.info("using the folder ./%s, not the built-in model of that name", model_dir)
        return model_dir
    return os.path.join(BUILT_IN_FOLDER, model_dir)


def default_model(name: str = DEFAULT_MODEL) -> str:
    """Returns the folder of a built-in model that a command uses without --model_dir."""
    folder = os.path.join(BUILT_IN_FOLDER, name)
    card = os.path.join(folder, CARD)
    logger.info("no --model_dir: using the built-in model %s, described in %s", name, card)
    return folder


def read_card(model_dir: str) -> dict[str, Any]:
    """Reads what the server's page shows of a model card.

    A card is Markdown. It can begin with the metadata of Hugging Face's cards, whose `widget` has
    example sentences, each on a line `- text: SENTENCE`.

    Returns: "about", the first paragraph, and "examples", a list of sentences; {} without a card.
    """
    try:
        with open(os.path.join(model_dir, CARD), encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError):
        return {}
    metadata, body = "", text
    if text.startswith("---\n"):
        metadata, _, body = text.partition("\n---\n")
    paragraphs = [part for part in body.split("\n\n") if not part.lstrip().startswith("#")]
    examples = re.findall(r"^- text: (.+)$", metadata, re.M)
    return {"about": " ".join(paragraphs[0].split()) if paragraphs else "", "examples": examples}


def writable_folder(model_dir: str) -> str:
    """Returns the folder for what is written beside a model, such as its evaluation: its own one.

    For a built-in model, or a folder that cannot be written to, it is `models/NAME`.
    """
    read_only = os.path.isdir(model_dir) and not os.access(model_dir, os.W_OK)
    if is_built_in(model_dir) or read_only:
        return os.path.join("models", os.path.basename(os.path.realpath(model_dir)))
    return model_dir


def initial_config(init_from: str) -> Config:
    """Loads the settings of the model with which a run starts; UserError when there is none."""
    try:
        return load_config(find_model_dir(init_from))
    except UserError as error:
        raise UserError(f"--init_from={init_from}: {error}") from None


def initial_settings(model_dir: str) -> dict[str, Any]:
    """Returns the settings that a run takes over from the model with which it starts, by name.

    These are the model's sizes, with its dropout rate, its vocabularies, and its search.
    """
    config = initial_config(model_dir)
    of_data = (
        "vocab_size", "subword_model", "shared_vocab", "source_normalization",
        "target_normalization",
    )  # fmt: skip
    return {
        **vars(config.model), **vars(config.decode),
        **{name: getattr(config.data, name) for name in of_data},
    }  # fmt: skip


def initial_name(init_from: str) -> str:
    """Returns what a run that is resumed compares: the name of the folder, which may have moved."""
    return os.path.basename(os.path.abspath(init_from)) if init_from else ""


def folder_list(paths: str) -> list[str]:
    """Splits folders, separated by commas. A folder whose name has a comma is one."""
    return [paths] if os.path.isdir(paths) else paths.split(",") if paths else []


def model_list(model_dir: str, checkpoint: str | None = None) -> list[tuple[str, str | None]]:
    """Returns the models that --model_dir and --checkpoint name.

    Args:
      model_dir: a model folder or the name of a built-in model, or several, separated by commas.
      checkpoint: as for `find`, or several, separated by commas; None for the default.
    Returns: (folder, checkpoint) of each model. One folder has all checkpoints, and all folders
      have one checkpoint; several folders and several checkpoints belong together in order.
    Raises: UserError for an empty name, or for numbers that do not fit together.
    """
    folders = folder_list(model_dir)
    checkpoints = [checkpoint]
    if checkpoint and not os.path.isfile(checkpoint):
        checkpoints = list(checkpoint.split(","))
    number = max(len(folders), len(checkpoints))
    if not {len(folders), len(checkpoints)} <= {1, number} or "" in (*folders, *checkpoints):
        raise UserError(
            f"--model_dir={model_dir} and --checkpoint={checkpoint}: give one of them once, or as "
            "many of both, without empty names between the commas"
        )
    folders = [find_model_dir(folder) for folder in folders] * (number // len(folders))
    return list(zip(folders, checkpoints * (number // len(checkpoints))))


def first_model_dir(model_dir: str) -> str:
    """Returns the first folder of --model_dir, whose languages and search settings hold for all."""
    return model_list(model_dir)[0][0]
