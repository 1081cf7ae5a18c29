"""The address of the server, and its HTTP connections."""

import asyncio
import contextlib
import http
import logging
import resource
import socket
import sys
from asyncio import sslproto
from collections.abc import Callable, Iterator
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from tf_transformer.errors import UserError
from tf_transformer.serving.request_record import RequestRecord, remote_address
from tf_transformer.serving.rest_format import error_body
from tf_transformer.serving.serve_config import ServeConfig

logger = logging.getLogger(__name__)

# For which a client may read the end of a response over TLS, before the connection is closed.
TLS_SHUTDOWN_SECONDS = 300.0
RESERVED_CONNECTIONS = 100  # beyond `max_connections`, for health checks
OTHER_FILES = 256  # open files that are not connections


def bind_address(settings: ServeConfig) -> socket.socket:
    """Returns a socket with the HTTP address of a server, which does not listen yet.

    Args:
      settings: a `ServeConfig` with the host and the ports.
    Raises: UserError when the address, or that of gRPC, is not available.
    """
    if settings.grpc_port:
        if settings.grpc_port == settings.port:
            raise UserError(
                f"--port and --grpc_port are both {settings.port}: give another --grpc_port"
            )
        _bind(settings, "grpc_port").close()  # gRPC has to bind it itself
    return _bind(settings, "port")


def numeric_address(host: str) -> str:
    """Returns the IP address of a host: that one to which `bind_address` binds."""
    return str(socket.getaddrinfo(host, None, _family(host), socket.SOCK_STREAM)[0][4][0])


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _bind(settings: ServeConfig, flag: str) -> socket.socket:
    """Returns a socket with the port of a flag. Raises: UserError."""
    try:
        settings.host.encode()
    except UnicodeEncodeError:  # bytes of the command line that are not UTF-8
        raise UserError(
            f"host {settings.host!r} is not text in UTF-8: give another --host"
        ) from None
    family = _family(settings.host)
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Without TCP_NODELAY, each response waits 40 ms until its header is acknowledged.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if family == socket.AF_INET6:  # "::" accepts IPv4 too, as with gRPC
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        with explain_unavailable_address(settings, flag):
            bound.bind((settings.host, getattr(settings, flag)))
    except UserError:
        bound.close()
        raise
    return bound


@contextlib.contextmanager
def explain_unavailable_address(settings: ServeConfig, flag: str = "port") -> Iterator[None]:
    """Turns an error of a socket, or of gRPC, into a `UserError`; `flag` is that of its port."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot listen at {settings.host}, port {getattr(settings, flag)} "
            f"({error.strerror or error}): give another --host or --{flag}"
        ) from None


def allow_connections(number: int) -> None:
    """Raises this process's limit of open files, so that it can hold this many connections."""
    wanted = number + RESERVED_CONNECTIONS + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        logger.warning(
            "the limit of open files is %d: %d connections need %d (see ulimit -n, or give a "
            "smaller --max_connections)",
            allowed,
            number,
            wanted,
        )


@contextlib.contextmanager
def patient_tls() -> Iterator[None]:
    """Servers that are created within wait for `TLS_SHUTDOWN_SECONDS`, and not for 30 seconds.

    uvicorn has no setting for it, and Python before 3.11 neither.
    """
    loop = asyncio.get_running_loop()
    create_server = loop.create_server
    if sys.version_info < (3, 11):
        yield
        return

    async def create(*arguments: Any, **keywords: Any) -> asyncio.Server:
        if keywords.get("ssl"):
            keywords["ssl_shutdown_timeout"] = TLS_SHUTDOWN_SECONDS
        return await create_server(*arguments, **keywords)

    loop.create_server = create
    try:
        yield
    finally:
        del loop.create_server  # what the class defines remains


def unsent_bytes(transport: Any) -> int:
    """How much of what was written to a connection has not been given to the system."""
    if not isinstance(transport, sslproto._SSLProtocolTransport):
        return transport.get_write_buffer_size()
    # What TLS has encrypted is in the connection below, for which asyncio has no public name.
    tls: Any = transport._ssl_protocol
    if tls is None or tls._transport is None:  # closed
        return 0
    return transport.get_write_buffer_size() + tls._transport.get_write_buffer_size()


