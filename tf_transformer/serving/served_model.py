"""A model that is served: its versions in memory, which follow its folder."""

import asyncio
import functools
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple

from tf_transformer.serving.model_interface import Model
from tf_transformer.serving.model_source import ModelSource
from tf_transformer.serving.reloader import Reloader
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.served_version import ServedVersion
from tf_transformer.serving.server_metrics import ServerMetrics

logger = logging.getLogger(__name__)


class VersionState(NamedTuple):
    """The state of a version, in the terms of TensorFlow Serving's ModelVersionStatus."""

    version: int
    state: str
    error_code: str = "OK"
    error_message: str = ""


class ServedModel:
    """A model that is served.

    Args:
      source: a `ModelSource`.
      settings: a `ServeConfig`.
      executors: compute the short rows, and the long rows.
      loader: loads the versions.
      announce: is called with the model and a version when the version is served.
      metrics: a `ServerMetrics`.

    Attributes:
      source: as given.
      checked: set when the folder was searched once, and what was found is loaded.
    """

    def __init__(
        self,
        source: ModelSource,
        settings: ServeConfig,
        executors: tuple[Executor, Executor],
        loader: Executor,
        announce: "Callable[[ServedModel, int], None]",
        metrics: ServerMetrics,
    ) -> None:
        self.source = source
        self.checked = asyncio.Event()
        self._settings = settings
        self._executors = executors
        self._loader = loader
        self._announce = announce
        metrics.add_model(source.name)
        self._observe_batch = functools.partial(metrics.observe_batch, source.name)
        self._served: dict[int, ServedVersion] = {}  # what new requests may use
        self._open: set[ServedVersion] = set()  # those, and unloaded ones that still compute
        # Short rows, long rows, and the count of sub-words are computed at the same time.
        self._reloader = Reloader(source, metrics, 2 * settings.concurrent_batches + 1)

    @property
    def newest(self) -> ServedVersion | None:
        """The newest version that is served, or None."""
        return self._served[max(self._served)] if self._served else None

    @property
    def queue_length(self) -> int:
        """Requests that wait."""
        return sum(version.queue_length for version in self._served.values())

    @property
    def is_overdue(self) -> bool:
        """Whether a batch could not be stopped after its deadline."""
        return any(version.is_overdue for version in self._served.values())

    def get(self, version: int | None) -> ServedVersion | None:
        """Returns a version that is served, for None the newest one; None if there is none."""
        return self.newest if version is None else self._served.get(version)

    def states(self) -> list[VersionState]:
        """Returns the states of the versions: served ones, the one that is loaded, failed ones."""
        states = [VersionState(version, "AVAILABLE") for version in sorted(self._served)[::-1]]
        if self._reloader.loading is not None:
            states.append(VersionState(self._reloader.loading, "LOADING"))
        for version, reason in self._reloader.failures.items():
            if version != self._reloader.loading:
                states.append(VersionState(version, "END", "FAILED_PRECONDITION", reason))
        return states

    async def watch(self) -> None:
        """Serves the versions that the folder and the policy ask for, until it is cancelled."""
        while True:
            try:
                await self._update()
            except Exception:
                logger.exception("the search for versions of %s failed", self.source.name)
            self.checked.set()
            await asyncio.sleep(self._settings.reload_seconds)

    async def _update(self) -> None:
        """Loads what is missing, newest first, and unloads what it replaces."""
        run = asyncio.get_running_loop().run_in_executor
        while True:
            wanted = await run(self._loader, self._reloader.wanted, set(self._served))
            # A version is unloaded only after another one is loaded in its place.
            surplus = len(self._served) - len(wanted)
            for version in sorted(self._served.keys() - wanted)[: max(0, surplus)]:
                await self._unload(version)
            missing = [version for version in wanted if version not in self._served]
            if not missing:
                return
            model = await run(self._loader, self._reloader.load, missing[0])
            if model:
                self._serve(model)

    def _serve(self, model: Model) -> None:
        version = ServedVersion(model, self._settings, self._executors, self._observe_batch)
        self._served[model.version] = version
        self._open.add(version)
        self._announce(self, model.version)

    async def _unload(self, number: int) -> None:
        """Ends a version after it has answered its requests."""
        version = self._served.pop(number)
        await version.close(self._settings.timeout)
        self._open.discard(version)
        logger.info("unloaded version %d of %s", number, self.source.name)

    async def close(self) -> None:
        """Ends all versions. Requests that are not answered get ShutdownError."""
        await asyncio.gather(*(version.close(0) for version in self._open))
