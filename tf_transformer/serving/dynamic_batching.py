"""Dynamic batching of requests.

Requests that arrive while a batch is computed wait, and form the next batch. A batch of 32
sentences takes little more time than a few sentences. A request that arrives while nothing is
computed starts at once, without a delay to collect others.

A large request cannot block the others:
- Its rows are split into parts, each at most one batch. Parts of different requests take turns.
- Short and long rows have queues and slots of their own, so a short row is not in a batch with a
  long one, and does not wait for one.
- A batch ends when the deadlines of all its requests have passed.
"""

import asyncio
import collections
import dataclasses
import heapq
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from tf_transformer.serving.model_interface import Inputs, Outputs
from tf_transformer.serving.timing import BatchReport, Timing

SHORT_LENGTH = 64  # sub-words of the longest row in the queue of short rows
OVERDUE_SECONDS = 5.0  # after its deadline, a batch that still runs is overdue


class QueueFullError(Exception):
    """Too many requests wait."""


class ShutdownError(Exception):
    """The queue was closed before the request was computed."""


@dataclasses.dataclass(frozen=True)
class BatchLimits:
    """What a batch of several requests may hold, and how many requests may wait.

    Attributes:
      max_rows: rows of a batch. 0: each request is one batch, whatever its size.
      max_tokens: rows x sub-words of the longest row. A batch has at least one row.
      max_queue: waiting requests beyond which new ones are refused.
      concurrency: batches of short rows, and of long rows, that are computed at the same time.
    """

    max_rows: int = 32
    max_tokens: int = 1024
    max_queue: int = 100
    concurrency: int = 1


@dataclasses.dataclass(eq=False)
class _Request:
    inputs: Inputs
    deadline: float  # of time.monotonic
    future: asyncio.Future[Outputs]
    timing: Timing
    waiting_parts: int = 0  # that have not started
    outputs: list[tuple[list[int], Outputs]] = dataclasses.field(default_factory=list)
    parts: int = 0


@dataclasses.dataclass(eq=False)
class _Part:
    """Rows of one request that are computed in one batch."""

    request: _Request
    number: int  # of the part in its request
    rows: list[int]  # indices in the request
    length: int  # sub-words of the longest row
    has_started: bool = False


class _Lane:
    """The queue and the slots of the short rows, or of the long ones."""

    def __init__(self, name: str, executor: Executor, slots: int) -> None:
        self.name = name
        self.executor = executor
        self.free_slots = slots
        self.turn = 0  # of the part that started last
        # A heap of (turn, number of the part, order of arrival, part).
        self.queue: list[tuple[int, int, int, _Part]] = []

    def drop_answered(self) -> None:
        """Removes the parts of requests that are answered, or withdrawn, from the queue."""
        self.queue = [place for place in self.queue if not place[-1].request.future.done()]
        heapq.heapify(self.queue)


