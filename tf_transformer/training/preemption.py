"""Ctrl-C and SIGTERM, which a cluster sends before it takes a job away: save and stop."""

import os
import signal
import threading


class PreemptionHandler:
    """A context in which the first Ctrl-C or SIGTERM only sets `requested`.

    The training loop checks it between updates. A second signal has its former effect.

    Args:
      second_interrupt: the effect of a second signal: a handler of the module `signal`, or None
        for the handler that was set before.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, second_interrupt=None):
        self.requested = False
        self._second_interrupt = second_interrupt
        self._before = {}  # signal -> former handler

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            self._before = {number: signal.signal(number, self._request) for number in self.SIGNALS}
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number, frame):
        self.requested = True
        for each, before in self._before.items():
            second = before if self._second_interrupt is None else self._second_interrupt
            signal.signal(each, second)
        # os.write, because the signal may have interrupted a print.
        name = signal.Signals(number).name
        os.write(2, f"\n{name}: saving after this update; send it again to stop at once\n".encode())
