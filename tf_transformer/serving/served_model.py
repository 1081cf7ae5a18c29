"""A model that is served: the newest version in its folder, and the queue of its requests."""

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import logging
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import anyio
import numpy as np
from fastapi import HTTPException

from tf_transformer.config import ServeConfig
from tf_transformer.errors import UserError
from tf_transformer.export.versions import find_versions, read_description
from tf_transformer.serving.dynamic_batching import Batcher, QueueFullError
from tf_transformer.serving.model_interface import (
    Inputs,
    InvalidInputError,
    LoadModel,
    Model,
    Outputs,
)
from tf_transformer.serving.server_metrics import ServerMetrics

logger = logging.getLogger(__name__)

COUNT_SIGNATURE = "count_tokens"  # texts -> their numbers of sub-words
LONGEST_PAUSE = 3600.0  # seconds before a version that cannot be loaded is tried again
# A request with more bytes of text has too many sub-words, and is refused without counting them.
BYTES_PER_TOKEN = 16
SHORT_BYTES = 16_384  # of the texts that are not counted in the thread of the long ones
MAX_REASON = 500  # characters of the reason why a version cannot be loaded
DRAIN_SECONDS = 0.05  # between checks whether a replaced version has answered its requests


@dataclasses.dataclass
class ServedVersion:
    """A version in memory.

    Attributes:
      requests: how many requests use the model.
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


def text_bytes(inputs: Inputs) -> int:
    """The bytes of all texts of a request."""
    values = itertools.chain(*inputs.values())
    texts = (value.encode() if isinstance(value, str) else value for value in values)
    return sum(len(text) for text in texts if isinstance(text, bytes))


class _Failure(NamedTuple):
    """Of a version that could not be loaded."""

    reason: str
    pause: float  # seconds until the next attempt
    retry: float  # its time, of time.monotonic()


class ServedModel:
    """Serves the newest version in a folder, and then each newer one.

    A version stays when its folder is removed: an older one never takes its place. One that cannot
    be loaded is tried again after pauses that double.

    Attributes:
      name: of the model, in URLs.
      current: the version that is served, or None.
    """

    def __init__(
        self,
        name: str,
        folder: str,
        load: LoadModel,
        settings: ServeConfig,
        metrics: ServerMetrics,
    ) -> None:
        self.name = name
        self.current: ServedVersion | None = None
        self._folder = folder
        self._load = load
        self._settings = settings
        self._metrics = metrics
        self._batcher = Batcher(settings, functools.partial(metrics.observe_batch, name))
        # A long text takes seconds, for which no other request may wait.
        self._counters = [ThreadPoolExecutor(1, f"count-{kind}") for kind in ("short", "long")]
        self._loading: int | None = None
        self._failures: dict[int, _Failure] = {}
        self._closing: list[asyncio.Task] = []  # replaced versions

    def description(self) -> dict[str, Any]:
        """Returns what the version that is served says of itself; {} without one."""
        return read_description(self.current.path) if self.current else {}

    def find(self, number: int | None) -> ServedVersion:
        """Returns a version, for None the one that is served. Raises: HTTPException."""
        if self.current is None:
            raise HTTPException(503, "the model is being loaded")
        if number not in (None, self.current.number):
            wanted = f"Specific({self.name}, {number})"
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
            message = f"Could not find version {number} of model {self.name}"
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

    async def predict(self, served: ServedVersion, name: str, inputs: Inputs) -> Outputs:
        """Computes the signature with this name of a version. Raises: HTTPException."""
        settings, start = self._settings, time.monotonic()
        deadline = start + settings.timeout
        size, limit = text_bytes(inputs), BYTES_PER_TOKEN * settings.max_request_tokens
        if size > limit:
            message = f"{size:,} bytes of text in one request: the server takes at most {limit:,}"
            raise HTTPException(413, message)
        counter = self._counters[size > SHORT_BYTES]
        run = asyncio.get_running_loop().run_in_executor
        served.requests += 1
        try:
            with anyio.fail_after(settings.timeout):
                lengths = await run(counter, served.lengths, name, inputs, deadline)
                tokens, limit = sum(lengths), settings.max_request_tokens
                if tokens > limit:
                    message = (
                        f"{tokens:,} sub-words in one request: the server takes at most {limit:,}"
                    )
                    raise HTTPException(413, message)
                signature = served.model.signatures[name]
                outputs = await self._batcher.compute(signature, inputs, lengths, deadline)
        except InvalidInputError as error:
            raise HTTPException(400, str(error)) from None
        except QueueFullError:
            message = f"{settings.max_queue} requests are waiting: try again later"
            raise HTTPException(503, message) from None
        except TimeoutError:
            raise HTTPException(504, f"no answer within {settings.timeout:g} s") from None
        finally:
            served.requests -= 1
        self._metrics.observe_prediction(self.name, len(lengths), time.monotonic() - start)
        return outputs

    async def watch(self) -> None:
        """Loads versions, and newer ones, until it is cancelled.

        Raises: UserError when no version can be loaded at the start.
        """
        while True:
            if newer := await asyncio.to_thread(self._load_newer):
                if self.current:  # it answers the requests that it has
                    self._closing = [task for task in self._closing if not task.done()]
                    self._closing.append(asyncio.create_task(self.current.close()))
                self.current = newer
                logger.info("serving version %d of %s", newer.number, self.name)
            if self.current is None:
                raise UserError(
                    f"no version of {self.name} can be loaded: export a model with "
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
                if served := self._try_to_load(number, path):
                    return served
        return None

    def _try_to_load(self, number: int, path: str) -> ServedVersion | None:
        """Loads a version. Returns: None if that fails."""
        logger.info("loading version %d of %s", number, self.name)
        settings, start, served = self._settings, time.monotonic(), None
        self._loading = number
        try:
            model = self._load(path)
            with contextlib.ExitStack() as stack:
                stack.callback(model.close)
                for signature in model.signatures.values():  # or requests would wait for it
                    signature.warm_up()
                stack.pop_all()
            served = ServedVersion(number, path, model)
            self._failures.pop(number, None)
        except Exception as error:  # TensorFlow raises errors of many types
            reason = textwrap.shorten(str(error).replace(path, str(number)), MAX_REASON)
            before = self._failures.get(number)
            pause = min(2 * before.pause, LONGEST_PAUSE) if before else settings.reload_seconds
            self._failures[number] = _Failure(reason, pause, time.monotonic() + pause)
            logger.warning("version %d of %s cannot be loaded: %s", number, self.name, reason)
        finally:
            self._loading = None
        self._metrics.observe_load(self.name, number, time.monotonic() - start, served is not None)
        return served

    async def close(self) -> None:
        """Frees the memory, after all requests are answered or cancelled."""
        if self.current:
            await self.current.close()
        await asyncio.gather(*self._closing)
        self._batcher.close()
        for counter in self._counters:
            counter.shutdown(wait=False, cancel_futures=True)
        logger.info("stopped serving %s", self.name)
