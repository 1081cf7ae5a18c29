"""The requests of TensorFlow Serving's REST interface.

GET  /v1/models/NAME[/versions/N]             status; also /labels/LABEL
GET  /v1/models/NAME[/versions/N]/metadata    signatures
POST /v1/models/NAME[/versions/N]:predict     predictions

Each of these responses has the header X-Request-Id: that of the request, or a new one. The log has
it beside each error of the server.
"""

import asyncio
import functools
import logging
import re
import time
import zlib
from typing import NamedTuple
from urllib.parse import unquote

import anyio
import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tf_transformer.export.versions import MAX_VERSION
from tf_transformer.serving.access import Access
from tf_transformer.serving.lingering_response import LingeringResponse
from tf_transformer.serving.model_interface import Inputs, Outputs
from tf_transformer.serving.request_error import RequestError, shorten
from tf_transformer.serving.request_record import (
    CLIENT_CLOSED_REQUEST,
    RequestRecord,
    request_record,
)
from tf_transformer.serving.rest_format import error_body, format_response, parse_predict
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.served_models import ServedModels
from tf_transformer.serving.served_version import ServedVersion, explain_errors
from tf_transformer.serving.server_metrics import ServerMetrics

logger = logging.getLogger(__name__)

PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)"
    r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
    r"(?P<action>/metadata|:predict|:classify|:regress)?",
    re.IGNORECASE | re.ASCII,
)
RETRY_SECONDS = 1  # of the header Retry-After
LARGE_BODY = 2**16  # bytes of a body that is parsed in a thread of its own


