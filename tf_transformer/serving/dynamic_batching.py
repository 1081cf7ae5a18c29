"""Dynamic batching of requests.

Requests that arrive while a batch is computed wait, and form the next batch. A batch of 32
sentences takes little more time than a few sentences. A request that arrives while nothing is
computed starts at once, without a delay to collect others.

- A batch has rows of one signature, and of equal options: those of its inputs that are numbers.
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

from tf_transformer.serving.model_interface import Inputs, Outputs, Signature
from tf_transformer.serving.serve_config import ServeConfig

SHORT_LENGTH = 64  # sub-words of the longest row in the lane of short rows


class QueueFullError(Exception):
    """Too many requests wait."""


@dataclasses.dataclass(eq=False)
class _Part:
    """Rows of one request that are computed in one batch."""

    signature: Signature
    inputs: Inputs  # of these rows
    rows: int
    length: int  # sub-words of the longest row
    key: Any  # parts of equal keys may share a batch
    deadline: float  # of time.monotonic
    place: tuple[int, int, int]  # in the queue: turn, number of the part, number of the request
    arrived: float
    future: asyncio.Future[Outputs]


class _Lane:
    """The queue and the threads of the short rows, or of the long ones."""

    def __init__(self, name: str, slots: int) -> None:
        self.name = name
        self.executor = ThreadPoolExecutor(slots, name)
        self.free_slots = slots
        self.turn = 0  # of the part that started last
        self.queue: list[_Part] = []  # sorted by place


class Batcher:
    """A queue of requests to signatures.

    Args:
      settings: a `ServeConfig`.
      observe: is called in the event loop after each batch, with its lane ("short" or "long"), its
        rows, rows x sub-words of the longest one, and the seconds in the queue of each part of a
        request in the batch.
    """

    def __init__(
        self, settings: ServeConfig, observe: Callable[[str, int, int, list[float]], None]
    ) -> None:
        self._settings = settings
        self._observe = observe
        self._short, self._long = (
            _Lane(name, settings.concurrent_batches) for name in ("short", "long")
        )
        self._running: set[asyncio.Task] = set()  # batches
        self._requests = itertools.count()

    @property
    def queue_length(self) -> int:
        """Requests with a part that has not started."""
        return len({part.place[2] for lane in (self._short, self._long) for part in lane.queue})

    async def compute(
        self, signature: Signature, inputs: Inputs, lengths: Sequence[int], deadline: float
    ) -> Outputs:
        """Computes a request in one or several batches. To withdraw it, cancel the task.

        Args:
          signature: computes the request.
          inputs: lists of values by name, all of the same length.
          lengths: sub-words of each row.
          deadline: a time of `time.monotonic`, after which no batch computes it.
        Returns: arrays `[rows, ...]` by name.
        Raises: QueueFullError; the exceptions of the signature.
        """
        if self.queue_length >= self._settings.max_queue:
            raise QueueFullError
        loop, now, request = asyncio.get_running_loop(), time.monotonic(), next(self._requests)
        key = _batch_key(signature, inputs)
        groups = [[*range(len(lengths))]]
        if signature.may_be_batched:
            groups = [*self._split(lengths)]
        # Each part takes a later turn than the one before. Parts that wait have the next turn, or a
        # later one, so a new request cannot delay them again and again.
        turns = {lane: itertools.count(lane.turn + 1) for lane in (self._short, self._long)}
        parts = []
        for number, rows in enumerate(groups):
            columns = {name: [values[row] for row in rows] for name, values in inputs.items()}
            length = max((lengths[row] for row in rows), default=0)
            lane = self._short if length <= SHORT_LENGTH else self._long
            place = next(turns[lane]), number, request
            future = loop.create_future()
            part = _Part(signature, columns, len(rows), length, key, deadline, place, now, future)
            bisect.insort(lane.queue, part, key=lambda part: part.place)
            parts.append(part)
        for lane in turns:
            self._start_batches(lane)
        try:
            results = await asyncio.gather(*(part.future for part in parts))
        except BaseException:  # the request is withdrawn, or fails
            for part in parts:
                part.future.cancel()
            for lane in turns:
                lane.queue = [part for part in lane.queue if not part.future.done()]
            raise
        order = np.argsort(np.concatenate(groups))
        return {
            name: np.concatenate([result[name] for result in results])[order] for name in results[0]
        }

    def close(self) -> None:
        """Ends the threads when they have computed their batches."""
        for lane in (self._short, self._long):
            lane.executor.shutdown(wait=False, cancel_futures=True)

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

    def _start_batches(self, lane: _Lane) -> None:
        """Starts batches while a thread is free and a part waits."""
        while lane.free_slots and lane.queue:
            batch = self._next_batch(lane)
            lane.free_slots -= 1
            task = asyncio.get_running_loop().create_task(self._compute(batch, lane))
            self._running.add(task)  # asyncio itself keeps a weak reference
            task.add_done_callback(lambda task: self._end_batch(task, lane))

    def _end_batch(self, task: asyncio.Task, lane: _Lane) -> None:
        self._running.discard(task)
        lane.free_slots += 1
        self._start_batches(lane)

    def _next_batch(self, lane: _Lane) -> list[_Part]:
        """Takes the first part from the queue, and the next ones that can share its batch."""
        first = lane.queue[0]
        lane.turn = first.place[0]
        batch: list[_Part] = []
        rows, length = 0, 0
        for part in lane.queue:
            if part.key == first.key:
                rows += part.rows
                length = max(length, part.length)
                if batch and not self._fits(rows, length):
                    break
                batch.append(part)
        lane.queue = [part for part in lane.queue if part not in batch]
        return batch

    async def _compute(self, batch: list[_Part], lane: _Lane) -> None:
        """Computes a batch. If that fails, computes each half alone, down to the wrong part."""
        deadline = max(part.deadline for part in batch)
        ends = np.cumsum([part.rows for part in batch])
        try:
            outputs = await self._run(batch, lane, deadline)
            results = [
                {name: values[end - part.rows : end] for name, values in outputs.items()}
                for part, end in zip(batch, ends)
            ]
        except Exception as error:
            if len(batch) > 1 and time.monotonic() < deadline:
                for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                    if left := [part for part in half if not part.future.done()]:
                        await self._compute(left, lane)
                return
            for part in batch:
                if not part.future.done():
                    part.future.set_exception(error)
        else:
            for part, result in zip(batch, results):
                if not part.future.done():
                    part.future.set_result(result)

    async def _run(self, batch: list[_Part], lane: _Lane, deadline: float) -> Outputs:
        """Runs the signature on a batch in a thread of the lane."""
        signature, now = batch[0].signature, time.monotonic()
        inputs = {
            name: [value for part in batch for value in part.inputs[name]]
            for name in signature.inputs
        }
        rows = sum(part.rows for part in batch)
        tokens = rows * max(part.length for part in batch)
        waits = [now - part.arrived for part in batch]
        run = asyncio.get_running_loop().run_in_executor
        try:
            return await run(lane.executor, signature, inputs, deadline)
        finally:
            self._observe(lane.name, rows, tokens, waits)


def _batch_key(signature: Signature, inputs: Inputs) -> Any:
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
