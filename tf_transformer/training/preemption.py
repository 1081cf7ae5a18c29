"""Ctrl-C, SIGTERM and SIGHUP: save and stop.

A cluster sends SIGTERM before it takes a job away. SIGHUP comes when the terminal of the run is
closed, or its connection is lost.
"""

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
    """A context in which the first of these signals only sets `requested`.

    The training loop checks it between updates. A second Ctrl-C or SIGTERM has its former effect. A
    second SIGHUP has none: the kernel sends one, and the shell another one. A SIGHUP that is
    ignored, as under `nohup`, stays ignored.

    Args:
      second_interrupt: the effect of a second signal: a handler of the module `signal`, or None
        for the handler that was set before.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, second_interrupt: Handler = None) -> None:
        self.requested = False
        self._second_interrupt = second_interrupt
        self._before: dict[signal.Signals, Handler] = {}  # signal -> former handler

    def __enter__(self) -> "PreemptionHandler":
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            for number in self.SIGNALS:
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        message = f"\n{signal.Signals(number).name}: saving after this update"
        if number != signal.SIGHUP:
            for each in (signal.SIGINT, signal.SIGTERM):
                before = self._before[each]
                second = before if self._second_interrupt is None else self._second_interrupt
                signal.signal(each, second)
            message += "; send it again to stop at once"
        # os.write, because the signal may have interrupted a print. The terminal may be closed.
        with contextlib.suppress(OSError):
            os.write(2, f"{message}\n".encode())
