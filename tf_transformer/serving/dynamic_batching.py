"""Dynamic batching of requests.

Requests that arrive while a batch is computed wait, and form the next batch. A batch of 32
sentences takes little more time than a few sentences. A request that arrives while nothing is
computed starts at once, without a delay to collect others.

- A batch has rows of one signature, and of equal options, which are its inputs that are numbers.
- A large request cannot block the others: its rows are split into parts, each at most one batch.
  Parts of different requests take turns.
- Short and long rows have lanes of their own, so a short row is not in a batch with a long one, and
  does not wait for one.
- A batch ends when the deadlines of all its requests have passed.
"""

import asyncio
import bisect
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tf_transformer.config import ServeConfig
from tf_transformer.serving.model_interface import Inputs, LoadedSignature, Outputs

SHORT_LENGTH = 64  # sub-words of the longest row in the lane of short rows


class QueueFullError(Exception):
    """Too many requests wait."""


@dataclasses.dataclass(eq=False)
class _Request:
    signature: LoadedSignature
    inputs: Inputs
    deadline: float  # of time.monotonic
    arrived: float
    key: Any  # requests of equal keys may share a batch


@dataclasses.dataclass(eq=False)
class _Part:
    """Rows of a request that are computed in one batch."""

    request: _Request
    rows: list[int]
    length: int  # sub-words of the longest row
    place: tuple[int, int]  # in the queue: turn, number of the part
    future: asyncio.Future[Outputs]


class _Lane:
    """The queue and the threads of the short rows, or of the long ones."""

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        self.executor = ThreadPoolExecutor(threads, name)
        self.workers: set[Any] = set()  # tasks, at most one for each thread
        self.turn = 0  # of the part that started last
        self.queue: list[_Part] = []  # sorted by place


class Batcher:
    """A queue of requests to signatures.

    Args:
      settings: a `ServeConfig`.
      observe: is called in the event loop before each batch, with its lane ("short" or "long"), its
        rows, and the seconds in the queue of each part of a request in the batch.
    """

    def __init__(
        self, settings: ServeConfig, observe: Callable[[str, int, list[float]], None]
    ) -> None:
        self._settings = settings
        self._observe = observe
        self._lanes = [_Lane(name, settings.concurrent_batches) for name in ("short", "long")]

    @property
    def queue_length(self) -> int:
        """Requests with a part that has not started."""
        parts = [part for lane in self._lanes for part in lane.queue if not part.future.done()]
        return len({part.request for part in parts})

    async def compute(
        self, signature: LoadedSignature, inputs: Inputs, lengths: Sequence[int], deadline: float
    ) -> Outputs:
        """Computes a request in one or several batches. To withdraw it, cancel the task.

        Args:
          signature, inputs: the request.
          lengths: sub-words of each row.
          deadline: a time of `time.monotonic`, after which no batch computes it.
        Returns: arrays `[rows, ...]` by name.
        Raises: QueueFullError; the exceptions of the signature.
        """
        if self.queue_length >= self._settings.max_queue:
            raise QueueFullError
        key = _batch_key(signature, inputs)
        request = _Request(signature, inputs, deadline, time.monotonic(), key)
        groups = [[*range(len(lengths))]]
        if signature.may_be_batched:
            groups = [*self._split(lengths)]
        # Each part takes a later turn than the one before. Parts that wait have the next turn, or a
        # later one, so a new request cannot delay them again and again.
        turns = {lane: itertools.count(lane.turn + 1) for lane in self._lanes}
        futures = []
        for number, rows in enumerate(groups):
            length = max((lengths[row] for row in rows), default=0)
            lane = self._lanes[length > SHORT_LENGTH]
            futures.append(asyncio.get_running_loop().create_future())
            part = _Part(request, rows, length, (next(turns[lane]), number), futures[-1])
            bisect.insort(lane.queue, part, key=lambda part: part.place)
            if len(lane.workers) < self._settings.concurrent_batches:
                lane.workers.add(asyncio.create_task(self._work(lane)))
        try:
            results = await asyncio.gather(*futures)
        finally:  # where the request is withdrawn, or a part fails, the others are not computed
            for future in futures:
                future.cancel()
        order = np.argsort(np.concatenate(groups))
        return {
            name: np.concatenate([result[name] for result in results])[order] for name in results[0]
        }

    def _split(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Splits the rows of a request into parts, shortest rows first."""
        part: list[int] = []
        for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
            becomes_long = part and lengths[part[-1]] <= SHORT_LENGTH < lengths[row]
            if part and (becomes_long or not self._fits(len(part) + 1, lengths[row])):
                yield part
                part = []
            part.append(row)
        yield part

    def _fits(self, rows: int, length: int) -> bool:
        """Whether a batch of rows of this length is within the limits."""
        settings = self._settings
        return rows <= settings.max_batch_size and rows * length <= settings.max_batch_tokens

    async def _work(self, lane: _Lane) -> None:
        """Computes batches while a part waits."""
        while batch := self._next_batch(lane):
            await self._compute(batch, lane)
        lane.workers.remove(asyncio.current_task())

    def _next_batch(self, lane: _Lane) -> list[_Part]:
        """Takes the first part from the queue, and the next ones that can share its batch."""
        waiting = [part for part in lane.queue if not part.future.done()]  # else it is withdrawn
        batch: list[_Part] = []
        rows, length = 0, 0
        for part in waiting:
            if part.request.key == waiting[0].request.key:
                rows += len(part.rows)
                length = max(length, part.length)
                if batch and not self._fits(rows, length):
                    break
                batch.append(part)
        if batch:
            lane.turn = batch[0].place[0]
        lane.queue = [part for part in waiting if part not in batch]
        return batch

    async def _compute(self, batch: list[_Part], lane: _Lane) -> None:
        """Computes a batch. If that fails, all its requests do: they have equal options."""
        signature, now = batch[0].request.signature, time.monotonic()
        deadline = max(part.request.deadline for part in batch)
        ends = [*itertools.accumulate(len(part.rows) for part in batch)]
        self._observe(lane.name, ends[-1], [now - part.request.arrived for part in batch])
        run = asyncio.get_running_loop().run_in_executor
        try:
            inputs = {
                name: [part.request.inputs[name][row] for part in batch for row in part.rows]
                for name in signature.inputs
            }
            outputs = await run(lane.executor, signature, inputs, deadline)
        except Exception as error:
            for part in batch:
                if not part.future.done():
                    part.future.set_exception(error)
            return
        for part, end in zip(batch, ends):
            if not part.future.done():
                rows = slice(end - len(part.rows), end)
                part.future.set_result({name: values[rows] for name, values in outputs.items()})

    def close(self) -> None:
        """Ends the threads when they have computed their batches."""
        for lane in self._lanes:
            lane.executor.shutdown(wait=False, cancel_futures=True)


def _batch_key(signature: LoadedSignature, inputs: Inputs) -> Any:
    """Requests of equal keys may share a batch.

    The options of a request whose rows differ in them, or that must not be batched, equal no other.
    """
    options = [
        frozenset(inputs[name])
        for name, given in signature.inputs.items()
        if given.dtype != "DT_STRING"
    ]
    if not signature.may_be_batched or any(len(values) > 1 for values in options):
        return object()
    return signature, *options
