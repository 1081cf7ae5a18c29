"""The lines of text files: all of them, or in windows while later ones have not arrived yet."""

import bz2
import contextlib
import gzip
import io
import itertools
import lzma
import os
import re
import select
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from tf_transformer.errors import UserError

# What Python's `str.splitlines` splits at, as a regular expression of Python and of RE2.
LINE_SEPARATORS = "[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]"
STANDARD_INPUT = "standard input"  # its name in messages
# Windows double in size, so that the first results come early. Lines of similar length are
# translated together, and a larger window has more of them.
FIRST_WINDOW = 64
LARGEST_WINDOW = 4096
LINGER = 0.05  # seconds for which the first line of a window waits for more lines
CHUNK = 1 << 16  # bytes, the size of a pipe

# What opens a compressed file, by the ending of its name.
COMPRESSIONS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# The first bytes of files that are not UTF-8 text -> their format, and what to do.
_FORMATS = {
    b"\x1f\x8b": "gzip: decompress it, or let its name end in .gz",
    b"BZh91AY&SY": "bzip2: decompress it, or let its name end in .bz2",
    b"\xfd7zXZ": "xz: decompress it, or let its name end in .xz",
    b"\x28\xb5\x2f\xfd": "Zstandard: decompress it with `zstd -d`",
    b"PK\x03\x04": "a zip file: extract its files with `unzip`",
    b"PAR1": "Parquet: give hf: and the path of its folder",
    b"\xff\xfe\0\0": "UTF-32: convert it with `iconv -f UTF-32 -t UTF-8`",
    b"\0\0\xfe\xff": "UTF-32: convert it with `iconv -f UTF-32 -t UTF-8`",
    b"\xff\xfe": "UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`",
    b"\xfe\xff": "UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`",
}
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(e[-+]?\d+)?", re.IGNORECASE)

LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6  # of a pair in the loss, and of a corpus


def read_lines(path: str | None) -> Iterator[str]:
    """Reads the lines of a text file.

    A line ends with a line feed; a carriage return before it is not part of the line. Other
    characters, such as a carriage return inside a line, U+2028 or NUL, are text. A byte-order mark
    at the start is not.

    Args:
      path: a text file, plain or compressed (`COMPRESSIONS`); None for standard input.
    Yields: the lines without their line ends.
    Raises: UserError when the file cannot be read, or a line is not valid UTF-8.
    """
    return itertools.chain.from_iterable(read_windows(path))


def read_windows(path: str | None) -> Iterator[list[str]]:
    """Reads the lines of a text file in windows.

    The windows of a file have 64, 128, ... 4,096 lines. If the input is a pipe whose producer is
    slower than the consumer, a window ends when no line is ready.

    Yields: lists of lines, none of them empty; arguments and errors as of `read_lines`.
    """
    with open_bytes(path) as file:
        yield from _windows(file, path or STANDARD_INPUT)


@contextlib.contextmanager
def open_bytes(path: str | None) -> Iterator[IO[bytes]]:
    """Opens a file as `read_lines`, and decompresses it.

    Raises: UserError when it cannot be read, here and while it is read.
    """
    name = path or STANDARD_INPUT
    ending = os.path.splitext(name)[1]
    open_file = COMPRESSIONS.get(ending, open)
    try:
        with open_file(path, "rb") if path else contextlib.nullcontext(sys.stdin.buffer) as file:
            yield file
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno:
            raise UserError(f"cannot read {name}: {os.strerror(error.errno)}") from None
        raise UserError(f"{name}: not a complete {ending} file ({error})") from None


def check_list(items: Any, example: str) -> None:
    """Raises: TypeError for a string in place of a list, whose characters would be its items."""
    if isinstance(items, (str, bytes)):
        raise TypeError(f"{items!r} is one string: give a list, such as {example}")


def one_line(text: str) -> str:
    """Replaces the line ends in a text by blanks; other characters, such as U+2028, are text."""
    return text.strip("\r\n").replace("\r\n", " ").replace("\r", " ").replace("\n", " ")


def uncompressed(path: str) -> str:
    """Returns the name of a file without the ending of a compression."""
    stem, ending = os.path.splitext(path)
    return stem if ending in COMPRESSIONS else path


