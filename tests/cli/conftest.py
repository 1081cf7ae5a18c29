"""Fixtures that run commands in this process, and their inputs."""

import os
import re
import types

import pytest

from tf_transformer.cli.main import COMMANDS, main

TRUNCATED = "translations that are cut off at the longest output"
LOG_LINE = re.compile(r"\d\d:\d\d:\d\d (INFO|WARNING) ")


@pytest.fixture
def run(capsys):
    """A function that runs a command and returns its exit code, output and messages.

    A barely trained model writes to the limit, and the warning of that is not returned.
    """

    def run_command(*arguments):
        code = main(list(arguments))
        out, err = capsys.readouterr()
        lines = err.splitlines(keepends=True)
        return code, out, "".join(line for line in lines if TRUNCATED not in line)

    return run_command


@pytest.fixture
def succeed(run):
    """A function that runs a command which must succeed, and returns its output and messages."""

    def run_succeed(*arguments):
        code, out, err = run(*arguments)
        assert code == 0, err
        return out, err

    return run_succeed


@pytest.fixture
def refused(run):
    """A function that runs a command which must fail, and returns its one-line error message."""

    def run_refused(*arguments):
        code, _, err = run(*arguments)
        errors = [line for line in err.splitlines() if not LOG_LINE.match(line)]
        assert code == 2, err
        assert len(errors) == 1, err
        assert errors[0].startswith("tf-transformer: error: "), err
        return errors[0]

    return run_refused


@pytest.fixture
def replace_info(monkeypatch):
    """A function that gives the command info another function."""

    def replace(function):
        monkeypatch.setitem(COMMANDS, "info", COMMANDS["info"]._replace(function=function))

    return replace


@pytest.fixture
def nvidia_device(tmp_path, monkeypatch):
    """A host that has the program nvidia-smi, but no GPU that TensorFlow finds."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 9.0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    names = ("TF_FORCE_GPU_ALLOW_GROWTH", "XLA_FLAGS", "TF_XLA_FLAGS", "CUDA_VISIBLE_DEVICES")
    for name in names:
        monkeypatch.setenv(name, "")  # is restored after the test
        del os.environ[name]


@pytest.fixture
def replace_server(monkeypatch):
    """A function that gives the command serve another function in place of the server.

    It is called for each model, with the folder of the versions and the function that loads one.
    """
    from tf_transformer.serving import server

    def replace(function):
        def make_server(folders, settings, load):
            for folder in folders.values():
                function(folder, load)
            return types.SimpleNamespace(run=lambda bound: None)

        monkeypatch.setattr(server, "Server", make_server)

    return replace


@pytest.fixture
def lines(tmp_path):
    """The flag of an input with three lines, one of which is empty."""
    (tmp_path / "in.txt").write_text("Anna sleeps.\n\nThe dog sees the cat.\n")
    return f"--input={tmp_path}/in.txt"
