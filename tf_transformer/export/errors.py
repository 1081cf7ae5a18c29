"""One clear error for an export that cannot be written, such as on a full disk."""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator

import tensorflow as tf

from tf_transformer.errors import UserError

# Reasons in the messages of TensorFlow, which has no error code of its own for most of them.
WRITE_ERRORS = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
)  # fmt: skip


@contextlib.contextmanager
def explain_write_errors(output: str) -> Iterator[None]:
    """Turns an error of the file system into a `UserError`.

    Args:
      output: the file or folder that is written.
    Raises: UserError with the path, the reason and, on a full disk, the free space.
    """
    try:
        yield
    except OSError as error:
        raise _unwritable(output, error.strerror or str(error)) from error
    except tf.errors.OpError as error:
        reasons = [os.strerror(number) for number in WRITE_ERRORS]
        reason = next((reason for reason in reasons if reason in error.message), None)
        if reason is None:
            raise
        raise _unwritable(output, reason) from error


def _unwritable(output: str, reason: str) -> UserError:
    advice = "choose another folder"
    if reason == os.strerror(errno.ENOSPC):
        folder = os.path.abspath(output)
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        free = shutil.disk_usage(folder).free / 1e6
        advice = f"{free:,.1f} MB of free space are not enough; free some, or {advice}"
    return UserError(f"{output} could not be written ({reason}): {advice}")


def check_output_folder(output: str) -> None:
    """Raises: UserError when a path cannot be the folder of the versions of one model."""
    path = os.path.abspath(output)
    if path == os.path.dirname(path):
        raise UserError(f"output {output} is the root folder: give a folder below it")
    if os.path.exists(path) and not os.path.isdir(path):
        raise UserError(f"output {output} is a file: give a folder")
