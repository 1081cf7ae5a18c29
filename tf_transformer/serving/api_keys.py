"""API keys: the file that the server reads, and the key that a client sends.

The file of a server has one key on each line, `NAME KEY`. A name may have several keys, so that a
new one can be used before the old one is removed. Blank lines and lines that begin with # are
ignored.

    # tf-transformer reads this file again when it changes
    alice 5d0e4b1c8a2f4b6f9c3d7e1a
    batch 91b7c1f0d24e4a7d8e6a5b3c
"""

import hashlib
import hmac
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Mapping

from tf_transformer.errors import UserError
from tf_transformer.serving.small_file import read_small_file

logger = logging.getLogger(__name__)

NAME = re.compile(r"[\w.@-]{1,64}", re.ASCII)
KEY = re.compile(r"[\w.~+/=-]{16,256}", re.ASCII)  # what may follow "Bearer" (RFC 6750)
ENVIRONMENT_VARIABLE = "TF_TRANSFORMER_API_KEY"  # of the client
SECONDS_BETWEEN_CHECKS = 1.0
ADVICE = "make a key with `openssl rand -hex 24`"


class ApiKeys:
    """The keys of a file, which is read again when it changes. A pipe is read once.

    Args:
      path: of the file.
      clock: returns the time in seconds.
    Raises: UserError when the file cannot be read, or has a line that is not `NAME KEY`. Later, the
      keys stay as they are then, and the log has the error.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._is_file = os.path.isfile(path)
        self._state = _file_state(path)
        self._names = self._read()
        self._failure = ""  # of the last attempt to read the file again
        self._checked = clock()

    def name_of(self, key: str) -> str | None:
        """Returns the name of a key, or None for a key that is not in the file."""
        self._read_again_if_changed()
        digest = _digest(key)
        found = None
        # The time of the comparison depends neither on the key nor on its place in the file.
        for known, name in self._names.items():
            if hmac.compare_digest(known, digest):
                found = name
        return found

    def _read_again_if_changed(self) -> None:
        now = self._clock()
        if not self._is_file or now - self._checked < SECONDS_BETWEEN_CHECKS:
            return
        self._checked = now
        state = _file_state(self._path)
        if state == self._state:
            return
        try:
            if state and not os.path.isfile(self._path):
                raise UserError(f"{self._path} is not a file")  # reading a pipe could wait
            self._names = self._read()
        except UserError as error:  # the next check tries again
            if str(error) != self._failure:
                self._failure = str(error)
                logger.error("%s; the API keys stay those that were read before", error)
        else:
            self._state = state
            self._failure = ""

    def _read(self) -> dict[bytes, str]:
        names = read_api_keys(self._path)
        if _is_readable_by_all(self._path):
            logger.warning(
                "all users of this host can read the API keys in %s: chmod o-r %s",
                self._path,
                self._path,
            )
        logger.info(
            "read %d API keys of %d names from %s",
            len(names),
            len(set(names.values())),
            self._path,
        )
        return names


def read_api_keys(path: str) -> dict[bytes, str]:
    """Reads the keys of a server.

    Args:
      path: of a file with lines `NAME KEY`.
    Returns: the SHA-256 digest of each key -> its name.
    Raises: UserError.
    """
    names: dict[bytes, str] = {}
    for number, words in _read_lines(path):
        where = f"{path}, line {number}"
        if len(words) != 2:
            raise UserError(f"{where}: write NAME KEY, and no more words")
        name, key = words
        if not NAME.fullmatch(name):
            raise UserError(
                f"{where}: give a name of at most 64 letters, digits, '_', '.', '@' and '-'"
            )
        _check_key(key, where)
        other = names.setdefault(_digest(key), name)
        if other != name:
            raise UserError(f"{where}: {name} has the same key as {other}: {ADVICE}")
    if not names:
        raise UserError(f"{path} has no key: write lines NAME KEY; {ADVICE}")
    return names


def client_key(path: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Returns the key that a client sends, or None when it has none.

    Args:
      path: of a file with one key, alone on its line or after a name; None for the environment
        variable `TF_TRANSFORMER_API_KEY`.
      environment: the environment variables.
    Raises: UserError.
    """
    if not path:
        key = environment.get(ENVIRONMENT_VARIABLE, "").strip()
        if not key:
            return None
        _check_key(key, ENVIRONMENT_VARIABLE)
        return key
    lines = list(_read_lines(path))
    if len(lines) != 1:
        raise UserError(f"{path} has {len(lines)} lines with a key: a client needs exactly one")
    ((number, words),) = lines
    if len(words) > 2:
        raise UserError(f"{path}, line {number}: write KEY or NAME KEY, and no more words")
    _check_key(words[-1], f"{path}, line {number}")
    return words[-1]


def _read_lines(path: str) -> list[tuple[int, list[str]]]:
    """The numbers and the words of the lines that are neither blank nor comments."""
    text = read_small_file(path, "API keys")
    lines = [(number, line.split()) for number, line in enumerate(text.split("\n"), 1)]
    return [(number, words) for number, words in lines if words and not words[0].startswith("#")]


def _check_key(key: str, where: str) -> None:
    """Raises: UserError for a key that is short or cannot be sent. It does not contain the key."""
    if not KEY.fullmatch(key):
        raise UserError(
            f"{where}: give a key of 16 to 256 letters, digits and the characters -._~+/= "
            f"({ADVICE})"
        )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _is_readable_by_all(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:  # removed by now
        return False


def _file_state(path: str) -> tuple[int, ...] | None:
    """What changes when a file is written, replaced or made readable; None for a missing file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
