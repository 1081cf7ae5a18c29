"""The errors that the package raises for a user's mistake, and those of a damaged `.npz` file."""

import tokenize
import zipfile
import zlib

# What `zipfile`, NumPy and `json` raise for a damaged file. NumPy parses the header of an array,
# with Python's tokenizer, before the CRC of the array is checked.
NPZ_DAMAGE = (
    zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError, KeyError, ValueError,
    TypeError, AttributeError, EOFError, RuntimeError, OSError,
)  # fmt: skip


class UserError(ValueError):
    """A mistake of the user, such as a missing file or a setting out of range.

    The message says what is wrong, where, and what to do. The command line prints it and exits with
    code 2.
    """


class DamagedError(UserError):
    """A checkpoint whose bytes have changed since it was written."""
