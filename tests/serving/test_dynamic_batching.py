"""Dynamic batching of requests to a function."""

import asyncio
import concurrent.futures
import threading
import time

import numpy as np
import pytest

from tf_transformer.serving import dynamic_batching
from tf_transformer.serving.dynamic_batching import (
    Batcher,
    BatchLimits,
    QueueFullError,
    ShutdownError,
)
from tf_transformer.serving.timing import Timing


class Doubler:
    """Doubles numbers and records the batches; a batch ends only while `gate` is open."""

    def __init__(self):
        self.batches = []
        self.started = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, inputs, deadline):
        self.started.release()
        if not self.gate.wait(max(0, deadline - time.monotonic())):
            raise TimeoutError
        self.batches.append(inputs["x"])
        if 13 in inputs["x"]:
            raise ValueError("13 fails")
        return {"y": 2 * np.array(inputs["x"], int)}


@pytest.fixture
def doubler():
    return Doubler()


def run(test, doubler, **limits):
    """Runs a coroutine function of a `Batcher`."""

    async def with_batcher():
        with concurrent.futures.ThreadPoolExecutor(2) as short:
            with concurrent.futures.ThreadPoolExecutor(2) as long:
                await test(Batcher(doubler, (short, long), BatchLimits(**limits)))

    asyncio.run(asyncio.wait_for(with_batcher(), 30))


def submit(batcher, numbers, length=1, seconds=20.0):
    """Submits a request of rows with the same number of sub-words."""
    return batcher.submit({"x": numbers}, [length] * len(numbers), time.monotonic() + seconds)


async def start_blocked_batch(doubler, batcher):
    """Starts a batch that ends when the gate opens. Returns: the future of its request."""
    doubler.gate.clear()
    first = submit(batcher, [0])
    await asyncio.to_thread(doubler.started.acquire)
    return first


async def results_of(futures):
    return [list((await future)["y"]) for future in futures]


def test_waiting_requests_are_batched(doubler):
    async def test(batcher):
        first = await start_blocked_batch(doubler, batcher)
        others = [submit(batcher, list(range(10 * i, 10 * i + i))) for i in (1, 2, 3, 0)]
        await asyncio.sleep(0.05)
        assert batcher.queue_length == 4
        doubler.gate.set()
        assert await results_of([first, *others]) == [[0], [20], [40, 42], [60, 62, 64], []]
        assert doubler.batches == [[0], [10, 20, 21], [30, 31, 32]]

    run(test, doubler, max_rows=4)


def test_a_request_of_many_rows_is_split_and_its_rows_stay_in_order(doubler):
    async def test(batcher):
        lengths = [5, 1, 4, 2, 3, 1]
        deadline = time.monotonic() + 20
        result = await batcher.submit({"x": [50, 10, 40, 20, 30, 11]}, lengths, deadline)
        assert list(result["y"]) == [100, 20, 80, 40, 60, 22]
        # At most 3 rows, and 8 sub-words with padding, in a batch; the shortest rows first.
        assert doubler.batches == [[10, 11, 20], [30, 40], [50]]

    run(test, doubler, max_rows=3, max_tokens=8)


def test_parts_of_requests_take_turns(doubler):
    async def test(batcher):
        first = await start_blocked_batch(doubler, batcher)
        large = submit(batcher, list(range(40, 46)))
        small = submit(batcher, [20])
        other_small = submit(batcher, [30])
        doubler.gate.set()
        await asyncio.gather(first, large, small, other_small)
        assert doubler.batches == [[0], [40, 41], [20, 30], [42, 43], [44, 45]]

    run(test, doubler, max_rows=2)


def test_new_requests_do_not_delay_the_parts_of_an_older_one(doubler):
    """Clients that always have a request in the queue."""

    async def test(batcher):
        async def send_without_end():
            while not large.done():
                await submit(batcher, [0, 0])

        large = submit(batcher, list(range(20, 40)))
        clients = [asyncio.ensure_future(send_without_end()) for _ in range(3)]
        result = await asyncio.wait_for(asyncio.shield(large), 10)
        assert list(result["y"]) == [2 * number for number in range(20, 40)]
        await asyncio.gather(*clients)
        of_others = sum(batch == [0, 0] for batch in doubler.batches)
        assert len(doubler.batches) - of_others == 10  # parts of two rows
        assert of_others <= 10 * len(clients) + len(clients)  # one of each client between two parts

    run(test, doubler, max_rows=2)


