"""Hostile use: closed and full streams, vanished readers, signals, odd outputs, our own bugs."""

import errno
import re
import shutil
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from tf_transformer.cli.main import COMMANDS
from tf_transformer.errors import UserError

PROGRAM = f"{sys.executable} -m tf_transformer"


def shell(command):
    """Runs a shell command. Returns: code, output, errors."""
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True)
    return done.returncode, *(each.decode(errors="replace") for each in (done.stdout, done.stderr))


@pytest.mark.slow
def test_a_reader_that_stops_is_no_error(model_dir):
    """The exit code is that of SIGPIPE; the reader has ended, or the input has no end."""
    assert shell(f"exec 3> >(true); wait $!; {PROGRAM} info --preset=base >&3") == (141, "", "")
    command = f"yes Anna sleeps. | {PROGRAM} translate --model_dir={model_dir} --n_best=4 | head -1"
    code, out, err = shell(command)
    assert (code, out[:2], err) == (141, "1\t", "")


@pytest.mark.slow
def test_a_full_disk_as_standard_output(full):
    code, out, err = shell(f"{PROGRAM} help > {full}")
    message = "tf-transformer: error: standard output: No space left on device"
    assert (code, out, err.rpartition(":")[0]) == (2, "", message)


# Programs that send signals to themselves: while the command line is imported, and in a command
# that turns the KeyboardInterrupt into another error, as TensorFlow does while it traces.
IMPORTING = """
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "tf_transformer.cli.main":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signals[0])
sys.meta_path.insert(0, Interrupt())
"""
COMPUTING = """
from tf_transformer.cli.main import COMMANDS
def interrupted(values):
    try:
        os.kill(os.getpid(), signals[0])
    except KeyboardInterrupt:
        for number in signals[1:]:
            os.kill(os.getpid(), number)
        raise ValueError("in user code: ...") from None
COMMANDS["info"] = COMMANDS["info"]._replace(function=interrupted)
"""


@pytest.mark.parametrize(("program", "signals", "expected"), [
    (IMPORTING, [signal.SIGTERM], (143, "tf-transformer: terminated\n")),
    (COMPUTING, [signal.SIGINT], (130, "tf-transformer: interrupted\n")),
    (COMPUTING, [signal.SIGUSR1], (138, "tf-transformer: terminated\n")),
    (COMPUTING, [signal.SIGINT, signal.SIGTERM], (130, "tf-transformer: interrupted\n")),
])  # fmt: skip
def test_signals(program, signals, expected):
    """One line and the exit code of the first signal."""
    start = f"import os, sys; signals = {[int(number) for number in signals]}"
    end = "from tf_transformer.__main__ import run; sys.argv[1:] = ['info']; run()"
    command = [sys.executable, "-c", f"{start}\n{program}\n{end}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == expected


def raises(error):
    def function(*arguments, **named):
        raise error

    return function


@pytest.mark.parametrize("error", [
    RuntimeError("two\nlines"),
    ImportError("cannot import name 'x'", name="tf_transformer.config"),
])  # fmt: skip
def test_a_bug_is_not_a_mistake_of_the_user(run, replace_info, error):
    replace_info(raises(error))
    summary = " ".join(f"{type(error).__name__}: {error}".split())
    for flags in ((), ("--debug",)):
        code, out, err = run("info", *flags)
        assert (code, out, err.count("Traceback")) == (1, "", 1)
        assert err.endswith(f"internal error: {summary}\n")


def test_a_mistake_after_some_results(run, replace_info):
    """The results are written; the traceback only with --debug."""

    def fail(values):
        print("result")
        raise UserError("wrong")

    replace_info(fail)
    assert run("info") == (2, "result\n", "tf-transformer: error: wrong\n")
    _, out, err = run("info", "--debug")
    assert out == "result\n"
    assert err.startswith("Traceback") and err.endswith("error: wrong\n")


@pytest.mark.parametrize(("error", "expected"), [
    (OSError(errno.ENOENT, "No such file", "x/y"), "x/y: No such file: .*permissions"),
    (OSError(errno.ENOSPC, "No space", "x/y"), "x/y: No space: .*disk space"),
    (ModuleNotFoundError("No module named 'numpy'", name="numpy"), "'numpy': install"),
])  # fmt: skip
def test_errors_of_the_host(refused, replace_info, error, expected):
    replace_info(raises(error))
    assert re.search(expected, refused("info"))


def test_too_little_memory(refused, monkeypatch):
    """The flags of the command that help."""
    error = tf.errors.ResourceExhaustedError(None, None, "Unable to allocate\nmore")
    monkeypatch.setitem(COMMANDS, "train", COMMANDS["train"]._replace(function=raises(error)))
    message = refused("train")
    assert "out of memory" in message and message.endswith("(Unable to allocate)")
    assert all(f"--{name}" in message for name in ("micro_batch_tokens", "beam_size"))


def test_the_run_log_has_the_error_that_ended_the_run(refused, model_dir, tmp_path):
    shutil.copytree(model_dir, tmp_path / "run")
    (tmp_path / "run" / "train.log").write_text("earlier\n")
    refused("train", f"--model_dir={tmp_path}/run", "--d_model=64")
    log = (tmp_path / "run" / "train.log").read_text("utf-8")
    assert re.fullmatch(r"earlier\n.* ERROR .*was started with.*d_model 32.*\n", log)
