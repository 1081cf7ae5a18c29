"""Ctrl-C, SIGTERM and SIGHUP: save and stop.

A cluster sends SIGTERM before it takes a job away. SIGHUP comes when the terminal of the run is
closed, or its connection is lost.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

# A handler of the module `signal`.
Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


SAME_SIGTERM_SECONDS = 5.0  # between two SIGTERMs that are one for the user


class PreemptionHandler:
    """A context in which the first of these signals only sets `requested`.

    The training loop checks it between updates. A second Ctrl-C or SIGTERM has its former effect. A
    second SIGHUP has none: the kernel sends one, and the shell another one. Neither has a SIGTERM
    soon after another one: a cluster sends it to all processes, and a parent process passes it on.
    A signal that is ignored, as SIGHUP under `nohup`, stays ignored.

    Args:
      second_interrupt: the effect of a second signal: a handler of the module `signal`, or None
        for the handler that was set before.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, second_interrupt: Handler = None) -> None:
        self.requested = False
        self._second_interrupt = second_interrupt
        self._terminated: float | None = None  # the time of the first SIGTERM
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

    def _stop_at_next(self, number: signal.Signals) -> None:
        """Gives a signal the effect of a second one."""
        if number in self._before:
            before, second = self._before[number], self._second_interrupt
            signal.signal(number, before if second is None else second)

    def _request(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if number == signal.SIGTERM and self._terminated is not None:
            if now - self._terminated > SAME_SIGTERM_SECONDS:
                self._stop_at_next(signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGTERM)
            return
        self.requested = True
        message = f"\n{signal.Signals(number).name}: saving after this update"
        if number == signal.SIGTERM:
            self._terminated = now
        elif number == signal.SIGINT:
            self._stop_at_next(signal.SIGTERM)
        if number != signal.SIGHUP:
            self._stop_at_next(signal.SIGINT)
            message += "; send it again to stop at once"
        # os.write, because the signal may have interrupted a print. The terminal may be closed.
        with contextlib.suppress(OSError):
            os.write(2, f"{message}\n".encode())
