"""Clients of a translation server, and the translation of many lines with one.

`RestClient` uses the REST interface of TensorFlow Serving and of `tf-transformer serve`;
`grpc_client.GrpcClient` uses the gRPC interface of TensorFlow Serving. `translate_lines` sends
concurrent requests with one of them, waits while the server does not answer, and splits requests
that are too large.
"""

import concurrent.futures
import http
import itertools
import json
import logging
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import urllib3

from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.errors import UserError

logger = logging.getLogger(__name__)

Client = Callable[[list[str]], list[tuple[str, float]]]  # texts -> pairs (translation, score)

MAX_WAIT = 300.0  # seconds to wait for a server that does not answer
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds; the pauses between attempts double
QUIET_SECONDS = 1.0  # shorter interruptions are not logged
MAX_SHOWN_CHARACTERS = 500  # of a server's error message
EXAMPLE = "http://127.0.0.1:8501"
KEY_ADVICE = (
    "give a key of this server in --api_key_file, or in the environment variable "
    "TF_TRANSFORMER_API_KEY"
)


class UnavailableError(UserError):
    """The server is busy, or cannot be reached, or the connection broke: try again later.

    Args:
      message: what happened.
      retry_after: seconds that the server asks to wait.
    """

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotInTimeError(UnavailableError):
    """The server did not compute the response in time: a smaller request may be faster."""


class RateLimitedError(UnavailableError):
    """The server answers, but this client has sent too many requests."""


class RequestTooLargeError(UserError):
    """The server does not take requests of this size."""


class InvalidRequestError(UserError):
    """The server cannot compute the request because of its content."""


def other_model_error(address: str) -> UserError:
    """The error for a response without the outputs of our models."""
    return UserError(f"the model at {address} is not one that tf-transformer exported")


class RestClient:
    """Translates over REST, one request for each call.

    Args:
      address: such as "http://127.0.0.1:8501"; "http://" may be left out, and with `tls_ca`
        "https://".
      name: of the model.
      timeout: seconds to wait for a response.
      api_key: a key of the server, or None.
      tls_ca: path of a PEM file with the CA of the server; None for the CAs of the system.
    Raises: UserError when the address is not an HTTP URL, or the CA cannot be read.

    Attributes:
      address: with "http://" or "https://", and without a slash at the end.
    """

    def __init__(
        self,
        address: str,
        name: str,
        timeout: float = 60.0,
        api_key: str | None = None,
        tls_ca: str | None = None,
    ) -> None:
        self.address = _complete_url(address, bool(tls_ca))
        # After a redirect to another host, urllib3 leaves out the header Authorization.
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        if tls_ca:
            read_ca(tls_ca)  # a wrong file is reported before the first request
        # urllib3 follows redirects, and repeats nothing.
        redirects = urllib3.Retry(
            total=None, connect=0, read=0, status=0, other=0, redirect=5, raise_on_redirect=False
        )
        self._http = urllib3.PoolManager(
            maxsize=64,
            retries=redirects,
            timeout=urllib3.Timeout(connect=5.0, read=timeout),
            ca_certs=tls_ca,
        )
        self._url = f"{self.address}/v1/models/{name}:predict"
        self._timeout = timeout

    def __call__(self, texts: list[str]) -> list[tuple[str, float]]:
        """Translates a list of strings.

        Returns: a list of pairs (translation, score), one for each text.
        Raises: UnavailableError, NotInTimeError, RequestTooLargeError, InvalidRequestError; another
          UserError when the server is not one of a model that this package exported.
        """
        body = json.dumps({"inputs": {"text": texts}})
        try:
            response = self._http.request("POST", self._url, body=body, headers=self._headers)
        except urllib3.exceptions.HTTPError as error:
            raise self._connection_error(error) from error
        return self._read_response(response, len(texts))

    def _connection_error(self, error: urllib3.exceptions.HTTPError) -> UserError:
        """The error for a request without a response."""
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, urllib3.exceptions.ReadTimeoutError):
            return NotInTimeError(f"no answer from {self._url} within {self._timeout:g} s")
        message = f"no answer from {self._url}: {reason}"
        if "CERTIFICATE_VERIFY_FAILED" in message:
            message += " (a server with a CA of its own needs --tls_ca)"
        is_http = self._url.startswith("http://")
        if is_http and isinstance(reason, urllib3.exceptions.ProtocolError):
            message += " (a server with TLS needs https://)"
        broken = (
            urllib3.exceptions.NewConnectionError,
            urllib3.exceptions.ConnectTimeoutError,
            urllib3.exceptions.ProtocolError,
        )
        # The server has closed the connection during the handshake of TLS.
        closed = isinstance(reason, urllib3.exceptions.SSLError) and "EOF" in str(reason)
        return (UnavailableError if closed or isinstance(reason, broken) else UserError)(message)

    def _read_response(
        self, response: urllib3.BaseHTTPResponse, number: int
    ) -> list[tuple[str, float]]:
        """Returns the pairs in a response to a request of `number` texts. Raises: UserError."""
        content = _read_json(response.data)
        status = response.status
        reason = f"{self._url} returned status {status}: {_error_message(content, status)}"
        match status, content:
            case (408 | 504, _):
                raise NotInTimeError(reason, _retry_after(response))
            case (429, _):
                raise RateLimitedError(reason, _retry_after(response))
            case (502 | 503, _):
                raise UnavailableError(reason, _retry_after(response))
            case (413, _):
                raise RequestTooLargeError(reason)
            case (401 | 403, _):
                raise UserError(f"{reason}: {KEY_ADVICE}")
            case (_, {"outputs": {"translation": [*texts], "score": [*scores]}}) if (
                len(texts) == len(scores) == number
                and all(isinstance(text, str) for text in texts)
                and all(isinstance(score, (int, float)) for score in scores)
            ):
                return list(zip(texts, scores))
            case (400, {"error": str()}):
                raise InvalidRequestError(reason)
            case (_, {"error": str()}):
                raise UserError(reason)
            case (_, {"outputs": _}):
                raise other_model_error(self._url)
        raise UserError(
            f"{self._url} returned status {status}: this is not a TensorFlow Serving REST server; "
            "give another --server"
        )


