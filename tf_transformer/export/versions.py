"""The versions of an exported model: their folders, their descriptions, and the model's name.

A version is a folder whose name is its number, which may have leading zeros, as in TensorFlow
Serving. `assets.extra/model.json` in it describes languages, search and limits:

    {"source": "en", "target": "de", "tag": "", "beam_size": 4, "length_penalty": 0.6,
     "extra_decode_length": 50, "max_source_subwords": 1024, "max_target_subwords": 1024,
     "max_aligned_subwords": 128, "about": "A small model.", "examples": ["Anna sleeps."]}

TensorFlow Serving ignores the file. The page of our server shows it. `CTranslate2Translator` takes
its search from it. Languages are the names that the training data has for its sides. The end token
counts as a sub-word. What `read_card` returns is there where the model has a card.

This module does not import TensorFlow.
"""

import json
import logging
import os
import pathlib
import re
from typing import Any

from tf_transformer.checkpoints.model_folder import read_card
from tf_transformer.config import Config
from tf_transformer.errors import UserError
from tf_transformer.files import atomic_folder

logger = logging.getLogger(__name__)

MAX_VERSION = 2**63 - 1  # versions are int64
MODEL_FILES = ("saved_model.pb", "model.bin")  # a SavedModel or an export for CTranslate2 has one
DESCRIPTION = os.path.join("assets.extra", "model.json")


def check_model_name(name: str) -> None:
    """Raises: UserError for a name that cannot be part of a URL."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise UserError(
            f"--name is {name!r}: give a name of letters, digits, '_', '.' and '-' only"
        )


def write_description(folder: str, config: Config, aligned_length: int, model_dir: str) -> None:
    """Writes the description of a version.

    Args:
      folder: of the version.
      config: of the model.
      aligned_length: most source sub-words of the signature `alignments`; 0 without it.
      model_dir: the model folder, which may have a card.
    """
    description = {
        "source": config.data.source,
        "target": config.data.target,
        "tag": config.data.tag,
        "bleu_tokenizer": config.train.bleu_tokenizer,
        "beam_size": config.decode.beam_size,
        "length_penalty": float(config.decode.length_penalty),
        "extra_decode_length": config.decode.extra_decode_length,
        "max_source_subwords": config.model.pe_input,
        "max_target_subwords": config.model.pe_target,
        "max_aligned_subwords": min(aligned_length, config.model.pe_input),
        **read_card(model_dir),
    }
    path = os.path.join(folder, DESCRIPTION)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pathlib.Path(path).write_text(json.dumps(description, indent=2) + "\n", "utf-8")


def read_description(folder: str) -> dict[str, Any]:
    """Reads the description of a version; {} where it has none that can be read."""
    try:
        with open(os.path.join(folder, DESCRIPTION), encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError, TypeError):
        return {}


def is_version_number(name: str) -> bool:
    """Whether a folder of this name is a version."""
    return name.isascii() and name.isdecimal() and int(name) <= MAX_VERSION


def find_versions(folder: str) -> dict[int, str]:
    """Finds the versions in a folder.

    A file, and a link to a folder that is not there, is no version.

    Returns: version -> path of its folder, newest first; {} for a folder that cannot be read.
    """
    try:
        names = sorted(filter(is_version_number, os.listdir(folder)), key=int, reverse=True)
    except OSError:
        return {}
    paths = {int(name): os.path.join(folder, name) for name in names}
    return {version: path for version, path in paths.items() if os.path.isdir(path)}


def remove_old_versions(folder: str, keep: int, new: str) -> None:
    """Removes all but the newest versions of a folder, and `new` whatever is newer by now.

    A server never sees a part of a version: its folder is renamed before it is removed. What is not
    an exported model stays, whatever its name is.
    """

    def is_model(path: str) -> bool:
        files = [os.path.join(path, name) for name in MODEL_FILES]
        return not os.path.islink(path) and any(map(os.path.isfile, files))

    for path in list(filter(is_model, find_versions(folder).values()))[keep:]:
        if os.path.basename(path) != os.path.basename(new):
            try:
                with atomic_folder(folder) as temporary:  # it is removed at the end
                    os.rename(path, os.path.join(temporary, os.path.basename(path)))
                logger.info("removed %s", path)
            except OSError as error:  # the new version is there
                logger.warning("%s cannot be removed (%s)", path, error.strerror)
