"""A server with TensorFlow Serving's REST interface, for hosts without TensorFlow Serving.

It serves one model or several, each by its name.

    GET  /v1/models/NAME[/versions/N]             status
    GET  /v1/models/NAME[/versions/N]/metadata    signatures
    POST /v1/models/NAME[/versions/N]:predict     predictions
    GET  /healthz/live                            200 while the process answers
    GET  /healthz/ready                           200 when all models are loaded; also /healthz
    GET  /metrics                                 Prometheus; also /monitoring/prometheus/metrics
    GET  /                                        a page to try the models

Requests get status 503 until their model is loaded. Each response has the X-Request-Id of its
request, or a new one. The log has a line with it for each request.
"""

import asyncio
import contextlib
import functools
import html
import logging
import math
import pathlib
import re
import socket
import string
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Callable, Container, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import anyio
import prometheus_client
import starlette.exceptions
import uvicorn
from fastapi import FastAPI, HTTPException, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tf_transformer.config import ServeConfig
from tf_transformer.errors import UserError
from tf_transformer.export.versions import MAX_VERSION
from tf_transformer.serving.model_interface import Inputs, LoadedSignature, LoadModel
from tf_transformer.serving.rest_format import format_response, parse_predict
from tf_transformer.serving.served_model import ServedModel
from tf_transformer.serving.server_metrics import CLIENT_CLOSED_REQUEST, ServerMetrics

logger = logging.getLogger(__name__)

DISCONNECT_SECONDS = 0.2  # between checks whether the client still waits
SHORT_BODY = 16_384  # bytes of a body that is parsed at once
REQUEST_ID = re.compile(rb"[\w.:+/=-]{1,128}", re.ASCII)
MODELS = "/v1/models/"  # before the name of a model in a path
PAGE = pathlib.Path(__file__).parent / "page_files"
# The attention viewer has them too.
DISPLAY = pathlib.Path(__file__).parents[1] / "visualization" / "attention_display"
PAGE_TYPES = {".css": "text/css", ".js": "text/javascript"}  # of the files that the pages load
PAGE_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
Version = Annotated[int, Path(ge=0, le=MAX_VERSION)]