def _complete_url(address: str, has_ca: bool) -> str:
    """Adds "http://", or with a CA "https://", to an address where it is missing.

    Raises: UserError for another scheme, and for "http://" with a CA: the connection would not be
      encrypted.
    """
    url = address if "://" in address else f"{'https' if has_ca else 'http'}://{address}"
    try:
        parsed = urllib3.util.parse_url(url)
        if parsed.scheme == "http" and has_ca:
            raise UserError(f"server {address}: --tls_ca needs an address with https://")
        if parsed.scheme in ("http", "https") and parsed.host:
            return url.rstrip("/")
    except urllib3.exceptions.LocationParseError:
        pass
    raise UserError(f"server {address!r} is not a URL: give one such as {EXAMPLE}")


def read_ca(path: str) -> bytes:
    """Returns the content of a PEM file of CAs. Raises: UserError."""
    try:
        ssl.create_default_context(cafile=path)
        with open(path, "rb") as file:
            return file.read()
    except ssl.SSLError:
        raise UserError(f"--tls_ca: {path} has no certificate in PEM format") from None
    except OSError as error:
        raise UserError(f"--tls_ca: cannot read {path}: {error.strerror or error}") from None


def _read_json(data: bytes) -> Any:
    """Returns the JSON in `data`, or None if it is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _error_message(content: Any, status: int) -> str:
    """The message of an error response in one line; without one, the meaning of its status."""
    match content:
        case {"error": str(error)}:
            return " ".join(error.split())[:MAX_SHOWN_CHARACTERS]
    return http.HTTPStatus(status).phrase if status in set(http.HTTPStatus) else "no message"


def _retry_after(response: urllib3.BaseHTTPResponse) -> float:
    """The seconds in the header Retry-After; 0 where it is missing or malformed."""
    try:
        return urllib3.Retry().get_retry_after(response) or 0.0
    except (urllib3.exceptions.InvalidHeader, ValueError, OverflowError):
        return 0.0


class _Patience:
    """Waits between the attempts of all requests while a server does not answer.

    Args:
      max_wait: seconds without any response after which an attempt that fails is the last one.
    """

    def __init__(self, max_wait: float) -> None:
        self._max_wait = max_wait
        self._lock = threading.Lock()
        self._failing_since: float | None = None
        self._told = False
        self._told_limit = False
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Ends all waiting: the requests that wait fail."""
        self._stopped.set()

    def note_answer(self) -> None:
        """The server has answered a request."""
        with self._lock:
            if self._told and self._failing_since is not None:
                seconds = time.monotonic() - self._failing_since
                logger.info("the server answers again, after %.0f s", seconds)
            self._failing_since = None
            self._told = False

    def wait(self, error: UnavailableError, attempt: int) -> None:
        """Waits before the next attempt of a request.

        Args:
          error: of the last attempt.
          attempt: its number, from 0.
        Raises: `error` when the server has not answered for `max_wait` seconds; its message then
          says so.
        """
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(attempt, 16)) * random.uniform(0.5, 1)
        pause = max(pause, error.retry_after)
        with self._lock:
            now = time.monotonic()
            if self._failing_since is None:
                self._failing_since = now
            remaining = self._failing_since + self._max_wait - now
            told_before = self._told
            if isinstance(error, RateLimitedError):
                if not self._told_limit:
                    logger.info("%s; requests are sent as its rate limit allows", error)
                self._told_limit = True
            elif remaining > 0 and now + pause - self._failing_since > QUIET_SECONDS:
                self._told = True
                if not told_before:
                    logger.warning("%s; trying again for up to %g s", error, self._max_wait)
        if remaining <= 0 or self._stopped.wait(min(pause, remaining)):
            if not self._max_wait:
                raise error
            raise UserError(f"{error} (tried again for {self._max_wait:g} s)") from error


