"""Files and folders that are written completely or not at all."""

import contextlib
import glob
import os
import shutil
import tempfile

PREFIX, SUFFIX = ".tmp-", ".part"  # of the name of an unfinished file


@contextlib.contextmanager
def atomic_write(path, mode="w"):
    """Opens a file that appears under its name when it is complete and on the disk.

    After a failure, an existing file of that name is unchanged. The unfinished file has a unique
    name in the same folder, so two writers do not disturb each other: the last one to finish wins.

    Args:
      path: its name.
      mode: "w" for text in UTF-8, "wb" for bytes.
    """
    folder, name = os.path.split(path)
    try:
        handle, temporary = tempfile.mkstemp(SUFFIX, f"{PREFIX}{name[:100]}-", folder or ".")
    except OSError as error:  # name the file that the caller knows
        raise OSError(error.errno, error.strerror, path) from None
    with open(handle, mode, encoding=None if "b" in mode else "utf-8") as file:
        try:
            yield file
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_umask())  # mkstemp makes it readable by us alone
            os.fsync(file.fileno())
        except BaseException:
            os.remove(temporary)
            raise
    os.replace(temporary, path)


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def remove_temporary_files(folder):
    """Removes the unfinished files that killed processes left in a folder."""
    for path in glob.glob(os.path.join(glob.escape(folder), f"{PREFIX}*{SUFFIX}")):
        os.remove(path)


@contextlib.contextmanager
def atomic_folder(parent):
    """Makes a folder to be renamed when it is complete; what remains at the end is removed.

    Args:
      parent: where to make it, and where the result belongs, so that renaming is one step; created
        where it does not exist.
    Yields: its path, whose name begins with a dot.
    """
    os.makedirs(parent, exist_ok=True)
    path = tempfile.mkdtemp(prefix=".unfinished-", dir=parent)
    try:
        os.chmod(path, 0o755)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
