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
class _Request:
    signature: Signature
    inputs: Inputs
    deadline: float  # of time.monotonic
    future: asyncio.Future[Outputs]
    parts: int = 0
    outputs: list[tuple[list[int], Outputs]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class _Part:
    """Rows of one request that are computed in one batch."""

    request: _Request
    key: Any  # parts of equal keys may share a batch
    rows: list[int]  # indices in the request
    length: int  # sub-words of the longest row
    place: tuple[int, int, int]  # in the queue: turn, number of the part, order of arrival
    arrived: float


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
        self._arrivals = itertools.count()

    @property
    def queue_length(self) -> int:
        """Requests with a part that has not started."""
        return len({part.request for lane in (self._short, self._long) for part in lane.queue})

    def submit(
        self, signature: Signature, inputs: Inputs, lengths: Sequence[int], deadline: float
    ) -> asyncio.Future[Outputs]:
        """Adds a request to the queue.

        Args:
          signature: computes the request.
          inputs: lists of values by name, all of the same length.
          lengths: sub-words of each row.
          deadline: a time of `time.monotonic`.
        Returns: a future of arrays `[rows, ...]` by name, with the exceptions of the signature. To
          withdraw the request, cancel the future.
        Raises: QueueFullError.
        """
        if self.queue_length >= self._settings.max_queue:
            raise QueueFullError
        future = asyncio.get_running_loop().create_future()
        request = _Request(signature, inputs, deadline, future)
        key = _batch_key(signature, inputs)
        # Each part takes a later turn than the one before. Parts that wait have the next turn, or a
        # later one, so a new request cannot delay them again and again.
        turns = {lane: itertools.count(lane.turn + 1) for lane in (self._short, self._long)}
        for rows in self._split(lengths) if signature.may_be_batched else [[*range(len(lengths))]]:
            length = max((lengths[row] for row in rows), default=0)
            lane = self._short if length <= SHORT_LENGTH else self._long
            place = next(turns[lane]), request.parts, next(self._arrivals)
            part = _Part(request, key, rows, length, place, time.monotonic())
            bisect.insort(lane.queue, part, key=lambda part: part.place)
            request.parts += 1
        for lane in turns:
            self._start_batches(lane)
        future.add_done_callback(lambda _: self._forget(request))
        return future

    def close(self) -> None:
        """Ends the threads when they have computed their batches."""
        for lane in (self._short, self._long):
            lane.executor.shutdown(wait=False, cancel_futures=True)

    def _forget(self, request: _Request) -> None:
        """Removes the parts of a request that is answered, or withdrawn, from the queues."""
        for lane in (self._short, self._long):
            lane.queue = [part for part in lane.queue if part.request is not request]

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
                rows += len(part.rows)
                length = max(length, part.length)
                if batch and not self._fits(rows, length):
                    break
                batch.append(part)
        lane.queue = [part for part in lane.queue if part not in batch]
        return batch

    async def _compute(self, batch: list[_Part], lane: _Lane) -> None:
        """Computes a batch. If that fails, computes each half alone, down to the wrong part."""
        deadline = max(part.request.deadline for part in batch)
        try:
            outputs = await self._run(batch, lane, deadline)
            ends = np.cumsum([len(part.rows) for part in batch])
            rows = [slice(end - len(part.rows), end) for part, end in zip(batch, ends)]
            outputs_of_parts = [
                {name: values[each] for name, values in outputs.items()} for each in rows
            ]
        except Exception as error:
            if len(batch) > 1 and time.monotonic() < deadline:
                for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                    left = [part for part in half if not part.request.future.done()]
                    if left:
                        await self._compute(left, lane)
                return
            for part in batch:
                if not part.request.future.done():
                    part.request.future.set_exception(error)
            return
        for part, of_part in zip(batch, outputs_of_parts):
            _finish(part, of_part)

    async def _run(self, batch: list[_Part], lane: _Lane, deadline: float) -> Outputs:
        """Runs the signature on a batch in a thread of the lane."""
        first = batch[0].request
        inputs = {
            name: [part.request.inputs[name][row] for part in batch for row in part.rows]
            for name in first.inputs
        }
        now = time.monotonic()
        rows = sum(len(part.rows) for part in batch)
        tokens = rows * max(part.length for part in batch)
        waits = [now - part.arrived for part in batch]
        run = asyncio.get_running_loop().run_in_executor
        try:
            return await run(lane.executor, first.signature, inputs, deadline)
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


def _finish(part: _Part, outputs: Outputs) -> None:
    """Stores the results of a part, and answers the request after its last part."""
    request = part.request
    request.outputs.append((part.rows, outputs))
    if len(request.outputs) < request.parts or request.future.done():
        return
    order = np.argsort([row for rows, _ in request.outputs for row in rows])
    request.future.set_result(
        {
            name: np.concatenate([values[name] for _, values in request.outputs])[order]
            for name in outputs
        }
    )