def _windows(file: IO[bytes], name: str) -> Iterator[list[str]]:
    size = FIRST_WINDOW
    window: list[str] = []
    number = 0  # of lines
    rest = b""  # of a line whose end has not arrived
    deadline = 0.0  # of the window
    chunk = b"\n"
    while chunk:
        if window and not _is_ready(file, max(0.0, deadline - time.monotonic())):
            yield window
            window = []
        chunk = file.read1(CHUNK)  # type: ignore[attr-defined]  # waits for at least one byte
        if not number:  # the first bytes can arrive one by one
            for first, kind in _FORMATS.items():
                if (rest + chunk).startswith(first):
                    raise UserError(f"{name}: not UTF-8 text but {kind}")
        *lines, rest = (rest + chunk).split(b"\n")
        if rest and not chunk:
            lines.append(rest)
        for line in lines:
            number += 1
            deadline = deadline if window else time.monotonic() + LINGER
            window.append(_decode(line, number, name))
            if len(window) == size:
                yield window
                window = []
                size = min(2 * size, LARGEST_WINDOW)
    if window:
        yield window


def _is_ready(file: IO[bytes], seconds: float) -> bool:
    """Waits until a file has input, at most for some seconds."""
    try:
        return bool(select.select([file], [], [], seconds)[0])
    except io.UnsupportedOperation:  # a file in memory
        return True


def _decode(line: bytes, number: int, name: str) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise UserError(
            f"{name}:{number}: not UTF-8 text: convert the file, or correct the line"
        ) from None


def parse_columns(
    columns: Sequence[str], place: str, is_csv: bool = False
) -> tuple[str, str, float | None]:
    """Takes source, target and weight from the columns of a line.

    Args:
      columns: two, or three, of which the last is the weight. All are blank for a blank line.
      place: of the line, for messages.
      is_csv: whether messages are about CSV, not TSV.
    Returns: source, target and weight. The weight is None where there are two columns. A blank line
      has "" on both sides.
    Raises: UserError for another number of columns, or as `parse_weight`.
    """
    if not any(map(str.strip, columns)):
        return "", "", None
    if len(columns) == 2:
        return columns[0], columns[1], None
    if len(columns) == 3:
        is_number = _NUMBER.fullmatch(columns[0].strip() or "0")  # pandas' index has no name
        if is_csv:
            hint = ": give a first line with the languages, as names of their columns"
            hint += ", or write no index (in pandas index=False)" if is_number else ""
        elif is_number:
            hint = ": `cut -f 2,3` removes a score or an index in the first column"
        else:
            hint = ": in TSV files, `cut -f 1,2` removes a third column"
        return columns[0], columns[1], parse_weight(columns[2], place, hint)
    if columns[0].lstrip().startswith(("{", "[{")):
        raise UserError(f"{place}: JSON: give a file whose name ends in .jsonl")
    found = f"{len(columns)} columns" if len(columns) > 1 else "one column"
    form = "a comma, target, or a first line with the languages" if is_csv else "one tab, target"
    raise UserError(
        f"{place}: {found}: give source, {form}; a third column is the weight of the pair"
    )


def read_tsv(
    path: str, languages: tuple[str, str] = ("", "")
) -> Iterator[tuple[str, str, float | None]]:
    """Reads the pairs of a TSV file by `parse_columns`; the columns have no names."""
    return itertools.chain.from_iterable(read_tsv_windows(path))


def read_tsv_windows(path: str | None) -> Iterator[list[tuple[str, str, float | None]]]:
    """Reads the pairs of `read_tsv` in windows, as `read_windows`."""
    places = (f"{path or STANDARD_INPUT}:{number}" for number in itertools.count(1))
    for window in read_windows(path):
        yield [parse_columns(line.split("\t"), place) for line, place in zip(window, places)]


def parse_weight(value: Any, place: str, hint: str = "") -> float:
    """Parses a weight, from `LEAST_WEIGHT` to `MOST_WEIGHT`.

    Args:
      place: of the weight, for messages.
      hint: what else to do, for messages.
    Raises: UserError for another value.
    """
    try:
        weight = float(value)
    except (TypeError, ValueError, OverflowError):
        weight = -1.0
    if LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        return weight
    raise UserError(
        f"{place}: the weight {value!r} is not a number from {LEAST_WEIGHT:.6f} to "
        f"{MOST_WEIGHT:,.0f}{hint}"
    )


def read_two_file_windows(first: str | None, second: str) -> Iterator[list[tuple[str, str]]]:
    """Reads the pairs of lines of two files in windows, as `read_windows`.

    Raises: UserError for files with different line counts, and as `read_lines`.
    """
    lines = 0
    targets = read_lines(second)
    names = first or STANDARD_INPUT, second
    for window in read_windows(first):
        pairs = list(zip(window, targets))
        lines += len(pairs)
        if len(pairs) < len(window):
            raise _different(*names[::-1], lines)
        yield pairs
    if next(targets, None) is not None:
        raise _different(*names, lines)


def _different(shorter: str, longer: str, lines: int) -> UserError:
    return UserError(
        f"{shorter} has {lines:,} lines, and {longer} has more: the two sides must have one line "
        "for each pair"
    )
