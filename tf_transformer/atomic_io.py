"""Files and folders that are written completely or not at all."""

import contextlib
import errno
import fcntl
import glob
import io
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, quota, limit on file sizes
PREFIX, SUFFIX = ".tmp-", ".part"  # of the name of an unfinished file
UNFINISHED_FOLDER = ".unfinished-"  # the name of an unfinished folder begins with it
NOT_YET_LOCKED_SECONDS = 60.0  # an unfinished folder without a lock may be that new


@contextlib.contextmanager
def atomic_write(path: str, mode: str = "w") -> Iterator[IO[Any]]:
    """Opens a file that appears under its name when it is complete and on the disk.

    After a failure, an existing file of that name is unchanged. The unfinished file has a unique
    name in the same folder, so two writers do not disturb each other: the last one to finish wins.
    The new file has the permissions of the one that it replaces. A symbolic link stays: its target
    is replaced. A device or a pipe is not replaced but written to.

    Args:
      path: its name.
      mode: "w" for text in UTF-8, "wb" for bytes.
    Raises: OSError, whose `filename` is `path`, when the file cannot be written, or is a folder.
    """
    with atomic_files([path], mode) as (file,):
        yield file


class _Unfinished(NamedTuple):
    """A file that is being written."""

    file: IO[Any]
    path: str  # the name that the user gave
    target: str  # the path that it gets
    temporary: str | None  # the path that it has; None for a device or a pipe
    permissions: int

    def store(self) -> None:
        """Writes what is buffered to the disk."""
        self.file.flush()
        if self.temporary:
            with _naming(self.path):
                os.fchmod(self.file.fileno(), self.permissions)  # mkstemp's are for us alone
                os.fsync(self.file.fileno())

    def rename(self) -> None:
        """Gives it its name."""
        if self.temporary:
            with _naming(self.path):
                os.replace(self.temporary, self.target)


@contextlib.contextmanager
def atomic_files(paths: Sequence[str], mode: str = "w") -> Iterator[list[IO[Any]]]:
    """Opens files that belong together, such as the two sides of a text.

    Each of them is as of `atomic_write`. They appear when all of them are on the disk. A process
    that is killed at that moment leaves some of them missing, and never old ones beside new ones.

    Args:
      paths: their names.
      mode: as for `atomic_write`.
    Raises: OSError, as `atomic_write` does.
    """
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_unfinished(path, mode)) for path in paths]
        yield [each.file for each in files]
        for each in files:
            each.store()
        for each in files[1:]:
            if each.temporary:
                with _naming(each.path), contextlib.suppress(FileNotFoundError):
                    os.remove(each.target)
        for each in files:
            each.rename()


@contextlib.contextmanager
def _unfinished(path: str, mode: str) -> Iterator[_Unfinished]:
    """Opens a file under a temporary name, which is removed after a failure."""
    permissions = _permissions(path)
    if permissions is None:  # a device or a pipe
        with open_named(path, mode, path) as file:
            yield _Unfinished(file, path, path, None, 0)
        return
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    with _naming(path):
        # 50 characters are at most 200 bytes, and a name has at most 255.
        handle, temporary = tempfile.mkstemp(SUFFIX, f"{PREFIX}{name[:50]}-", folder)
    try:
        with open_named(handle, mode, path) as file:
            yield _Unfinished(file, path, target, temporary, permissions)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def _permissions(path: str) -> int | None:
    """The permissions of a regular file, those of a new file, or None for a device or a pipe.

    Raises: IsADirectoryError for a folder.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFDIR if path.endswith("/") else stat.S_IFREG | (0o666 & ~UMASK)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) else None


def _read_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# Read once: in a moment between the two calls, another thread would create files for everybody.
UMASK = _read_umask()


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Gives errors of the system the name of a file that the user knows."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = name, None
        raise


class _NamedFile(io.FileIO):
    """A file whose errors of reading and writing name it; Python's own name no file.

    Args:
      file, mode, closefd: as for `io.FileIO`.
      shown: the name in the errors.
    """

    def __init__(self, file: int | str, mode: str, shown: str, closefd: bool = True) -> None:
        super().__init__(file, mode, closefd)
        self._shown = shown

    def write(self, data: Any) -> Any:
        with _naming(self._shown):
            return super().write(data)

    def readinto(self, buffer: Any) -> Any:
        with _naming(self._shown):
            return super().readinto(buffer)

    def readall(self) -> Any:
        with _naming(self._shown):
            return super().readall()


def open_named(file: int | str, mode: str, shown: str, closefd: bool = True) -> IO[Any]:
    """Opens a file whose errors of reading and writing name it.

    Args:
      file: a path, or a file descriptor.
      mode: "r" or "w" for text in UTF-8, "rb" or "wb" for bytes.
      shown: the `filename` of the errors.
      closefd: False to leave the descriptor open when the file is closed.
    """
    raw = _NamedFile(file, mode.removesuffix("b"), shown, closefd)
    buffered: Any = io.BufferedWriter(raw) if raw.writable() else io.BufferedReader(raw)
    return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding="utf-8")


def remove_temporary_files(folder: str) -> None:
    """Removes the unfinished files that killed processes left in a folder."""
    for path in glob.glob(os.path.join(glob.escape(folder), f"{PREFIX}*{SUFFIX}")):
        os.remove(path)


@contextlib.contextmanager
def atomic_folder(parent: str) -> Iterator[str]:
    """Makes a folder to be renamed when it is complete; what remains at the end is removed.

    What a killed process left in `parent` is removed too.

    Args:
      parent: where to make it, and where the result belongs, so that renaming is one step; created
        where it does not exist.
    Yields: its path, whose name begins with a dot.
    """
    os.makedirs(parent, exist_ok=True)
    remove_unfinished_folders(parent)
    path = tempfile.mkdtemp(prefix=UNFINISHED_FOLDER, dir=parent)
    lock = _lock_folder(path)
    try:
        os.chmod(path, 0o777 & ~UMASK)  # mkdtemp makes it readable by us alone
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def remove_unfinished_folders(parent: str) -> None:
    """Removes the unfinished folders of processes that have ended."""
    for path in glob.glob(os.path.join(glob.escape(parent), f"{UNFINISHED_FOLDER}*")):
        with contextlib.suppress(OSError):
            if time.time() - os.stat(path).st_mtime < NOT_YET_LOCKED_SECONDS:
                continue
            lock = _lock_folder(path)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _lock_folder(path: str) -> int | None:
    """Locks a folder until the file descriptor is closed, or the process ends.

    Returns: the file descriptor; None when another process has the lock, or the file system has no
      locks.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    if try_lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def try_lock(descriptor: int) -> bool | None:
    """Locks an open file or folder until it is closed, or the process ends.

    Returns: True; False when another process has the lock; None when the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True
