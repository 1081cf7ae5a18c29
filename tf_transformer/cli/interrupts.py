"""Ctrl-C, SIGTERM and the like: a command ends with one line and the exit code of the signal.

This module imports almost nothing, so that `handle_interrupts` can be called before the long
imports.
"""

import os
import signal
from types import FrameType

MESSAGES: dict[int, str] = {
    signal.SIGINT: "interrupted", signal.SIGTERM: "terminated",
    # Of Slurm before its limit (`--signal`), and of the kernel at a limit of CPU time.
    signal.SIGUSR1: "terminated", signal.SIGXCPU: "terminated",
}  # fmt: skip

_received: list[int] = []


def handle_interrupts() -> None:
    """Makes the first of these signals raise KeyboardInterrupt, and the next end the process.

    A signal that the parent process ignores, as `nohup` and background jobs do, stays ignored.
    """
    for number in MESSAGES:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def received_signal() -> int | None:
    """The signal that has interrupted the process, or None.

    An exception that follows it is not an error: modules that are interrupted while they are
    imported, and TensorFlow, raise other exceptions than KeyboardInterrupt.
    """
    return _received[0] if _received else None


def exit_if_interrupted() -> None:
    """Ends the process at once, with one line, when a signal has interrupted it."""
    if _received:
        message = f"tf-transformer: {MESSAGES[_received[0]]}\n"
        try:
            os.write(2, message.encode())
        finally:
            os._exit(128 + _received[0])


def _interrupt(number: int, frame: FrameType | None) -> None:
    exit_if_interrupted()
    _received.append(number)
    raise KeyboardInterrupt