class IncompleteRequestError(RequestError):
    """A request that is refused before it was read. The connection cannot be used for others."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message, {"Connection": "close"})


class _Target(NamedTuple):
    """What the path of a request names."""

    name: str
    version: int | None
    label: str | None  # of a version
    action: str  # ":predict", "/metadata", ..., or "" for a status request


class RestApi:
    """Answers requests to the models.

    Args:
      models: the `ServedModels`.
      settings: a `ServeConfig`.
      metrics: a `ServerMetrics`.
      access: an `Access`.
    """

    def __init__(
        self,
        models: ServedModels,
        settings: ServeConfig,
        metrics: ServerMetrics,
        access: Access,
    ) -> None:
        self._models = models
        self._settings = settings
        self._metrics = metrics
        self._access = access
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
        record = request_record(request.scope)
        headers = {"X-Request-Id": record.request_id}
        response_type = Response
        status = 200
        self._active += 1
        self._idle.clear()
        try:
            if self._active > self._settings.max_connections:
                raise RequestError(503, f"{self._settings.max_connections} requests are active")
            _check_framing(request)
            target = _parse_path(request)
            record.api = target.action.strip(":/") or "status"
            if target.name in self._models.names:
                record.model = target.name
            record.client = self._access.check(request.headers, record.remote)
            body = await self._respond(request, target, record)
        except RequestError as error:
            status, body = error.status, error_body(error.message)
            record.error = error.log_message
            if isinstance(error, IncompleteRequestError):
                response_type = LingeringResponse
            headers |= error.headers
        except Exception:  # a bug
            logger.exception("request %s failed", record.request_id)
            status = 500
            record.error = f"internal error; the log of the server has it as {record.request_id}"
            body = error_body(record.error)
        finally:
            self._active -= 1
            if not self._active:
                self._idle.set()
        record.end(status)
        self._metrics.observe_request(record)
        return json_response(body, status, headers, response_type)

    async def _respond(self, request: Request, target: _Target, record: RequestRecord) -> bytes:
        """Returns: the body of the response. Raises: RequestError."""
        if target.action == "":
            return self._status(target)
        if target.action in (":classify", ":regress"):
            self._find(target)
            kind = target.action[1:]
            raise RequestError(
                400, f"Expected {kind} signature method_name to be tensorflow/serving/{kind}"
            )
        if target.action == "/metadata":
            return self._metadata(self._find(target), target.name)
        return await self._predict(request, target, record)

    def _find(self, target: _Target) -> ServedVersion:
        """Returns the version that a request names. Raises: RequestError if it is not served."""
        if self._stopped:
            raise RequestError(503, "the server is shutting down")
        return self._models.find(target.name, target.version, target.label)

    def _status(self, target: _Target) -> bytes:
        """The body of the response to a status request."""
        states = [
            {
                "version": str(state.version),
                "state": state.state,
                "status": {"error_code": state.error_code, "error_message": state.error_message},
            }
            for state in self._models.states(target.name, target.version, target.label)
        ]
        return orjson.dumps({"model_version_status": states})

    def _metadata(self, served: ServedVersion, name: str) -> bytes:
        """The body of the response to a metadata request."""
        version = str(served.model.version)
        spec = {"name": name, "signature_name": "", "version": version}
        signatures = {"signature_def": {"signature_def": served.model.metadata}}
        return orjson.dumps({"model_spec": spec, "metadata": signatures})

    async def _predict(self, request: Request, target: _Target, record: RequestRecord) -> bytes:
        """Returns: the body of the response. Raises: RequestError."""
        body = await self._read_body(request)
        served = self._find(target)
        record.version = served.model.version
        if len(body) > LARGE_BODY:  # half a second for 1 MiB: other requests go on meanwhile
            parsed = await asyncio.to_thread(parse_predict, body, served.model.signatures)
            if (current := self._find(target)) is not served:  # which was unloaded meanwhile
                served, record.version = current, current.model.version
                parsed = parse_predict(body, served.model.signatures)
        else:
            parsed = parse_predict(body, served.model.signatures)
        record.signature, inputs, in_rows = parsed
        record.rows = len(next(iter(inputs.values())))
        with self._metrics.in_flight(record):
            outputs = await self._until_disconnect(request, served, inputs, record)
            return await asyncio.to_thread(format_response, outputs, in_rows)

    async def _until_disconnect(
        self,
        request: Request,
        served: ServedVersion,
        inputs: Inputs,
        record: RequestRecord,
    ) -> Outputs:
        """Computes a request, unless its client disconnects. Raises: RequestError."""
        deadline = time.monotonic() + self._settings.timeout
        admit = functools.partial(self._access.admit, record.client)
        result = served.predict(record.signature, inputs, deadline, record.timing, admit)
        disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            await asyncio.wait({result, disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise RequestError(CLIENT_CLOSED_REQUEST, "the client has disconnected")
            with explain_errors(self._settings, self._settings.timeout):
                return result.result()
        finally:
            result.cancel()
            disconnected.cancel()

    async def _read_body(self, request: Request) -> bytes:
        """Reads the body of a request. Raises: RequestError when it is too large or too slow."""
        max_bytes = self._settings.max_request_bytes
        timeout = self._settings.timeout
        too_large = IncompleteRequestError(413, f"the request has more than {max_bytes:,} bytes")
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
            raise IncompleteRequestError(
                408, f"the request was not complete within {timeout:g} s"
            ) from None
        except ClientDisconnect:
            raise RequestError(CLIENT_CLOSED_REQUEST, "the client has disconnected") from None
        finally:
            self._reading.discard(scope)
        if self._stopped:
            raise RequestError(503, "the server is shutting down", {"Connection": "close"})
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding == "identity":
            return bytes(body)
        if encoding != "gzip":
            raise RequestError(
                415, f"content encoding {shorten(encoding)} is not known: send gzip or identity"
            )
        return _decompress(bytes(body), max_bytes)


def _decompress(body: bytes, max_bytes: int) -> bytes:
    """Decompresses a gzip body. Raises: RequestError when it is damaged or too large."""
    decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        content = decoder.decompress(body, max_bytes + 1)
    except zlib.error:
        raise RequestError(400, "the body is not gzip") from None
    if len(content) > max_bytes:
        raise RequestError(413, f"the request has more than {max_bytes:,} bytes")
    if not decoder.eof or decoder.unused_data:
        raise RequestError(400, "the gzip body is incomplete, or followed by other bytes")
    return content


def _check_framing(request: Request) -> None:
    """Raises: RequestError for a request whose length is given in two ways (RFC 9112, 6.1)."""
    if "transfer-encoding" in request.headers and "content-length" in request.headers:
        raise IncompleteRequestError(
            400, "the request has both Content-Length and Transfer-Encoding"
        )


def _parse_path(request: Request) -> _Target:
    """Parses the path and the method of a request.

    Raises: RequestError for a malformed path, or an action that does not fit the HTTP method.
    """
    # The path of the scope is decoded: a quoted slash or colon in it looks like a real one.
    path = request.scope["raw_path"].partition(b"?")[0].decode("ascii", "replace")
    match = PATH.fullmatch(path)
    action = (match["action"] or "").lower() if match else ""
    allowed = "POST" if action.startswith(":") else "GET"
    if match and request.method not in ("GET", "HEAD", "POST"):
        raise RequestError(
            405, f"method {shorten(request.method)} is not allowed", {"Allow": allowed}
        )
    if match is None or request.method not in (allowed, "HEAD" if allowed == "GET" else ""):
        status = 400 if path.startswith("/v1/") else 404
        raise RequestError(status, f"Malformed request: {request.method} {shorten(path)}")
    digits = (match["version"] or "").lstrip("0")
    if len(digits) > len(str(MAX_VERSION)) or int(digits or "0") > MAX_VERSION:
        raise RequestError(
            400, f"Failed to convert version: {shorten(match['version'])} to numeric."
        )
    label = unquote(match["label"]) if match["label"] else None
    version = int(digits or "0") if match["version"] else None
    return _Target(unquote(match["name"]), version, label, action)


async def _wait_for_disconnect(request: Request) -> None:
    """Returns when the client closes the connection. The body must have been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def json_response(
    body: bytes,
    status: int = 200,
    headers: dict[str, str] | None = None,
    response_type: type[Response] = Response,
) -> Response:
    """A response in JSON."""
    headers = {"X-Content-Type-Options": "nosniff", **(headers or {})}
    if status == 503:
        headers.setdefault("Retry-After", str(RETRY_SECONDS))
    return response_type(body, status, media_type="application/json", headers=headers)