class _Sender:
    """Sends requests, again where necessary, and in parts where they are too large.

    Args:
      client: as for `translate_lines`.
      patience: a `_Patience`.
    """

    def __init__(self, client: Client, patience: _Patience) -> None:
        self._client = client
        self._patience = patience

    def send(self, texts: list[str], first_line: int) -> list[tuple[str, float]]:
        """Returns the pairs (translation, score) of texts.

        Args:
          texts: a list of strings.
          first_line: the number of the first one, for messages.
        Raises: UserError.
        """
        lines = f"line {first_line}"
        if len(texts) > 1:
            lines = f"lines {first_line} to {first_line + len(texts) - 1}"
        for attempt in itertools.count():
            try:
                results = self._client(texts)
                self._patience.note_answer()
                return results
            except RequestTooLargeError:
                self._patience.note_answer()
                if len(texts) == 1:
                    return [("", NEGATIVE_INFINITY)]
                return self._send_halves(texts, first_line)
            except NotInTimeError as error:
                if len(texts) > 1:
                    return self._send_halves(texts, first_line)
                message = (
                    f"{lines}: {error}: split the line, or give the server and the client a longer "
                    "--timeout"
                )
                self._patience.wait(NotInTimeError(message, error.retry_after), attempt)
            except UnavailableError as error:
                self._patience.wait(error, attempt)
            except InvalidRequestError as error:
                raise UserError(f"{error} (in the request of {lines})") from error
        raise AssertionError("unreachable")

    def _send_halves(self, texts: list[str], first_line: int) -> list[tuple[str, float]]:
        half = len(texts) // 2
        results = self.send(texts[:half], first_line)
        return results + self.send(texts[half:], first_line + half)


def translate_lines(
    client: Client,
    lines: Iterable[str],
    batch_size: int = 32,
    concurrency: int = 4,
    max_wait: float = MAX_WAIT,
    first_line: int = 1,
) -> Iterator[tuple[str, float]]:
    """Translates lines with several concurrent requests.

    While the server is busy or cannot be reached, requests are sent again after pauses that grow
    exponentially, with jitter. A request that is too large, or that the server does not compute in
    time, is sent in halves.

    Args:
      client: a `RestClient` or a `GrpcClient`.
      lines: an iterable of strings, read lazily.
      batch_size: lines in a request.
      concurrency: requests in flight at the same time.
      max_wait: seconds to wait for a server that answers no request.
      first_line: the number of the first line, for messages.
    Yields: (translation, score) in the order of the lines. A line that is too long for the model,
      or for a request, has an empty translation and the score -1e9.
    Raises: UserError when the server does not answer within `max_wait` seconds, or refuses a
      request; the message has the numbers of its lines.
    """
    lines = iter(lines)
    pending: list[concurrent.futures.Future[list[tuple[str, float]]]] = []
    executor = concurrent.futures.ThreadPoolExecutor(concurrency)
    patience = _Patience(max_wait)
    sender = _Sender(client, patience)
    try:
        while batch := list(itertools.islice(lines, batch_size)):
            pending.append(executor.submit(sender.send, batch, first_line))
            first_line += len(batch)
            if len(pending) >= concurrency:
                yield from pending.pop(0).result()
        while pending:
            yield from pending.pop(0).result()
    finally:
        # After Ctrl-C or an error, the answers to the other requests are not needed.
        patience.stop()
        executor.shutdown(wait=False, cancel_futures=True)
