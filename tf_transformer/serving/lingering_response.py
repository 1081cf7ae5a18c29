"""A response to a client that may still be sending its request."""

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

LINGER_SECONDS = 2.0
LINGER_BYTES = 64 * 2**20


class LingeringResponse(Response):
    """A response after which the rest of the request is read and dropped for a short time.

    When a server closes a connection while data arrives, the client's system discards the response
    and reports a connection reset (RFC 9112, Section 9.6).
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response (ASGI)."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        # The body is complete, but the connection stays open until the server knows it.
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        dropped = 0
        with anyio.move_on_after(LINGER_SECONDS):
            while dropped < LINGER_BYTES:
                message = await receive()
                dropped += len(message.get("body", b""))
                if not message.get("more_body"):  # the request is complete, or the client is gone
                    break
        await send({"type": "http.response.body"})
