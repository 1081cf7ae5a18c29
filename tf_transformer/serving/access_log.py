"""The access log: a JSON object on a line for each request."""

import contextlib
import json
import logging
import logging.handlers
import queue
import sys
import threading
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tf_transformer.errors import UserError
from tf_transformer.serving.request_record import RequestRecord, request_record

logger = logging.getLogger(__name__)

STDOUT = "-"
MAX_WAITING_LINES = 10_000
MAX_CHARACTERS = 300  # of a path or a message
DIGITS = 6  # of seconds


class AccessLog:
    """Appends a line for each request to a file, or to standard output.

    A file that was renamed or removed is created again, as logrotate expects. When the log cannot
    be written, lines are lost and a warning is logged, and the server goes on. Another thread
    writes, so that a slow disk, or a pipe that nobody reads, does not stop the server.

    Args:
      path: of the file; "-" for standard output.
    Raises: UserError when the file cannot be written.
    """

    def __init__(self, path: str) -> None:
        try:
            self._handler = _StdoutHandler(sys.stdout) if path == STDOUT else _FileHandler(path)
        except OSError as error:
            raise UserError(
                f"cannot write the access log {path} ({error.strerror or error}): give another "
                "--access_log"
            ) from None
        self._lines: queue.Queue[str | None] = queue.Queue(MAX_WAITING_LINES)
        self._loses_lines = False
        self._thread = threading.Thread(target=self._write_lines, name="access log", daemon=True)
        self._thread.start()

    def write(self, record: RequestRecord) -> None:
        """Appends the line of a request, which is answered."""
        line = json.dumps(_fields(record))  # ASCII: no other line breaks, valid in every locale
        before, self._loses_lines = self._loses_lines, False
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._loses_lines = True
            if not before:
                logger.warning("cannot write the access log: it takes no more lines")

    def _write_lines(self) -> None:
        for line in iter(self._lines.get, None):
            # Handlers are called directly: a logger is one for all servers of a process.
            self._handler.handle(logging.makeLogRecord({"msg": line}))
            self._lines.task_done()

    def close(self) -> None:
        """Writes the lines that wait, for a second at most, and closes the file."""
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=1)
        self._thread.join(1)
        if isinstance(self._handler, _FileHandler) and not self._thread.is_alive():
            with contextlib.suppress(OSError):  # the disk is full
                self._handler.close()


class LoggedApp:
    """Writes the access log of an application.

    Args:
      app: the ASGI application.
      log: an `AccessLog`.
    """

    def __init__(self, app: ASGIApp, log: AccessLog) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Is called by the HTTP server for each request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = request_record(scope)

        async def counted_receive() -> Message:
            message = await receive()
            record.bytes_in += len(message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.end(message["status"])
            elif scope["method"] != "HEAD":  # whose responses have no body
                record.bytes_out += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, counted_receive, counted_send)
        finally:
            if not record.status:  # an exception, which the HTTP server answers
                record.end(500)
            self._log.write(record)


class _Handler(logging.Handler):
    """Warns at the first of several lines that it cannot write."""

    _error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line."""
        before, self._error = self._error, None
        try:
            super().emit(record)
        except OSError as error:  # a renamed file cannot be created again
            self._error = error
        if self._error and not before:
            logger.warning("cannot write the access log: %s", self._error)

    def handleError(self, record: logging.LogRecord) -> None:
        """Is called when a line cannot be written."""
        self._error = sys.exc_info()[1]


class _FileHandler(_Handler, logging.handlers.WatchedFileHandler):
    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8")


class _StdoutHandler(_Handler, logging.StreamHandler):
    pass


def _fields(record: RequestRecord) -> dict[str, Any]:
    """The fields of a line: those of all requests, then those of predictions and of errors."""
    time = record.wall_time.isoformat(timespec="milliseconds")
    fields = {
        "time": time.replace("+00:00", "Z"),
        "request_id": record.request_id,
        "remote": record.remote,
        "entrypoint": record.entrypoint,
        "api": record.api,
        "method": _shorten(record.method),
        "path": _shorten(record.path),
        "status": record.status,
        "seconds": round(record.seconds, DIGITS),
        "bytes_in": record.bytes_in,
        "bytes_out": record.bytes_out,
    }
    if record.client:
        fields["client"] = record.client
    if record.signature:
        fields |= {
            "model": record.model,
            "version": record.version,
            "signature": record.signature,
            "rows": record.rows,
            "source_tokens": record.timing.tokens,
            "queue_seconds": round(record.timing.queue_seconds, DIGITS),
            "compute_seconds": round(record.timing.compute_seconds, DIGITS),
            "batch_rows": record.timing.batch_rows,
        }
    if record.error:
        fields["error"] = _shorten(record.error)
    return fields


def _shorten(text: str | None) -> str | None:
    """Cuts a long text of a client. JSON escapes its control characters."""
    if text is None or len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}..."
