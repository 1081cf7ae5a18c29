"""The lines of text files: all of them, or in windows while later ones have not arrived yet."""

import contextlib
import gzip
import io
import os
import select
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from tf_transformer.errors import UserError

_UTF16 = "this is UTF-16 text: convert it, as with `iconv -f UTF-16 -t UTF-8`"
# The first bytes of files that are not UTF-8 text.
_OTHER_FORMATS = {
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
    b"\x1f\x8b": "this is a gzip file: let its name end in .gz, or unpack it",
}

# Windows double in size, so that the first results come early. Lines of similar length are
# translated together, and a larger window has more of them.
FIRST_WINDOW = 64
LARGEST_WINDOW = 4096
LINGER = 0.05  # seconds for which the first line of a window waits for more lines
CHUNK = 1 << 16  # bytes, the size of a pipe


def read_lines(path: str | None) -> Iterator[str]:
    """Reads the lines of a text file.

    A line ends with a line feed; a carriage return before it is not part of the line. Other
    characters, such as a carriage return inside a line, U+2028 or NUL, are text. A byte-order mark
    at the start is not.

    Args:
      path: a text file, plain or `.gz`; None for standard input.
    Yields: the lines without their line ends.
    Raises: UserError when the file cannot be read, a line is not valid UTF-8, or the file has
      carriage returns and no line feed.
    """
    with open_lines(path) as file:
        for number, line in enumerate(file, start=1):
            text = decode_line(line, number, path)
            if number == 1 and not line.endswith(b"\n") and "\r" in text.strip("\r"):
                raise UserError(
                    f"{path or 'standard input'}:1: the lines end with carriage returns: convert "
                    "them, as with `tr '\\r' '\\n'`"
                )
            yield text


@contextlib.contextmanager
def open_lines(path: str | None) -> Iterator[IO[bytes]]:
    """Opens a text file, as for `read_lines`. Raises: UserError when it cannot be read."""
    name = path or "standard input"
    try:
        with _open(path) as file:
            yield file
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UserError(f"cannot read {name}: {error.strerror}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{name}: not a complete gzip file ({error})") from None


def decode_line(line: bytes, number: int, path: str | None) -> str:
    """Decodes line `number` of a file, from 1. Raises: UserError when it is not valid UTF-8."""
    problem = _OTHER_FORMATS.get(line[:2]) if number == 1 else None
    if number == 1 and b"\0" in line[:2]:  # UTF-16 without a byte-order mark
        problem = _UTF16
    try:
        if not problem:
            return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        problem = "not UTF-8 text: convert the file, or correct the line"
    raise UserError(f"{path or 'standard input'}:{number}: {problem}")


def split_tsv(
    line: str,
    number: int,
    path: str | None,
    allowed: Sequence[int] = (2,),
    advice: str = " (`cut -f 1,2` removes other columns)",
) -> list[str]:
    """Splits line `number` of a TSV file, from 1, into its columns.

    Args:
      line: the line.
      number, path: of the line and the file, for messages; None for standard input.
      allowed: the possible numbers of columns.
      advice: the end of the message.
    Raises: UserError for another number of columns.
    """
    columns = line.split("\t")
    if len(columns) in allowed:
        return columns
    raise UserError(
        f"{path or 'standard input'}:{number}: {len(columns)} columns: give source, one tab, target"
        f"{advice}"
    )


def _open(path: str | None) -> contextlib.AbstractContextManager[Any]:
    if path is None:
        return contextlib.nullcontext(sys.stdin.buffer)
    if path.endswith(".gz"):
        return gzip.open(path, "rb")
    return open(path, "rb")


def read_windows(path: str | None) -> Iterator[list[str]]:
    """Reads the lines of a text file in windows.

    The windows of a file have 64, 128, ... 4,096 lines. If the input is a pipe whose producer is
    slower than the consumer, a window ends when no line is ready.

    Args:
      path: as for `read_lines`.
    Yields: lists of lines without their line ends, none of them empty.
    Raises: UserError when the file cannot be read, or a line is not valid UTF-8.
    """
    size = FIRST_WINDOW
    window: list[str] = []
    start = 0.0  # when the first line of the window arrived

    def patience() -> float | None:
        return max(0.0, start + LINGER - time.monotonic()) if window else None

    with open_lines(path) as file:
        number = 0
        for line in _lines_and_pauses(file, patience):
            if line is not None:
                number += 1
                start = start if window else time.monotonic()
                window.append(decode_line(line, number, path))
            if line is None or len(window) == size:
                if len(window) == size:
                    size = min(2 * size, LARGEST_WINDOW)
                yield window
                window = []
    if window:
        yield window


def _lines_and_pauses(file: Any, patience: Callable[[], float | None]) -> Iterator[bytes | None]:
    """Yields the lines of a file, and None where `patience()` seconds pass without input."""
    parts: list[bytes] = []  # of a line whose end has not arrived
    while True:
        if not _is_ready(file, patience()):
            yield None
        chunk = file.read1(CHUNK)  # what is there, after waiting for at least one byte
        if not chunk:
            break
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join([*parts, end])
            parts = []
        parts.append(rest)
    if any(parts):
        yield b"".join(parts)


def _is_ready(file: Any, seconds: float | None) -> bool:
    """Waits until a file has input, at most for some seconds; None waits for ever."""
    try:
        readable, _, _ = select.select([file], [], [], seconds)
    except io.UnsupportedOperation:  # a file in memory
        return True
    return bool(readable)


def read_pair_windows(path: str | None) -> Iterator[list[tuple[str, str]]]:
    """Reads sentence pairs in windows, as `read_windows`.

    Args:
      path: a TSV file, two files "SOURCE_FILE,TARGET_FILE", or None for TSV on standard input.
    Yields: lists of (source, target).
    Raises: UserError for a TSV line without exactly one tab, or files with different line counts.
    """
    if path and "," in path and not os.path.exists(path):
        paths = path.split(",")
        if len(paths) != 2:
            raise UserError(f"{path!r}: give two files, SOURCE_FILE,TARGET_FILE, not {len(paths)}")
        yield from read_two_file_windows(paths[0], paths[1])
        return
    lines = 0  # of earlier windows
    for window in read_windows(path):
        rows = [split_tsv(line, number, path) for number, line in enumerate(window, lines + 1)]
        yield [(source, target) for source, target in rows]
        lines += len(window)


def read_two_file_windows(first: str | None, second: str) -> Iterator[list[tuple[str, str]]]:
    """Reads two files line by line in windows, as `read_windows`.

    Args:
      first: as for `read_lines`.
      second: a file with as many lines.
    Yields: lists of (line of the first file, line of the second file).
    Raises: UserError for files with different line counts.
    """
    lines = 0
    targets = read_lines(second)
    for window in read_windows(first):
        pairs = list(zip(window, targets))
        lines += len(pairs)
        if len(pairs) < len(window):
            raise UserError(
                f"{second} has {lines:,} lines, and {first or 'standard input'} has more: give one "
                "line for each"
            )
        yield pairs
    if next(targets, None) is not None:
        raise UserError(
            f"{first or 'standard input'} has {lines:,} lines, and {second} has more: give one "
            "line for each"
        )
