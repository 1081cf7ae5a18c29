"""Dynamic batching of requests to a function."""

import asyncio
import concurrent.futures
import threading

import numpy as np
import pytest

from tf_transformer.serving.dynamic_batching import Batcher, FullError


class Doubler:
    """Doubles numbers and records the batches; a batch ends only while `gate` is open."""

    def __init__(self):
        self.batches = []
        self.started = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, inputs):
        self.started.release()
        assert self.gate.wait(10)
        self.batches.append(inputs["x"])
        if 13 in inputs["x"]:
            raise ValueError("13 fails")
        return {"y": 2 * np.array(inputs["x"], int)}


@pytest.fixture
def doubler():
    return Doubler()


def run(test):
    """Runs a coroutine function with an executor."""
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        asyncio.run(asyncio.wait_for(test(executor), 30))


async def start_blocked_batch(doubler, batcher):
    """Starts a batch that ends when the gate opens. Returns: the future of its request."""
    doubler.gate.clear()
    first = batcher.submit({"x": [0]})
    await asyncio.to_thread(doubler.started.acquire)
    return first


def test_waiting_requests_are_batched(doubler):
    async def test(executor):
        batcher = Batcher(doubler, executor, max_rows=4)
        first = await start_blocked_batch(doubler, batcher)
        others = [batcher.submit({"x": list(range(10 * i, 10 * i + i))}) for i in (1, 2, 3, 6, 0)]
        await asyncio.sleep(0.05)
        assert batcher.queue_length == 5
        doubler.gate.set()
        results = [list((await future)["y"]) for future in [first, *others]]
        assert results == [[0], [20], [40, 42], [60, 62, 64], [120, 122, 124, 126, 128, 130], []]
        assert doubler.batches == [[0], [10, 20, 21], [30, 31, 32], [60, 61, 62, 63, 64, 65], []]
        await batcher.close()

    run(test)


def test_max_rows_0_makes_each_request_a_batch(doubler):
    async def test(executor):
        batcher = Batcher(doubler, executor, max_rows=0)
        first = await start_blocked_batch(doubler, batcher)
        others = [batcher.submit({"x": [i]}) for i in range(3)]
        doubler.gate.set()
        await asyncio.gather(first, *others)
        assert doubler.batches == [[0], [0], [1], [2]]

    run(test)


def test_a_full_queue_refuses_and_cancelled_requests_are_not_computed(doubler):
    async def test(executor):
        batcher = Batcher(doubler, executor, max_rows=4, max_queue=2)
        first = await start_blocked_batch(doubler, batcher)
        cancelled = batcher.submit({"x": [1]})
        kept = batcher.submit({"x": [2]})
        await asyncio.sleep(0.05)
        with pytest.raises(FullError):
            batcher.submit({"x": [3]})
        cancelled.cancel()
        assert batcher.queue_length == 1  # the queue has capacity for another request
        doubler.gate.set()
        assert list((await kept)["y"]) == [4]
        assert list((await first)["y"]) == [0]
        assert doubler.batches == [[0], [2]]
        await batcher.close()
        assert batcher.queue_length == 0

    run(test)


def test_a_failure_reaches_only_the_requests_of_its_batch(doubler):
    async def test(executor):
        batcher = Batcher(doubler, executor, max_rows=2)
        first = await start_blocked_batch(doubler, batcher)
        others = [batcher.submit({"x": [x]}) for x in (13, 1, 2)]
        await asyncio.sleep(0.05)
        doubler.gate.set()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(result) for result in results] == [dict, ValueError, ValueError, dict]

    run(test)


def test_close_waits_for_all_results(doubler):
    async def test(executor):
        batcher = Batcher(doubler, executor, max_rows=1)
        futures = [await start_blocked_batch(doubler, batcher)]
        futures += [batcher.submit({"x": [x]}) for x in range(3)]
        closing = asyncio.ensure_future(batcher.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        doubler.gate.set()
        await closing
        with pytest.raises(FullError):
            batcher.submit({"x": [4]})
        assert [list(future.result()["y"]) for future in futures] == [[0], [0], [2], [4]]

    run(test)


def test_close_does_not_wait_for_cancelled_requests(doubler):
    """Here `close` wakes before the scheduler, which removes the cancelled request."""

    async def test(executor):
        batcher = Batcher(doubler, executor, max_rows=1)
        await asyncio.sleep(0)  # the scheduler waits
        doubler.gate.clear()
        first, cancelled = (batcher.submit({"x": [x]}) for x in (1, 2))

        def end_batch():
            cancelled.cancel()
            doubler.gate.set()

        asyncio.get_running_loop().call_later(0.05, end_batch)
        await batcher.close()
        assert list(first.result()["y"]) == [2]

    run(test)
