"""Files of tensors in the format safetensors, whose package is the extra "huggingface"."""

import os
from types import ModuleType

import numpy as np

from tf_transformer.atomic_io import atomic_write
from tf_transformer.errors import UserError


def import_safetensors() -> ModuleType:
    """Imports `safetensors.numpy`. Raises: UserError when safetensors is not installed."""
    try:
        import safetensors.numpy
    except ImportError:
        raise UserError(
            "the package safetensors is missing: pip install 'tf_transformer[huggingface]'"
        ) from None
    return safetensors.numpy


def read_tensors(path: str) -> dict[str, np.ndarray]:
    """Reads the tensors of a file by their names. Raises: UserError."""
    module = import_safetensors()
    if not os.path.isfile(path):
        raise UserError(
            f"no file {path}: for weights in another format, such as pytorch_model.bin, load the "
            "model with transformers and write it with `model.save_pretrained(FOLDER)`"
        )
    try:
        return module.load_file(path)
    except Exception as error:  # safetensors has an exception of its own, and some of Python's
        raise UserError(f"{path} could not be read ({error}): copy it again") from None


def write_tensors(path: str, tensors: dict[str, np.ndarray]) -> None:
    """Writes tensors by their names, as transformers expects them."""
    contents = import_safetensors().save(tensors, metadata={"format": "pt"})
    with atomic_write(path, "wb") as file:
        file.write(contents)
