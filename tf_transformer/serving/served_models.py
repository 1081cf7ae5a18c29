"""All models of a server."""

import concurrent.futures
from collections.abc import Callable, Collection, Mapping

import anyio

from tf_transformer.serving.model_interface import Model
from tf_transformer.serving.model_source import ModelSource
from tf_transformer.serving.request_error import RequestError, shorten
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.served_model import ServedModel, VersionState
from tf_transformer.serving.served_version import ServedVersion
from tf_transformer.serving.server_metrics import ServerMetrics


class ServedModels:
    """All models of a server, which share its threads.

    The errors are those of TensorFlow Serving.

    Args:
      sources: a `ModelSource` for each model; their names differ.
      settings: a `ServeConfig`.
      announce: is called with the model and a version when the version is served.
      metrics: a `ServerMetrics`.
    """

    def __init__(
        self,
        sources: Collection[ModelSource],
        settings: ServeConfig,
        announce: Callable[[ServedModel, int], None],
        metrics: ServerMetrics,
    ) -> None:
        # Threads that compute the short rows, and the long rows.
        self._executors = (
            concurrent.futures.ThreadPoolExecutor(settings.concurrent_batches, "short"),
            concurrent.futures.ThreadPoolExecutor(settings.concurrent_batches, "long"),
        )
        # A model that takes long to load does not delay the others.
        self._loader = concurrent.futures.ThreadPoolExecutor(len(sources), "load")
        self._models = {
            source.name: ServedModel(
                source, settings, self._executors, self._loader, announce, metrics
            )
            for source in sources
        }

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return list(self._models)

    @property
    def versions(self) -> dict[str, int]:
        """The number of the newest version of each model that is served."""
        return {name: model.version for name, model in self.newest.items()}

    @property
    def newest(self) -> dict[str, Model]:
        """The newest version of each model that is served."""
        versions = {name: model.newest for name, model in self._models.items()}
        return {name: version.model for name, version in versions.items() if version}

    @property
    def labels(self) -> dict[str, Mapping[str, int]]:
        """The labels of the versions of each model: name -> label -> version."""
        return {name: model.source.labels for name, model in self._models.items()}

    @property
    def are_checked(self) -> bool:
        """Whether all folders were searched once, and what was found is loaded."""
        return all(model.checked.is_set() for model in self._models.values())

    @property
    def queue_lengths(self) -> dict[str, int]:
        """The number of requests of each model that wait."""
        return {name: model.queue_length for name, model in self._models.items()}

    @property
    def is_overdue(self) -> bool:
        """Whether a batch could not be stopped after its deadline."""
        return any(model.is_overdue for model in self._models.values())

    def newest_folder(self, name: str) -> str:
        """Returns the folder of the newest version that is served; "" without one."""
        newest = self._models[name].newest
        return newest.model.path if newest else ""

    def find(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> ServedVersion:
        """Returns the version that a request names, without `version` and `label` the newest one.

        Raises: RequestError with status 404 for a model or a version that is not served, 400 for an
          unknown label, and 503 while the versions are loaded at the start.
        """
        version = self._version_of(name, version, label)
        model = self._models.get(name)
        served = model.get(version) if model else None
        if served:
            return served
        if model and not model.checked.is_set():
            raise RequestError(503, "the model is being loaded")
        shown = shorten(name)
        request = f"Latest({shown})" if version is None else f"Specific({shown}, {version})"
        raise RequestError(404, f"Servable not found for request: {request}")

    def states(self, name: str, version: int | None, label: str | None) -> list[VersionState]:
        """Returns the states of the versions of a model, or of one of them.

        Raises: RequestError with status 404 or 400, as `find`.
        """
        version = self._version_of(name, version, label)
        model = self._models.get(name)
        states = model.states() if model else []
        if version is not None:
            states = [state for state in states if state.version == version]
            if not states:
                raise RequestError(
                    404, f"Could not find version {version} of model {shorten(name)}"
                )
        elif not states and (model is None or model.checked.is_set()):
            raise RequestError(404, f"Could not find any versions of model {shorten(name)}")
        return states

    def _version_of(self, name: str, version: int | None, label: str | None) -> int | None:
        """The version with a label; without one, that of the request. Raises: RequestError."""
        if label is None:
            return version
        model = self._models.get(name)
        found = model.source.labels.get(label) if model else None
        if found is None:
            raise RequestError(400, f"Unrecognized servable version label: {shorten(label)}")
        return found

    async def watch(self) -> None:
        """Loads versions, and newer ones, until it is cancelled.

        It returns when no model has a version that can be loaded at the start.
        """
        async with anyio.create_task_group() as group:
            for model in self._models.values():
                group.start_soon(model.watch)
            for model in self._models.values():
                await model.checked.wait()
            if not self.versions:
                group.cancel_scope.cancel()

    async def close(self) -> None:
        """Ends all versions. Requests that are not answered get ShutdownError."""
        async with anyio.create_task_group() as group:
            for model in self._models.values():
                group.start_soon(model.close)

    def end_threads(self) -> None:
        """Ends the threads, after `close`."""
        for executor in (*self._executors, self._loader):
            executor.shutdown(wait=False, cancel_futures=True)
