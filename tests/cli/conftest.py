"""Fixtures that run commands in this process."""

import re

import pytest

from tf_transformer.cli.main import COMMANDS, main

LOG_LINE = re.compile(r"\d\d:\d\d:\d\d (INFO|WARNING) ")


@pytest.fixture
def run(capsys):
    """A function that runs a command and returns its exit code, output and messages."""

    def run_command(*arguments):
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return run_command


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
