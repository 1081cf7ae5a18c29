"""Dynamic batching of requests to a function."""

import asyncio
import threading
import time

import numpy as np
import pytest

from tf_transformer.config import ServeConfig
from tf_transformer.serving.dynamic_batching import SHORT_LENGTH, Batcher, QueueFullError
from tf_transformer.serving.model_interface import Input, Signature


class Doubler:
    """Doubles numbers and records the batches; a batch ends only while `gate` is open."""

    def __init__(self, may_be_batched=True):
        inputs = {"x": Input("DT_STRING"), "option": Input("DT_INT32", 0)}
        self.signature = Signature(self.run, inputs, may_be_batched, {})
        self.batches = []
        self.started = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def run(self, inputs, deadline):
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


def run(test, observe=lambda *report: None, **settings):
    """Runs a coroutine function of a `Batcher`."""

    async def with_batcher():
        batcher = Batcher(ServeConfig(**settings), observe)
        await asyncio.wait_for(test(batcher), 60)
        batcher.close()

    asyncio.run(with_batcher())


def submit(batcher, doubler, numbers, lengths=None, seconds=60.0, options=None):
    """Submits a request of rows, by default of one sub-word each."""
    inputs = {"x": numbers, "option": options or [0] * len(numbers)}
    lengths = lengths or [1] * len(numbers)
    deadline = time.monotonic() + seconds
    return asyncio.ensure_future(batcher.compute(doubler.signature, inputs, lengths, deadline))


async def start_blocked_batch(batcher, doubler):
    """Starts a batch that ends when the gate opens. Returns: the future of its request."""
    doubler.gate.clear()
    first = submit(batcher, doubler, [0])
    await asyncio.to_thread(doubler.started.acquire)
    return first


def test_waiting_requests_are_batched(doubler):
    async def test(batcher):
        first = await start_blocked_batch(batcher, doubler)
        others = [submit(batcher, doubler, [10 * i] * i) for i in (1, 2, 3)]
        await asyncio.sleep(0)
        assert batcher.queue_length == 3
        doubler.gate.set()
        results = [(await future)["y"].tolist() for future in (first, *others)]
        assert results == [[0], [20], [40] * 2, [60] * 3]
        assert doubler.batches == [[0], [10, 20, 20], [30, 30, 30]]

    run(test, max_batch_size=4)


def test_requests_of_equal_options_and_signatures_share_batches(doubler):
    other = Doubler()

    async def test(batcher):
        first = await start_blocked_batch(batcher, doubler)
        futures = [
            submit(batcher, doubler, [1], options=[5]),
            submit(batcher, doubler, [2]),
            submit(batcher, doubler, [3], options=[5]),
            submit(batcher, doubler, [4, 5], options=[5, 6]),
            submit(batcher, other, [6]),
            submit(batcher, doubler, [7, 8], options=[5, 6]),
            submit(batcher, doubler, [9]),
        ]
        await asyncio.sleep(0)
        doubler.gate.set()
        await asyncio.gather(first, *futures)
        assert doubler.batches == [[0], [1, 3], [2, 9], [4, 5], [7, 8]]
        assert other.batches == [[6]]

    run(test)


def test_a_request_of_many_rows_is_split_and_its_rows_stay_in_order(doubler):
    async def test(batcher):
        result = await submit(batcher, doubler, [50, 10, 40, 20, 30, 11], [5, 1, 4, 2, 3, 1])
        assert result["y"].tolist() == [100, 20, 80, 40, 60, 22]
        # At most 3 rows, and 8 sub-words with padding, in a batch; the shortest rows first.
        assert doubler.batches == [[10, 11, 20], [30, 40], [50]]

    run(test, max_batch_size=3, max_batch_tokens=8)


def test_a_signature_that_must_not_be_batched_gets_each_request_as_it_is():
    doubler = Doubler(may_be_batched=False)

    async def test(batcher):
        first = await start_blocked_batch(batcher, doubler)
        others = [submit(batcher, doubler, [i, i], [1, 99]) for i in (1, 2)]
        await asyncio.sleep(0)
        doubler.gate.set()
        await asyncio.gather(first, *others)
        assert sorted(doubler.batches) == [[0], [1, 1], [2, 2]]

    run(test, max_batch_size=1)


