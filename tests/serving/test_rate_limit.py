"""The token buckets."""

import pytest

from tf_transformer.serving import rate_limit
from tf_transformer.serving.rate_limit import RateLimiter


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def take(limiter, client):
    """Takes a token if there is one. Returns: the seconds until there is one."""
    seconds = limiter.wait(client)
    if not seconds:
        limiter.spend(client, 1)
    return seconds


def test_a_burst_and_then_the_rate(clock):
    limiter = RateLimiter(rate=0.5, burst=3, clock=clock)
    assert [take(limiter, "a") for _ in range(5)] == [0, 0, 0, 2, 2]
    clock.now += 1.5
    assert take(limiter, "a") == 0.5
    clock.now += 0.5
    assert [take(limiter, "a"), take(limiter, "a")] == [0, 2]
    clock.now += 4
    assert [take(limiter, "a") for _ in range(3)] == [0, 0, 2]
    clock.now += 1000  # no more than the burst is saved
    assert [take(limiter, "a") for _ in range(4)] == [0, 0, 0, 2]


def test_a_debt(clock):
    """The cost of a request may be more than the bucket holds: the next one waits for it."""
    limiter = RateLimiter(rate=10, burst=100, clock=clock)
    assert limiter.wait("a") == 0
    limiter.spend("a", 500)
    assert limiter.wait("a") == pytest.approx(40.1)
    clock.now += 40.2
    assert limiter.wait("a") == 0
    limiter.spend("a", 10)
    assert limiter.wait("a") == pytest.approx(0.9)


def test_each_client_has_its_own_bucket(clock):
    limiter = RateLimiter(rate=1, burst=1, clock=clock)
    assert [take(limiter, "a"), take(limiter, "b"), take(limiter, "a")] == [0, 0, 1]


def test_the_long_run_rate(clock):
    limiter = RateLimiter(rate=7, burst=20, clock=clock)
    taken = 0
    for _ in range(10_000):
        clock.now += 0.01
        taken += take(limiter, "a") == 0
    assert taken == pytest.approx(7 * 100 + 20, abs=1)


def test_memory_is_bounded(clock, monkeypatch):
    limiter = RateLimiter(rate=1, burst=2, clock=clock)
    for i in range(50_000):  # ten seconds, 5,000 clients a second
        clock.now += 1 / 5000
        assert take(limiter, f"client {i}") == 0
        assert len(limiter._full_at) <= 2 * 5000 + 1
    monkeypatch.setattr(rate_limit, "MAX_BUCKETS", 1000)
    assert [take(limiter, "busy") for _ in range(3)][:2] == [0, 0]
    for i in range(100_000):  # at once: no bucket is full again
        take(limiter, f"new {i}")
        assert len(limiter._full_at) <= 2 * 5000 + 2
    assert take(limiter, "busy") > 0  # the emptiest buckets stay
