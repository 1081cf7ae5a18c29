"""The requests of TensorFlow Serving's REST interface.

GET  /v1/models/NAME[/versions/N]             status
GET  /v1/models/NAME[/versions/N]/metadata    signatures
POST /v1/models/NAME[/versions/N]:predict     predictions

Each of these responses has the header X-Request-Id: that of the request, or a new one. The log has
it beside each error of the server.
"""

import asyncio
import logging
import re
import time
import uuid
import zlib
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import unquote

import anyio
import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tf_transformer.serving.dynamic_batching import (
    Inputs,
    Outputs,
    QueueFullError,
    ShutdownError,
)
from tf_transformer.serving.loaded_model import InvalidInputError
from tf_transformer.serving.rest_format import (
    RestError,
    error_body,
    format_response,
    parse_predict,
    shorten,
)
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.served_version import ServedVersion, TooLargeError
from tf_transformer.serving.server_metrics import ServerMetrics
from tf_transformer.serving.versions import MAX_VERSION

logger = logging.getLogger(__name__)

PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)"
    r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
    r"(?P<action>/metadata|:predict|:classify|:regress)?",
    re.IGNORECASE | re.ASCII,
)
REQUEST_ID = re.compile(r"[\w.:+/=-]{1,128}", re.ASCII)
RETRY_SECONDS = 1  # of the header Retry-After
CLIENT_CLOSED_REQUEST = 499  # the status that the metrics count when the client has disconnected


class _Target(NamedTuple):
    """What the path of a request names."""

    name: str
    version: int | None
    action: str  # ":predict", "/metadata", ..., or "" for a status request


