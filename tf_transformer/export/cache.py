"""The exports that commands make when they are first used, in a cache folder.

It is `tf_transformer` in XDG_CACHE_HOME or in `~/.cache`. The most recently used exports stay in
it. TensorFlow is imported only to export.
"""

import contextlib
import fcntl
import functools
import glob
import hashlib
import logging
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator

from tf_transformer.atomic_io import try_lock
from tf_transformer.checkpoints import checksums, model_folder
from tf_transformer.export.ctranslate2_translator import installed_version

logger = logging.getLogger(__name__)

PACKAGE = pathlib.Path(__file__).parents[1]
MAX_EXPORTS = 8  # in the cache; one that is in use is never removed


@contextlib.contextmanager
def built_in_export(model_dir: str) -> Iterator[str]:
    """Exports a built-in model as a SavedModel, unless it is in the cache.

    Args:
      model_dir: the folder of the built-in model.
    Yields: the folder of the exported versions.
    Raises: UserError when the export cannot be written.
    """
    import tensorflow as tf

    from tf_transformer.export.saved_model import export_saved_model

    fingerprint = fingerprint_of([tf.__version__], [os.path.join(model_dir, checksums.NAME)])
    export = functools.partial(export_saved_model, model_dir)
    with cached_export(model_dir, fingerprint, export) as folder:
        yield folder


@contextlib.contextmanager
def ctranslate2_export(
    model_dir: str, checkpoint: str | None, start_tensorflow: Callable[[], None]
) -> Iterator[str]:
    """Exports a model for CTranslate2 in float32, unless the export is in the cache.

    Args:
      model_dir: a model folder.
      checkpoint: a name or a path, as for `checkpoints.model_folder.find`.
      start_tensorflow: is called before TensorFlow is imported, which is for an export only.
    Yields: the folder of the exported versions.
    Raises: UserError when ctranslate2 is not installed, there is no such model, or the export
      cannot be written.
    """
    version = installed_version()
    model_folder.load_config(model_dir)
    vocabularies = sorted(glob.glob(os.path.join(glob.escape(model_dir), "*.model")))
    config = os.path.join(model_dir, model_folder.CONFIG)
    files = [config, *vocabularies, model_folder.find(model_dir, checkpoint)]

    def export(folder: str) -> None:
        start_tensorflow()
        from tf_transformer.export.ctranslate2_folder import write_ctranslate2_folder

        write_ctranslate2_folder(model_dir, os.path.join(folder, "1"), checkpoint)

    with cached_export(model_dir, fingerprint_of([version], files), export) as folder:
        yield folder


@contextlib.contextmanager
def cached_export(
    model_dir: str, fingerprint: str, export: Callable[[str], object]
) -> Iterator[str]:
    """Exports a model, unless the export is in the cache.

    Where there is no cache folder that can be written to, the export is in a temporary folder,
    which is removed at the end.

    Args:
      model_dir: a model folder.
      fingerprint: of `fingerprint_of`, of all that determines the export.
      export: writes the next version to a folder.
    Yields: the folder of the exported versions.
    Raises: what `export` raises.
    """
    name = os.path.basename(os.path.realpath(model_dir))
    folder = _cache_folder(f"{name}-{fingerprint}")
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="tf_transformer-") as folder:
            _export(name, folder, export)
            yield folder
        return
    root = os.path.dirname(folder)
    with _locked(folder, fcntl.LOCK_SH | fcntl.LOCK_NB):  # no process removes it
        with contextlib.suppress(OSError):
            os.utime(folder)
        if not _has_intact_version(folder):
            with _locked(root, fcntl.LOCK_EX):  # waits until no other process exports
                if not _has_intact_version(folder):  # it may be there by now
                    _export(name, folder, export)
                _remove_old_exports(root)
        yield folder


def fingerprint_of(versions: Iterable[str], paths: Iterable[str]) -> str:
    """Returns a hash of what determines an export.

    Args:
      versions: of the packages that write it.
      paths: of the model's files. The code of this package is added.
    """
    digest = hashlib.sha256("\n".join(versions).encode())
    for path in [*sorted(PACKAGE.rglob("*.py")), *map(pathlib.Path, paths)]:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _export(name: str, folder: str, export: Callable[[str], object]) -> None:
    logger.info("exporting %s to %s: some seconds", name, folder)
    export(folder)


def _cache_folder(name: str) -> str | None:
    """Creates a folder in the cache. Returns: its path; None where it cannot be written to."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(root):
        root = os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(root, "tf_transformer", name)
    if not os.path.isabs(folder):  # the user has no home folder
        return None
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


@contextlib.contextmanager
def _locked(folder: str, kind: int) -> Iterator[None]:
    """Locks a folder, where the file system has locks. `kind` is that of `fcntl.flock`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def _remove_old_exports(root: str) -> None:
    """Removes the exports that were not used for the longest time, but `MAX_EXPORTS`."""
    with contextlib.suppress(OSError):  # another process may remove them at the same time
        folders = [entry for entry in os.scandir(root) if entry.is_dir()]
        folders.sort(key=lambda entry: -entry.stat().st_mtime)
        for entry in folders[MAX_EXPORTS:]:
            descriptor = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                if try_lock(descriptor):
                    shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(descriptor)


def _has_intact_version(folder: str) -> bool:
    """Whether a folder has a version that can be used. Removes versions that have changed."""
    versions = [os.path.join(folder, name) for name in os.listdir(folder) if name.isdigit()]
    damaged = [path for path in versions if not checksums.is_intact(path)]
    for path in damaged:
        logger.warning("%s is damaged: removing it", path)
        shutil.rmtree(path, ignore_errors=True)  # another process may remove it at the same time
    return len(damaged) < len(versions)
