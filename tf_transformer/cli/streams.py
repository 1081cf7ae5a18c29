"""The standard streams of the program: their encoding, closed ones, and the names of errors."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import IO, Any

# The `filename` of an OSError of a stream.
STDIN, STDOUT = "standard input", "standard output"


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Gives errors of the system the name of a file that the user knows."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = name, None
        raise


class _NamedFile(io.FileIO):
    """A file whose errors of reading and writing name it; Python's own name no file.

    Args:
      file, mode, closefd: as for `io.FileIO`.
      shown: the name in the errors.
    """

    def __init__(self, file: int | str, mode: str, shown: str, closefd: bool = True) -> None:
        super().__init__(file, mode, closefd)
        self._shown = shown

    def write(self, data: Any) -> Any:
        with _naming(self._shown):
            return super().write(data)

    def readinto(self, buffer: Any) -> Any:
        with _naming(self._shown):
            return super().readinto(buffer)

    def readall(self) -> Any:
        with _naming(self._shown):
            return super().readall()


def open_named(file: int | str, mode: str, shown: str, closefd: bool = True) -> IO[Any]:
    """Opens a file whose errors of reading and writing name it.

    Args:
      file: a path, or a file descriptor.
      mode: "r" or "w" for text in UTF-8, "rb" or "wb" for bytes.
      shown: the `filename` of the errors.
      closefd: False to leave the descriptor open when the file is closed.
    """
    raw = _NamedFile(file, mode.removesuffix("b"), shown, closefd)
    buffered: Any = io.BufferedWriter(raw) if raw.writable() else io.BufferedReader(raw)
    return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding="utf-8")


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
