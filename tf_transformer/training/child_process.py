"""Commands that train in processes of their own."""

import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import FrameType
from typing import IO, NamedTuple, TextIO


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
    with _passing_signals_on() as (processes, received):
        process = subprocess.Popen(command)
        processes.append(process)
        if received:  # while it started
            process.terminate()
        code = process.wait()
    return Ending(code, bool(received))


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
    cores = [str(core) for core in sorted(os.sched_getaffinity(0))]
    pipe = subprocess.PIPE
    threads = concurrent.futures.ThreadPoolExecutor(2 * len(commands))
    with threads, _passing_signals_on() as (processes, received):
        for i, (name, command) in enumerate(commands.items()):
            share = ",".join(cores[i * len(cores) // shares : (i + 1) * len(cores) // shares])
            command = ["taskset", "--cpu-list", share, *command]
            process = subprocess.Popen(command, stdout=pipe, stderr=pipe)
            assert process.stdout and process.stderr
            processes.append(process)
            if received:  # while it started
                process.terminate()
            prefix = f"{name} | ".encode()
            threads.submit(_copy, process.stdout, prefix, sys.stdout)
            threads.submit(_copy, process.stderr, prefix, sys.stderr)
        codes = [process.wait() for process in processes]
    return [Ending(code, bool(received)) for code in codes]


def _copy(source: IO[bytes], prefix: bytes, output: TextIO) -> None:
    """Copies the lines of a process to standard output or standard error, after a prefix."""
    with source:
        for line in source:
            with contextlib.suppress(OSError):  # nobody reads the output, or the disk is full
                output.buffer.write((prefix + line).rstrip() + b"\n")
                output.flush()


@contextlib.contextmanager
def _passing_signals_on() -> Iterator[tuple[list[subprocess.Popen[bytes]], list[int]]]:
    """A context in which SIGTERM is passed on to processes.

    Yields: the list to which each process is appended; the signals SIGINT and SIGTERM that arrived.
    """
    processes: list[subprocess.Popen[bytes]] = []
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if number == signal.SIGTERM:
            for process in processes:
                process.terminate()

    handlers = {
        number: signal.signal(number, handle)
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) != signal.SIG_IGN  # as in the background jobs of a script
    }
    try:
        yield processes, received
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
