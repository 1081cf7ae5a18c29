"""Files and folders that are written completely or not at all, and their checksums."""

import contextlib
import errno
import glob
import hashlib
import os
import pathlib
import secrets
import shutil
import time
from collections.abc import Iterator
from typing import IO, Any

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, quota, limit on file sizes
PREFIX, SUFFIX = ".tmp-", ".part"  # of the name of an unfinished file
UNFINISHED_FOLDER = ".unfinished-"  # the name of an unfinished folder begins with it
ABANDONED_SECONDS = 24 * 3600  # an unfinished folder of that age is nobody's any more
CHECKSUMS = "SHA256SUMS"  # a file that `sha256sum --check` reads too


@contextlib.contextmanager
def atomic_write(path: str, mode: str = "w") -> Iterator[IO[Any]]:
    """Opens a file that appears under its name when it is complete and on the disk.

    After a failure, an existing file of that name is unchanged. Two writers do not disturb each
    other: the last one to finish wins. The new file has the permissions of the one that it
    replaces. Of a symbolic link the target is replaced; a device or a pipe is written to.

    Args:
      path: its name.
      mode: "w" for text in UTF-8, "wb" for bytes.
    Raises: OSError, whose `filename` is `path`, when the file cannot be written, or is a folder.
    """
    encoding = None if "b" in mode else "utf-8"
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    # 50 characters are at most 200 bytes, and a name has at most 255.
    temporary = os.path.join(folder, f"{PREFIX}{name[:50]}-{secrets.token_hex(6)}{SUFFIX}")
    replaces = os.path.isfile(path)
    try:
        if path.endswith("/") or os.path.exists(path) and not replaces:
            with open(path, mode, encoding=encoding) as file:  # a device, or an error for a folder
                yield file
            return
        with open(temporary, mode.replace("w", "x"), encoding=encoding) as file:
            if replaces:
                shutil.copymode(target, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        # Errors of writing name no file, and others the unfinished one.
        if error.filename in (None, temporary):
            error.filename, error.filename2 = path, None
        raise
    finally:
        with contextlib.suppress(OSError):
            os.remove(temporary)


def remove_temporary_files(folder: str) -> None:
    """Removes the unfinished files that killed processes left in a folder."""
    for path in glob.glob(os.path.join(glob.escape(folder), f"{PREFIX}*{SUFFIX}")):
        os.remove(path)


@contextlib.contextmanager
def atomic_folder(parent: str) -> Iterator[str]:
    """Makes a folder to be renamed when it is complete; what remains at the end is removed.

    So is what a process that was killed a day ago or earlier left in `parent`, which is the folder
    of the result, so that renaming is one step. It is created where it does not exist.

    Yields: the path, whose name begins with a dot.
    """
    os.makedirs(parent, exist_ok=True)
    remove_unfinished_folders(parent, ABANDONED_SECONDS)
    path = os.path.join(parent, UNFINISHED_FOLDER + secrets.token_hex(6))
    os.mkdir(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def remove_unfinished_folders(parent: str, seconds: float = 0) -> None:
    """Removes the unfinished folders in a folder that have not changed for some seconds."""
    for path in glob.glob(os.path.join(glob.escape(parent), f"{UNFINISHED_FOLDER}*")):
        with contextlib.suppress(OSError):
            if time.time() - os.stat(path).st_mtime >= seconds:
                shutil.rmtree(path, ignore_errors=True)


def write_checksums(folder: str) -> None:
    """Writes SHA256SUMS of all files in a folder and below it, except hidden ones."""
    lines = [f"{checksum}  {name}\n" for name, checksum in _checksums(folder).items()]
    with atomic_write(os.path.join(folder, CHECKSUMS)) as file:
        file.writelines(lines)


def is_intact(folder: str) -> bool:
    """Whether a folder has the files of its SHA256SUMS, with the same content, and no others."""
    try:
        text = pathlib.Path(folder, CHECKSUMS).read_text("utf-8")
        lines = [line.split("  ", 1) for line in text.splitlines()]
        return {name: checksum for checksum, name in lines} == _checksums(folder)
    except (FileNotFoundError, ValueError):  # or another text than `write_checksums` writes
        return False


def _checksums(folder: str) -> dict[str, str]:
    """The SHA-256 of each file but SHA256SUMS and hidden ones, such as .DS_Store, by its path."""
    checksums = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != CHECKSUMS and "/." not in f"/{name}":
            checksums[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return checksums
