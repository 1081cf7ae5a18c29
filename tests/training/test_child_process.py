"""A command in a process of its own."""

import os
import signal
import sys
import threading

from tf_transformer.training.child_process import Ending, run_process


def test_the_exit_code_is_returned():
    assert run_process([sys.executable, "-c", "raise SystemExit(3)"]) == Ending(3, False)


def test_sigterm_is_passed_on():
    before = signal.getsignal(signal.SIGTERM)
    program = "import time; time.sleep(60)"
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert run_process([sys.executable, "-c", program]) == Ending(-signal.SIGTERM, True)
    assert signal.getsignal(signal.SIGTERM) is before
