"""The base class of all corpora, and the lines of text files."""

import contextlib
import gzip
import os
import sys
import zlib

from tf_transformer.errors import UserError

# Where a corpus has no validation text, the end of its training text is held out for validation:
# this fraction of the pairs or trees, up to this number.
HELD_OUT_FRACTION = 0.05
MAX_HELD_OUT = 1000


class Corpus:
    """The base class of all corpora.

    A subclass defines `read(split)`, which yields pairs of strings, and `fingerprint(split)`, which
    changes when the text may have changed.

    Attributes:
      name: of the corpus, for messages.
      splits: the names of its splits.
    """

    name = ""
    splits = []

    def default_test(self, seen):
        """Returns the split to evaluate on where the user gives none.

        Args:
          seen: whether the model was trained on this corpus. If so, the split "all" is not a test.
        Raises: UserError when the corpus has several test sets or none.
        """
        tests = [split for split in self.splits if split.startswith("test")]
        if "test" in tests:
            return "test"
        substitute = "validation" if seen else "all"
        if not tests and substitute in self.splits:
            return substitute
        if len(tests) == 1:
            return tests[0]
        raise UserError(
            f"{self.name} has several test sets or none: give --split, one of "
            f"{', '.join(self.splits)}"
        )

    def known(self, split):
        """Returns the name of a split. Raises: UserError when the corpus has no such split."""
        if split not in self.splits:
            raise UserError(f"{self.name} has no split {split!r}: it has {', '.join(self.splits)}")
        return split


def held_out(number):
    """Returns how many of `number` training pairs or trees are held out."""
    return min(MAX_HELD_OUT, max(1, int(number * HELD_OUT_FRACTION)))


def file_fingerprint(path):
    """Returns a tuple that changes with the path, the size or the modification time of a file."""
    status = os.stat(path)
    return (os.path.abspath(path), status.st_size, status.st_mtime_ns)


def read_lines(path):
    """Reads the lines of a text file.

    Args:
      path: a text file, plain or `.gz`; None for standard input.
    Yields: the lines without their line ends.
    Raises: UserError when the file cannot be read, or a line is not valid UTF-8.
    """
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                encoding = "utf-8-sig" if number == 1 else "utf-8"
                try:
                    yield line.decode(encoding).rstrip("\r\n")
                except UnicodeDecodeError:
                    raise UserError(
                        f"{path or 'standard input'}:{number}: not UTF-8 text: convert the file, "
                        "or correct the line"
                    ) from None
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: not a complete gzip file ({error})") from None


def _open(path):
    if path is None:
        return contextlib.nullcontext(sys.stdin.buffer)
    if path.endswith(".gz"):
        return gzip.open(path, "rb")
    return open(path, "rb")
