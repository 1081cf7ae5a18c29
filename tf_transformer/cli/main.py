"""The command line: `tf-transformer COMMAND --flag=value ...`."""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterator

# Their commands are in the help in this order.
from tf_transformer.cli import (  # noqa: F401  # isort: skip
    training, translation, evaluation, scoring, paper, export, serving, info, cleaning, comparison,
    doctor,
)  # fmt: skip
from tf_transformer.cli.command import COMMANDS, did_you_mean, parse, usage
from tf_transformer.cli.interrupts import received_signal
from tf_transformer.cli.messages import STDOUT, discard, log_to_stderr, report, stop_logging
from tf_transformer.errors import UserError

NO_BARS = "TQDM_DISABLE"
# An old command -> what does the same.
GONE = {
    "client": "translate --server=URL",
    "back-translate": "translate --pairs --sampling",
    "plot": "info FOLDER --plot=FILE",
}


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

    try:
        code = _reported(lambda: _run(arguments), arguments)
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


def _run(arguments: list[str]) -> int:
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
    level = logging.DEBUG if values.verbose else logging.WARNING if values.quiet else logging.INFO
    log_to_stderr(level)
    with _without_progress_bars() if values.quiet else contextlib.nullcontext():
        return COMMANDS[command].function(values) or 0


@contextlib.contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Sets tqdm's variable, which the bars of this package and those of TFDS obey."""
    before = os.environ.get(NO_BARS)
    os.environ[NO_BARS] = "1"
    try:
        yield
    finally:
        del os.environ[NO_BARS]
        if before is not None:
            os.environ[NO_BARS] = before


def run() -> None:
    """The program: runs a command and ends the process."""
    _prepare_streams()
    code = main()
    try:
        sys.stderr.flush()
    except OSError:  # which Python would report by another exit code
        discard(2)
    if received_signal():  # the threads of a computation or of a request may need minutes to end
        os._exit(code)
    sys.exit(code)


def _prepare_streams() -> None:
    """Makes the text of standard input and output UTF-8 in every locale, and opens closed streams.

    What cannot be decoded from standard input is replaced; a file name that is not UTF-8 is written
    to standard output as it is.
    """
    for name, mode in (("stdin", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:  # its descriptor is closed
            # Reading stays an error: /dev/null is opened for writing.
            setattr(sys, name, open(os.open(os.devnull, os.O_WRONLY), mode))
    if sys.stdout is None:
        sys.exit(report(OSError(errno.EBADF, "Bad file descriptor", STDOUT), []))
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
