"""What every corpus has, and the lines of text files."""

import contextlib
import gzip
import sys
import zlib

from tf_transformer.errors import UserError

HELD_OUT = 1000  # pairs, or trees, taken from the end of the training text for validation, where there is no validation text
HELD_OUT_SHARE = 0.05  # but never more than this share of it


class Corpus:
    """The base class of all kinds; `splits` are the names of its parts."""

    name, splits = "", []

    def default_test(self, seen):
        """The split to evaluate on where none is named.

        Args:
          seen: whether the model was trained on this corpus, so that "all" of it is no test.
        Raises: UserError when the choice is not clear.
        """
        tests = [split for split in self.splits if split.startswith("test")]
        choices = [
            split
            for split in ("test", "validation" if seen and not tests else "all")
            if split in self.splits
        ] or tests
        if len(choices) == 1:
            return choices[0]
        raise UserError(
            f"{self.name} has several test sets or none: give --split, one of {', '.join(self.splits)}"
        )

    def known(self, split):
        """Returns: the name of a split. Raises: UserError when there is none of that name."""
        if split not in self.splits:
            raise UserError(f"{self.name} has no split {split!r}: it has {', '.join(self.splits)}")
        return split


def held_out(number):
    """How many of so many training pairs, or trees, are held out."""
    return min(HELD_OUT, max(1, int(number * HELD_OUT_SHARE)))


def read_lines(path):
    """Yields the lines of a text file, plain or `.gz`, or of standard input where path is None, without their ends.

    Raises: UserError when there is no such file, or where a line is not UTF-8 (with its number).
    """
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError:
                    raise UserError(
                        f"{path or 'standard input'}:{number}: not UTF-8 text: convert the file, or mend the line"
                    ) from None
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: not a whole gzip file ({error})") from None


def _open(path):
    if path is None:
        return contextlib.nullcontext(sys.stdin.buffer)
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")
