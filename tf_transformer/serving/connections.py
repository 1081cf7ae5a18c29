"""The address of the server, and HTTP connections that are closed when they are idle."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from tf_transformer.config import ServeConfig
from tf_transformer.errors import UserError


def bind_address(settings: ServeConfig) -> socket.socket:
    """Returns a socket with the address of a server, which does not listen yet.

    Args:
      settings: a `ServeConfig` with the host and the port.
    Raises: UserError when the address is not available.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Without TCP_NODELAY, each response waits 40 ms until its header is acknowledged.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if family == socket.AF_INET6:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    with explain_unavailable_address(settings):
        bound.bind((settings.host, settings.port))
    return bound


@contextlib.contextmanager
def explain_unavailable_address(settings: ServeConfig) -> Iterator[None]:
    """Turns an error of a socket into a `UserError`."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot listen at {settings.host}, port {settings.port} ({error.strerror or error}): "
            "give another --host or --port"
        ) from None


class IdleTimeoutProtocol(H11Protocol):
    """HTTP/1.1 that closes idle connections, which uvicorn keeps open without a limit.

    A connection is closed when no request begins within `idle_seconds` after it opens, or after a
    response.
    """

    idle_seconds = 60.0

    def connection_made(self, transport: Any) -> None:
        """Is called by asyncio when a client has connected."""
        super().connection_made(transport)
        self.loop.call_later(self.idle_seconds, self._close_if_idle, None)

    def on_response_complete(self) -> None:
        """Is called by uvicorn after each response."""
        super().on_response_complete()
        self.loop.call_later(self.idle_seconds, self._close_if_idle, self.cycle)

    def _close_if_idle(self, last_cycle: object) -> None:
        if self.cycle is last_cycle and not self.transport.is_closing():
            self.transport.close()
