"""Rate limits: a token bucket for each client.

A bucket holds up to `burst` tokens, and gets `rate` tokens a second. A request that costs more than
the bucket has is admitted when there is one token. A bucket can therefore have less than 0 tokens.
"""

import time
from collections.abc import Callable

MAX_BUCKETS = 100_000  # in memory; a bucket has about 150 bytes


class RateLimiter:
    """A token bucket for each client.

    Args:
      rate: tokens a second, above 0.
      burst: tokens that a bucket holds, at least 1.
      clock: returns the time in seconds.
    """

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        # The time at which a bucket is full again. A client without an entry has a full bucket.
        self._full_at: dict[str, float] = {}
        self._next_cleaning = 1000  # entries

    def wait(self, client: str) -> float:
        """Returns the seconds until the bucket of a client has a token; 0 when it has one."""
        now = self._clock()
        tokens = self._burst - max(0.0, self._full_at.get(client, now) - now) * self._rate
        return max(0.0, (1 - tokens) / self._rate)

    def spend(self, client: str, tokens: int) -> None:
        """Takes tokens from the bucket of a client, whether it has them or not."""
        now = self._clock()
        full_at = max(now, self._full_at.get(client, now))
        self._full_at[client] = full_at + tokens / self._rate
        if len(self._full_at) >= self._next_cleaning:
            self._clean(now)

    def _clean(self, now: float) -> None:
        """Drops the full buckets; where that is not enough, those that are full soonest."""
        left = {client: at for client, at in self._full_at.items() if at > now}
        if len(left) > MAX_BUCKETS // 2:
            left = dict(sorted(left.items(), key=lambda item: item[1])[-MAX_BUCKETS // 2 :])
        self._full_at = left
        self._next_cleaning = max(1000, 2 * len(left))
