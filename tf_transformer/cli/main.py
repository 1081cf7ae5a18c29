"""The command line: `tf-transformer COMMAND --flag=value ...`."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import logging
import os
import sys
from collections.abc import Callable

from tf_transformer.cli.allocator import plain_process, use_allocator
from tf_transformer.cli.command import COMMANDS, did_you_mean, parse, usage
from tf_transformer.cli.failures import report
from tf_transformer.cli.logs import log_to_stderr, stop_logging, without_progress_bars
from tf_transformer.cli.streams import prepare_streams
from tf_transformer.errors import UserError

# The modules with commands; the help lists the commands in this order.
MODULES = (
    "training", "translation", "back_translation", "evaluation", "scoring", "paper", "export",
    "serving", "info", "cleaning", "comparison", "doctor",
)  # fmt: skip
GONE = {"client": "translate --server=URL"}  # an old command -> what does the same
for _module in MODULES:
    importlib.import_module(f"tf_transformer.cli.{_module}")


def main(argv: list[str] | None = None) -> int:
    """Runs one command.

    Args:
      argv: the arguments after the program's name; `sys.argv[1:]` where None.
    Returns: the exit code: 0 for success; 2 for a user's mistake; 1 for an error of this package,
      and from doctor where training does not work; 130 for Ctrl-C and 143 for SIGTERM (but 0 from
      train, which saves first); 141 when the reader of standard output is gone, as in
      `... | head -1`.
    """
    arguments = sys.argv[1:] if argv is None else argv

    def command() -> int:
        return _run(arguments, restart=argv is None)

    try:
        code = _reported(command, arguments)
        flushed = _reported(_flush, arguments)  # also the results before an error
        return code or flushed
    finally:
        stop_logging()


def _reported(function: Callable[[], int], arguments: list[str]) -> int:
    """Calls a function that returns an exit code. Its exceptions are reported."""
    try:
        return function()
    except (Exception, KeyboardInterrupt) as error:
        return report(error, arguments)


def _flush() -> int:
    sys.stdout.flush()
    return 0


def _run(arguments: list[str], restart: bool) -> int:
    """Runs a command, or shows the help or the version. Returns: the exit code."""
    # Flags before the command are those of the command too.
    leading = list(itertools.takewhile(lambda argument: argument.startswith("-"), arguments))
    command, *rest = arguments[len(leading) :] or [""]
    if "--version" in leading:
        from tf_transformer import __version__

        print(__version__)
        return 0
    if command == "help" and rest:
        command, *rest = *rest, "--help"
    elif command == "help" or not command and leading in ([], ["--help"], ["-help"], ["-h"]):
        print(usage())
        return 0
    if command not in COMMANDS:
        problem = f"unknown command {command!r}{did_you_mean(command, COMMANDS)}"
        if command in GONE:
            raise UserError(f"{command!r} is gone: use `tf-transformer {GONE[command]}`")
        if not command:
            problem = "the command is missing"
        raise UserError(f"{problem}: give one of {', '.join(COMMANDS)}")
    values = parse(command, [*leading, *rest])
    if values is None:
        return 0
    if restart:
        use_allocator()
    level = logging.DEBUG if values.verbose else logging.WARNING if values.quiet else logging.INFO
    log_to_stderr(level)
    with without_progress_bars() if values.quiet else contextlib.nullcontext():
        return COMMANDS[command].function(values) or 0


def run() -> None:
    """The program: runs a command and ends the process at once.

    The threads of TensorFlow's input pipelines may still be running, and an orderly exit of the
    interpreter can then hang or crash. `TF_TRANSFORMER_NO_REEXEC=1` ends it in order.
    """
    prepare_streams()
    code = main()
    if plain_process():
        sys.exit(code)
    os._exit(code)
