"""The exports that commands make when they are first used, in a cache folder.

It is `tf_transformer` in XDG_CACHE_HOME or in `~/.cache`. The most recently used exports stay in
it. This module does not import TensorFlow.
"""

import atexit
import functools
import glob
import hashlib
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib import metadata

import filelock

from tf_transformer.checkpoints import model_folder
from tf_transformer.errors import UserError
from tf_transformer.export.ctranslate2_translator import installed_version
from tf_transformer.export.versions import find_versions
from tf_transformer.files import CHECKSUMS

logger = logging.getLogger(__name__)

PACKAGE = pathlib.Path(__file__).parents[1]
MAX_EXPORTS = 8  # in the cache


def built_in_export(model_dir: str) -> str:
    """Exports a built-in model as a SavedModel; returns and raises as `ctranslate2_export`."""
    version = metadata.version("tensorflow")
    files = [os.path.join(model_dir, CHECKSUMS)]
    return cached_export(model_dir, version, files, functools.partial(_export, model_dir, []))


def ctranslate2_export(model_dir: str, checkpoint: str | None) -> str:
    """Exports a checkpoint for CTranslate2 in float32, unless the export is in the cache.

    Returns: the folder of its versions.
    Raises: UserError when ctranslate2 is not installed, there is no such model, or the export
      cannot be written.
    """
    version = installed_version()
    model_folder.load_config(model_dir)
    vocabularies = sorted(glob.glob(os.path.join(glob.escape(model_dir), "*.model")))
    config = os.path.join(model_dir, model_folder.CONFIG)
    files = [config, *vocabularies, model_folder.find(model_dir, checkpoint)]
    flags = ["--format=ctranslate2", *([f"--checkpoint={checkpoint}"] if checkpoint else [])]

    def export(folder: str) -> None:
        _export(model_dir, flags, os.path.join(folder, "1"))

    return cached_export(model_dir, version, files, export)


def _export(model_dir: str, flags: list[str], output: str) -> None:
    """Exports a model in a process of its own, with which the memory of TensorFlow is free again.

    Raises: UserError with the reason of that process.
    """
    command = [sys.executable, "-m", "tf_transformer", "export", f"--model_dir={model_dir}"]
    run = subprocess.run([*command, f"--output={output}", *flags], capture_output=True, text=True)
    if run.returncode:
        *_, reason = ["it was killed", *run.stderr.splitlines()]
        reason = reason.removeprefix("tf-transformer: error: ")
        raise UserError(f"{model_dir} could not be exported: {reason}")


def cached_export(
    model_dir: str, version: str, files: Iterable[str], export: Callable[[str], object]
) -> str:
    """Exports a model, unless the export is in the cache.

    Args:
      model_dir: a model folder.
      version: of the library that writes the export.
      files: of the model. An export is used again while these, that version, and the code of this
        package are the same.
      export: writes the next version to a folder.
    Returns: the folder of the exported versions.
    Raises: what `export` raises.
    """
    digest = hashlib.sha256(version.encode())
    for path in [*sorted(PACKAGE.rglob("*.py")), *map(pathlib.Path, files)]:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    name = os.path.basename(os.path.realpath(model_dir))
    root = _cache_folder()
    with filelock.FileLock(os.path.join(root, ".lock")):  # until no other process exports
        folder = os.path.join(root, f"{name}-{digest.hexdigest()[:16]}")
        os.makedirs(folder, exist_ok=True)
        os.utime(folder)
        if not find_versions(folder):
            logger.info("exporting %s to %s: some seconds", name, folder)
            export(folder)
        # A server has in memory what it serves, so also an export in use can be removed.
        folders = [entry for entry in os.scandir(root) if entry.is_dir()]
        for entry in sorted(folders, key=lambda entry: -entry.stat().st_mtime)[MAX_EXPORTS:]:
            shutil.rmtree(entry.path, ignore_errors=True)
    return folder


def _cache_folder() -> str:
    """The folder of all exports; where it cannot be written to, one until the process ends."""
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        folder = os.path.join(cache, "tf_transformer")
        os.makedirs(folder, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # the user has no home folder
        pass
    folder = tempfile.mkdtemp(prefix="tf_transformer-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
