"""The standard streams of the program: their encoding, closed ones, and the names of errors."""

import os
import sys
from typing import Any

from tf_transformer.atomic_io import open_named

# The `filename` of an OSError of a stream.
STDIN, STDOUT = "standard input", "standard output"


def prepare_streams() -> None:
    """Opens closed streams, and replaces `sys.stdin` and `sys.stdout`.

    Both have UTF-8 text in every locale. What cannot be decoded from standard input is replaced; a
    file name that is not UTF-8 is written to standard output as it is.
    """
    _open_closed_descriptors()
    sys.stdin = _replace(sys.stdin, 0, "r", STDIN, errors="replace")
    sys.stdout = _replace(sys.stdout, 1, "w", STDOUT, errors="surrogateescape")
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _open_closed_descriptors() -> None:
    """Opens the closed ones of 0, 1 and 2, so that no other file gets their number.

    Reading from 0 and writing to 1 stay errors. Messages to 2 are lost.
    """
    for descriptor, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            os.set_inheritable(descriptor, True)


def _replace(before: Any, descriptor: int, mode: str, shown: str, errors: str) -> Any:
    """Opens a descriptor again, with the buffering of the stream that it had before."""
    stream: Any = open_named(descriptor, mode, shown, closefd=False)
    stream.reconfigure(errors=errors)
    if before is not None:
        stream.reconfigure(line_buffering=before.line_buffering, write_through=before.write_through)
    return stream


def discard_output() -> None:
    """Discards what is still to be written to standard output, which cannot be written to."""
    opened = os.open(os.devnull, os.O_WRONLY)
    os.dup2(opened, 1)
    os.close(opened)


def tell(line: str) -> None:
    """Writes a line to standard error, if it can be written to."""
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):  # ValueError: a closed file
        pass
