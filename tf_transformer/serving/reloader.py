"""Loading of the versions in a folder."""

import contextlib
import logging
import os
import time
from collections.abc import Collection
from typing import NamedTuple

from tf_transformer.export.versions import list_versions
from tf_transformer.serving.model_interface import Model
from tf_transformer.serving.model_source import ModelSource
from tf_transformer.serving.server_metrics import ServerMetrics

logger = logging.getLogger(__name__)

FileList = list[tuple[str, str, int, int, int]]  # folder, name, times and size of each file

# A reason may pass, such as too little memory. The pause doubles with each failure.
FIRST_RETRY_SECONDS = 60.0
LAST_RETRY_SECONDS = 3600.0


class _Failure(NamedTuple):
    """Of a version that could not be loaded."""

    files: FileList | None  # its files then
    reason: str
    pause: float  # seconds until the next attempt
    retry: float  # its time, of time.monotonic()


class Reloader:
    """Loads versions of a model.

    A version that cannot be loaded is logged as a warning, and tried again after its files have
    changed, and otherwise after 1, 2, 4, ... minutes, at most an hour.

    Args:
      source: a `ModelSource`.
      metrics: a `ServerMetrics`.
      concurrency: calls of a version that are computed at the same time.

    Attributes:
      loading: the version that is being loaded, or None.
    """

    def __init__(self, source: ModelSource, metrics: ServerMetrics, concurrency: int = 1) -> None:
        self._source = source
        self._metrics = metrics
        self._concurrency = concurrency
        self._failed: dict[int, _Failure] = {}  # by version
        self.loading: int | None = None

    @property
    def failures(self) -> dict[int, str]:
        """The versions that could not be loaded, newest first, with the reason."""
        failed = dict(self._failed)  # another thread loads
        return {version: failed[version].reason for version in sorted(failed, reverse=True)}

    def wanted(self, served: Collection[int]) -> list[int]:
        """Returns the versions to serve, newest first, without those that cannot be loaded.

        Args:
          served: the versions that are in memory.
        """
        for version, failure in list(self._failed.items()):
            if _list_files(self._path(version)) != failure.files:
                del self._failed[version]
        now = time.monotonic()
        excluded = [version for version, failure in self._failed.items() if now < failure.retry]
        return self._source.wanted(list_versions(self._source.folder), served, excluded)

    def load(self, version: int) -> Model | None:
        """Loads a version.

        Returns: a `Model`, or None if that fails: `wanted` leaves it out then.
        """
        path = self._path(version)
        files = _list_files(path)
        logger.info("loading %s", path)
        self.loading = version
        start = time.monotonic()
        try:
            model = self._source.load(path, self._concurrency)
            self._observe_load(path, start, True)
            self._failed.pop(version, None)
            return model
        except Exception as error:  # TensorFlow raises errors of many types
            if _list_files(path) is None and version not in self._source.specific:
                logger.info("%s was removed while it was loaded", path)
                return None
            self._observe_load(path, start, False)
            before = self._failed.get(version)
            pause = min(2 * before.pause, LAST_RETRY_SECONDS) if before else FIRST_RETRY_SECONDS
            retry = time.monotonic() + pause
            self._failed[version] = _Failure(files, str(error), pause, retry)
            logger.warning("%s cannot be loaded: %s", path, error)
            return None
        finally:
            self.loading = None

    def _observe_load(self, path: str, start: float, is_loaded: bool) -> None:
        seconds = time.monotonic() - start
        self._metrics.observe_load(self._source.name, path, seconds, is_loaded)

    def _path(self, version: int) -> str:
        return os.path.join(self._source.folder, str(version))


def _list_files(path: str) -> FileList | None:
    """Lists folder, name, times and size of each file in a folder, to detect changes.

    The times are those of the content and of the permissions.

    Returns: the list; None when there is no such folder.
    """
    if not os.path.isdir(path):
        return None
    files = []
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.stat(os.path.join(folder, name))
                times = status.st_mtime_ns, status.st_ctime_ns
                files.append((folder, name, *times, status.st_size))
    return sorted(files)
