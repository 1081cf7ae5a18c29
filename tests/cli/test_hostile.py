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

from tf_transformer.cli import interrupts
from tf_transformer.cli.main import COMMANDS, main
from tf_transformer.errors import UserError
from tf_transformer.training import distribution

PROGRAM = f"{sys.executable} -m tf_transformer"


def shell(command, **environment):
    """Runs a shell command. Returns: code, output, errors."""
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        env=os.environ | environment,
    )
    return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")


def test_a_reader_that_stops_is_no_error():
    """The exit code is that of SIGPIPE."""
    assert shell(f"{PROGRAM} help | true") == (141, "", "")
    assert shell(f"{PROGRAM} info --preset=base | true") == (141, "", "")
    pairs = r"yes $'cat\tKatze' | head -100000"
    assert shell(f"{pairs} | {PROGRAM} clean --quiet --nodrop_duplicates | true")[0] == 141


def test_streams_that_are_full_or_closed(full):
    no_space = (
        "tf-transformer: error: standard output: No space left on device: free some disk space, or "
        "give another path\n"
    )
    assert shell(f"{PROGRAM} help > {full}") == (2, "", no_space)
    assert shell(f"{PROGRAM} help >&-") == (0, "", "")
    assert shell(f"{PROGRAM} translate --server=localhost <&-") == (0, "", "")
    code, out, err = shell(f"{PROGRAM} info --preset=base <&-")
    assert (code, err) == (0, "")
    assert out.startswith("preset base\n")
    assert shell(f"{PROGRAM} info /no/where 2>&-") == (2, "", "")
    assert shell(f"{PROGRAM} info /no/where 2>{full}") == (2, "", "")


