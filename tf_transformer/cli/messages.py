"""What a command writes on standard error: log messages, and why it failed.

The log messages of a run are in its `train.log` too. A failure is one line; an error of this
package also has a file with details.
"""

import contextlib
import errno
import logging
import os
import signal
import sys
import tempfile
import traceback

from absl import flags

from tf_transformer.checkpoints.model_folder import LOG
from tf_transformer.cli.interrupts import MESSAGES, received_signal
from tf_transformer.errors import UserError

package_logger = logging.getLogger("tf_transformer")
logger = logging.getLogger(__name__)

STDIN, STDOUT = "standard input", "standard output"

# Exit codes.
INTERNAL_ERROR = 1
USER_ERROR = 2
SIGNAL = 128  # plus the number of the signal
READER_GONE = SIGNAL + 13  # SIGPIPE

# What the user can do about an error of the system.
REMEDIES = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "a part of the path is a file; check the path",
    errno.EISDIR: "give the name of a file, not of a folder",
    errno.EEXIST: "give another path",
    errno.EACCES: "change the permissions, or give another path",
    errno.EPERM: "change the permissions, or give another path",
    errno.EROFS: "give another path",
    errno.ENAMETOOLONG: "give a shorter path",
    errno.ELOOP: "correct the symbolic link",
    errno.ENOSPC: "free some disk space, or give another path",
    errno.EDQUOT: "free some disk space, or give another path",
    errno.EMFILE: "raise the limit of open files, see `ulimit -n`",
    errno.ENFILE: "close other programs",
    errno.EBADF: "it is closed; redirect it to a file",
}
# These come from the host, whatever the path is.
OF_THE_HOST = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EIO}
DEFAULT_FOLDER = "models"  # of the model folders


def report(error: BaseException, arguments: list[str]) -> int:
    """Writes why a command failed to standard error.

    Args:
      error: what the command raised.
      arguments: of the command line, with the paths that the user gave. With --debug among them,
        the traceback is written too.
    Returns: the exit code.
    """
    number = received_signal()
    if number is None and isinstance(error, KeyboardInterrupt):
        number = signal.SIGINT
    if number is None and isinstance(error, OSError) and error.filename is None:
        # The files of the package name themselves, so this is a standard stream. Only the input can
        # be closed here.
        error.filename = STDIN if error.errno == errno.EBADF else STDOUT
        if error.filename == STDOUT:
            discard(1)
        if isinstance(error, BrokenPipeError):
            return READER_GONE
    if any(argument.partition("=")[0] in ("--debug", "-debug") for argument in arguments):
        tell("".join(traceback.format_exception(error)).rstrip())
    if number is not None:
        message = MESSAGES[signal.Signals(number)]
        tell(f"tf-transformer: {message}")
        record_in_run_log(message, logging.WARNING)
        return SIGNAL + number
    mistake = _mistake(error, arguments)
    if mistake is None:
        return _report_internal_error(error)
    message = " ".join(mistake.split())
    tell(f"tf-transformer: error: {message}")
    record_in_run_log(message)
    return USER_ERROR


def discard(descriptor: int) -> None:
    """Discards what is still to be written to a standard stream that cannot be written to."""
    opened = os.open(os.devnull, os.O_WRONLY)
    os.dup2(opened, descriptor)
    os.close(opened)


