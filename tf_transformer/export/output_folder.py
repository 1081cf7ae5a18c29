"""The output of an export: it appears when it is complete, or one clear error does."""

import contextlib
import errno
import os
from collections.abc import Iterator

import tensorflow as tf

from tf_transformer.errors import UserError
from tf_transformer.files import atomic_folder

# Reasons in the messages of TensorFlow, which has no error code of its own for most of them.
WRITE_ERRORS = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
)  # fmt: skip


def check_new(output: str) -> None:
    """Raises: UserError when a path exists."""
    if os.path.exists(output):
        raise UserError(f"{output} already exists: remove it, or give another output")


@contextlib.contextmanager
def new_output(output: str, name: str = "") -> Iterator[str]:
    """Makes a folder, or a file in one, that takes its name when it is complete.

    Args:
      output: the name. It must not exist.
      name: of a file until then; "" for a folder.
    Yields: the path until then.
    Raises: UserError when it cannot be written.
    """
    parent = os.path.dirname(os.path.abspath(output))
    with unfinished_folder(parent, output) as folder:
        path = os.path.join(folder, name) if name else folder
        yield path
        os.rename(path, output)


@contextlib.contextmanager
def unfinished_folder(parent: str, output: str) -> Iterator[str]:
    """An `atomic_folder` in a folder, whose errors name the output.

    Raises: UserError with the path and the reason, for an error of the file system.
    """
    try:
        with atomic_folder(parent) as folder:
            yield folder
    except (OSError, tf.errors.OpError) as error:
        reasons = [os.strerror(number) for number in WRITE_ERRORS]
        reason = next((each for each in reasons if each in str(error)), None)
        reason = getattr(error, "strerror", None) or reason
        if reason is None:
            raise
        raise UserError(
            f"{output} could not be written ({reason}): choose another folder, or free some space"
        ) from error