def test_outputs_without_rows_are_an_error(doubler):
    async def test(batcher):
        with pytest.raises((IndexError, TypeError)):
            await submit(batcher, [1])

    run(test, lambda inputs, deadline: {"y": np.float32(1)})


def test_short_rows_are_neither_batched_with_long_ones_nor_wait_for_them(doubler):
    async def test(batcher):
        doubler.gate.clear()
        limit = dynamic_batching.SHORT_LENGTH
        mixed = batcher.submit({"x": [1, 2]}, [limit, limit + 1], time.monotonic() + 20)
        for _ in range(2):  # both parts run at the same time
            await asyncio.to_thread(doubler.started.acquire)
        doubler.gate.set()
        assert list((await mixed)["y"]) == [2, 4]
        assert sorted(doubler.batches) == [[1], [2]]

    run(test, doubler, max_rows=4)


def test_max_rows_0_makes_each_request_a_batch(doubler):
    async def test(batcher):
        first = await start_blocked_batch(doubler, batcher)
        others = [submit(batcher, [i, i], length=dynamic_batching.SHORT_LENGTH) for i in range(3)]
        doubler.gate.set()
        await asyncio.gather(first, *others)
        assert doubler.batches == [[0], [0, 0], [1, 1], [2, 2]]

    run(test, doubler, max_rows=0)


def test_a_full_queue_refuses_and_cancelled_requests_are_not_computed(doubler):
    async def test(batcher):
        first = await start_blocked_batch(doubler, batcher)
        cancelled = submit(batcher, [1])
        kept = submit(batcher, [2])
        await asyncio.sleep(0.05)
        with pytest.raises(QueueFullError):
            submit(batcher, [3])
        cancelled.cancel()
        await asyncio.sleep(0)
        assert batcher.queue_length == 1  # the queue has capacity for another request
        doubler.gate.set()
        assert await results_of([kept, first]) == [[4], [0]]
        assert doubler.batches == [[0], [2]]
        assert batcher.queue_length == 0

    run(test, doubler, max_rows=4, max_queue=2)


def test_a_failure_reaches_only_its_request(doubler):
    async def test(batcher):
        first = await start_blocked_batch(doubler, batcher)
        others = [submit(batcher, [x]) for x in (13, 1, 2)]
        doubler.gate.set()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(result) for result in results] == [dict, ValueError, dict, dict]
        # The batch fails, so its halves are computed alone.
        assert doubler.batches == [[0], [13, 1, 2], [13], [1, 2]]

    run(test, doubler, max_rows=4)


def test_a_batch_ends_at_the_last_deadline_of_its_requests(doubler):
    async def test(batcher):
        blocked = submit(batcher, [0], seconds=0.2)
        await asyncio.to_thread(doubler.started.acquire)
        early, late = submit(batcher, [1], seconds=0.3), submit(batcher, [2], seconds=0.6)
        results = await asyncio.gather(blocked, early, late, return_exceptions=True)
        assert [type(result) for result in results] == [TimeoutError] * 3
        assert not batcher.is_overdue
        doubler.gate.set()
        assert await results_of([submit(batcher, [3])]) == [[6]]
        assert doubler.batches == [[3]]

    doubler.gate.clear()
    run(test, doubler, max_rows=4)


def test_a_batch_that_does_not_end_is_overdue(doubler, monkeypatch):
    monkeypatch.setattr(dynamic_batching, "OVERDUE_SECONDS", 0.1)

    def stuck(inputs, deadline):
        doubler.gate.wait(10)
        return {"y": np.array(inputs["x"])}

    async def test(batcher):
        future = submit(batcher, [0], seconds=0.05)
        await asyncio.sleep(0.01)
        assert not batcher.is_overdue
        await asyncio.sleep(0.3)
        assert batcher.is_overdue
        doubler.gate.set()
        await future
        await asyncio.sleep(0.01)
        assert not batcher.is_overdue

    doubler.gate.clear()
    run(test, stuck)