class Batcher:
    """A queue of requests to a function.

    Args:
      run: the function: inputs, lists of strings by name, and a deadline of `time.monotonic` ->
        arrays `[rows, ...]` by name. After the deadline it raises TimeoutError.
      executors: run the function on short rows, and on long rows, in their threads.
      limits: a `BatchLimits`.
      observe_batch: is called after each batch, in the event loop.
    """

    def __init__(
        self,
        run: Callable[[Any, float], Outputs],
        executors: tuple[Executor, Executor],
        limits: BatchLimits,
        observe_batch: Callable[[BatchReport], None] = lambda report: None,
    ) -> None:
        self._run = run
        self._limits = limits
        self._observe_batch = observe_batch
        self._short, self._long = (
            _Lane(name, executor, limits.concurrency)
            for name, executor in zip(("short", "long"), executors)
        )
        self._requests: set[_Request] = set()  # not answered
        self._running: dict[asyncio.Task, float] = {}  # batches -> their deadlines
        self._arrivals = itertools.count()
        self._closed = False

    @property
    def queue_length(self) -> int:
        """Requests with a part that has not started."""
        return sum(
            request.waiting_parts > 0 and not request.future.done() for request in self._requests
        )

    @property
    def is_overdue(self) -> bool:
        """Whether a batch still runs though its deadline passed some seconds ago."""
        return any(time.monotonic() > end + OVERDUE_SECONDS for end in self._running.values())

    def check_room(self) -> None:
        """Raises: QueueFullError when too many requests wait; ShutdownError after `close`."""
        if self._closed:
            raise ShutdownError
        if self.queue_length >= self._limits.max_queue:
            raise QueueFullError

    def submit(
        self,
        inputs: Inputs,
        lengths: Sequence[int],
        deadline: float,
        timing: Timing | None = None,
    ) -> asyncio.Future[Outputs]:
        """Adds a request to the queue.

        Args:
          inputs: lists of strings by name, all of the same length.
          lengths: sub-words of each row.
          deadline: a time of `time.monotonic`.
          timing: a new `Timing`, which records when the request waits and is computed.
        Returns: a future of the function's result for this request. To withdraw the request,
          cancel the future. Its exceptions: TimeoutError after the deadline; ShutdownError; those
          of the function.
        Raises: QueueFullError when too many requests wait; ShutdownError after `close`.
        """
        self.check_room()
        future = asyncio.get_running_loop().create_future()
        request = _Request(inputs, deadline, future, timing or Timing())
        request.timing.submit(sum(lengths))
        self._requests.add(request)
        future.add_done_callback(lambda _: self._forget(request))
        # Each part takes a later turn than the one before. Parts that wait have the next turn, or a
        # later one, so a new request cannot delay them again and again.
        turns = {lane: itertools.count(lane.turn + 1) for lane in (self._short, self._long)}
        for rows in self._split(lengths):
            part = _Part(request, request.parts, rows, max((lengths[i] for i in rows), default=0))
            request.parts += 1
            request.waiting_parts += 1
            lane = self._short if part.length <= SHORT_LENGTH else self._long
            place = (next(turns[lane]), part.number, next(self._arrivals), part)
            heapq.heappush(lane.queue, place)
        for lane in turns:
            self._start_batches(lane)
        return future

    def close(self) -> None:
        """Refuses new requests. Those that are not answered get ShutdownError."""
        self._closed = True
        for request in list(self._requests):
            if not request.future.done():
                request.future.set_exception(ShutdownError())

    def _forget(self, request: _Request) -> None:
        """Ends a request that is answered, or withdrawn."""
        request.timing.answer()
        self._requests.discard(request)
        # A slot may stay busy for long, and until then the queue would keep the inputs.
        if request.waiting_parts:
            self._short.drop_answered()
            self._long.drop_answered()

    def _split(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Splits the rows of a request into parts, shortest rows first."""
        if not self._limits.max_rows or not lengths:
            yield list(range(len(lengths)))
            return
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
        return rows <= self._limits.max_rows and rows * length <= self._limits.max_tokens

    def _start_batches(self, lane: _Lane) -> None:
        """Starts batches while a slot is free and a part waits."""
        while lane.free_slots and (batch := self._next_batch(lane)):
            lane.free_slots -= 1
            task = asyncio.get_running_loop().create_task(self._compute(batch, lane))
            self._running[task] = max(part.request.deadline for part in batch)
            task.add_done_callback(lambda task: self._end_batch(task, lane))

    def _end_batch(self, task: asyncio.Task, lane: _Lane) -> None:
        del self._running[task]
        lane.free_slots += 1
        self._start_batches(lane)

    def _next_batch(self, lane: _Lane) -> list[_Part]:
        """Takes the first parts that fit into one batch from the queue."""
        batch: list[_Part] = []
        rows, length = 0, 0
        while lane.queue:
            turn, _, _, part = lane.queue[0]
            if not part.request.future.done():
                rows += len(part.rows)
                length = max(length, part.length)
                if batch and not self._fits(rows, length):
                    break
                lane.turn = turn
                part.request.waiting_parts -= 1
                batch.append(part)
            heapq.heappop(lane.queue)
        return batch

    async def _compute(self, batch: list[_Part], lane: _Lane) -> None:
        """Computes a batch. If that fails, computes each half alone, down to the wrong part."""
        deadline = max(part.request.deadline for part in batch)
        try:
            outputs = await self._run_batch(batch, lane, deadline)
        except Exception as error:
            if len(batch) > 1 and time.monotonic() < deadline:
                for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                    left = [part for part in half if not part.request.future.done()]
                    if left:
                        await self._compute(left, lane)
            else:
                for part in batch:
                    _fail(part, error)
            return
        ends = np.cumsum([len(part.rows) for part in batch])
        for part, end in zip(batch, ends):
            rows = slice(end - len(part.rows), end)
            try:
                _finish(part, {name: value[rows] for name, value in outputs.items()})
            except Exception as error:  # outputs that are not arrays [rows, ...]
                _fail(part, error)

    async def _run_batch(self, batch: list[_Part], lane: _Lane, deadline: float) -> Outputs:
        """Runs the function on a batch, and records when it starts and ends."""
        inputs = {
            name: [part.request.inputs[name][row] for part in batch for row in part.rows]
            for name in batch[0].request.inputs
        }
        rows = sum(len(part.rows) for part in batch)
        loop = asyncio.get_running_loop()
        has_started = False
        queue_seconds: list[float] = []

        def start() -> None:
            nonlocal has_started
            has_started = True
            for part in batch:
                if not part.has_started:
                    part.has_started = True
                    queue_seconds.append(part.request.timing.queue_seconds)
                part.request.timing.start_part(rows)

        def run() -> Outputs:
            # Batches of other signatures use the same threads, so this may be later than now.
            loop.call_soon_threadsafe(start)
            return self._run(inputs, deadline)

        try:
            return await loop.run_in_executor(lane.executor, run)
        finally:
            if has_started:
                for part in batch:
                    part.request.timing.end_part()
                tokens = rows * max(part.length for part in batch)
                self._observe_batch(BatchReport(lane.name, rows, tokens, queue_seconds))


def _fail(part: _Part, error: Exception) -> None:
    if not part.request.future.done():
        part.request.future.set_exception(error)


def _finish(part: _Part, outputs: Outputs) -> None:
    """Stores the results of a part, and answers the request after its last part."""
    request = part.request
    request.outputs.append((part.rows, outputs))
    if len(request.outputs) < request.parts or request.future.done():
        return
    order = np.argsort([row for rows, _ in request.outputs for row in rows])
    collected: collections.defaultdict[str, list[np.ndarray]] = collections.defaultdict(list)
    for _, outputs in request.outputs:
        for name, value in outputs.items():
            collected[name].append(value)
    request.future.set_result(
        {name: np.concatenate(values)[order] for name, values in collected.items()}
    )
