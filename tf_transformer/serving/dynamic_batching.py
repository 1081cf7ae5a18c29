"""Dynamic batching of requests.

Requests that arrive while a batch is computed wait in a queue and form the next batch. A batch of
32 sentences takes little more time than a few sentences. A request that arrives while nothing is
computed starts at once, without a delay to collect others.
"""

import asyncio
import collections
import dataclasses
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np

Outputs = dict[str, np.ndarray]


class FullError(Exception):
    """The queue is full or closed."""


@dataclasses.dataclass
class _QueuedRequest:
    inputs: dict[str, list[str | bytes]]
    rows: int
    future: asyncio.Future[Outputs]


class Batcher:
    """A queue of requests to a function.

    Args:
      run: the function: lists of strings by name -> arrays `[rows, ...]` by name.
      executor: runs the function in its threads.
      max_rows: most rows in a batch of several requests. A single request may have more. 0 means
        that each request is a batch.
      max_queue: requests in the queue beyond which new ones are refused.
      concurrency: batches that are computed at the same time.
    """

    def __init__(
        self,
        run: Callable[[Any], Outputs],
        executor: Executor,
        max_rows: int = 32,
        max_queue: int = 100,
        concurrency: int = 1,
    ) -> None:
        self._run = run
        self._executor = executor
        self._max_rows = max_rows
        self._max_queue = max_queue
        self._free_slots = concurrency
        self._queue: collections.deque[_QueuedRequest] = collections.deque()
        self._running: set[asyncio.Task] = set()
        self._closed = False
        self._changed = asyncio.Event()
        self._scheduler = asyncio.get_running_loop().create_task(self._schedule())

    @property
    def queue_length(self) -> int:
        """Requests in the queue that are not cancelled."""
        return sum(not request.future.done() for request in self._queue)

    def submit(self, inputs: dict[str, list[str | bytes]]) -> asyncio.Future[Outputs]:
        """Adds a request to the queue.

        Args:
          inputs: lists of strings by name, all of the same length.
        Returns: a future of the function's result for this request, or of its exception. To
          withdraw the request, cancel the future.
        Raises: FullError when the queue is full or closed.
        """
        if self._closed or self.queue_length >= self._max_queue:
            raise FullError
        (rows,) = {len(values) for values in inputs.values()}
        request = _QueuedRequest(inputs, rows, asyncio.get_running_loop().create_future())
        self._queue.append(request)
        self._changed.set()
        return request.future

    async def close(self) -> None:
        """Refuses new requests, and waits until those in the queue are computed."""
        self._closed = True
        while self.queue_length or self._running:
            self._changed.clear()
            await self._changed.wait()
        self._scheduler.cancel()

    async def _schedule(self) -> None:
        """Starts a batch whenever a slot is free and a request waits."""
        while True:
            self._changed.clear()
            batch = self._next_batch() if self._free_slots else []
            if not batch:
                await self._changed.wait()
                continue
            self._free_slots -= 1
            task = asyncio.get_running_loop().create_task(self._compute(batch))
            self._running.add(task)
            task.add_done_callback(self._release_slot)

    def _next_batch(self) -> list[_QueuedRequest]:
        """Takes the first requests that fit into one batch from the queue."""
        batch: list[_QueuedRequest] = []
        rows = 0
        while self._queue and (not batch or rows + self._queue[0].rows <= self._max_rows):
            request = self._queue.popleft()
            if not request.future.done():
                batch.append(request)
                rows += request.rows
        return batch

    def _release_slot(self, task: asyncio.Task) -> None:
        self._running.discard(task)
        self._free_slots += 1
        self._changed.set()

    async def _compute(self, batch: list[_QueuedRequest]) -> None:
        """Computes a batch and sets the futures of its requests."""
        inputs = {
            name: [value for request in batch for value in request.inputs[name]]
            for name in batch[0].inputs
        }
        loop = asyncio.get_running_loop()
        try:
            outputs = await loop.run_in_executor(self._executor, self._run, inputs)
        except Exception as error:  # every request of the batch gets it
            for request in batch:
                if not request.future.done():
                    request.future.set_exception(error)
            return
        ends = np.cumsum([request.rows for request in batch])
        for request, end in zip(batch, ends):
            if not request.future.done():
                start = end - request.rows
                request.future.set_result(
                    {name: value[start:end] for name, value in outputs.items()}
                )