@pytest.mark.parametrize("locale", [{"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {}])
def test_text_and_file_names_in_an_ascii_locale(model_dir, tmp_path, locale):
    folder = tmp_path / "Möbel\udcff"  # the last byte is not UTF-8
    shutil.copytree(model_dir, folder, ignore=shutil.ignore_patterns("tensorboard", "cache"))
    command = [sys.executable, "-m", "tf_transformer", "info", os.fsencode(folder)]
    environment = os.environ | {"LC_ALL": "C"} | locale
    done = subprocess.run(command, capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"model folder " + os.fsencode(folder) + b"\n")
    command[-1] += b"/none"
    done = subprocess.run(command, capture_output=True, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith(b"tf-transformer: error: no model folder ")
    assert done.stderr.count(b"\n") == 1


# Sends signals to itself when a module is imported, as Ctrl-C in this moment would.
INTERRUPTED = """
import os, signal, sys
from tf_transformer.__main__ import run
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            for number in {signals}:
                os.kill(os.getpid(), number)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["tf-transformer", "train", "--model_dir=" + {model_dir!r}]
run()
"""


@pytest.mark.parametrize(
    ("module", "signals", "code", "message"),
    [
        ("absl.flags", [signal.SIGINT], 130, "interrupted"),
        ("tensorflow.python.framework.ops", [signal.SIGTERM], 143, "terminated"),
        ("keras.src.backend", [signal.SIGINT, signal.SIGINT], 130, "interrupted"),
    ],
)
def test_interrupted_while_importing(tmp_path, module, signals, code, message):
    signals = [int(number) for number in signals]
    program = INTERRUPTED.format(module=module, signals=signals, model_dir=str(tmp_path / "model"))
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (code, f"tf-transformer: {message}\n")
    assert os.listdir(tmp_path) == []


def test_an_exception_after_ctrl_c_is_no_error(run, replace_info, monkeypatch):
    """TensorFlow turns the KeyboardInterrupt into other errors, while it traces for example."""

    def interrupted(values):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("in user code: ...") from None

    replace_info(interrupted)
    monkeypatch.setattr(interrupts, "_received", [])
    handlers = {number: signal.getsignal(number) for number in interrupts.MESSAGES}
    try:
        interrupts.handle_interrupts()
        code, out, err = run("info")
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert (code, out, err) == (130, "", "tf-transformer: interrupted\n")


def raises(error):
    def function(*arguments, **named):
        raise error

    return function


def test_a_bug_is_not_a_mistake_of_the_user(run, replace_info):
    for error, shown in (
        (RuntimeError("two\nlines"), "RuntimeError: two lines"),
        (ConnectionError("refused"), "ConnectionError: refused"),
        (KeyError("name"), "KeyError: 'name'"),
    ):
        replace_info(raises(error))
        for flags in ((), ("--debug",)):
            code, out, err = run("info", "--preset=base", *flags)
            assert (code, out, err.count("Traceback")) == (1, "", 1)
            assert err.startswith("Traceback")
            assert err.endswith(f"\ntf-transformer: internal error: {shown}\n")


def test_debug_shows_the_traceback_of_a_mistake(run):
    code, out, err = run("--debug", "info", "/no/where")
    assert (code, out) == (2, "")
    assert err.startswith("Traceback")
    assert err.splitlines()[-1].startswith("tf-transformer: error: no model folder /no/where")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOENT, "check the path and its permissions"),
        (errno.EACCES, "check the path and its permissions"),
        (errno.ENOSPC, "free some disk space, or give another path"),
    ],
)
def test_an_error_with_a_path(refused, replace_info, number, remedy):
    replace_info(raises(OSError(number, os.strerror(number), "folder/file")))
    message = refused("info")
    assert message == f"tf-transformer: error: folder/file: {os.strerror(number)}: {remedy}"


def test_the_working_directory_is_gone(refused, replace_info, monkeypatch, tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    replace_info(lambda values: os.getcwd())
    assert "error: the working directory: No such file or directory: check" in refused("info")


def test_a_damaged_installation(run, refused, replace_info):
    error = ModuleNotFoundError("No module named 'numpy'", name="numpy")
    replace_info(raises(error))
    message = refused("info")
    assert message.startswith("tf-transformer: error: No module named 'numpy': install")
    error = ImportError("cannot import name 'x'", name="tf_transformer.config")
    replace_info(raises(error))
    assert run("info")[0] == 1


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("translate", "give a smaller --decode_batch_tokens or --beam_size or --mbr_samples"),
        ("train", "give a smaller --micro_batch_tokens or --decode_batch_tokens or --beam_size"),
        ("clean", "leave out the longest texts, or set CUDA_VISIBLE_DEVICES=-1 to use the CPU"),
    ],
)
def test_too_little_memory(refused, monkeypatch, command, advice):
    for error in (
        MemoryError("Unable to allocate\nmore"),
        tf.errors.ResourceExhaustedError(None, None, "Unable to allocate\nmore"),
    ):
        changed = COMMANDS[command]._replace(function=raises(error))
        monkeypatch.setitem(COMMANDS, command, changed)
        assert refused(command).endswith(f"out of memory: {advice} (Unable to allocate)")


