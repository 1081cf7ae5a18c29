"""A command that trains in a process of its own."""

import signal
import subprocess
from types import FrameType
from typing import NamedTuple


class Ending(NamedTuple):
    """How a process ended."""

    code: int  # exit code
    interrupted: bool  # whether SIGINT or SIGTERM arrived meanwhile


def run_process(command: list[str]) -> Ending:
    """Runs a command until it ends.

    Ctrl-C reaches the process through the terminal; SIGTERM is passed on to it.

    Args:
      command: the program and its arguments.
    """
    received = []
    process: subprocess.Popen[bytes] | None = None

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if process and number == signal.SIGTERM:
            process.terminate()

    # A signal that is ignored, as by background jobs of a script, stays ignored.
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) != signal.SIG_IGN
    ]
    handlers = {number: signal.signal(number, handle) for number in numbers}
    try:
        process = subprocess.Popen(command)
        if signal.SIGTERM in received:  # before the process was there
            process.terminate()
        code = process.wait()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Ending(code, bool(received))
