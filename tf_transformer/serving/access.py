"""Who may use the server, and how often: API keys, rate limits, and other origins (CORS)."""

import ipaddress
import math
import re
import urllib.parse
from collections.abc import Mapping

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from tf_transformer.errors import UserError
from tf_transformer.serving.api_keys import ApiKeys
from tf_transformer.serving.rate_limit import RateLimiter
from tf_transformer.serving.request_error import RequestError
from tf_transformer.serving.request_record import parse_address
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.tls import check_certificate

KEY_HEADER = "X-API-Key"
REQUEST_HEADERS = ("Content-Type", "Authorization", KEY_HEADER, "X-Request-Id")  # of other origins
RESPONSE_HEADERS = ("X-Request-Id", "Retry-After")  # that scripts of other origins may read
REQUESTS, TOKENS = "requests", "sub-words"  # what is limited
TOKEN_BURST_SECONDS = 10.0  # a client may send the sub-words of this time at once


class Access:
    """Decides whether a request is computed.

    Args:
      settings: a `ServeConfig`.
    Raises: UserError when the file of API keys, the certificate or an origin cannot be used.

    Attributes:
      origins: whose web pages may use the server.
    """

    def __init__(self, settings: ServeConfig) -> None:
        check_certificate(settings.tls_certificate, settings.tls_key)
        self.origins = parse_origins(settings.cors_origins)
        self._keys = ApiKeys(settings.api_key_file) if settings.api_key_file else None
        # What is limited -> the limiter.
        self._limiters: dict[str, RateLimiter] = {}
        if settings.rate_limit:
            self._limiters[REQUESTS] = RateLimiter(settings.rate_limit, settings.rate_burst)
        if settings.rate_limit_tokens:
            rate = settings.rate_limit_tokens
            self._limiters[TOKENS] = RateLimiter(rate, max(1.0, TOKEN_BURST_SECONDS * rate))

    def check(self, headers: Mapping[str, str], address: str) -> str:
        """Checks the key and the rate of a request.

        Args:
          headers: of the request, with names in lower case (gRPC: its metadata).
          address: IP address of the client; "" where it is not known.
        Returns: who sends the request: the name of its key, or, for a server without keys, the
          address of the client (of IPv6, its network of 64 bits).
        Raises: RequestError with status 401 without a valid key, and 429 above the rate limit.
        """
        client = self._name_of(headers) if self._keys else _network(address)
        self._wait(TOKENS, client)  # before the sub-words of the request are counted
        self._wait(REQUESTS, client)
        self._spend(REQUESTS, client, 1)
        return client

    def admit(self, client: str, tokens: int) -> None:
        """Counts what a request costs before it is computed.

        Args:
          client: of `check`.
          tokens: sub-words of all texts of the request.
        Raises: RequestError with status 429 above the rate limit.
        """
        self._wait(TOKENS, client)
        self._spend(TOKENS, client, tokens)

    def _wait(self, what: str, client: str) -> None:
        """Raises: RequestError with status 429 when a client must wait."""
        wait = math.ceil(self._limiters[what].wait(client)) if what in self._limiters else 0
        if wait:
            raise RequestError(
                429,
                f"too many {what} of {client}: try again in {wait} s",
                {"Retry-After": str(wait)},
            )

    def _spend(self, what: str, client: str, number: int) -> None:
        if what in self._limiters and number:
            self._limiters[what].spend(client, number)

    def _name_of(self, headers: Mapping[str, str]) -> str:
        """The name of the key of a request. Raises: RequestError."""
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            key = headers.get(KEY_HEADER.lower(), "")
        problem = "the API key is not valid"
        if not key.strip():
            problem = (
                f"an API key is needed: send 'Authorization: Bearer KEY' or '{KEY_HEADER}: KEY'"
            )
        name = self._keys.name_of(key.strip()) if self._keys else None
        if name is None:
            raise RequestError(401, problem, {"WWW-Authenticate": "Bearer"})
        return name


def allow_origins(app: ASGIApp, origins: list[str]) -> ASGIApp:
    """Adds the CORS headers to the responses of an application, and answers preflight requests.

    Args:
      app: the application.
      origins: such as "https://a.example", or "*".
    """
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["GET", "POST"],
        allow_headers=REQUEST_HEADERS,
        expose_headers=RESPONSE_HEADERS,
    )


def parse_origins(text: str) -> list[str]:
    """Splits origins at commas. Raises: UserError for an origin that no browser sends."""
    origins = [origin.strip() for origin in text.split(",") if origin.strip()]
    for origin in origins:
        if origin != "*" and origin != _as_browsers_write(origin):
            raise UserError(
                f"--cors_origins has {origin!r}: write it as browsers do, such as "
                "https://a.example or http://localhost:3000, or give *"
            )
    return origins


def _as_browsers_write(origin: str) -> str:
    """Scheme, host and port of a URL in lower case, without the default port; "" for others."""
    try:
        url = urllib.parse.urlsplit(origin)
        port = url.port
    except ValueError:
        return ""
    host = url.hostname or ""
    if url.scheme not in ("http", "https") or not re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:.]+", host):
        return ""
    host = f"[{host}]" if ":" in host else host
    is_default = port is None or port == {"http": 80, "https": 443}[url.scheme]
    return f"{url.scheme}://{host}" if is_default else f"{url.scheme}://{host}:{port}"


def _network(address: str) -> str:
    """The address of a client; of IPv6 its network of 64 bits, all of which one host can use."""
    try:
        parsed = parse_address(address)
    except ValueError:  # such as a Unix socket
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
