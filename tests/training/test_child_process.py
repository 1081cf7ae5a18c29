"""Commands in processes of their own."""

import os
import signal
import subprocess
import sys

import pytest

from tf_transformer.training.child_process import Ending, run_processes

needs_two_cores = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores that processes can be confined to",
)

WAITS = "import time; time.sleep(600)"
SENDS = f"import os, signal; os.kill(os.getppid(), signal.SIGTERM); {WAITS}"


def run(shares, *programs):
    """Runs Python programs, whose names are a, b, ..."""
    commands = {name: [sys.executable, "-u", "-c", each] for name, each in zip("ab", programs)}
    return run_processes(commands, shares)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_process_starts(monkeypatch, number):
    popen, before = subprocess.Popen, signal.getsignal(number)

    def interrupted(command):
        os.kill(os.getpid(), number)
        return popen(command)

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    assert run(1, WAITS) == [Ending(-signal.SIGTERM, True)]
    assert signal.getsignal(number) is before


@needs_two_cores
def test_side_by_side(capfdbinary, tmp_path):
    """Each process has its own cores. A failure does not end the other process."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    program = f"import os, sys; pipe = {pipe!r}; print(sorted(os.sched_getaffinity(0))); {{}}"
    fails = r"file = open(pipe, 'w'); sys.stderr.buffer.write(b'\xff failed\n'); os._exit(3)"
    goes_on = "sys.stdout.flush(); open(pipe).read(); print(); print('done')"  # after the failure
    cores = sorted(os.sched_getaffinity(0))
    endings = run(2, program.format(fails), program.format(goes_on))
    assert endings == [Ending(3, False), Ending(0, False)]
    half = len(cores) // 2
    out, err = capfdbinary.readouterr()
    expected = [f"a | {cores[:half]}", f"b | {cores[half:]}", "b |", "b | done"]
    assert sorted(out.decode().splitlines()) == sorted(expected)
    assert err == b"a | \xff failed\n"


@needs_two_cores
def test_a_command_alone_gets_one_share(capfdbinary):
    """So a run has as many cores as one that is not alone."""
    run(2, "import os; print(len(os.sched_getaffinity(0)))")
    half = len(os.sched_getaffinity(0)) // 2
    assert capfdbinary.readouterr().out.decode() == f"a | {half}\n"


@needs_two_cores
def test_sigterm_is_passed_on_to_all():
    assert run(2, SENDS, WAITS) == [Ending(-signal.SIGTERM, True)] * 2


@needs_two_cores
def test_side_by_side_without_a_reader(monkeypatch):
    """The processes go on where nobody reads the output any more."""
    reader, writer = os.pipe()
    os.close(reader)
    monkeypatch.setattr(sys, "stdout", open(writer, "w"))
    program = "import signal; signal.alarm(600); print('line\\n' * 100_000)"
    assert run(2, program, program) == [Ending(0, False)] * 2
