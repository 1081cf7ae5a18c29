"""`assets.extra/model.json` of an exported version: its languages, search and limits.

    {"source": "en", "target": "de", "beam_size": 4, "length_penalty": 0.6,
     "extra_decode_length": 50, "max_source_subwords": 1024, "max_target_subwords": 1024,
     "max_aligned_subwords": 128}

TensorFlow Serving ignores the file. The page of our server shows it. An export for CTranslate2
takes its search from it. Languages are the names that the training data has for its sides. The end
token counts as a sub-word.
"""

import json
import os
from typing import Any

from tf_transformer.atomic_io import atomic_write
from tf_transformer.config import Config

NAME = os.path.join("assets.extra", "model.json")
TYPES = {
    "source": str,
    "target": str,
    "beam_size": int,
    "length_penalty": float,
    "max_source_subwords": int,
    "max_aligned_subwords": int,
}
SEARCH_TYPES = {
    "beam_size": int,
    "length_penalty": float,
    "extra_decode_length": int,
    "max_source_subwords": int,
    "max_target_subwords": int,
}


def write_description(folder: str, config: Config, aligned_length: int) -> None:
    """Writes the description of a version.

    Args:
      folder: of the version, in which `assets.extra` is created if it does not exist.
      config: the `Config` of the model.
      aligned_length: maximum number of source sub-words of the signature `alignments`; 0 for an
        export without this signature.
    """
    description = {
        "source": config.data.source,
        "target": config.data.target,
        "beam_size": config.decode.beam_size,
        "length_penalty": float(config.decode.length_penalty),
        "extra_decode_length": config.decode.extra_decode_length,
        "max_source_subwords": config.model.pe_input,
        "max_target_subwords": config.model.pe_target,
        "max_aligned_subwords": min(aligned_length, config.model.pe_input),
    }
    path = os.path.join(folder, NAME)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with atomic_write(path) as file:
        file.write(json.dumps(description, indent=2) + "\n")


def read_description(folder: str, types: dict[str, type] = TYPES) -> dict[str, Any]:
    """Reads the description of a version.

    Args:
      folder: of the version.
      types: the keys to read, with the types of their values.
    Returns: a dict with all these keys; {} for a version that was exported without them, or whose
      description is damaged.
    """
    try:
        with open(os.path.join(folder, NAME), encoding="utf-8") as file:
            description = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(description, dict):
        return {}
    known = {name: description.get(name) for name in types}
    return known if all(type(known[name]) is kind for name, kind in types.items()) else {}