class Server:
    """A server of the newest versions of models.

    Args:
      folders: name of a model, in URLs -> the folder of its versions.
      settings: a `ServeConfig`.
      load: loads a version.

    Attributes:
      app: the ASGI application.
    """

    def __init__(self, folders: Mapping[str, str], settings: ServeConfig, load: LoadModel) -> None:
        self._settings = settings
        self._metrics = metrics = ServerMetrics()
        self._models = [
            ServedModel(name, folder, load, settings, metrics) for name, folder in folders.items()
        ]
        self._parser = ThreadPoolExecutor(1, "parse")  # the others would wait for a long body
        self._watcher: asyncio.Future[Any] | None = None
        self._process: uvicorn.Server | None = None
        api = FastAPI(
            openapi_url=None,
            redirect_slashes=False,
            lifespan=self._lifespan,
        )
        for model in self._models:
            self._add_model(api, model)
        self._add_operation(api)
        add_pages(api, {model.name: model.description for model in self._models})
        for kind in (starlette.exceptions.HTTPException, RequestValidationError, Exception):
            api.add_exception_handler(kind, self._answer_error)
        self.app = RequestLog(api, folders, metrics)

    def run(self, bound: socket.socket) -> None:
        """Serves until SIGINT or SIGTERM, then answers the pending requests and returns.

        Args:
          bound: of `bind_address`.
        Raises: UserError when no version can be loaded.
        """
        bound.listen(2048)
        host, port = bound.getsockname()[:2]
        logger.info("listening at http://%s:%s", f"[{host}]" if ":" in host else host, port)
        config = uvicorn.Config(
            self.app,
            log_config=None,  # the handlers of the command line stay
            log_level="error",
            access_log=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=math.ceil(self._settings.grace_seconds),
            server_header=False,
            ws="none",
        )
        self._process = uvicorn.Server(config)
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again at its end
            self._process.run(sockets=[bound])
        with contextlib.suppress(asyncio.CancelledError):
            if self._watcher:
                self._watcher.result()  # raises why no version can be loaded

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Loads versions until the server stops."""
        self._watcher = asyncio.gather(*(model.watch() for model in self._models))
        self._watcher.add_done_callback(self._stop)
        yield
        self._watcher.cancel()
        self._parser.shutdown(wait=False, cancel_futures=True)
        for model in self._models:
            await model.close()

    def _stop(self, watcher: asyncio.Future[Any]) -> None:
        """Is called when a model has no version that can be loaded, and at the end."""
        if self._process:
            self._process.should_exit = True

    def _add_model(self, api: FastAPI, model: ServedModel) -> None:
        """Adds status, metadata and predictions, of the version that is served or a given one."""

        async def get_status(version: Version) -> dict[str, Any]:
            """Of the versions: AVAILABLE, LOADING, or END with the reason."""
            return {"model_version_status": model.states(version)}

        async def get_metadata(version: Version) -> dict[str, Any]:
            """The signatures with their inputs and outputs."""
            served = model.find(version)
            spec = {"name": model.name, "signature_name": "", "version": str(served.number)}
            metadata = {name: each.metadata for name, each in served.model.signatures.items()}
            return {"model_spec": spec, "metadata": {"signature_def": {"signature_def": metadata}}}

        async def predict(version: Version, request: Request) -> Response:
            """The outputs of a signature, in rows or in columns as the inputs."""
            body = await _read_body(request, self._settings)
            is_gzip = request.headers.get("content-encoding") == "gzip"
            served = model.find(version)
            parse = functools.partial(
                _parse, body, is_gzip, served.model.signatures, self._settings
            )
            if is_gzip or len(body) > SHORT_BODY:
                run = asyncio.get_running_loop().run_in_executor
                name, inputs, in_rows = await run(self._parser, parse)
            else:
                name, inputs, in_rows = parse()
            outputs = await _unless_disconnected(request, model.predict(served, name, inputs))
            content = await asyncio.to_thread(format_response, outputs, in_rows)
            return Response(content, media_type="application/json")

        path = MODELS + model.name
        routes: list[tuple[str, str, Callable[..., Any]]] = [
            ("GET", "", get_status), ("GET", "/metadata", get_metadata),
            ("POST", ":predict", predict),
        ]  # fmt: skip
        for method, end, function in routes:
            api.add_api_route(path + end, functools.partial(function, None), methods=[method])
            api.add_api_route(f"{path}/versions/{{version}}{end}", function, methods=[method])

    def _add_operation(self, api: FastAPI) -> None:
        """Adds health checks and metrics."""

        @api.get("/healthz/live")
        async def get_live() -> dict[str, str]:
            return {"status": "ok"}

        @api.get("/healthz")
        @api.get("/healthz/ready")
        async def get_ready() -> JSONResponse:
            served = [model.current for model in self._models]
            numbers = [each.number for each in served if each]
            if len(numbers) < len(served):
                return JSONResponse({"status": "the model is being loaded"}, 503)
            return JSONResponse({"status": "ok", "version": numbers if numbers[1:] else numbers[0]})

        @api.get("/monitoring/prometheus/metrics")
        @api.get("/metrics")
        async def get_metrics() -> Response:
            content = prometheus_client.generate_latest(self._metrics.registry)
            return Response(content, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    async def _answer_error(self, request: Request, error: Any) -> JSONResponse:
        """Gives errors the form of TensorFlow Serving."""
        match error:
            case starlette.exceptions.HTTPException(detail="Not Found"):  # no route
                paths = " or ".join(MODELS + model.name for model in self._models)
                return error_response(404, f"nothing is here: the model is at {paths}")
            case starlette.exceptions.HTTPException(status_code=status, detail=message):
                return error_response(status, message, error.headers)
            case RequestValidationError():
                return error_response(400, f"version: {error.errors()[0]['msg']}")
        return error_response(500, "internal error: the log has it beside X-Request-Id")


def add_pages(api: Starlette, models: Mapping[str, Callable[[], dict[str, Any]]]) -> None:
    """Adds the page on which a browser translates text.

    Args:
      api: an application.
      models: name -> a function that returns what the model says of itself, as a dict.
    """
    page = string.Template((PAGE / "index.html").read_text("utf-8")).substitute(
        names=html.escape(" ".join(models)),
        controls=(DISPLAY / "controls.html").read_text("utf-8"),
        attention=(DISPLAY / "attention.html").read_text("utf-8"),
    )
    files = {
        f"/{path.name}": (path.read_text("utf-8"), PAGE_TYPES[path.suffix])
        for path in (*PAGE.iterdir(), *DISPLAY.iterdir())
        if path.suffix in PAGE_TYPES
    }
    files["/"] = page, "text/html"

    async def get_file(request: Request) -> Response:
        content, kind = files[request.url.path]
        return Response(content, media_type=kind, headers=PAGE_HEADERS)

    async def get_descriptions(request: Request) -> Response:
        return JSONResponse({name: read() for name, read in models.items()}, headers=PAGE_HEADERS)

    for path in files:
        api.add_route(path, get_file)
    api.add_route("/models.json", get_descriptions)


def error_response(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Returns a response with the body `{"error": message}`."""
    retry = {"Retry-After": "1"} if status == 503 else {}
    return JSONResponse({"error": message}, status, {**retry, **(headers or {})})


