"""The built-in models: trained models that are installed with the package.

Each is an ordinary model folder below `checkpoints/built_in/`, and its name can be given where a
model folder is expected. The installed folder is never written to. This module does not import
TensorFlow.
"""

import logging
import os

logger = logging.getLogger(__name__)

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "built_in")
DEFAULT = "pocket-en-de"  # the model of `translate` and `serve` without --model_dir


def built_in_models() -> list[str]:
    """Returns the names of the built-in models, sorted."""
    if not os.path.isdir(FOLDER):
        return []
    return sorted(name for name in os.listdir(FOLDER) if os.path.isdir(os.path.join(FOLDER, name)))


def is_built_in(model_dir: str) -> bool:
    """Whether a path is the folder of a built-in model."""
    return os.path.dirname(os.path.realpath(model_dir)) == os.path.realpath(FOLDER)


def find_model_dir(model_dir: str) -> str:
    """Returns the folder of a model.

    Args:
      model_dir: a model folder, or the name of a built-in model. A folder of that name in the
        working directory takes precedence over the built-in model.
    Returns: the path. A name that is neither of them is returned unchanged; loading it then fails.
    """
    if model_dir not in built_in_models():
        return model_dir
    if os.path.isdir(model_dir):
        logger.info("using the folder ./%s, not the built-in model of that name", model_dir)
        return model_dir
    return os.path.join(FOLDER, model_dir)


def default_model() -> str:
    """Returns the folder of the built-in model that a command uses without --model_dir."""
    logger.info(
        "no --model_dir: using the built-in model %s, which knows only the sentences of the "
        "built-in corpus",
        DEFAULT,
    )
    return os.path.join(FOLDER, DEFAULT)


def writable_folder(model_dir: str) -> str:
    """Returns the folder for files that are written beside a model, such as its evaluation.

    Args:
      model_dir: a model folder.
    Returns: the folder itself; for a built-in model, or a folder that cannot be written to,
      `models/NAME` in the working directory.
    """
    read_only = os.path.isdir(model_dir) and not os.access(model_dir, os.W_OK)
    if is_built_in(model_dir) or read_only:
        return os.path.join("models", os.path.basename(os.path.realpath(model_dir)))
    return model_dir
