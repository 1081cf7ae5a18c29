"""Commands in processes of their own."""

import os
import signal
import subprocess
import sys

import pytest

from tf_transformer.training.child_process import Ending, run_process, run_side_by_side

needs_two_cores = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores that processes can be confined to",
)

WAITS = "import time; time.sleep(600)"
SENDS = f"import os, signal; os.kill(os.getppid(), signal.SIGTERM); {WAITS}"


def test_the_exit_code_is_returned():
    assert run_process([sys.executable, "-c", "raise SystemExit(3)"]) == Ending(3, False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_process_starts(monkeypatch, number):
    popen, before = subprocess.Popen, signal.getsignal(number)

    def interrupted(command):
        os.kill(os.getpid(), number)
        return popen(command)

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    assert run_process([sys.executable, "-c", WAITS]) == Ending(-signal.SIGTERM, True)
    assert signal.getsignal(number) is before


@needs_two_cores
def test_side_by_side(capfdbinary, tmp_path):
    """Each process has its own cores. A failure does not end the other process."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    program = f"import os, sys; pipe = {pipe!r}; print(sorted(os.sched_getaffinity(0))); {{}}"
    fails = r"file = open(pipe, 'w'); sys.stderr.buffer.write(b'\xff failed\n'); os._exit(3)"
    goes_on = "sys.stdout.flush(); open(pipe).read(); print(); print('done')"  # after the failure
    before = os.sched_getaffinity(0)
    commands = {
        name: [sys.executable, "-u", "-c", program.format(code)]
        for name, code in (("a", fails), ("b", goes_on))
    }
    assert run_side_by_side(commands, 2) == [Ending(3, False), Ending(0, False)]
    assert os.sched_getaffinity(0) == before
    cores = sorted(before)
    half = len(cores) // 2
    out, err = capfdbinary.readouterr()
    expected = [f"a | {cores[:half]}", f"b | {cores[half:]}", "b |", "b | done"]
    assert sorted(out.decode().splitlines()) == sorted(expected)
    assert err == b"a | \xff failed\n"


@needs_two_cores
def test_a_command_alone_gets_one_share(capfdbinary):
    """So a run has as many cores as one that is not alone."""
    program = "import os; print(len(os.sched_getaffinity(0)))"
    run_side_by_side({"a": [sys.executable, "-c", program]}, 2)
    half = len(os.sched_getaffinity(0)) // 2
    assert capfdbinary.readouterr().out.decode() == f"a | {half}\n"


@needs_two_cores
def test_sigterm_is_passed_on_to_all():
    commands = {"a": [sys.executable, "-c", SENDS], "b": [sys.executable, "-c", WAITS]}
    assert run_side_by_side(commands, 2) == [Ending(-signal.SIGTERM, True)] * 2


@needs_two_cores
def test_side_by_side_without_a_reader(monkeypatch):
    """The processes go on where nobody reads the output any more."""
    reader, writer = os.pipe()
    os.close(reader)
    monkeypatch.setattr(sys, "stdout", open(writer, "w"))
    program = "import signal; signal.alarm(30); print('line\\n' * 100_000)"
    commands = {name: [sys.executable, "-c", program] for name in "ab"}
    assert run_side_by_side(commands, 2) == [Ending(0, False)] * 2
