"""A server with TensorFlow Serving's REST interface, for hosts without TensorFlow Serving.

    GET  /v1/models/NAME[/versions/N]             status
    GET  /v1/models/NAME[/versions/N]/metadata    signatures
    POST /v1/models/NAME[/versions/N]:predict     predictions
    GET  /healthz/live                            200 while the process answers
    GET  /healthz/ready                           200 when requests can be computed; also /healthz
    GET  /metrics                                 Prometheus; also /monitoring/prometheus/metrics
    GET  /                                        a page to try the model

The server listens at once. Requests get status 503 until the model is loaded. When a newer version
appears in the folder, the server loads it and then replaces the current one. The replaced version
still answers the requests that it has received.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator
from types import FrameType

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tf_transformer.errors import UserError
from tf_transformer.serving.connections import (
    HttpProtocol,
    allow_connections,
    explain_unavailable_address,
)
from tf_transformer.serving.loaded_model import LoadedModel
from tf_transformer.serving.model_name import check_model_name
from tf_transformer.serving.page import page_routes
from tf_transformer.serving.rest_api import RestApi, json_response
from tf_transformer.serving.rest_format import error_body
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.served_version import ServedVersion
from tf_transformer.serving.server_metrics import CONTENT_TYPE, ServerMetrics
from tf_transformer.serving.versions import Reloader

logger = logging.getLogger(__name__)


class Server:
    """A server of the newest version of a model in a folder.

    Args:
      folder: of the versions, written by `export_saved_model`.
      name: of the model.
      settings: a `ServeConfig`.
    Raises: UserError when the folder does not exist, or the name cannot be part of a URL.
    """

    def __init__(self, folder: str, name: str, settings: ServeConfig) -> None:
        check_model_name(name)
        if not os.path.isdir(folder):
            raise _nothing_to_serve(f"{folder} is not a folder")
        self._folder = folder
        self._name = name
        self._settings = settings
        self._address = f"http://{settings.host}:{settings.port}"
        self._served: ServedVersion | None = None  # none until the first version is loaded
        self._open: set[ServedVersion] = set()  # that, and replaced ones that still compute
        self._watcher: asyncio.Task | None = None
        self._stopping = False
        self._failure: UserError | None = None  # of the first load
        self._process: _Uvicorn | None = None
        # Short rows, long rows, and the count of sub-words are computed at the same time.
        self._reloader = Reloader(folder, 2 * settings.concurrent_batches + 1)
        # Threads that compute the short rows, and the long rows.
        self._executors = (
            concurrent.futures.ThreadPoolExecutor(settings.concurrent_batches, "short"),
            concurrent.futures.ThreadPoolExecutor(settings.concurrent_batches, "long"),
        )
        self._loader = concurrent.futures.ThreadPoolExecutor(1, "load")
        self._metrics = ServerMetrics(self._queue_length, lambda: self._reloader.failed_loads)
        self._rest = RestApi(
            name, settings, lambda: self._served, lambda: self._reloader.failures, self._metrics
        )
        self.app = Starlette(
            routes=[
                *page_routes(name, lambda: self._served.model.path if self._served else ""),
                Route("/healthz/live", _get_live),
                Route("/healthz/ready", self._get_ready),
                Route("/healthz", self._get_ready),
                Route("/metrics", self._get_metrics),
                Route("/monitoring/prometheus/metrics", self._get_metrics),
            ],
            lifespan=self._lifespan,
            exception_handlers={405: _answer_405},
        )
        # A route "/{path:path}" would not match a line break in a path.
        self.app.router.default = _RestEndpoint(self._rest)

    def run(self, bound: socket.socket) -> None:
        """Serves until SIGINT or SIGTERM, then answers the pending requests and returns.

        Args:
          bound: of `bind_address`.
        Raises: UserError when another server listens at the address by now, or no version can be
          loaded.
        """
        # uvicorn replaces these handlers while it runs, and raises the signal again at its end.
        handlers = {
            number: signal.signal(number, _ignore_signal)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            self._run(bound)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _run(self, bound: socket.socket) -> None:
        allow_connections(self._settings.max_connections)
        with explain_unavailable_address(self._settings):
            bound.listen(2048)
        host, port = bound.getsockname()[:2]
        self._address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._process = _Uvicorn(self)
        self._process.run(sockets=[bound])
        if self._failure:
            raise self._failure

    def uvicorn_config(self) -> uvicorn.Config:
        """Returns the configuration with which uvicorn runs the server."""
        settings = self._settings
        protocol = {
            "idle_seconds": settings.timeout,
            "max_connections": settings.max_connections,
            "count_response": self._metrics.count_response,
        }
        return uvicorn.Config(
            self.app,
            settings.host,
            settings.port,
            log_config=None,  # the handlers of the command line stay
            log_level="error",
            access_log=False,
            timeout_keep_alive=30,
            # `stop` answers the pending requests before.
            timeout_graceful_shutdown=int(settings.grace_seconds) + 5,
            server_header=False,
            ws="none",
            http=type("Protocol", (HttpProtocol,), protocol),
        )

    async def stop(self) -> None:
        """Answers the pending requests. After the grace period, the others get status 503."""
        self._stopping = True
        if self._watcher:
            self._watcher.cancel()
        await self._rest.stop(self._settings.grace_seconds)
        await asyncio.gather(*(version.close(0) for version in self._open))

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Loads the first version, and newer ones, until the server stops."""
        self._watcher = asyncio.create_task(self._watch_versions())
        yield
        if not self._stopping:
            await self.stop()
        for executor in (*self._executors, self._loader):
            executor.shutdown(wait=False, cancel_futures=True)
        logger.info("stopped serving %s", self._name)

    async def _watch_versions(self) -> None:
        while True:
            try:
                await self._load_newer()
            except Exception:
                logger.exception("the search for newer versions failed")
            if not self._served:
                self._fail(f"no version of a model in {self._folder} can be loaded")
                return
            await asyncio.sleep(self._settings.reload_seconds)

    async def _load_newer(self) -> None:
        current = self._served.model if self._served else None
        load = self._reloader.load_newer
        model = await asyncio.get_running_loop().run_in_executor(self._loader, load, current)
        if model:
            await self._serve(model)

    async def _serve(self, model: LoadedModel) -> None:
        """Serves a version instead of the current one, which answers its requests and ends."""
        replaced = self._served
        self._served = ServedVersion(model, self._settings, self._executors)
        self._open.add(self._served)
        self._metrics.set_version(model.version)
        logger.info("serving version %d of %s at %s", model.version, self._name, self._address)
        if replaced:
            await replaced.close(self._settings.timeout)
            self._open.discard(replaced)

    def _fail(self, problem: str) -> None:
        """Ends the process because of its first model."""
        self._failure = _nothing_to_serve(problem)
        if self._process:
            self._process.should_exit = True

    def _queue_length(self) -> int:
        """Requests in the queues of the version that is served."""
        return self._served.queue_length if self._served else 0

    async def _get_ready(self, request: Request) -> Response:
        problem = None
        if self._stopping:
            problem = "the server is shutting down"
        elif self._failure:
            problem = str(self._failure)
        elif not self._served:
            problem = "the model is being loaded"
        elif self._served.is_overdue:
            problem = "a batch does not end"
        if problem or not self._served:
            return json_response(orjson.dumps({"status": problem}), 503)
        version = self._served.model.version
        return json_response(orjson.dumps({"status": "ok", "version": version}))

    async def _get_metrics(self, request: Request) -> Response:
        return Response(self._metrics.export(), media_type=CONTENT_TYPE)


class _RestEndpoint:
    """The REST interface, for all HTTP methods and all paths without a route."""

    def __init__(self, rest: RestApi) -> None:
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._rest.handle(Request(scope, receive))
        await response(scope, receive, send)


class _Uvicorn(uvicorn.Server):
    """The HTTP server; it answers the pending requests while it shuts down."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.uvicorn_config())
        self._stop = server.stop

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops accepting requests, and ends when the pending ones are answered."""
        stopping = asyncio.ensure_future(self._stop())
        await super().shutdown(sockets)
        await stopping


async def _answer_405(request: Request, error: Exception) -> Response:
    body = error_body(f"method {request.method} is not allowed")
    return json_response(body, 405, {"Allow": "GET"})


async def _get_live(request: Request) -> Response:
    return json_response(orjson.dumps({"status": "ok"}))


def _nothing_to_serve(problem: str) -> UserError:
    return UserError(
        f"{problem}: export a model with `tf-transformer export`, or give another --export_dir"
    )


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    pass
