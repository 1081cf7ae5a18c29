"""The export of a built-in model, which `tf-transformer serve` makes when it is first used.

It is kept in a cache folder: `tf_transformer` in XDG_CACHE_HOME or in `~/.cache`.
"""

import contextlib
import hashlib
import logging
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import tensorflow as tf

from tf_transformer.checkpoints import checksums
from tf_transformer.serving.saved_model import export_saved_model

logger = logging.getLogger(__name__)

PACKAGE = pathlib.Path(__file__).parents[1]


@contextlib.contextmanager
def built_in_export(model_dir: str) -> Iterator[str]:
    """Exports a built-in model, unless it is in the cache.

    Where there is no cache folder that can be written to, the export is in a temporary folder,
    which is removed at the end.

    Args:
      model_dir: the folder of the built-in model.
    Yields: the folder of the exported versions.
    Raises: UserError when the export cannot be written.
    """
    folder = _cache_folder(model_dir)
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="tf_transformer-") as folder:
            _export(model_dir, folder)
            yield folder
        return
    if not _has_intact_version(folder):
        _export(model_dir, folder)
    yield folder


def _export(model_dir: str, folder: str) -> None:
    logger.info("exporting %s to %s: some seconds", os.path.basename(model_dir), folder)
    export_saved_model(model_dir, folder)


def _cache_folder(model_dir: str) -> str | None:
    """The cache folder of this model's export by this code; None where it cannot be written to."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(root):
        root = os.path.join(os.path.expanduser("~"), ".cache")
    name = f"{os.path.basename(model_dir)}-{_fingerprint(model_dir)}"
    folder = os.path.join(root, "tf_transformer", name)
    try:
        if not os.path.isabs(folder):  # the user has no home folder
            return None
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def _fingerprint(model_dir: str) -> str:
    """A hash of all that determines the export: the code, the model and TensorFlow's version."""
    digest = hashlib.sha256(tf.__version__.encode())
    for path in [*sorted(PACKAGE.rglob("*.py")), pathlib.Path(model_dir, checksums.NAME)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _has_intact_version(folder: str) -> bool:
    """Whether a folder has a version that can be served. Removes versions that have changed."""
    versions = [os.path.join(folder, name) for name in os.listdir(folder) if name.isdigit()]
    damaged = [path for path in versions if not checksums.is_intact(path)]
    for path in damaged:
        logger.warning("%s is damaged: removing it", path)
        shutil.rmtree(path, ignore_errors=True)  # another process may remove it at the same time
    return len(damaged) < len(versions)
