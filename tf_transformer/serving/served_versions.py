"""The version of a model that is served: the newest one in its folder."""

import asyncio
import dataclasses
import itertools
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from fastapi import HTTPException

from tf_transformer.config import ServeConfig
from tf_transformer.errors import UserError
from tf_transformer.export.versions import find_versions
from tf_transformer.serving.model_interface import Inputs, LoadModel, Model

logger = logging.getLogger(__name__)

COUNT_SIGNATURE = "count_tokens"  # texts -> their numbers of sub-words
LONGEST_PAUSE = 3600.0  # seconds before a version that cannot be loaded is tried again
DRAIN_SECONDS = 0.05  # between checks whether a replaced version has answered its requests


@dataclasses.dataclass
class ServedVersion:
    """A version in memory.

    Attributes:
      number: of the version.
      path: of its folder.
      model: a `Model`.
      requests: the number of requests that use the model.
    """

    number: int
    path: str
    model: Model
    requests: int = 0

    def lengths(self, name: str, inputs: Inputs, deadline: float) -> list[int]:
        """Counts the sub-words of each row in all texts, with the source's tokenizer.

        The beginning of a translation counts like the text: both bound the steps of the search.
        Without the signature that counts, which older exports lack, all lengths are 0.
        """
        count = self.model.signatures.get(COUNT_SIGNATURE)
        kinds = self.model.signatures[name].inputs
        # Most requests leave out the texts that have a default, which are empty.
        columns = [
            values
            for key, values in inputs.items()
            if kinds[key].dtype == "DT_STRING" and any(values)
        ]
        rows = len(next(iter(inputs.values())))
        if count is None or not columns:
            return [0] * rows
        tokens = count({"text": [*itertools.chain(*columns)]}, deadline)["tokens"]
        return np.reshape(tokens, [-1, rows]).sum(axis=0).tolist()

    async def close(self) -> None:
        """Frees the memory of the model when all requests are answered, by their deadlines."""
        while self.requests:
            await asyncio.sleep(DRAIN_SECONDS)
        await asyncio.to_thread(self.model.close)


class _Failure(NamedTuple):
    """Of a version that could not be loaded."""

    reason: str
    pause: float  # seconds until the next attempt
    retry: float  # its time, of time.monotonic()


class ServedVersions:
    """Serves the newest version in a folder, and then each newer one.

    A version stays when its folder is removed: an older one never takes its place. One that cannot
    be loaded is tried again after pauses that double.

    Args:
      name: of the model.
      folder: of the versions.
      load: loads a version.
      settings: a `ServeConfig`.
      observe: is called after each load, with the version, the seconds, and whether it is loaded.

    Attributes:
      current: the version that is served, or None.
    """

    def __init__(
        self,
        name: str,
        folder: str,
        load: LoadModel,
        settings: ServeConfig,
        observe: Callable[[int, float, bool], None],
    ) -> None:
        self.current: ServedVersion | None = None
        self._name = name
        self._folder = folder
        self._load = load
        self._settings = settings
        self._observe = observe
        self._loader = ThreadPoolExecutor(1, "load")
        self._loading: int | None = None
        self._failures: dict[int, _Failure] = {}
        self._closing: list[asyncio.Task] = []  # replaced versions

    def find(self, number: int | None) -> ServedVersion:
        """Returns a version, for None the one that is served. Raises: HTTPException."""
        if self.current is None:
            raise HTTPException(503, "the model is being loaded")
        if number not in (None, self.current.number):
            wanted = f"Specific({self._name}, {number})"
            raise HTTPException(404, f"Servable not found for request: {wanted}")
        return self.current

    def states(self, number: int | None) -> list[dict[str, Any]]:
        """Returns the states of all versions, or of one of them. Raises: HTTPException."""
        served = {self.current.number: ("AVAILABLE", "OK", "")} if self.current else {}
        loading = {} if self._loading is None else {self._loading: ("LOADING", "OK", "")}
        failed = {
            version: ("END", "FAILED_PRECONDITION", failure.reason)
            for version, failure in sorted(self._failures.items(), reverse=True)
        }
        states = {**served, **failed, **loading}
        if number is not None and number not in states:
            message = f"Could not find version {number} of model {self._name}"
            raise HTTPException(404, message)
        return [
            {
                "version": str(version),
                "state": state,
                "status": {"error_code": code, "error_message": reason},
            }
            for version, (state, code, reason) in states.items()
            if number in (None, version)
        ]

    async def watch(self) -> None:
        """Loads versions, and newer ones, until it is cancelled.

        Raises: UserError when no version can be loaded at the start.
        """
        run = asyncio.get_running_loop().run_in_executor
        while True:
            if newer := await run(self._loader, self._load_newer):
                if self.current:  # it answers the requests that it has
                    self._closing = [task for task in self._closing if not task.done()]
                    self._closing.append(asyncio.create_task(self.current.close()))
                self.current = newer
                logger.info("serving version %d of %s", newer.number, self._name)
            if self.current is None:
                raise UserError(
                    f"no version of {self._name} can be loaded: export a model with "
                    "`tf-transformer export`, or give another --export_dir"
                )
            await asyncio.sleep(self._settings.reload_seconds)

    def _load_newer(self) -> ServedVersion | None:
        """Loads the newest version that can be loaded, and is newer than the current one."""
        found = find_versions(self._folder)
        self._failures = {key: value for key, value in self._failures.items() if key in found}
        for number, path in found.items():
            if self.current and number <= self.current.number:
                break
            failure = self._failures.get(number)
            if failure is None or failure.retry <= time.monotonic():
                if model := self._try_to_load(number, path):
                    return ServedVersion(number, path, model)
        return None

    def _try_to_load(self, number: int, path: str) -> Model | None:
        """Loads a version. Returns: None if that fails."""
        logger.info("loading version %d of %s", number, self._name)
        settings, start, model = self._settings, time.monotonic(), None
        self._loading = number
        try:
            # Short rows, long rows, and the count of sub-words are computed at the same time.
            loaded = self._load(path, 2 * settings.concurrent_batches + 1)
            if self.current:  # or the requests in a lane would wait for each first run
                try:
                    for signature in loaded.signatures.values():
                        signature.warm_up()
                except Exception:
                    loaded.close()
                    raise
            model = loaded
            self._failures.pop(number, None)
        except Exception as error:  # TensorFlow raises errors of many types
            reason = str(error).replace(path, str(number))
            before = self._failures.get(number)
            pause = min(2 * before.pause, LONGEST_PAUSE) if before else settings.reload_seconds
            self._failures[number] = _Failure(reason, pause, time.monotonic() + pause)
            logger.warning("version %d of %s cannot be loaded: %s", number, self._name, reason)
        finally:
            self._loading = None
        self._observe(number, time.monotonic() - start, model is not None)
        return model

    async def close(self) -> None:
        """Frees the memory, after all requests are answered or cancelled."""
        if self.current:
            await self.current.close()
        await asyncio.gather(*self._closing)
        self._loader.shutdown(wait=False, cancel_futures=True)
