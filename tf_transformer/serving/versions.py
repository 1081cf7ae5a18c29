"""The versions of a model in a folder.

A version is a folder whose name is its number, without leading zeros.
"""

import logging
import os

from tf_transformer.atomic_io import atomic_folder

logger = logging.getLogger(__name__)

MAX_VERSION = 2**63 - 1  # versions are int64
MODEL_FILE = "saved_model.pb"  # each version has it


def list_versions(folder: str) -> list[int]:
    """Returns the versions in a folder, newest first; [] for a folder that cannot be read."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    numbers = {int(name) for name in names if name.isascii() and name.isdigit()}
    # "01" is no version: a version has one folder.
    versions = {number for number in numbers if str(number) in names}
    return sorted((number for number in versions if number <= MAX_VERSION), reverse=True)


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
    return not os.path.islink(path) and os.path.isfile(os.path.join(path, MODEL_FILE))


def _remove(folder: str, path: str) -> None:
    try:
        with atomic_folder(folder) as temporary:  # it is removed at the end
            os.rename(path, os.path.join(temporary, os.path.basename(path)))
    except OSError as error:
        # The export itself has succeeded.
        logger.warning("%s could not be removed: %s", path, error.strerror or error)
        return
    logger.info("removed %s", path)
