"""Files and folders that are written whole or not at all."""

import contextlib
import os
import shutil
import tempfile


@contextlib.contextmanager
def whole_file(path, mode="w"):
    """Opens a file that takes its name only when all of it is written and on the disk; after a failure, the one of before is there still.

    Args:
      path: its name. Until the end it is `path` with ".tmp".
      mode: "w" for text in UTF-8, "wb" for bytes.
    """
    with open(path + ".tmp", mode, encoding=None if "b" in mode else "utf-8") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.remove(path + ".tmp")
            raise
    os.replace(path + ".tmp", path)


@contextlib.contextmanager
def unfinished_folder(parent):
    """Makes a folder for something that is to be renamed when it is whole; what is still there at the end is removed.

    Args:
      parent: where to make it, and where the result belongs, so that renaming is one step; made where it is not there.
    Yields: its path, whose name begins with a dot.
    """
    os.makedirs(parent, exist_ok=True)
    path = tempfile.mkdtemp(prefix=".unfinished-", dir=parent)
    try:
        os.chmod(path, 0o755)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
