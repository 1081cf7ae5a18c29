"""The lock of a model folder: one process trains in it at a time."""

import fcntl
import os
import re
import socket
from typing import IO

from tf_transformer.errors import UserError

_locks: dict[str, IO[str]] = {}  # path -> file. The system would let one process lock a file twice.


def lock_folder(folder: str) -> str:
    """Locks a folder for this process; the system releases the lock when the process ends.

    Returns: the path of the lock. Raises: UserError when another process has it.
    """
    path = os.path.join(os.path.realpath(folder), "training.lock")
    while path not in _locks:
        file = open(path, "a+")
        file.seek(0)
        owner = file.read().strip() or "unknown process"
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            file.close()
            raise UserError(
                f"another process trains in {folder} ({owner}): wait, stop it, or give another "
                "--model_dir"
            ) from None
        except OSError:  # a file system without locks: only the text in the file is left
            if _may_run(owner):
                file.close()
                raise UserError(
                    f"another process trains in {folder} ({owner}), or it was killed: wait, stop "
                    f"it, or if it is not running, remove {path}"
                ) from None
        if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(file.fileno())):
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
            _locks[path] = file
        else:  # its last owner has just removed it
            file.close()
    return path


def _may_run(owner: str) -> bool:
    """Whether the process that a lock names may be running; on another host, it may."""
    match = re.fullmatch(r"process (\d+) on (.*)", owner)
    if not match:  # the file is new
        return False
    process, host = int(match[1]), match[2]
    if host != socket.gethostname():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user
        return True
    return process != os.getpid()  # an earlier process had our number


def unlock_folder(path: str) -> None:
    """Releases a lock; `path` is what `lock_folder` returned."""
    if path in _locks:
        os.remove(path)
        _locks.pop(path).close()
