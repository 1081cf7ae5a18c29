"""The command line: `tf-transformer COMMAND --flag=value ...`."""

from __future__ import annotations

import difflib
import io
import logging
import os
import sys

# Their commands are in the help in this order.
from tf_transformer.cli import (  # noqa: F401  # isort: skip
    training, translation, evaluation, scoring, paper, export, serving, info, comparison, doctor,
)  # fmt: skip
from tf_transformer.cli.command import COMMANDS, parse, usage, warn_of_repeated
from tf_transformer.cli.interrupts import received_signal
from tf_transformer.cli.messages import log_to_stderr, report, stop_logging
from tf_transformer.config import GONE_SINCE
from tf_transformer.errors import UserError

GONE_COMMANDS = ("clean", "evalb")  # of versions before 0.3
# Flags that reduce the memory of a command.
MEMORY_FLAGS = ("micro_batch_tokens", "decode_batch_tokens", "beam_size", "mbr_samples")


def main(argv: list[str] | None = None) -> int:
    """Runs one command.

    Args:
      argv: the arguments after the program's name; `sys.argv[1:]` where None.
    Returns: the exit code; the table of `docs/quickstart.md` has them.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()  # also the results before an error
    except (Exception, KeyboardInterrupt) as error:
        return report(error, "--debug" in arguments)
    finally:
        stop_logging()


def _run(arguments: list[str]) -> int:
    """Runs a command, or shows the help or the version. Returns: the exit code."""
    command, *rest = arguments or ["help"]
    if command == "--version":
        from tf_transformer import __version__

        print(__version__)
        return 0
    if command in ("help", "--help", "-h"):
        if not rest:
            print(usage())
            return 0
        command, *rest = *rest, "--help"
    if command in GONE_COMMANDS and command not in COMMANDS:
        raise UserError(f"the command {command} {GONE_SINCE}")
    if command not in COMMANDS:
        near = difflib.get_close_matches(command, COMMANDS, cutoff=0.55)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise UserError(f"unknown command {command!r}{hint}: give one of {', '.join(COMMANDS)}")
    values = parse(command, rest)
    if values is None:
        return 0
    level = logging.DEBUG if values.verbose else logging.WARNING if values.quiet else logging.INFO
    log_to_stderr(level)
    warn_of_repeated(values)
    if values.quiet:  # the bars of this package and of TFDS obey tqdm's variable
        os.environ["TQDM_DISABLE"] = "1"
    try:
        return COMMANDS[command].function(values) or 0
    except Exception as error:
        # TensorFlow's error by its name, because TensorFlow may not be loaded.
        if type(error).__name__ not in ("ResourceExhaustedError", "MemoryError"):
            raise
        advice = "leave out the longest texts, or set CUDA_VISIBLE_DEVICES=-1 to use the CPU"
        if smaller := " or ".join(f"--{name}" for name in MEMORY_FLAGS if name in values):
            advice = f"give a smaller {smaller}"
        reason = str(error).strip().partition("\n")[0][:300]
        raise UserError(f"out of memory: {advice} ({reason})") from error


def run() -> None:
    """The program: runs a command and ends the process."""
    # The text of standard streams is UTF-8 in every locale. What cannot be decoded from the input
    # is replaced; a file name that is not UTF-8 is written as it is.
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "surrogateescape")):
        if isinstance(stream, io.TextIOWrapper):  # it is None where the shell has closed it
            stream.reconfigure(encoding="utf-8", errors=errors)
    os.environ["MPLBACKEND"] = "agg"  # plots are files; the backend of a notebook may be missing
    code = main()
    if received_signal():  # the threads of a computation or of a request may need minutes to end
        os._exit(code)
    sys.exit(code)
