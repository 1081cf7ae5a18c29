"""Ctrl-C, and the signal that a machine sends before it takes a job away (SIGTERM): the run is asked to save and stop."""

import os
import signal
import threading


class Interruption:
    """While open, the first Ctrl-C or SIGTERM sets `asked`, to be looked at between updates; a second one is not caught.

    Args:
      second: what a second Ctrl-C does: a handler of the module `signal`, or None for the one that was there before.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, second=None):
        self.asked, self._second, self._before = False, second, {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():  # only this one may set handlers
            self._before = {number: signal.signal(number, self._ask) for number in self.SIGNALS}
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number, frame):
        self.asked = True
        for one, before in self._before.items():
            signal.signal(one, before if self._second is None else self._second)
        # Not by print: the signal may have come in the middle of one.
        os.write(2, f"\n{signal.Signals(number).name}: stopping after this update; once more to stop at once\n".encode())
