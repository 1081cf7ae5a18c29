"""Ctrl-C, SIGTERM and SIGHUP: save and stop."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

# A handler of the module `signal`.
Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


class PreemptionHandler:
    """A context in which these signals only set `requested`, which the loop reads between updates.

    A cluster sends SIGTERM before it takes a job away, to all processes, and a parent process
    passes it on. SIGHUP, also more than once, comes when the terminal is closed. After any of them,
    Ctrl-C stops at once. A signal that is ignored, as SIGHUP under `nohup`, stays ignored.

    Args:
      second_interrupt: what Ctrl-C then does: a handler of the module `signal`, or None for the
        handler that was set before.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, second_interrupt: Handler = None) -> None:
        self.requested = False
        self._second_interrupt = second_interrupt
        self._before: dict[signal.Signals, Handler] = {}  # signal -> former handler

    def __enter__(self) -> "PreemptionHandler":
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            for number in self.SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            return
        self.requested = True
        if signal.SIGINT in self._before:
            second = self._second_interrupt
            signal.signal(signal.SIGINT, self._before[signal.SIGINT] if second is None else second)
        name = signal.Signals(number).name
        # os.write, because the signal may have interrupted a print. The terminal may be closed.
        with contextlib.suppress(OSError):
            os.write(2, f"\n{name}: saving after this update; Ctrl-C stops at once\n".encode())