def test_training_that_does_not_fit_into_memory(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(distribution, "split_cpu", lambda number: None)
    folder = tmp_path / "model"
    flags = ("train", f"--model_dir={folder}")
    needs = r"training needs about [\d,.]+ GB .* this computer has [\d,.]+ GB: give a smaller --"
    message = refused(*flags, "--d_model=65536", "--num_layers=100")
    assert re.search(f"{needs}d_model", message)
    assert not folder.exists()


def test_outputs_that_are_no_regular_files(run, refused, model_dir, tmp_path, full):
    """A device stays, a link is followed, and other files are left alone."""
    for command, flag in (("average", "--output"), ("info", "--plot")):
        flags = (command, f"--model_dir={model_dir}")
        assert f"{full}" in refused(*flags, f"{flag}={full}")
        assert "No space left on device" in refused(*flags, f"{flag}={full}")
        assert stat.S_ISCHR(os.stat(full).st_mode)
        folder = tmp_path / command
        folder.mkdir()
        assert "Is a directory" in refused(*flags, f"{flag}={folder}")
        (folder / "out.tmp").write_text("kept")
        (folder / "out").symlink_to(folder / "target")
        assert run(*flags, f"{flag}={folder}/out")[0] == 0
        assert sorted(os.listdir(folder)) == ["out", "out.tmp", "target"]
        assert (folder / "out").is_symlink()
        assert (folder / "out.tmp").read_text() == "kept"


def test_damaged_lines_of_the_history(run, model_dir, tmp_path):
    folder = tmp_path / "a$b$"  # no formula in the title of the plot
    shutil.copytree(model_dir, folder, ignore=shutil.ignore_patterns("tensorboard", "cache"))
    before = run("info", str(folder))[1]
    lines = [
        "[1]", "null", "NaN", "1", '"text"', "{}", '{"step": 12', "[" * 100_000,
        '{"step": 1, "kind": "train"}', '{"step": "1", "kind": "train", "time": 1}',
        '{"step": 1, "kind": [], "time": 1}', '{"step": 1, "kind": "train", "time": NaN}',
        '{"step": 1, "kind": "train", "time": 1e300}',
    ]  # fmt: skip
    with open(folder / "metrics.jsonl", "a") as file:
        file.write("\n".join(lines) + "\n")
    assert run("info", str(folder))[1] == before
    line = {"step": 12, "kind": "average", "time": 9e8, "loss": "x", "BLEU": None}
    with open(folder / "metrics.jsonl", "a") as file:
        file.write(f"{line}\n".replace("'", '"').replace("None", "1e999"))
    assert (
        "average                                       nan        nan    nan"
        in run("info", str(folder))[1]
    )
    assert run("info", str(folder), f"--plot={folder}/history.png")[0] == 0


def test_training_without_a_reader(corpus_folder, tiny_config, tmp_path):
    """It goes on when nobody reads its messages, and keeps them in `train.log`."""
    model = tiny_config.model
    sizes = f"--num_layers=1 --d_model={model.d_model} --num_heads=2 --dff=64 --vocab_size=500"
    folder = tmp_path / "model"
    train = (
        f"{PROGRAM} train --data={corpus_folder} --model_dir={folder} {sizes} --train_steps=3 "
        "--bleu_sentences=0 --log_steps=1 --beam_size=1 --extra_decode_length=1"
    )
    assert shell(f"{train} 2>&1 | head -1")[0] == 141
    assert sorted(os.listdir(folder / "checkpoints")) == ["step-00000003.npz"]
    lines = (folder / "train.log").read_text("utf-8").splitlines()
    date = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
    assert re.match(rf"{date} INFO tf_transformer\.[\w.]+: ", lines[0])
    assert "step 3 | loss" in "\n".join(lines)
    assert "averaged the last 1 of 1 checkpoints" in "\n".join(lines)


def test_the_run_log_has_the_error_that_ended_the_run(run, model_dir, monkeypatch):
    path = model_dir / "train.log"
    monkeypatch.setattr(distribution, "split_cpu", lambda number: None)
    monkeypatch.setattr("tf_transformer.training.trainer.build_trainer", raises(KeyError("x")))
    path.write_text("earlier\n")
    try:
        code, _, err = run("train", f"--model_dir={model_dir}")
        assert code == 1
        assert err.endswith("\ntf-transformer: internal error: KeyError: 'x'\n")
        text = path.read_text("utf-8")
        assert text.startswith("earlier\n")
        assert "Traceback" in text
    finally:
        path.unlink()


def test_results_before_an_error_are_written(run, replace_info):
    def fail(values):
        print("result")
        raise UserError("wrong")

    replace_info(fail)
    assert run("info") == (2, "result\n", "tf-transformer: error: wrong\n")


def test_main_returns_to_programs_that_call_it(capsys):
    """It handles no signals and replaces no streams: `run` does."""
    handlers = [signal.getsignal(number) for number in interrupts.MESSAGES]
    streams = sys.stdin, sys.stdout, sys.stderr
    assert main(["info", "--preset=base"]) == 0
    assert [signal.getsignal(number) for number in interrupts.MESSAGES] == handlers
    assert (sys.stdin, sys.stdout, sys.stderr) == streams
    assert capsys.readouterr().out.startswith("preset base")
