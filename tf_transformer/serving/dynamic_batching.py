"""Requests that come while others are computed are answered together: a batch of 32 sentences costs little more than a few alone.

A request that finds nothing at work is computed at once; nobody waits for company.
"""

import asyncio
import collections
import dataclasses

import numpy as np


class FullError(Exception):
    """More requests wait than the queue holds, or it is closed."""


@dataclasses.dataclass
class _Waiting:
    inputs: dict  # name -> list of strings
    rows: int
    future: asyncio.Future


class Batcher:
    """A queue of requests in front of a function.

    Args:
      run: the function: lists of strings by name -> arrays `[rows, ...]` by name.
      executor: whose threads run it.
      max_rows: most rows that are computed together; a single request may have more. 0: each request is computed alone.
      most_waiting: requests in the queue beyond which new ones are refused.
      concurrency: batches that are computed at a time.
    """

    def __init__(self, run, executor, max_rows=32, most_waiting=100, concurrency=1):
        self._run, self._executor, self._max_rows, self._most_waiting = (
            run,
            executor,
            max_rows,
            most_waiting,
        )
        self._queue, self._free, self._changed = collections.deque(), concurrency, asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._collect())
        self._running, self._closed = set(), False

    @property
    def waiting(self):
        """Requests in the queue whose askers still wait."""
        return sum(not request.future.done() for request in self._queue)

    def submit(self, inputs):
        """Puts a request into the queue.

        Returns: a future of the answer, or of what the function raises; who has no use for it any more cancels it.
        Raises: FullError.
        """
        if self._closed or self.waiting >= self._most_waiting:
            raise FullError
        (rows,) = {len(values) for values in inputs.values()}
        request = _Waiting(inputs, rows, asyncio.get_running_loop().create_future())
        self._queue.append(request)
        self._changed.set()
        return request.future

    async def close(self):
        """Takes no more requests, and waits for those in the queue to be answered."""
        self._closed = True
        while self._queue or self._running:
            self._changed.clear()
            await self._changed.wait()
        self._task.cancel()

    async def _collect(self):
        while True:
            self._changed.clear()
            if self._free and (batch := self._take()):
                self._free -= 1
                task = asyncio.get_running_loop().create_task(self._answer(batch))
                self._running.add(task)
                task.add_done_callback(self._done)
            else:
                await self._changed.wait()

    def _take(self):
        """The first requests that fit into one batch."""
        batch, rows = [], 0
        while self._queue and (not batch or rows + self._queue[0].rows <= self._max_rows):
            request = self._queue.popleft()
            if not request.future.done():
                batch.append(request)
                rows += request.rows
        return batch

    def _done(self, task):
        self._running.discard(task)
        self._free += 1
        self._changed.set()

    async def _answer(self, batch):
        inputs = {
            name: [value for request in batch for value in request.inputs[name]]
            for name in batch[0].inputs
        }
        try:
            outputs = await asyncio.get_running_loop().run_in_executor(
                self._executor, self._run, inputs
            )
        except Exception as error:  # each of those who wait gets it
            for request in batch:
                if not request.future.done():
                    request.future.set_exception(error)
            return
        ends = np.cumsum([request.rows for request in batch])
        for request, end in zip(batch, ends):
            if not request.future.done():
                request.future.set_result(
                    {name: value[end - request.rows : end] for name, value in outputs.items()}
                )
