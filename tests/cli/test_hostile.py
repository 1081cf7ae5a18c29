"""Hostile use: closed and full streams, vanished readers, signals, odd outputs, our own bugs."""

import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import sys

import pytest
import tensorflow as tf

from tf_transformer.cli.interrupts import MESSAGES
from tf_transformer.cli.main import COMMANDS, main
from tf_transformer.errors import UserError

PROGRAM = f"{sys.executable} -m tf_transformer"


def shell(command, **environment):
    """Runs a shell command. Returns: code, output, errors."""
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        env=os.environ | environment,
    )
    return done.returncode, *(each.decode(errors="replace") for each in (done.stdout, done.stderr))


@pytest.mark.slow
def test_a_reader_that_stops_is_no_error(model_dir):
    """The exit code is that of SIGPIPE; the input has no end."""
    assert shell(f"{PROGRAM} info --preset=base | true") == (141, "", "")
    command = f"yes Anna sleeps. | {PROGRAM} translate --model_dir={model_dir} --n_best=4 | head -1"
    code, out, err = shell(command)
    assert (code, out[:2], err) == (141, "1\t", "")


@pytest.mark.slow
def test_streams_that_are_full_or_closed(full):
    no_space = (2, "", "tf-transformer: error: standard output: No space left on device")
    code, out, err = shell(f"{PROGRAM} help > {full}")
    assert (code, out, err.rpartition(":")[0]) == no_space
    assert shell(f"{PROGRAM} help >&-") == (0, "", "")
    assert shell(f"{PROGRAM} translate --server=localhost <&-") == (0, "", "")
    assert shell(f"{PROGRAM} info /no/where 2>&-") == (2, "", "")
    assert shell(f"{PROGRAM} info /no/where 2>{full}") == (2, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("locale", [{"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {}])
def test_file_names_in_an_ascii_locale(model_dir, tmp_path, locale):
    folder = os.fsencode(tmp_path / "Möbel\udcff")  # the last byte is not UTF-8
    shutil.copytree(os.fsencode(model_dir), folder)
    command = [sys.executable, "-m", "tf_transformer", "info", folder]
    environment = os.environ | {"LC_ALL": "C"} | locale
    done = subprocess.run(command, capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"model folder " + folder + b"\n")


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
    RuntimeError("two\nlines"), ConnectionError("refused"), KeyError("x"),
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
    (OSError(errno.ENOENT, "No such file"), "the working directory: No such file"),
    (ModuleNotFoundError("No module named 'numpy'", name="numpy"), "'numpy': install"),
])  # fmt: skip
def test_errors_of_the_host(refused, replace_info, error, expected):
    replace_info(raises(error))
    assert re.search(expected, refused("info"))


@pytest.mark.parametrize(("command", "advice"), [
    ("train", ["--micro_batch_tokens", "--decode_batch_tokens", "--beam_size"]),
    ("clean", ["longest texts", "CUDA_VISIBLE_DEVICES=-1"]),
])  # fmt: skip
def test_too_little_memory(refused, monkeypatch, command, advice):
    for kind in (MemoryError, lambda text: tf.errors.ResourceExhaustedError(None, None, text)):
        changed = COMMANDS[command]._replace(function=raises(kind("Unable to allocate\nmore")))
        monkeypatch.setitem(COMMANDS, command, changed)
        message = refused(command)
        assert "out of memory" in message and message.endswith("(Unable to allocate)")
        assert all(each in message for each in advice)


def test_a_full_device_as_the_output(refused, model_dir, full):
    for command in (["average", f"--output={full}"], ["info", f"--plot={full}"]):
        message = refused(*command, f"--model_dir={model_dir}")
        assert re.search(f"{full}.*No space left on device", message)
        assert stat.S_ISCHR(os.stat(full).st_mode)


@pytest.mark.slow
def test_training_without_a_reader(corpus_folder, tmp_path):
    """It goes on when nobody reads its messages, and keeps them in `train.log`."""
    flags = f"--data={corpus_folder} --model_dir={tmp_path}/model --train_steps=3 --log_steps=1"
    sizes = "--num_layers=1 --d_model=32 --num_heads=2 --dff=64 --vocab_size=500"
    quick = "--bleu_sentences=0 --beam_size=1 --extra_decode_length=1"
    assert shell(f"{PROGRAM} train {flags} {sizes} {quick} 2>&1 | head -1")[0] == 141
    assert os.listdir(tmp_path / "model" / "checkpoints") == ["step-00000003.npz"]
    log = (tmp_path / "model" / "train.log").read_text("utf-8")
    assert "step 3 | loss" in log and "averaged the last 1 of 1 checkpoints" in log


def test_the_run_log_has_the_error_that_ended_the_run(refused, model_dir, tmp_path):
    shutil.copytree(model_dir, tmp_path / "run")
    (tmp_path / "run" / "train.log").write_text("earlier\n")
    refused("train", f"--model_dir={tmp_path}/run", "--d_model=64")
    log = (tmp_path / "run" / "train.log").read_text("utf-8")
    assert re.fullmatch(r"earlier\n.* ERROR .*was started with.*d_model 32.*\n", log)


def test_main_returns_to_programs_that_call_it():
    """It handles no signals and replaces no streams: `run` does."""

    def state():
        return [*map(signal.getsignal, MESSAGES), sys.stdin, sys.stdout, sys.stderr]

    before = state()
    assert main(["info", "--preset=base"]) == 0
    assert state() == before
