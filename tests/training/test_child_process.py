"""A command in a process of its own."""

import os
import signal
import subprocess
import sys

from tf_transformer.training.child_process import Ending, run_process


def test_the_exit_code_is_returned():
    assert run_process([sys.executable, "-c", "raise SystemExit(3)"]) == Ending(3, False)


def test_sigterm_is_passed_on():
    before = signal.getsignal(signal.SIGTERM)
    program = "import os, signal, time; time.sleep(1); os.kill(os.getppid(), signal.SIGTERM); "
    program += "time.sleep(60)"
    assert run_process([sys.executable, "-c", program]) == Ending(-signal.SIGTERM, True)
    assert signal.getsignal(signal.SIGTERM) is before


def test_sigterm_before_the_process_is_there(monkeypatch):
    class Popen(subprocess.Popen):
        def __init__(self, command):
            os.kill(os.getpid(), signal.SIGTERM)
            super().__init__(command)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    program = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert run_process(program) == Ending(-signal.SIGTERM, True)