def test_close_refuses_requests_and_ends_those_that_wait(doubler):
    async def test(batcher):
        first = await start_blocked_batch(doubler, batcher)
        waiting = submit(batcher, [1])
        batcher.close()
        with pytest.raises(ShutdownError):
            submit(batcher, [2])
        results = await asyncio.gather(first, waiting, return_exceptions=True)
        assert [type(result) for result in results] == [ShutdownError] * 2
        doubler.gate.set()

    run(test, doubler)


def test_times_and_sizes_of_batches_are_reported():
    reports = []

    def run_batch(inputs, deadline):
        time.sleep(0.1)
        return {"y": np.array(inputs["x"])}

    async def test():
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            limits = BatchLimits(max_rows=3)
            batcher = Batcher(run_batch, (executor, executor), limits, reports.append)
            timings = [Timing() for _ in range(3)]
            deadline = time.monotonic() + 20
            rows = [([5], [4]), ([1, 2], [2, 3]), ([3], [1])]
            start = time.monotonic()
            await asyncio.gather(
                *(
                    batcher.submit({"x": inputs}, lengths, deadline, timing)
                    for (inputs, lengths), timing in zip(rows, timings)
                )
            )
            seconds = time.monotonic() - start
            await asyncio.sleep(0.05)
            return timings, seconds

    timings, seconds = asyncio.run(test())
    assert [(report.lane, report.rows, report.tokens) for report in reports] == [
        ("short", 1, 4),
        ("short", 3, 9),
    ]
    assert [len(report.queue_seconds) for report in reports] == [1, 2]
    assert [timing.tokens for timing in timings] == [4, 5, 1]
    assert [timing.batch_rows for timing in timings] == [1, 3, 3]
    assert timings[0].queue_seconds < 0.09
    for timing in timings:
        assert timing.compute_seconds > 0.09
        assert timing.queue_seconds + timing.compute_seconds <= seconds
    waits = [timing.queue_seconds for timing in timings[1:]]
    assert min(waits) >= 0.09
    assert waits == pytest.approx(reports[1].queue_seconds, abs=0.02)


def test_the_batches_of_a_failure_and_of_its_parts_are_reported(doubler):
    async def test(batcher):
        first = await start_blocked_batch(doubler, batcher)
        timing = Timing()
        deadline = time.monotonic() + 20
        others = [
            batcher.submit({"x": [13]}, [1], deadline),
            batcher.submit({"x": [1]}, [1], deadline, timing),
        ]
        batcher._observe_batch = reports.append
        doubler.gate.set()
        await asyncio.gather(first, *others, return_exceptions=True)
        assert [report.rows for report in reports] == [1, 2, 1, 1]
        # Each part has waited once.
        assert [len(report.queue_seconds) for report in reports] == [1, 2, 0, 0]
        assert timing.batch_rows == 2

    reports = []
    run(test, doubler)


def test_the_wait_for_a_thread_is_not_computation(doubler):
    """Batches of several signatures use the same threads."""

    async def test():
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            executor.submit(time.sleep, 0.2)  # a batch of another signature
            batcher = Batcher(doubler, (executor, executor), BatchLimits())
            timing = Timing()
            await batcher.submit({"x": [1]}, [1], time.monotonic() + 20, timing)
            assert timing.queue_seconds > 0.15
            assert timing.compute_seconds < 0.15

    asyncio.run(test())


def test_the_queue_drops_requests_that_are_withdrawn_or_failed(doubler):
    """While the slot is busy, the queue must not keep their inputs."""

    async def test(batcher):
        first = await start_blocked_batch(doubler, batcher)
        for _ in range(10):  # more than the queue may hold
            withdrawn = submit(batcher, [1, 2, 3])
            withdrawn.cancel()
        late = submit(batcher, [4])
        with pytest.raises(QueueFullError):
            submit(batcher, [5])
        late.set_exception(TimeoutError())
        kept = submit(batcher, [6])
        await asyncio.sleep(0)
        queue = batcher._short.queue
        assert [part.request.inputs for *_, part in queue] == [{"x": [6]}]
        doubler.gate.set()
        assert await results_of([first, kept]) == [[0], [12]]
        assert doubler.batches == [[0], [6]]
        assert isinstance(late.exception(), TimeoutError)

    run(test, doubler, max_rows=2, max_queue=1)
