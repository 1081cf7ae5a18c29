"""The access log: a JSON object on a line for each request."""

import contextlib
import json
import logging
import os
import queue
import threading
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tf_transformer.errors import UserError
from tf_transformer.serving.request_record import RequestRecord, request_record

logger = logging.getLogger(__name__)

STDOUT = "-"
MAX_WAITING_LINES = 10_000
MAX_CHARACTERS = 300  # of a path or a message
WARNING_SECONDS = 60.0  # between two warnings that lines are lost
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
            self._output = _Output(path)
        except OSError as error:
            raise UserError(
                f"cannot write the access log {path} ({error.strerror or error}): give another "
                "--access_log"
            ) from None
        self._lines: queue.Queue[str | None] = queue.Queue(MAX_WAITING_LINES)
        self._next_warning = 0.0  # not before this time, by `time.monotonic`
        self._thread = threading.Thread(target=self._write_lines, name="access log", daemon=True)
        self._thread.start()

    def write(self, record: RequestRecord) -> None:
        """Appends the line of a request, which is answered."""
        line = json.dumps(_fields(record))  # ASCII: no other line breaks, valid in every locale
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            now = time.monotonic()
            if now >= self._next_warning:
                self._next_warning = now + WARNING_SECONDS
                logger.warning("the access log loses lines: what it writes to is too slow")

    def _write_lines(self) -> None:
        failed = False
        for line in iter(self._lines.get, None):
            try:
                self._output.write(line)
                failed = False
            except OSError as error:
                if not failed:  # a warning at the first of several lines
                    logger.warning("cannot write the access log: %s", error)
                failed = True
            self._lines.task_done()

    def close(self) -> None:
        """Writes the lines that wait, for two seconds at most, and closes the file."""
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=1)
        self._thread.join(1)
        if not self._thread.is_alive():
            self._output.close()


class _Output:
    """The file of the log, or standard output, without a buffer and without a lock.

    While nobody reads a pipe, the thread of the log waits in `write`. So that the process can end,
    nothing else may wait for this thread. The end of Python waits for the locks of `sys.stdout`, of
    files with a buffer, and of the handlers of `logging`.

    Args:
      path: of the file, which is created again after it was renamed or removed; "-" for standard
        output.
    Raises: OSError.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = self._open()
        self._before = b""  # the next line

    def _open(self) -> int:
        if self._path == STDOUT:
            return os.dup(1)
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def write(self, line: str) -> None:
        """Appends a line. Raises: OSError."""
        if self._is_moved():
            descriptor = self._open()
            self.close()
            self._descriptor, self._before = descriptor, b""
        content = self._before + line.encode("ascii") + b"\n"
        while content:
            content = content[os.write(self._descriptor, content) :]
            self._before = b"\n" if content else b""  # the disk may be full in the middle of a line

    def _is_moved(self) -> bool:
        if self._path == STDOUT:
            return False
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))
        except FileNotFoundError:
            return True

    def close(self) -> None:
        os.close(self._descriptor)


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


def _fields(record: RequestRecord) -> dict[str, Any]:
    """The fields of a line: those of all requests, then those of predictions and of errors."""
    arrived = record.wall_time.isoformat(timespec="milliseconds")
    fields = {
        "time": arrived.replace("+00:00", "Z"),
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
