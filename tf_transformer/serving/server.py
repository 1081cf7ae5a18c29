"""A server with TensorFlow Serving's REST interface, for hosts without TensorFlow Serving.

    GET  /v1/models/NAME[/versions/N]             status
    GET  /v1/models/NAME[/versions/N]/metadata    signatures
    POST /v1/models/NAME[/versions/N]:predict     predictions
    GET  /healthz                                 200 when the server is ready
    GET  /metrics                                 Prometheus; also /monitoring/prometheus/metrics
    GET  /                                        a page to try the model

When a newer version appears in the folder, the server loads it and then replaces the current one.
The replaced version still answers the requests that it has received.
"""

import asyncio
import concurrent.futures
import contextlib
import importlib.resources
import logging
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator
from types import FrameType
from typing import Any

import anyio
import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tf_transformer.config import ServeConfig
from tf_transformer.errors import UserError
from tf_transformer.serving.connections import (
    IdleTimeoutProtocol,
    explain_unavailable_address,
)
from tf_transformer.serving.dynamic_batching import Batcher, FullError
from tf_transformer.serving.loaded_model import LoadedModel, Reloader
from tf_transformer.serving.model_name import check_model_name
from tf_transformer.serving.rest_format import (
    RestError,
    error_body,
    format_response,
    parse_predict,
)
from tf_transformer.serving.server_metrics import CONTENT_TYPE, ServerMetrics

logger = logging.getLogger(__name__)

PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+))?"
    r"(?P<action>/metadata|:predict|:classify|:regress)?",
    re.IGNORECASE,
)
METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH"]
CLIENT_CLOSED_REQUEST = 499  # the status that the metrics count when the client has disconnected
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:"
)
PAGE_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
}


class _ServedVersion:
    """A version that is served: its model, and a queue for each signature."""

    def __init__(
        self,
        model: LoadedModel,
        settings: ServeConfig,
        executor: concurrent.futures.Executor,
    ) -> None:
        self.model = model
        self.batchers = {}
        for name, signature in model.signatures.items():
            self.batchers[name] = Batcher(
                signature,
                executor,
                settings.max_batch_size if signature.may_be_batched else 0,
                settings.max_queue,
                settings.concurrent_batches,
            )

    def queue_length(self) -> int:
        return sum(batcher.queue_length for batcher in self.batchers.values())

    async def close(self) -> None:
        await asyncio.gather(*(batcher.close() for batcher in self.batchers.values()))


