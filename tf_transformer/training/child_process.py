"""Commands that train in processes of their own."""

import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
from types import FrameType
from typing import IO, NamedTuple, TextIO


class Ending(NamedTuple):
    """How a process ended."""

    code: int  # exit code
    interrupted: bool  # whether SIGINT or SIGTERM arrived meanwhile


def run_processes(commands: dict[str, list[str]], shares: int = 1) -> list[Ending]:
    """Runs a command, or several at the same time, until all of them end.

    Ctrl-C reaches the processes through the terminal; SIGTERM is passed on to all of them. A
    process that fails does not end the others.

    With several shares, the cores of this process are divided into them, and a command gets one. So
    its threads do not wait for those of the others. What the processes print is then copied line by
    line, after the name of the command.

    Args:
      commands: the program and its arguments, by the name of the command.
      shares: the number of shares; at least that of commands, and at most that of cores.
    Returns: how each process ended, in the order of the commands.
    """
    processes: list[subprocess.Popen[bytes]] = []
    received: list[int] = []  # the signals that arrived

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
        with concurrent.futures.ThreadPoolExecutor(2 * len(commands)) as threads:
            for i, (name, command) in enumerate(commands.items()):
                if shares == 1:
                    process = subprocess.Popen(command)
                else:
                    process = _start_on_share(command, i, shares)
                processes.append(process)
                if received:  # while it started
                    process.terminate()
                prefix = f"{name} | ".encode()
                for source, output in (process.stdout, sys.stdout), (process.stderr, sys.stderr):
                    if source:
                        threads.submit(_copy, source, prefix, output)
            codes = [process.wait() for process in processes]
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return [Ending(code, bool(received)) for code in codes]


def _start_on_share(command: list[str], index: int, shares: int) -> subprocess.Popen[bytes]:
    """Starts a command on a share of the cores, with pipes."""
    cores = [str(core) for core in sorted(os.sched_getaffinity(0))]
    share = ",".join(cores[index * len(cores) // shares : (index + 1) * len(cores) // shares])
    command = ["taskset", "--cpu-list", share, *command]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _copy(source: IO[bytes], prefix: bytes, output: TextIO) -> None:
    """Copies the lines of a process to standard output or standard error, after a prefix."""
    with source:
        for line in source:
            with contextlib.suppress(OSError):  # nobody reads the output, or the disk is full
                output.buffer.write((prefix + line).rstrip() + b"\n")
                output.flush()
