"""The exports that commands make when they are first used, in a cache folder.

It is `tf_transformer` in XDG_CACHE_HOME or in `~/.cache`. The most recently used exports stay in
it. TensorFlow is imported only to export.
"""

import contextlib
import functools
import glob
import hashlib
import logging
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator

import filelock

from tf_transformer.checkpoints import model_folder
from tf_transformer.export.ctranslate2_translator import installed_version
from tf_transformer.export.versions import find_versions
from tf_transformer.files import CHECKSUMS

logger = logging.getLogger(__name__)

PACKAGE = pathlib.Path(__file__).parents[1]
MAX_EXPORTS = 8  # in the cache
Folder = contextlib.AbstractContextManager[str]  # the folder of the exported versions


def built_in_export(model_dir: str) -> Folder:
    """Exports a built-in model as a SavedModel, unless it is in the cache.

    Raises: UserError when the export cannot be written.
    """
    import tensorflow as tf

    from tf_transformer.export.saved_model import export_saved_model

    fingerprint = fingerprint_of([tf.__version__], [os.path.join(model_dir, CHECKSUMS)])
    return cached_export(model_dir, fingerprint, functools.partial(export_saved_model, model_dir))


def ctranslate2_export(
    model_dir: str, checkpoint: str | None, start_tensorflow: Callable[[], None]
) -> Folder:
    """Exports a model for CTranslate2 in float32, unless the export is in the cache.

    Args:
      model_dir: a model folder.
      checkpoint: a name or a path, as for `checkpoints.model_folder.find`.
      start_tensorflow: is called before TensorFlow is imported, which is for an export only.
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

    return cached_export(model_dir, fingerprint_of([version], files), export)


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
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    root = os.path.join(cache, "tf_transformer")
    with contextlib.ExitStack() as temporary, contextlib.ExitStack() as locked:
        try:
            if not os.path.isabs(root):
                raise FileNotFoundError("the user has no home folder")
            os.makedirs(root, exist_ok=True)
            # Until no other process exports.
            locked.enter_context(filelock.FileLock(os.path.join(root, ".lock")))
        except OSError:
            root = temporary.enter_context(tempfile.TemporaryDirectory(prefix="tf_transformer-"))
        folder = os.path.join(root, f"{name}-{fingerprint}")
        os.makedirs(folder, exist_ok=True)
        os.utime(folder)
        if not find_versions(folder):
            logger.info("exporting %s to %s: some seconds", name, folder)
            export(folder)
        # A server has in memory what it serves, so also an export in use can be removed.
        folders = [entry for entry in os.scandir(root) if entry.is_dir()]
        for entry in sorted(folders, key=lambda entry: -entry.stat().st_mtime)[MAX_EXPORTS:]:
            shutil.rmtree(entry.path, ignore_errors=True)
        locked.close()
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
