"""What a command writes on standard error: log messages, and why it failed.

The log messages of a run are in its `train.log` too. A failure is one line, before which an error
of this package has its traceback.
"""

import contextlib
import errno
import logging
import os
import signal
import sys
import traceback

from absl import flags

from tf_transformer.checkpoints.model_folder import LOG
from tf_transformer.cli.interrupts import MESSAGES, received_signal
from tf_transformer.errors import UserError
from tf_transformer.files import DISK_FULL

package_logger = logging.getLogger("tf_transformer")
logger = logging.getLogger(__name__)

INTERNAL_ERROR, USER_ERROR = 1, 2  # exit codes
SIGNAL = 128  # plus the number of the signal
READER_GONE = SIGNAL + 13  # SIGPIPE


def report(error: BaseException, debug: bool) -> int:
    """Writes why a command failed to standard error; with `debug`, every error's traceback.

    Returns: the exit code.
    """
    number = received_signal()
    if number is None and isinstance(error, KeyboardInterrupt):
        number = signal.SIGINT
    of_output = (errno.EPIPE, *DISK_FULL)
    if isinstance(error, OSError) and not error.filename and error.errno in of_output:
        error.filename = "standard output"
        # Discard what is still to be written: Python would write it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno == errno.EPIPE and number is None:
            return READER_GONE
    trace = "".join(traceback.format_exception(error)).rstrip()
    mistake = _mistake(error)
    level = logging.ERROR
    if number is not None:
        message, level, code = MESSAGES[number], logging.WARNING, SIGNAL + number
    elif mistake is not None:
        message, code = f"error: {' '.join(mistake.split())}", USER_ERROR
    else:
        summary = " ".join(f"{type(error).__name__}: {error}".split())
        message, code = f"internal error: {summary[:300]}", INTERNAL_ERROR
    if debug or code == INTERNAL_ERROR:
        tell(trace)
    tell(f"tf-transformer: {message}")
    record_in_run_log(f"{message}\n{trace}" if code == INTERNAL_ERROR else message, level)
    return code


def _mistake(error: BaseException) -> str | None:
    """The message for a mistake of the user or a limit of the host; None for an internal error."""
    if isinstance(error, (UserError, flags.Error)):
        return str(error)
    if isinstance(error, OSError) and error.filename:
        remedy = "check the path and its permissions"
        if error.errno in DISK_FULL:
            remedy = "free some disk space, or give another path"
        return f"{error.filename}: {error.strerror or error}: {remedy}"
    if isinstance(error, ImportError) and not (error.name or "").startswith("tf_transformer"):
        remedy = "install this package again, with its requirements"
        return f"{error}: {remedy}; `tf-transformer doctor` lists what is missing"
    return None


def tell(line: str) -> None:
    """Writes a line to standard error, if it can be written to."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: a closed file
        print(line, file=sys.stderr, flush=True)


class _ProgressBarHandler(logging.Handler):
    """Writes log records to standard error, above any progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        import tqdm

        with contextlib.suppress(OSError, ValueError):  # nobody reads standard error
            tqdm.tqdm.write(self.format(record), file=sys.stderr)
            sys.stderr.flush()


class _RunLog(logging.FileHandler):
    """Appends log records to a file, which is created with its folder at the first one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record, or goes on: on a full disk, the next checkpoint is an error."""
        with contextlib.suppress(OSError):  # the file cannot be opened
            os.makedirs(os.path.dirname(self.baseFilename), exist_ok=True)
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Goes on: the file cannot be written to."""


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
    path = os.path.join(model_dir, LOG)
    handler = _RunLog(path, encoding="utf-8", errors="backslashreplace", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    package_logger.addHandler(handler)


def stop_logging() -> None:
    """Removes the handlers of this module, and the level that it set."""
    package_logger.setLevel(logging.NOTSET)
    for handler in list(package_logger.handlers):
        if isinstance(handler, (_ProgressBarHandler, _RunLog)):
            package_logger.removeHandler(handler)
            with contextlib.suppress(OSError):  # the disk is full
                handler.close()


def record_in_run_log(message: str, level: int = logging.ERROR) -> None:
    """Appends how a run ended to its `train.log`, if the run has begun one."""
    for handler in package_logger.handlers:
        if isinstance(handler, _RunLog) and os.path.exists(handler.baseFilename):
            handler.handle(logger.makeRecord(logger.name, level, "", 0, message, (), None))
