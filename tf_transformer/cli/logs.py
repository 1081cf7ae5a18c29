"""Log messages of the command line: on standard error, and in the `train.log` of a run."""

import contextlib
import logging
import os
import sys

from tf_transformer.checkpoints.model_folder import LOG

package_logger = logging.getLogger("tf_transformer")
logger = logging.getLogger(__name__)


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
