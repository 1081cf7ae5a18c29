"""Files that are written whole or not at all."""

import contextlib
import os


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