class RestApi:
    """Answers requests to one model.

    Args:
      name: of the model.
      settings: a `ServeConfig`.
      served: returns the `ServedVersion`, or None while none is loaded.
      failures: returns the versions that could not be loaded, with the reason.
      metrics: a `ServerMetrics`.
    """

    def __init__(
        self,
        name: str,
        settings: ServeConfig,
        served: Callable[[], ServedVersion | None],
        failures: Callable[[], dict[int, str]],
        metrics: ServerMetrics,
    ) -> None:
        self._name = name
        self._settings = settings
        self._served = served
        self._failures = failures
        self._metrics = metrics
        self._active = 0  # requests that are handled now
        self._idle = asyncio.Event()
        self._idle.set()
        self._reading: set[anyio.CancelScope] = set()  # of requests that are not yet complete
        self._stopped = False

    async def stop(self, seconds: float) -> None:
        """Waits until all requests are answered, at most for some seconds.

        Requests that are incomplete then, and later ones, get status 503.
        """
        with anyio.move_on_after(seconds):
            await self._idle.wait()
        self._stopped = True
        for scope in self._reading:
            scope.cancel()

    async def handle(self, request: Request) -> Response:
        """Answers a request. An error becomes its response."""
        start = time.monotonic()
        request_id = request.headers.get("x-request-id", "")
        if not REQUEST_ID.fullmatch(request_id):
            request_id = uuid.uuid4().hex
        headers = {"X-Request-Id": request_id}
        method = "other"
        status = 200
        self._active += 1
        self._idle.clear()
        try:
            if self._active > self._settings.max_connections:
                raise RestError(503, f"{self._settings.max_connections} requests are active")
            _check_framing(request)
            target = _parse_path(request)
            method = target.action.strip(":/") or "status"
            body, rows = await self._respond(request, target, start)
            self._metrics.observe_success(method, rows, time.monotonic() - start)
        except RestError as error:
            status, body = error.status, error_body(error.message)
            headers |= error.headers
        except Exception:  # a bug
            logger.exception("request %s failed", request_id)
            status = 500
            body = error_body(f"internal error; the log of the server has it as {request_id}")
        finally:
            self._active -= 1
            if not self._active:
                self._idle.set()
        self._metrics.count_response(method, status)
        return json_response(body, status, headers)

    async def _respond(self, request: Request, target: _Target, start: float) -> tuple[bytes, int]:
        """Returns: the body of the response, and the rows in it. Raises: RestError."""
        if target.action == "":
            return self._status(target), 0
        if target.action in (":classify", ":regress"):
            self._find(target)
            kind = target.action[1:]
            raise RestError(
                400, f"Expected {kind} signature method_name to be tensorflow/serving/{kind}"
            )
        if target.action == "/metadata":
            return self._metadata(self._find(target)), 0
        return await self._predict(request, target, start)

    def _find(self, target: _Target) -> ServedVersion:
        """Returns the version that a request names. Raises: RestError if it is not served."""
        served = self._served()
        if self._stopped:
            raise RestError(503, "the server is shutting down")
        if target.name == self._name and served is None:
            raise RestError(503, "the model is being loaded")
        if served and target.name == self._name:
            if target.version in (None, served.model.version):
                return served
            model = f"Specific({self._name}, {target.version})"
        else:
            model = f"Latest({shorten(target.name)})"
        raise RestError(404, f"Servable not found for request: {model}")

    def _status(self, target: _Target) -> bytes:
        """The body of the response to a status request."""
        states = []
        served = self._served()
        if served:
            states.append(_state(served.model.version, "AVAILABLE", "OK", ""))
        states += [
            _state(version, "END", "FAILED_PRECONDITION", reason)
            for version, reason in self._failures().items()
        ]
        if target.name != self._name:
            raise RestError(404, f"Could not find any versions of model {shorten(target.name)}")
        if target.version is not None:
            states = [state for state in states if state["version"] == str(target.version)]
            if not states:
                raise RestError(
                    404, f"Could not find version {target.version} of model {self._name}"
                )
        return orjson.dumps({"model_version_status": states})

    def _metadata(self, served: ServedVersion) -> bytes:
        """The body of the response to a metadata request."""
        version = str(served.model.version)
        spec = {"name": self._name, "signature_name": "", "version": version}
        signatures = {"signature_def": {"signature_def": served.model.metadata}}
        return orjson.dumps({"model_spec": spec, "metadata": signatures})

    async def _predict(self, request: Request, target: _Target, start: float) -> tuple[bytes, int]:
        """Returns: the body of the response, and the rows in it. Raises: RestError."""
        body = await self._read_body(request)
        served = self._find(target)
        name, inputs, in_rows = parse_predict(body, served.model.signatures)
        rows = len(next(iter(inputs.values())))
        deadline = time.monotonic() + self._settings.timeout
        outputs = await self._until_disconnect(request, served, name, inputs, deadline)
        return await asyncio.to_thread(format_response, outputs, in_rows), rows

    async def _until_disconnect(
        self,
        request: Request,
        served: ServedVersion,
        name: str,
        inputs: Inputs,
        deadline: float,
    ) -> Outputs:
        """Computes a request, unless its client disconnects. Raises: RestError."""
        result = served.predict(name, inputs, deadline)
        disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            await asyncio.wait({result, disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise RestError(CLIENT_CLOSED_REQUEST, "the client has disconnected")
            return result.result()
        except TooLargeError as error:
            raise RestError(413, str(error)) from None
        except InvalidInputError as error:
            raise RestError(400, str(error)) from None
        except TimeoutError:
            raise RestError(504, f"no answer within {self._settings.timeout:g} s") from None
        except QueueFullError:
            raise RestError(
                503, f"{self._settings.max_queue} requests are waiting: try again later"
            ) from None
        except ShutdownError:
            raise RestError(503, "the server is shutting down") from None
        finally:
            result.cancel()
            disconnected.cancel()

    async def _read_body(self, request: Request) -> bytes:
        """Reads the body of a request. Raises: RestError when it is too large or too slow."""
        max_bytes = self._settings.max_request_bytes
        timeout = self._settings.timeout
        too_large = RestError(413, f"the request has more than {max_bytes:,} bytes")
        length = request.headers.get("content-length", "0")
        if length.isdigit() and int(length) > max_bytes:
            raise too_large
        body = bytearray()
        try:
            with anyio.fail_after(timeout) as scope:
                self._reading.add(scope)
                async for part in request.stream():
                    body.extend(part)
                    if len(body) > max_bytes:
                        raise too_large
        except TimeoutError:
            raise RestError(408, f"the request was not complete within {timeout:g} s") from None
        except ClientDisconnect:
            raise RestError(CLIENT_CLOSED_REQUEST, "the client has disconnected") from None
        finally:
            self._reading.discard(scope)
        if self._stopped:
            raise RestError(503, "the server is shutting down", {"Connection": "close"})
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding == "identity":
            return bytes(body)
        if encoding != "gzip":
            raise RestError(
                415, f"content encoding {shorten(encoding)} is not known: send gzip or identity"
            )
        return _decompress(bytes(body), max_bytes)


def _decompress(body: bytes, max_bytes: int) -> bytes:
    """Decompresses a gzip body. Raises: RestError when it is damaged or too large."""
    decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        content = decoder.decompress(body, max_bytes + 1)
    except zlib.error:
        raise RestError(400, "the body is not gzip") from None
    if len(content) > max_bytes:
        raise RestError(413, f"the request has more than {max_bytes:,} bytes")
    if not decoder.eof or decoder.unused_data:
        raise RestError(400, "the gzip body is incomplete, or followed by other bytes")
    return content


def _state(version: int, state: str, code: str, message: str) -> dict[str, object]:
    return {
        "version": str(version),
        "state": state,
        "status": {"error_code": code, "error_message": message},
    }


def _check_framing(request: Request) -> None:
    """Raises: RestError for a request whose length is given in two ways (RFC 9112, 6.1)."""
    if "transfer-encoding" in request.headers and "content-length" in request.headers:
        raise RestError(
            400,
            "the request has both Content-Length and Transfer-Encoding",
            {"Connection": "close"},
        )


def _parse_path(request: Request) -> _Target:
    """Parses the path and the method of a request.

    Raises: RestError for a malformed path, or an action that does not fit the HTTP method.
    """
    # The path of the scope is decoded: a quoted slash or colon in it looks like a real one.
    path = request.scope["raw_path"].partition(b"?")[0].decode("ascii", "replace")
    match = PATH.fullmatch(path)
    action = (match["action"] or "").lower() if match else ""
    allowed = "POST" if action.startswith(":") else "GET"
    if match and request.method not in ("GET", "HEAD", "POST"):
        raise RestError(405, f"method {shorten(request.method)} is not allowed", {"Allow": allowed})
    if match is None or request.method not in (allowed, "HEAD" if allowed == "GET" else ""):
        status = 400 if path.startswith("/v1/") else 404
        raise RestError(status, f"Malformed request: {request.method} {shorten(path)}")
    if match["label"]:
        label = shorten(unquote(match["label"]))
        raise RestError(400, f"Unrecognized servable version label: {label}")
    digits = (match["version"] or "").lstrip("0")
    if len(digits) > len(str(MAX_VERSION)) or int(digits or "0") > MAX_VERSION:
        raise RestError(400, f"Failed to convert version: {shorten(match['version'])} to numeric.")
    version = int(match["version"]) if match["version"] else None
    return _Target(unquote(match["name"]), version, action)


async def _wait_for_disconnect(request: Request) -> None:
    """Returns when the client closes the connection. The body must have been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def json_response(
    body: bytes, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """A response in JSON."""
    headers = {"X-Content-Type-Options": "nosniff", **(headers or {})}
    if status in (429, 503):
        headers["Retry-After"] = str(RETRY_SECONDS)
    if status in (408, 413):
        headers["Connection"] = "close"  # the client may still be sending the rest of its request
    return Response(body, status, media_type="application/json", headers=headers)