class Server:
    """A server of the newest version of a model in a folder.

    Args:
      folder: of the versions, written by `export_saved_model`.
      name: of the model.
      settings: a `ServeConfig`.
    Raises: UserError when no version in the folder can be loaded, or the name cannot be part of a
      URL.
    """

    def __init__(self, folder: str, name: str, settings: ServeConfig) -> None:
        check_model_name(name)
        self._name = name
        self._settings = settings
        page = importlib.resources.files("tf_transformer.serving").joinpath("page.html")
        self._html = page.read_text("utf-8").replace("MODEL_NAME", name)
        self._reloader = Reloader(folder)
        self._first_model = self._reloader.load_newer(None)
        if self._first_model is None:
            what = f"{folder} is not a folder"
            if os.path.isdir(folder):
                what = f"no version of a model in {folder} can be loaded"
            raise UserError(
                f"{what}: export a model with `tf-transformer export`, or give another --export_dir"
            )
        self._address = f"http://{settings.host}:{settings.port}"
        self._served: _ServedVersion | None = None  # none before the server runs
        self._executor = concurrent.futures.ThreadPoolExecutor(
            settings.concurrent_batches, "predict"
        )
        self._loader = concurrent.futures.ThreadPoolExecutor(1, "load")
        self._metrics = ServerMetrics(self._queue_length)
        self.app = Starlette(
            routes=[
                Route("/", self._get_page),
                Route("/healthz", self._get_health),
                Route("/metrics", self._get_metrics),
                Route("/monitoring/prometheus/metrics", self._get_metrics),
                Route("/{path:path}", self._handle_rest, methods=METHODS),
            ],
            lifespan=self._lifespan,
        )

    def run(self, bound: socket.socket) -> None:
        """Serves until SIGINT or SIGTERM, then completes the pending requests and returns.

        Args:
          bound: of `bind_address`.
        Raises: UserError when another server listens at the address by now.
        """
        # uvicorn replaces these handlers while it runs, and raises the signal again at its end.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _ignore_signal)
        with explain_unavailable_address(self._settings):
            bound.listen(2048)
        host, port = bound.getsockname()[:2]
        self._address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        uvicorn.Server(self.uvicorn_config()).run(sockets=[bound])

    def uvicorn_config(self) -> uvicorn.Config:
        """Returns the configuration with which uvicorn runs the server."""
        settings = self._settings
        return uvicorn.Config(
            self.app,
            settings.host,
            settings.port,
            log_level="warning",
            access_log=False,
            limit_concurrency=settings.max_connections + 1,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(settings.timeout) + 1,
            server_header=False,
            ws="none",
            http=type("Protocol", (IdleTimeoutProtocol,), {"idle_seconds": settings.timeout}),
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Serves the first version, and newer ones, until the server stops."""
        first, self._first_model = self._first_model, None  # a newer version frees its memory
        assert first, "the server runs once"
        self._serve(first)
        del first
        watcher = asyncio.create_task(self._watch_versions())
        yield
        watcher.cancel()
        await self._current.close()
        self._executor.shutdown()
        logger.info("stopped serving %s", self._name)

    def _queue_length(self) -> int:
        """Requests in the queues of the version that is served."""
        return self._served.queue_length() if self._served else 0

    @property
    def _current(self) -> _ServedVersion:
        """The version that is served while the server runs."""
        assert self._served, "the server does not run"
        return self._served

    def _serve(self, model: LoadedModel) -> _ServedVersion | None:
        """Serves a version. Returns: the `_ServedVersion` that it replaces, or None."""
        previous = self._served
        self._served = _ServedVersion(model, self._settings, self._executor)
        self._metrics.set_version(model.version)
        logger.info("serving version %d of %s at %s", model.version, self._name, self._address)
        return previous

    async def _watch_versions(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._settings.reload_seconds)
            model = await loop.run_in_executor(
                self._loader, self._reloader.load_newer, self._current.model
            )
            replaced = self._serve(model) if model else None
            if replaced:
                await replaced.close()

    async def _get_page(self, request: Request) -> Response:
        return Response(self._html, media_type="text/html", headers=PAGE_HEADERS)

    async def _get_health(self, request: Request) -> Response:
        version = self._current.model.version
        return _json_response(orjson.dumps({"status": "ok", "version": version}))

    async def _get_metrics(self, request: Request) -> Response:
        return Response(self._metrics.export(), media_type=CONTENT_TYPE)

    async def _handle_rest(self, request: Request) -> Response:
        """Handles a request of the REST interface. An error becomes its response."""
        start = time.perf_counter()
        method = "other"
        try:
            name, version, action = _parse_path(request)
            method = action.strip(":/") or "status"
            body, rows = await self._respond(request, name, version, action)
            status = 200
            self._metrics.observe_success(method, rows, time.perf_counter() - start)
        except RestError as error:
            status = error.status
            body = error_body(error.message)
        except Exception as error:  # raised by TensorFlow, or a bug
            logger.exception("a %s request failed", method)
            status = 500
            body = error_body(f"{type(error).__name__}: {error}")
        self._metrics.count_response(method, status)
        return _json_response(body, status)

    async def _respond(
        self, request: Request, name: str, version: str | None, action: str
    ) -> tuple[bytes, int]:
        """Returns: the body of the response, and the rows in it. Raises: RestError."""
        if action in (":classify", ":regress"):
            kind = action[1:]
            raise RestError(
                400, f"Expected {kind} signature method_name to be tensorflow/serving/{kind}"
            )
        if action == ":predict":
            return await self._predict(request, name, version)
        if action == "/metadata":
            return self._metadata(self._find_version(name, version).model), 0
        return self._status(name, version), 0

    def _find_version(self, name: str, version: str | None) -> _ServedVersion:
        """Returns the `_ServedVersion` of a request. Raises: RestError if it is not served."""
        if self._is_served(name, version):
            return self._current
        model = f"Specific({name}, {version})" if name == self._name else f"Latest({name})"
        raise RestError(404, f"Servable not found for request: {model}")

    def _is_served(self, name: str, version: str | None) -> bool:
        return name == self._name and version in (None, str(self._current.model.version))

    def _status(self, name: str, version: str | None) -> bytes:
        """The body of the response to a status request."""
        if not self._is_served(name, version):
            missing = f"version {version}" if name == self._name else "any versions"
            raise RestError(404, f"Could not find {missing} of model {name}")
        state = {
            "version": str(self._current.model.version),
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return orjson.dumps({"model_version_status": [state]})

    def _metadata(self, model: LoadedModel) -> bytes:
        """The body of the response to a metadata request."""
        spec = {"name": self._name, "signature_name": "", "version": str(model.version)}
        signatures = {"signature_def": {"signature_def": model.metadata}}
        return orjson.dumps({"model_spec": spec, "metadata": signatures})

    async def _predict(self, request: Request, name: str, version: str | None) -> tuple[bytes, int]:
        """Returns: the body of the response, and the rows in it. Raises: RestError."""
        settings = self._settings
        body = await self._read_body(request)
        # There is no await between here and `submit`, so the version cannot be closed meanwhile.
        served = self._find_version(name, version)
        signature_name, inputs, in_rows = parse_predict(body, served.model.signatures)
        rows = len(next(iter(inputs.values())))
        batched = served.model.signatures[signature_name].may_be_batched
        max_rows = settings.max_rows if batched else settings.max_rows_alone
        if rows > max_rows:
            raise RestError(
                400, f"{rows} rows in one request: {signature_name} takes at most {max_rows}"
            )
        try:
            result = served.batchers[signature_name].submit(inputs)
        except FullError:
            raise RestError(
                503, f"{settings.max_queue} requests are waiting: try again later"
            ) from None
        disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
        awaited: set[asyncio.Future[Any]] = {result, disconnected}
        try:
            await asyncio.wait(
                awaited,
                timeout=settings.timeout,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if result.done():
                return await asyncio.to_thread(format_response, result.result(), in_rows), rows
            if disconnected.done():
                raise RestError(CLIENT_CLOSED_REQUEST, "the client has disconnected")
            raise RestError(504, f"no answer within {settings.timeout:g} s")
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
            with anyio.fail_after(timeout):
                async for part in request.stream():
                    body.extend(part)
                    if len(body) > max_bytes:
                        raise too_large
        except TimeoutError:
            raise RestError(408, f"the request was not complete within {timeout:g} s") from None
        except ClientDisconnect:
            raise RestError(CLIENT_CLOSED_REQUEST, "the client has disconnected") from None
        return bytes(body)


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    pass


def _parse_path(request: Request) -> tuple[str, str | None, str]:
    """Parses the path of a REST request.

    Returns: name of the model; version, a string or None; action, such as ":predict", or "" for a
      status request.
    Raises: RestError for a malformed path, or an action that does not fit the HTTP method.
    """
    path = request.url.path
    match = PATH.fullmatch(path)
    action = (match["action"] or "").lower() if match else ""
    if match is None or (request.method == "POST") != action.startswith(":"):
        status = 400 if path.startswith("/v1/") else 404
        raise RestError(status, f"Malformed request: {request.method} {path}")
    return match["name"], match["version"], action


async def _wait_for_disconnect(request: Request) -> None:
    """Returns when the client closes the connection. The body must have been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json_response(body: bytes, status: int = 200) -> Response:
    headers = {"X-Content-Type-Options": "nosniff"}
    if status in (408, 413):
        headers["Connection"] = "close"  # the client may still be sending the rest of its request
    return Response(body, status, media_type="application/json", headers=headers)