def tell(line: str) -> None:
    """Writes a line to standard error, if it can be written to."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: a closed file
        print(line, file=sys.stderr, flush=True)


def _mistake(error: BaseException, arguments: list[str]) -> str | None:
    """The message for a mistake of the user or a limit of the host; None for an internal error."""
    if isinstance(error, (UserError, flags.Error)):
        return str(error)
    if isinstance(error, OSError):
        if not _working_directory_exists():
            return "the working directory does not exist: cd to another one"
        if error.errno in OF_THE_HOST or _is_given(error.filename, arguments):
            name = os.fsdecode(error.filename) if error.filename else "a file"
            remedy = REMEDIES.get(error.errno or 0)
            return f"{name}: {error.strerror or error}{f': {remedy}' if remedy else ''}"
    if isinstance(error, ImportError) and not (error.name or "").startswith("tf_transformer"):
        return (
            f"{_first_line(error)}: install this package again, with its requirements; "
            "`tf-transformer doctor` lists what is missing"
        )
    # TensorFlow's error by its name, because TensorFlow may not be loaded.
    if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
        return f"out of memory ({_first_line(error)}): give smaller sizes"
    return None


def _working_directory_exists() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _is_given(path: object, arguments: list[str]) -> bool:
    """Whether a path is one that the user gave, inside one, or a folder around one."""
    if not isinstance(path, (str, bytes)):
        return False
    path = os.fsdecode(path)
    if path in (STDIN, STDOUT):
        return True
    values = [argument.partition("=")[2] or argument for argument in arguments]
    given = [part for value in values for part in (value, *value.split(",")) if part]
    inner = _with_slash(path)
    for name in (DEFAULT_FOLDER, *given):
        outer = _with_slash(name)
        if inner.startswith(outer) or outer.startswith(inner):
            return True
    return False


def _with_slash(path: str) -> str:
    """The absolute path with a slash at the end; that of the root folder has one already."""
    return os.path.join(os.path.abspath(path), "")


def _report_internal_error(error: BaseException) -> int:
    """Writes a line on an error of this package, and its traceback to a file."""
    trace = "".join(traceback.format_exception(error))
    path = record_in_run_log(f"internal error\n{trace}") or _temporary_file(trace)
    if path is None:
        tell(trace.rstrip())
        path = "above"
    line = f"tf-transformer: internal error: {type(error).__name__}: {_first_line(error)}"
    tell(f"{line} (traceback: {path})")
    return INTERNAL_ERROR


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else "no message"


def _temporary_file(text: str) -> str | None:
    """Writes text to a new file in the temporary folder. Returns: its path; None on failure."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="tf-transformer-", suffix=".log", delete=False, encoding="utf-8",
            errors="backslashreplace",
        ) as file:  # fmt: skip
            file.write(f"{sys.version}\n{sys.argv}\n{text}")
            return file.name
    except OSError:
        return None


class _ProgressBarHandler(logging.Handler):
    """Writes log records to standard error, above any progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record. As in every handler, an error in it does not stop the program."""
        import tqdm

        try:
            tqdm.tqdm.write(self.format(record), file=sys.stderr)
            sys.stderr.flush()
        except (OSError, ValueError):  # nobody reads standard error, or it is closed
            pass
        except Exception:
            self.handleError(record)


class _RunLog(logging.FileHandler):
    """Appends log records to a file, which is created at the first one.

    When the file cannot be written, the program warns once and goes on without it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace", delay=True)
        self._failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record."""
        if self._failed:
            return
        try:
            os.makedirs(os.path.dirname(self.baseFilename), exist_ok=True)
            super().emit(record)
        except OSError:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Warns that the file cannot be written."""
        self._failed = True
        _, error, _ = sys.exc_info()
        logger.warning("cannot write %s (%s): going on without it", self.baseFilename, error)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Shows the package's log messages of a level and above, with their time."""
    stop_logging()
    # At its first message, absl gives the root logger a handler, if it has none. All messages would
    # then be shown twice.
    if not logging.root.handlers:
        logging.root.addHandler(logging.NullHandler())
    handler = _ProgressBarHandler(level=level)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    package_logger.addHandler(handler)
    package_logger.setLevel(min(level, logging.INFO))  # for `train.log`


def log_to_folder(model_dir: str) -> None:
    """Appends the messages, from level INFO on, to `train.log` in the folder of a run too."""
    handler = _RunLog(os.path.join(model_dir, LOG))
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    package_logger.addHandler(handler)


def stop_logging() -> None:
    """Removes the handlers of this module."""
    for handler in list(package_logger.handlers):
        if isinstance(handler, (_ProgressBarHandler, _RunLog)):
            package_logger.removeHandler(handler)
            with contextlib.suppress(OSError):  # the disk is full
                handler.close()


def record_in_run_log(message: str, level: int = logging.ERROR) -> str | None:
    """Appends how a run ended to its `train.log`, if the run has begun one.

    Returns: the path of the file, or None.
    """
    for handler in package_logger.handlers:
        if isinstance(handler, _RunLog) and os.path.exists(handler.baseFilename):
            record = logger.makeRecord(logger.name, level, "", 0, message, (), None)
            handler.handle(record)
            if not handler._failed:
                return handler.baseFilename
    return None
