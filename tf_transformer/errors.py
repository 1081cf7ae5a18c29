"""The errors that the package raises for a user's mistake, or meets in a damaged `.npz` file."""

import contextlib
import errno
import tokenize
import zipfile
import zlib
from collections.abc import Iterator

# What `zipfile`, NumPy and `json` raise for a damaged file. NumPy parses the header of an array,
# with Python's tokenizer, before the CRC of the array is checked.
NPZ_DAMAGE = (
    zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError, KeyError, ValueError,
    TypeError, AttributeError, EOFError, RuntimeError, OSError,
)  # fmt: skip


def is_damage(error: Exception) -> bool:
    """Whether one of `NPZ_DAMAGE` is about the bytes of a file, not about reading them.

    An error of a disk, a network or a limit has a number. Damaged bytes can name a place before the
    file, which is EINVAL.
    """
    return not isinstance(error, OSError) or error.errno in (None, errno.EINVAL)


class UserError(ValueError):
    """A mistake of the user, such as a missing file or a setting out of range.

    The message says what is wrong, where, and what to do. The command line prints it and exits with
    code 2.
    """


class DamagedError(UserError):
    """A checkpoint whose bytes have changed since it was written."""


@contextlib.contextmanager
def explain_missing_package(name: str = "", extra: str = "serving") -> Iterator[None]:
    """Turns the error of an import into a `UserError` that tells how to install the package.

    Args:
      name: of the package for pip; "" for the name of the module which was not found.
      extra: of this package, to which it belongs.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tf_transformer"):
            raise  # a bug
        raise UserError(
            f"the package {name or error.name} is missing: pip install 'tf_transformer[{extra}]'"
        ) from None