async def _read_body(request: Request, settings: ServeConfig) -> bytes:
    """Reads the body of a request. Raises: HTTPException."""
    limit, timeout = settings.max_request_bytes, settings.timeout
    body, size = bytearray(), 0
    try:
        with anyio.fail_after(timeout):
            async for part in request.stream():
                size += len(part)
                if size <= limit:  # of a larger body, the rest is read for the client's sake
                    body.extend(part)
    except TimeoutError:
        message = f"the request was not complete within {timeout:g} s"
        raise HTTPException(408, message, {"Connection": "close"}) from None
    except ClientDisconnect:
        raise HTTPException(CLIENT_CLOSED_REQUEST, "the client has disconnected") from None
    if size > limit:
        raise HTTPException(413, f"the request has more than {limit:,} bytes")
    return bytes(body)


def _parse(
    body: bytes, is_gzip: bool, signatures: Mapping[str, LoadedSignature], settings: ServeConfig
) -> tuple[str, Inputs, bool]:
    """Unpacks the body of a request, and parses it as `parse_predict`. Raises: HTTPException."""
    if is_gzip:
        limit = settings.max_request_bytes
        unpacked = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            body = unpacked.decompress(body, limit + 1)
        except zlib.error as error:
            raise HTTPException(400, f"the request is not in gzip format: {error}") from None
        if len(body) > limit:
            raise HTTPException(413, f"the request has more than {limit:,} bytes")
        if not unpacked.eof:
            raise HTTPException(400, "the request is not in gzip format: it is incomplete")
    return parse_predict(body, signatures, settings)


async def _unless_disconnected(request: Request, prediction: Coroutine[Any, Any, Any]) -> Any:
    """Awaits a prediction, and withdraws it when the client closes the connection."""
    result = asyncio.ensure_future(prediction)
    try:
        while not (await asyncio.wait({result}, timeout=DISCONNECT_SECONDS))[0]:
            if await request.is_disconnected():
                raise HTTPException(CLIENT_CLOSED_REQUEST, "the client has disconnected")
        return result.result()
    finally:
        result.cancel()


class RequestLog:
    """Gives each request an id, logs it, and counts requests for predictions of these models."""

    def __init__(self, app: ASGIApp, names: Container[str], metrics: ServerMetrics) -> None:
        self._app = app
        self._names = names
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.monotonic()
        given = dict(scope["headers"]).get(b"x-request-id", b"")
        request_id = given.decode() if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except asyncio.CancelledError:  # at the end of the time to answer pending requests
            if not status:
                response = error_response(503, "the server is shutting down")
                await response(scope, receive, send_with_id)
        except Exception:  # a bug, which is answered
            logger.exception("request %s failed", request_id)
        seconds = time.monotonic() - start
        path = scope["raw_path"].decode("ascii", "replace")  # without decoded line breaks
        name = re.split("[:/]", path.removeprefix(MODELS))[0]
        if name in self._names and path.endswith(":predict"):
            self._metrics.observe_request(name, status, seconds)
        client, _ = scope["client"] or ("-", 0)
        message = "%s %s %s %d %.4f s %s"
        logger.info(message, client, scope["method"], path, status, seconds, request_id)


def bind_address(settings: ServeConfig) -> socket.socket:
    """Returns a socket with the address of a server, which does not listen yet.

    Raises: UserError when the address is not available.
    """
    host, port = settings.host, settings.port
    try:
        # The connections have this protocol too, and asyncio then sets TCP_NODELAY: without it,
        # each response waits 40 ms until its header is acknowledged.
        *kind, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(*kind)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"cannot listen at {host!r}, port {port} ({reason}): give another --host or --port"
        ) from None
    return bound
