"""A command in a process of its own."""

import signal
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