def test_parts_of_requests_take_turns(doubler):
    async def test(batcher):
        first = await start_blocked_batch(batcher, doubler)
        large = submit(batcher, doubler, list(range(40, 46)))
        small, other_small = submit(batcher, doubler, [20]), submit(batcher, doubler, [30])
        await asyncio.sleep(0)
        doubler.gate.set()
        await asyncio.gather(first, large, small, other_small)
        assert doubler.batches == [[0], [40, 41], [20, 30], [42, 43], [44, 45]]

    run(test, max_batch_size=2)


def test_new_requests_do_not_delay_the_parts_of_an_older_one(doubler):
    """Clients that always have a request in the queue."""

    async def test(batcher):
        async def send_without_end():
            while not large.done():
                await submit(batcher, doubler, [0, 0])

        large = submit(batcher, doubler, list(range(20, 40)))
        clients = [asyncio.ensure_future(send_without_end()) for _ in range(3)]
        assert (await large)["y"].tolist() == [2 * number for number in range(20, 40)]
        await asyncio.gather(*clients)
        of_others = sum(batch == [0, 0] for batch in doubler.batches)
        assert len(doubler.batches) - of_others == 10  # parts of two rows
        assert of_others <= 10 * len(clients) + len(clients)  # one of each client between two parts

    run(test, max_batch_size=2)


def test_short_rows_are_neither_batched_with_long_ones_nor_wait_for_them(doubler):
    async def test(batcher):
        doubler.gate.clear()
        mixed = submit(batcher, doubler, [1, 2], [SHORT_LENGTH, SHORT_LENGTH + 1])
        for _ in range(2):  # both parts run at the same time
            await asyncio.to_thread(doubler.started.acquire)
        doubler.gate.set()
        assert (await mixed)["y"].tolist() == [2, 4]
        assert sorted(doubler.batches) == [[1], [2]]

    run(test)


def test_a_full_queue_refuses_and_withdrawn_requests_are_not_computed(doubler):
    async def test(batcher):
        first = await start_blocked_batch(batcher, doubler)
        withdrawn, kept = submit(batcher, doubler, [1]), submit(batcher, doubler, [2])
        with pytest.raises(QueueFullError):
            await submit(batcher, doubler, [3])
        withdrawn.cancel()
        await asyncio.wait([withdrawn])
        assert batcher.queue_length == 1  # there is room for another request
        await asyncio.sleep(0)
        doubler.gate.set()
        await asyncio.gather(first, kept)
        assert doubler.batches == [[0], [2]]
        assert batcher.queue_length == 0

    run(test, max_queue=2)


def test_a_failure_reaches_only_its_request(doubler):
    reports = []

    async def test(batcher):
        first = await start_blocked_batch(batcher, doubler)
        others = [submit(batcher, doubler, [x]) for x in (13, 1, 2)]
        await asyncio.sleep(0)
        doubler.gate.set()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(result) for result in results] == [dict, ValueError, dict, dict]
        # The batch fails, so its halves are computed alone.
        assert doubler.batches == [[0], [13, 1, 2], [13], [1, 2]]
        assert [report[:3] for report in reports] == [("short", n, n) for n in (1, 3, 1, 2)]

    run(test, lambda *report: reports.append(report))


def test_outputs_without_rows_are_an_error(doubler):
    class Scalar(Doubler):
        def run(self, inputs, deadline):
            return {"y": np.float32(1)}

    async def test(batcher):
        with pytest.raises((IndexError, TypeError)):
            await submit(batcher, Scalar(), [1])

    run(test)


def test_a_batch_ends_at_the_last_deadline_of_its_requests(doubler):
    async def test(batcher):
        doubler.gate.clear()
        requests = [submit(batcher, doubler, [i], seconds=s) for i, s in ((0, 0.1), (1, 0.2))]
        results = await asyncio.gather(*requests, return_exceptions=True)
        assert [type(result) for result in results] == [TimeoutError] * 2
        doubler.gate.set()
        assert (await submit(batcher, doubler, [3]))["y"].tolist() == [6]
        assert doubler.batches == [[3]]

    run(test)
