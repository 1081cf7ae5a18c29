"""The versions of a model in a folder.

A version is a folder whose name is its number, without leading zeros.
"""

import logging
import os
import re

from tf_transformer.atomic_io import atomic_folder

logger = logging.getLogger(__name__)

MAX_VERSION = 2**63 - 1  # versions are int64
MODEL_FILES = ("saved_model.pb", "model.bin")  # a SavedModel or an export for CTranslate2 has one


def is_version_number(name: str) -> bool:
    """Whether a folder of this name is a version."""
    return bool(re.fullmatch("0|[1-9][0-9]{0,18}", name)) and int(name) <= MAX_VERSION


def list_versions(folder: str) -> list[int]:
    """Returns the versions in a folder, newest first; [] for a folder that cannot be read.

    A file, and a link to a folder that is not there, is no version.
    """
    try:
        names = [name for name in os.listdir(folder) if is_version_number(name)]
    except OSError:
        return []
    folders = (name for name in names if os.path.isdir(os.path.join(folder, name)))
    return sorted(map(int, folders), reverse=True)


def remove_old_versions(folder: str, keep: int, new: str) -> None:
    """Removes all but the newest versions of a folder.

    A server never sees a part of a version: its folder is renamed before it is removed. What is not
    an exported model stays, whatever its name is.

    Args:
      folder: of the versions.
      keep: number of versions to keep, at least 1.
      new: path of a version that is kept, even if there are newer ones by now.
    """
    paths = [os.path.join(folder, str(version)) for version in list_versions(folder)]
    paths = [path for path in paths if _is_version(path)]
    for path in paths[keep:]:
        if os.path.basename(path) != os.path.basename(new):
            _remove(folder, path)


def _is_version(path: str) -> bool:
    files = [os.path.join(path, name) for name in MODEL_FILES]
    return not os.path.islink(path) and any(os.path.isfile(file) for file in files)


def _remove(folder: str, path: str) -> None:
    try:
        with atomic_folder(folder) as temporary:  # it is removed at the end
            os.rename(path, os.path.join(temporary, os.path.basename(path)))
    except OSError as error:
        # The export itself has succeeded.
        logger.warning("%s could not be removed: %s", path, error.strerror or error)
        return
    logger.info("removed %s", path)
