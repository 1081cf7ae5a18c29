"""The versions of a model in a folder."""

import contextlib
import logging
import os

from tf_transformer.serving.loaded_model import LoadedModel

logger = logging.getLogger(__name__)

MAX_VERSION = 2**63 - 1  # versions are int64
FileList = list[tuple[str, str, int, int]]  # folder, name, time and size of each file


class Reloader:
    """Loads the newest version in a folder.

    A version that cannot be loaded is logged as a warning, and tried again after its files have
    changed.

    Args:
      folder: of the versions.
      concurrency: of each `LoadedModel`.
    """

    def __init__(self, folder: str, concurrency: int = 1) -> None:
        self._folder = folder
        self._concurrency = concurrency
        # Version -> its files when it could not be loaded, and the reason.
        self._failed: dict[int, tuple[FileList, str]] = {}
        self.failed_loads = 0

    @property
    def failures(self) -> dict[int, str]:
        """The versions that could not be loaded, newest first, with the reason."""
        failed = dict(self._failed)  # another thread loads
        return {version: failed[version][1] for version in sorted(failed, reverse=True)}

    def load_newer(self, current: LoadedModel | None) -> LoadedModel | None:
        """Loads the newest version that can be loaded.

        Args:
          current: the `LoadedModel` that is served, or None at the start.
        Returns: a `LoadedModel`, or None if there is no newer version than `current`.
        """
        versions = self._versions()
        for version in self._failed.keys() - versions:
            self._failed.pop(version, None)  # its folder was removed
        for version in versions:
            path = os.path.join(self._folder, str(version))
            if current and version == current.version:
                return None
            files = _list_files(path)
            if version in self._failed and self._failed[version][0] == files:
                continue
            logger.info("loading %s", path)
            try:
                model = LoadedModel(path, self._concurrency)
            except Exception as error:  # TensorFlow raises errors of many types
                self.failed_loads += 1
                self._failed[version] = files, str(error)
                logger.warning("%s cannot be loaded: %s", path, error)
                continue
            self._failed.pop(version, None)
            return model
        return None

    def _versions(self) -> list[int]:
        """The versions in the folder, newest first."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        numbers = {int(name) for name in names if name.isascii() and name.isdigit()}
        # "01" is no version: a version has one folder.
        versions = {number for number in numbers if str(number) in names}
        return sorted((number for number in versions if number <= MAX_VERSION), reverse=True)


def _list_files(path: str) -> FileList:
    """Lists folder, name, time and size of each file in a folder, to detect changes."""
    files = []
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.stat(os.path.join(folder, name))
                files.append((folder, name, status.st_mtime_ns, status.st_size))
    return sorted(files)
