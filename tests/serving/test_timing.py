"""The times of requests: waiting and computation."""

import time

import pytest

from tf_transformer.serving.timing import Timing


@pytest.fixture
def clock(monkeypatch):
    """A function that advances the time."""
    now = 100.0

    def advance(seconds):
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    return advance


def test_queue_and_computation_add_up_to_the_time_of_the_request(clock):
    timing = Timing()
    clock(1)
    assert (timing.queue_seconds, timing.compute_seconds) == (0, 0)
    timing.submit(tokens=7)
    clock(2)
    assert (timing.queue_seconds, timing.compute_seconds) == (2, 0)
    timing.start_part(batch_rows=3)
    clock(4)
    timing.start_part(batch_rows=2)  # at the same time
    clock(8)
    timing.end_part()
    clock(16)
    assert (timing.queue_seconds, timing.compute_seconds) == (2, 28)
    timing.end_part()
    clock(32)  # a third part waits
    timing.start_part(batch_rows=1)
    clock(64)
    timing.end_part()
    timing.answer()
    clock(128)
    assert (timing.queue_seconds, timing.compute_seconds) == (34, 92)
    assert (timing.tokens, timing.batch_rows) == (7, 3)


def test_a_batch_that_goes_on_after_the_answer_is_not_counted(clock):
    timing = Timing()
    timing.submit(tokens=1)
    timing.start_part(batch_rows=1)
    clock(1)
    timing.answer()
    clock(2)
    assert timing.compute_seconds == 1
    timing.end_part()
    timing.start_part(batch_rows=1)
    clock(4)
    timing.end_part()
    assert (timing.queue_seconds, timing.compute_seconds) == (0, 1)