class HttpProtocol(H11Protocol):
    """HTTP/1.1 with bounds that uvicorn lacks, and errors in JSON.

    A connection is closed when no request begins within `idle_seconds` after it opens, or after a
    response, and when its client reads nothing of a response in that time; a client that reads
    slowly keeps it. Beyond `max_connections`, a new connection takes the place of the one that is
    without a request for the longest time, so that health checks can still connect; where all have
    requests, it is closed at once.
    """

    _idle_since = 0.0  # time of the event loop: when the connection opened, or the last response
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None  # while the client does not read
    idle_seconds = 60.0
    max_connections = 1000
    # Is called with the record of a request that the application does not see.
    observe_refused: Callable[[RequestRecord], None] = staticmethod(lambda record: None)

    def connection_made(self, transport: Any) -> None:
        """Is called by asyncio when a client has connected."""
        super().connection_made(transport)
        if len(self.connections) > self.max_connections + RESERVED_CONNECTIONS:
            others = cast("set[HttpProtocol]", self.connections) - {self}
            idle = [other for other in others if other.is_idle]
            if not idle:
                self._refuse(503, "too many connections")
                return
            min(idle, key=lambda other: other._idle_since).transport.abort()
        self._start_timer()

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress, and all responses are sent.

        The client of such a connection may not have ended TLS yet.
        """
        answered = self.cycle is None or self.cycle.response_complete
        return answered and unsent_bytes(self.transport) == 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Is called by asyncio when the connection is closed."""
        for timer in (self._timer, self._write_timer):
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Is called by asyncio when the client does not read its responses."""
        super().pause_writing()
        self._watch_unsent()

    def _watch_unsent(self) -> None:
        unsent = unsent_bytes(self.transport)
        self._write_timer = self.loop.call_later(self.idle_seconds, self._close_if_unread, unsent)

    def _close_if_unread(self, unsent: int) -> None:
        """Closes a connection whose client has read nothing since `unsent` bytes were unsent."""
        if unsent_bytes(self.transport) < unsent:
            self._watch_unsent()
        else:
            self.transport.abort()

    def resume_writing(self) -> None:
        """Is called by asyncio when the client reads again."""
        if self._write_timer:
            self._write_timer.cancel()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Is called by uvicorn after each response."""
        answered = self.cycle
        super().on_response_complete()
        if self.cycle is answered:  # otherwise the next request has been received already
            self._start_timer()

    def _start_timer(self) -> None:
        self._idle_since = self.loop.time()
        self._wait_for_request(self.cycle)

    def _wait_for_request(self, last_cycle: object) -> None:
        if self._timer:
            self._timer.cancel()
        unsent = unsent_bytes(self.transport)  # of the last response
        self._timer = self.loop.call_later(
            self.idle_seconds, self._close_if_idle, last_cycle, unsent
        )

    def send_400_response(self, msg: str) -> None:
        """Is called by uvicorn for bytes that are not HTTP."""
        self._refuse(400, "the request is not valid HTTP/1.1")

    def _refuse(self, status: int, message: str) -> None:
        """Answers without the application, and closes the connection."""
        body = error_body(message)
        head = (
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
        remote = remote_address(self.client[0] if self.client else "")
        record = RequestRecord(remote=remote, error=message, bytes_out=len(body))
        record.end(status)
        self.observe_refused(record)

    def _close_if_idle(self, last_cycle: object, unsent: int) -> None:
        if self.cycle is not last_cycle:
            return
        now_unsent = unsent_bytes(self.transport)
        if 0 < now_unsent < unsent:  # the client reads the end of the last response slowly
            self._wait_for_request(last_cycle)
        elif now_unsent or self.transport.is_closing():  # it does not read, or does not end TLS
            self.transport.abort()
        else:
            self.transport.close()
            self._wait_for_request(last_cycle)

    def shutdown(self) -> None:
        """Is called by uvicorn when the server ends."""
        if self.transport.is_closing() and self.is_idle:
            self.transport.abort()  # a second `close` of TLS would do nothing more
        else:
            super().shutdown()
