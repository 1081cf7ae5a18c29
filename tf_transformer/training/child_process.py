"""Commands that train in processes of their own."""

import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
from types import FrameType
from typing import IO, Any, NamedTuple, TextIO


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
    with _Processes() as processes:
        process = processes.start(command)
        code = process.wait()
    return Ending(code, bool(processes.received))


def run_side_by_side(commands: dict[str, list[str]], shares: int) -> list[Ending]:
    """Runs several commands at the same time until all of them end, each on its own cores.

    The cores of this process are divided into shares, and a command gets one of them. So its
    threads do not wait for those of the others. What the processes print is copied line by line,
    after the name of the command. Signals reach all of them as in `run_process`. A process that
    fails does not end the others.

    Args:
      commands: the program and its arguments, by the name of the command.
      shares: the number of shares; at least that of commands, and at most that of cores.
    Returns: how each process ended, in the order of the commands.
    """
    allowed = os.sched_getaffinity(0)
    cores = sorted(allowed)
    threads = concurrent.futures.ThreadPoolExecutor(2 * len(commands))
    with threads, _Processes() as processes:
        started = []
        for i, (name, command) in enumerate(commands.items()):
            share = cores[i * len(cores) // shares : (i + 1) * len(cores) // shares]
            os.sched_setaffinity(0, share)  # of this thread, which the process inherits
            try:
                process = processes.start(command, subprocess.PIPE)
            finally:
                os.sched_setaffinity(0, allowed)
            assert process.stdout and process.stderr
            prefix = f"{name} | ".encode()
            threads.submit(_copy, process.stdout, prefix, sys.stdout)
            threads.submit(_copy, process.stderr, prefix, sys.stderr)
            started.append(process)
        codes = [process.wait() for process in started]
    return [Ending(code, bool(processes.received)) for code in codes]


class _Processes:
    """Child processes, which get the SIGTERM that this process gets while the context is open.

    An error in the context ends the processes.
    """

    def __init__(self) -> None:
        self.received: list[int] = []  # the signals SIGINT and SIGTERM that arrived
        self._started: list[subprocess.Popen[bytes]] = []
        self._handlers: dict[int, Any] = {}  # those before the context

    def __enter__(self) -> "_Processes":
        for number in (signal.SIGINT, signal.SIGTERM):
            # A signal that is ignored, as by background jobs of a script, stays ignored.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, error: type[BaseException] | None, *details: object) -> None:
        if error:
            self._terminate()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def start(self, command: list[str], output: int | None = None) -> subprocess.Popen[bytes]:
        """Starts a process.

        Args:
          command: the program and its arguments.
          output: `subprocess.PIPE` for pipes from its standard output and standard error.
        Returns: the process.
        """
        process = subprocess.Popen(command, stdout=output, stderr=output)
        self._started.append(process)
        if self.received:  # before the process was there
            process.terminate()
        return process

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)
        if number == signal.SIGTERM:
            self._terminate()

    def _terminate(self) -> None:
        for process in self._started:
            process.terminate()


def _copy(source: IO[bytes], prefix: bytes, output: TextIO) -> None:
    """Copies the lines of a process to standard output or standard error, after a prefix."""
    with source:
        for line in source:
            with contextlib.suppress(OSError):  # nobody reads the output, or the disk is full
                output.buffer.write((prefix + line).rstrip() + b"\n")
                output.flush()
