"""How long requests wait for their batches, and how long they are computed."""

import dataclasses
import time


class Timing:
    """The times of one request. The `Batcher` records them; they can be read at any time.

    `queue_seconds` + `compute_seconds` is the time since the request was submitted, until it is
    answered. A request of several parts is being computed while at least one of them is.

    Attributes:
      tokens: sub-words of all texts.
      batch_rows: rows of the largest batch that a part of the request was in; 0 before the first.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self.batch_rows = 0
        self._submitted: float | None = None
        self._answered: float | None = None
        self._running = 0  # parts that are computed now
        self._running_since = 0.0
        self._computed = 0.0  # seconds, until the last time when no part was computed

    @property
    def compute_seconds(self) -> float:
        """Seconds during which a part was computed."""
        return self._computed + (self._now() - self._running_since if self._running else 0.0)

    @property
    def queue_seconds(self) -> float:
        """The other seconds since the request was submitted; 0 if it was not."""
        if self._submitted is None:
            return 0.0
        return max(0.0, self._now() - self._submitted - self.compute_seconds)

    def submit(self, tokens: int) -> None:
        """Records that the request has entered the queue."""
        self.tokens = tokens
        self._submitted = time.monotonic()

    def start_part(self, batch_rows: int) -> None:
        """Records that the computation of a part begins, in a batch of this many rows."""
        self.batch_rows = max(self.batch_rows, batch_rows)
        if not self._running:
            self._running_since = self._now()
        self._running += 1

    def end_part(self) -> None:
        """Records that the computation of a part has ended."""
        self._running -= 1
        if not self._running:
            self._computed += self._now() - self._running_since

    def answer(self) -> None:
        """Records that the request is answered, or withdrawn. Its times change no more."""
        self._answered = time.monotonic()

    def _now(self) -> float:
        return time.monotonic() if self._answered is None else self._answered


@dataclasses.dataclass(frozen=True)
class BatchReport:
    """A batch that was computed.

    Attributes:
      lane: "short" or "long", after the length of its rows.
      rows: in the batch.
      tokens: rows x source sub-words of the longest one.
      queue_seconds: of each part of a request in the batch, until the function started.
    """

    lane: str
    rows: int
    tokens: int
    queue_seconds: list[float]
