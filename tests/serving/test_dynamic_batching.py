"""The queue in front of a model."""

import asyncio
import concurrent.futures
import threading

import numpy as np
import pytest

from tf_transformer.serving.dynamic_batching import Batcher, FullError


class Work:
    """Doubles numbers, in batches that are noted; waits for `gate` where there is one."""

    def __init__(self):
        self.batches, self.gate, self.started = [], threading.Event(), threading.Semaphore(0)
        self.gate.set()

    def __call__(self, inputs):
        self.started.release()
        assert self.gate.wait(10)
        self.batches.append(inputs["x"])
        if 13 in inputs["x"]:
            raise ValueError("unlucky")
        return {"y": 2 * np.array(inputs["x"], int)}


@pytest.fixture
def work():
    return Work()


def run(test):
    """Runs a coroutine function with an executor."""
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        asyncio.run(asyncio.wait_for(test(executor), 30))


async def hold(work, batcher):
    """Begins a batch that does not end before the gate is opened."""
    work.gate.clear()
    first = batcher.submit({"x": [0]})
    await asyncio.to_thread(work.started.acquire)
    return first


def test_what_comes_meanwhile_is_computed_together(work):
    async def test(executor):
        batcher = Batcher(work, executor, max_rows=4)
        first = await hold(work, batcher)
        others = [batcher.submit({"x": list(range(10 * i, 10 * i + i))}) for i in (1, 2, 3, 6, 0)]
        await asyncio.sleep(0.05)
        assert batcher.waiting == 5
        work.gate.set()
        answers = [list((await other)["y"]) for other in [first, *others]]
        assert answers == [[0], [20], [40, 42], [60, 62, 64], [120, 122, 124, 126, 128, 130], []]
        assert work.batches == [[0], [10, 20, 21], [30, 31, 32], [60, 61, 62, 63, 64, 65], []]
        await batcher.close()

    run(test)


def test_alone(work):
    async def test(executor):
        batcher = Batcher(work, executor, max_rows=0)
        first = await hold(work, batcher)
        others = [batcher.submit({"x": [i]}) for i in range(3)]
        work.gate.set()
        await asyncio.gather(first, *others)
        assert work.batches == [[0], [0], [1], [2]]

    run(test)


def test_a_full_queue_refuses_and_who_has_gone_costs_nothing(work):
    async def test(executor):
        batcher = Batcher(work, executor, max_rows=4, most_waiting=2)
        first = await hold(work, batcher)
        gone, stays = (batcher.submit({"x": [i]}) for i in (1, 2))
        await asyncio.sleep(0.05)
        with pytest.raises(FullError):
            batcher.submit({"x": [3]})
        gone.cancel()
        assert batcher.waiting == 1  # and there is room for another
        work.gate.set()
        assert list((await stays)["y"]) == [4] and list((await first)["y"]) == [0]
        assert work.batches == [[0], [2]]
        await batcher.close()
        assert batcher.waiting == 0

    run(test)


def test_a_failure_reaches_those_in_the_batch_and_no_others(work):
    async def test(executor):
        batcher = Batcher(work, executor, max_rows=2)
        first = await hold(work, batcher)
        asked = [batcher.submit({"x": [x]}) for x in (13, 1, 2)]
        await asyncio.sleep(0.05)
        work.gate.set()
        found = await asyncio.gather(first, *asked, return_exceptions=True)
        assert [type(one) for one in found] == [dict, ValueError, ValueError, dict]

    run(test)


def test_closing_waits_for_all_answers(work):
    async def test(executor):
        batcher = Batcher(work, executor, max_rows=1)
        asked = [await hold(work, batcher)] + [batcher.submit({"x": [x]}) for x in range(3)]
        closing = asyncio.ensure_future(batcher.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        work.gate.set()
        await closing
        with pytest.raises(FullError):
            batcher.submit({"x": [4]})
        assert [list(one.result()["y"]) for one in asked] == [[0], [0], [2], [4]]

    run(test)
