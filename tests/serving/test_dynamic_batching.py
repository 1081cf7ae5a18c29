"""Dynamic batching of requests to a function. `test_server.py` has full queues and withdrawals."""

import asyncio
import threading
import time

import numpy as np
import pytest

from serving.fake_models import SECONDS
from tf_transformer.config import ServeConfig
from tf_transformer.serving.dynamic_batching import SHORT_LENGTH, Batcher
from tf_transformer.serving.model_interface import Input, LoadedSignature

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Doubler:
    """Doubles numbers and records the batches; a batch ends only while `gate` is open."""

    def __init__(self, may_be_batched=True):
        inputs = {"x": Input("DT_STRING"), "option": Input("DT_INT32", 0)}
        self.signature = LoadedSignature(self.run, inputs, may_be_batched, {})
        self.batches = []
        self.deadlines = []
        self.started = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def run(self, inputs, deadline):
        self.deadlines.append(deadline)
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


@pytest.fixture
def make_batcher():
    """A function that makes a `Batcher` with these settings."""
    made = []

    def make(observe=lambda *report: None, **settings):
        made.append(Batcher(ServeConfig(**settings), observe))
        return made[-1]

    yield make
    for batcher in made:
        batcher.close()


def submit(batcher, doubler, numbers, options=None, lengths=None, seconds=SECONDS):
    """Submits a request of rows, by default of one sub-word each."""
    inputs = {"x": numbers, "option": options or [0] * len(numbers)}
    lengths = lengths or [1] * len(numbers)
    deadline = time.monotonic() + seconds
    return asyncio.ensure_future(batcher.compute(doubler.signature, inputs, lengths, deadline))


async def start_blocked_batch(batcher, doubler):
    """Starts a batch that ends when the gate opens. Returns: the future of its request."""
    doubler.gate.clear()
    first = submit(batcher, doubler, [0])
    await wait_for_start(doubler)
    return first


async def wait_for_start(doubler):
    assert await asyncio.to_thread(doubler.started.acquire, timeout=SECONDS)


async def open_gate(doubler, *requests):
    """Opens the gate when the requests are in the queue. Returns: their results, or errors."""
    await asyncio.sleep(0)
    doubler.gate.set()
    return await asyncio.gather(*requests, return_exceptions=True)


@pytest.mark.parametrize(
    "size, requests, batches",
    [
        (4, [[10], [20, 20], [30, 30, 30]], [[10, 20, 20], [30, 30, 30]]),
        # Parts of requests take turns.
        (2, [[40, 41, 42, 43, 44, 45], [20], [30]], [[40, 41], [20, 30], [42, 43], [44, 45]]),
        # The option of a row is its number of tens: rows of equal options share batches.
        (32, [[51], [2], [53], [54, 65], [76, 87], [9]], [[51, 53], [2, 9], [54, 65], [76, 87]]),
    ],
)
async def test_waiting_requests_share_batches(make_batcher, doubler, size, requests, batches):
    batcher, other = make_batcher(max_batch_size=size), Doubler()
    options = [[x // 10 if size == 32 else 0 for x in numbers] for numbers in requests]
    futures = [await start_blocked_batch(batcher, doubler)]
    futures += [submit(batcher, doubler, *each) for each in zip(requests, options)]
    futures += [submit(batcher, other, [1])]  # another signature
    await asyncio.sleep(0)
    assert batcher.queue_length == len(requests) + 1
    results = await open_gate(doubler, *futures)
    expected = [[2 * x for x in numbers] for numbers in ([0], *requests, [1])]
    assert [result["y"].tolist() for result in results] == expected
    assert doubler.batches == [[0], *batches]
    assert other.batches == [[1]]


async def test_a_request_of_many_rows_is_split_and_its_rows_stay_in_order(make_batcher, doubler):
    batcher = make_batcher(max_batch_size=3, max_batch_tokens=8)
    result = await submit(batcher, doubler, [50, 10, 40, 20, 30, 11], lengths=[5, 1, 4, 2, 3, 1])
    assert result["y"].tolist() == [100, 20, 80, 40, 60, 22]
    # At most 3 rows, and 8 sub-words with padding, in a batch; the shortest rows first.
    assert doubler.batches == [[10, 11, 20], [30, 40], [50]]


async def test_a_signature_that_must_not_be_batched_gets_each_request_as_it_is(make_batcher):
    batcher, doubler = make_batcher(max_batch_size=1), Doubler(may_be_batched=False)
    first = await start_blocked_batch(batcher, doubler)
    await open_gate(
        doubler, first, *(submit(batcher, doubler, [i, i], lengths=[1, 99]) for i in (1, 2))
    )
    assert sorted(doubler.batches) == [[0], [1, 1], [2, 2]]


async def test_new_requests_do_not_delay_the_parts_of_an_older_one(make_batcher, doubler):
    """Clients that always have a request in the queue."""
    batcher = make_batcher(max_batch_size=2)

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


async def test_short_rows_are_neither_batched_with_long_ones_nor_wait_for_them(
    make_batcher, doubler
):
    doubler.gate.clear()
    mixed = submit(make_batcher(), doubler, [1, 2], lengths=[SHORT_LENGTH, SHORT_LENGTH + 1])
    for _ in range(2):  # both parts run at the same time
        await wait_for_start(doubler)
    doubler.gate.set()
    assert (await mixed)["y"].tolist() == [2, 4]
    assert sorted(doubler.batches) == [[1], [2]]


async def test_a_failure_reaches_only_its_batch(make_batcher, doubler):
    reports = []
    batcher = make_batcher(lambda *report: reports.append(report), max_batch_size=2)
    first = await start_blocked_batch(batcher, doubler)
    results = await open_gate(doubler, first, *(submit(batcher, doubler, [x]) for x in (13, 1, 2)))
    assert [type(result) for result in results] == [dict, ValueError, ValueError, dict]
    assert doubler.batches == [[0], [13, 1], [2]]
    assert [report[:2] for report in reports] == [("short", n) for n in (1, 2, 1)]


async def test_a_batch_ends_at_the_last_deadline_of_its_requests(make_batcher, doubler):
    batcher = make_batcher()
    first = await start_blocked_batch(batcher, doubler)
    others = [submit(batcher, doubler, [i], seconds=seconds) for i, seconds in ((1, 9e9), (2, 300))]
    before, (*_, last) = time.monotonic(), await open_gate(doubler, first, *others)
    assert last["y"].tolist() == [4]
    assert doubler.deadlines[-1] > before + 8e9
