"""A version of a model that answers requests: its queues and its limits."""

import asyncio
import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor

import anyio
import numpy as np

from tf_transformer.serving.dynamic_batching import (
    Batcher,
    BatchLimits,
    QueueFullError,
    ShutdownError,
)
from tf_transformer.serving.model_interface import Inputs, InvalidInputError, Model, Outputs
from tf_transformer.serving.request_error import RequestError
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.timing import BatchReport, Timing

COUNT_SIGNATURE = "count_tokens"  # texts -> their numbers of sub-words


class TooLargeError(Exception):
    """A request is beyond a limit of the server. Its message says which."""


@contextlib.contextmanager
def explain_errors(settings: ServeConfig, seconds: float) -> Iterator[None]:
    """Turns the exceptions of `ServedVersion.predict` into `RequestError`, except those of bugs.

    Args:
      settings: a `ServeConfig`.
      seconds: that the request had until its deadline.
    """
    try:
        yield
    except TooLargeError as error:
        raise RequestError(413, str(error)) from None
    except InvalidInputError as error:
        # A message of TensorFlow may quote the input.
        raise RequestError(400, str(error), private=str(error)) from None
    except TimeoutError:
        raise RequestError(504, f"no answer within {seconds:.3g} s") from None
    except QueueFullError:
        raise RequestError(
            503, f"{settings.max_queue} requests are waiting: try again later"
        ) from None
    except ShutdownError:
        raise RequestError(503, "the server is shutting down") from None


class ServedVersion:
    """A version that is served. It is created in a running event loop.

    Args:
      model: a `Model`.
      settings: a `ServeConfig`.
      executors: compute the short rows, and the long rows.
      observe_batch: is called after each batch with the name of the signature.
    """

    def __init__(
        self,
        model: Model,
        settings: ServeConfig,
        executors: tuple[Executor, Executor],
        observe_batch: Callable[[str, BatchReport], None] = lambda signature, report: None,
    ) -> None:
        self.model = model
        self._settings = settings
        self._tasks: set[asyncio.Task] = set()  # of the requests that are not answered
        self._closed = False
        self._batchers = {}
        for name, signature in model.signatures.items():
            limits = BatchLimits(
                settings.max_batch_size if signature.may_be_batched else 0,
                settings.max_batch_tokens,
                settings.max_queue,
                settings.concurrent_batches,
            )
            observe = functools.partial(observe_batch, name)
            self._batchers[name] = Batcher(signature, executors, limits, observe)

    @property
    def queue_length(self) -> int:
        """Requests that wait."""
        return sum(batcher.queue_length for batcher in self._batchers.values())

    @property
    def is_overdue(self) -> bool:
        """Whether a batch could not be stopped after its deadline."""
        return any(batcher.is_overdue for batcher in self._batchers.values())

    def predict(
        self,
        name: str,
        inputs: Inputs,
        deadline: float,
        timing: Timing | None = None,
        admit: Callable[[int], None] = lambda tokens: None,
    ) -> "asyncio.Task[Outputs]":
        """Starts the computation of a request.

        Args:
          name: of a signature.
          inputs: lists of values by name, all of the same length.
          deadline: a time of `time.monotonic`.
          timing: a new `Timing`, which records when the request waits and is computed.
          admit: is called with the number of sub-words before they are computed, unless the request
            is refused; an exception of it is that of the task.
        Returns: a task whose result is arrays `[rows, ...]` by name. Its exceptions: TooLargeError;
          QueueFullError; TimeoutError after the deadline; ShutdownError; InvalidInputError. To
          withdraw the request, cancel the task.
        """
        task = asyncio.get_running_loop().create_task(
            self._predict(name, inputs, deadline, timing, admit)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _predict(
        self,
        name: str,
        inputs: Inputs,
        deadline: float,
        timing: Timing | None,
        admit: Callable[[int], None],
    ) -> Outputs:
        self._check_rows(name, len(next(iter(inputs.values()))))
        try:
            lengths = await asyncio.to_thread(self._lengths, name, inputs, deadline)
            # A request that is refused costs its client no sub-words.
            self._check_tokens(sum(lengths))
            self._batchers[name].check_room()
            admit(sum(lengths))
            # When the task of the request is cancelled, so is the future.
            result = self._batchers[name].submit(inputs, lengths, deadline, timing)
            with anyio.fail_after(deadline - time.monotonic()):
                return await result
        except Exception:
            if self._closed:  # the model was closed during a computation
                raise ShutdownError from None
            raise

    def _check_rows(self, name: str, rows: int) -> None:
        settings = self._settings
        may_be_batched = self.model.signatures[name].may_be_batched
        max_rows = settings.max_rows if may_be_batched else settings.max_rows_alone
        if rows > max_rows:
            raise TooLargeError(f"{rows} rows in one request: {name} takes at most {max_rows}")

    def _check_tokens(self, tokens: int) -> None:
        if tokens > self._settings.max_request_tokens:
            raise TooLargeError(
                f"{tokens:,} sub-words in one request: the server takes at most "
                f"{self._settings.max_request_tokens:,}"
            )

    def _lengths(self, name: str, inputs: Inputs, deadline: float) -> list[int]:
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

    async def close(self, seconds: float) -> None:
        """Answers the pending requests, and frees the memory of the model.

        No new request may come. Of several calls, the one whose time is over first closes.

        Args:
          seconds: to wait at most. Then, the other requests get ShutdownError.
        """
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        if self._closed:
            return
        self._closed = True
        for batcher in self._batchers.values():
            batcher.close()
        await asyncio.to_thread(self.model.close)
