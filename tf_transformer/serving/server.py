"""A server with TensorFlow Serving's REST interface, for hosts without TensorFlow Serving.

    GET  /v1/models/NAME[/versions/N]             status; also /labels/LABEL
    GET  /v1/models/NAME[/versions/N]/metadata    signatures
    POST /v1/models/NAME[/versions/N]:predict     predictions
    GET  /healthz/live                            200 while the process answers
    GET  /healthz/ready                           200 when requests can be computed; also /healthz
    GET  /metrics                                 Prometheus; also /monitoring/prometheus/metrics
    GET  /                                        a page to try the model
    GET  /docs                                    this interface; also /openapi.json

`grpc_server` has the gRPC interface to the same models.

The server listens at once. Requests get status 503 until the model is loaded. When a newer version
appears in the folder of a model, the server loads it and then replaces the current one. The
replaced version still answers the requests that it has received.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Collection
from types import FrameType
from typing import TYPE_CHECKING, Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tf_transformer.errors import SERVING_API, UserError, explain_missing_package
from tf_transformer.serving.access import Access, allow_origins
from tf_transformer.serving.access_log import AccessLog, LoggedApp
from tf_transformer.serving.connections import (
    HttpProtocol,
    allow_connections,
    explain_unavailable_address,
    patient_tls,
)
from tf_transformer.serving.interface_page import interface_routes
from tf_transformer.serving.model_source import ModelSource
from tf_transformer.serving.page import page_routes
from tf_transformer.serving.request_record import RequestRecord
from tf_transformer.serving.rest_api import RestApi, json_response
from tf_transformer.serving.rest_format import error_body
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.served_model import ServedModel
from tf_transformer.serving.served_models import ServedModels
from tf_transformer.serving.server_metrics import CONTENT_TYPE, ServerMetrics

if TYPE_CHECKING:
    from tf_transformer.serving.grpc_server import GrpcServer

logger = logging.getLogger(__name__)


class Server:
    """A server of models.

    Args:
      sources: a `ModelSource` for each model; their names differ.
      settings: a `ServeConfig`.
      access: made of the settings; None to make it here.
    Raises: UserError when a file of the settings cannot be used.
    """

    def __init__(
        self,
        sources: Collection[ModelSource],
        settings: ServeConfig,
        access: Access | None = None,
    ) -> None:
        access = access or Access(settings)
        self._settings = settings
        self._access_log = AccessLog(settings.access_log) if settings.access_log else None
        self._scheme = "https" if settings.tls_certificate else "http"
        self._address = f"{self._scheme}://{settings.host}:{settings.port}"
        self._folders = ", ".join(source.folder for source in sources)
        self._metrics = ServerMetrics(
            lambda: self._models.queue_lengths, lambda: self._models.versions
        )
        self._models = ServedModels(sources, settings, self._announce, self._metrics)
        self._watcher: asyncio.Task | None = None
        self._stopping: asyncio.Task | None = None  # of `stop`
        self._failure: UserError | None = None  # at the start
        self._process: _Uvicorn | None = None
        self._rest = RestApi(self._models, settings, self._metrics, access)
        self._grpc = self._make_grpc_server(access) if settings.grpc_port else None
        self.app = Starlette(
            routes=[
                *page_routes(self._models.names, self._models.newest_folder),
                *interface_routes(lambda: self._models.newest, settings, self._models.labels),
                Route("/healthz/live", _get_live),
                Route("/healthz/ready", self._get_ready),
                Route("/healthz", self._get_ready),
                Route("/metrics", self._get_metrics),
                Route("/monitoring/prometheus/metrics", self._get_metrics),
            ],
            lifespan=self._lifespan,
            exception_handlers={405: _answer_405},
            middleware=[Middleware(LoggedApp, self._access_log)] if self._access_log else [],
        )
        self.app.router.redirect_slashes = False  # to the host that the client names
        # A route "/{path:path}" would not match a line break in a path.
        self.app.router.default = allow_origins(_RestEndpoint(self._rest), access.origins)

    def _make_grpc_server(self, access: Access) -> "GrpcServer":
        with explain_missing_package(SERVING_API):
            from tf_transformer.serving.grpc_server import GrpcServer  # imports TensorFlow

        return GrpcServer(self._models, self._settings, self._metrics, access, self._observe)

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
        ports = 2 if self._grpc else 1
        allow_connections(ports * self._settings.max_connections)
        with explain_unavailable_address(self._settings):
            bound.listen(2048)
        host, port = bound.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host
        self._address = f"{self._scheme}://{host}:{port}"
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
            "observe_refused": self._observe,
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
            # Otherwise uvicorn trusts X-Forwarded-For of each process of this host.
            proxy_headers="FORWARDED_ALLOW_IPS" in os.environ,
            ws="none",
            loop="asyncio",
            http=type("Protocol", (HttpProtocol,), protocol),
            ssl_certfile=settings.tls_certificate or None,
            ssl_keyfile=settings.tls_key or None,
        )

    async def stop(self) -> None:
        """Answers the pending requests. After the grace period, the others get status 503.

        All calls wait for the same end.
        """
        if not self._stopping:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        if self._watcher:
            self._watcher.cancel()
        seconds = self._settings.grace_seconds
        stops = [self._rest.stop(seconds)]
        if self._grpc:
            stops.append(self._grpc.stop(seconds))
        await asyncio.gather(*stops)
        await self._models.close()
        if self._grpc:
            await self._grpc.close()

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Loads the first versions, and newer ones, until the server stops."""
        try:
            if self._grpc:
                await self._grpc.start()
        except UserError as error:
            self._fail(error)
        self._watcher = asyncio.create_task(self._watch_models())
        yield
        await self.stop()
        self._models.end_threads()
        if self._access_log:
            self._access_log.close()
        logger.info("stopped serving %s", ", ".join(self._models.names))

    async def _watch_models(self) -> None:
        await self._models.watch()
        self._fail(
            UserError(
                f"no version of a model in {self._folders} can be loaded: export a model with "
                "`tf-transformer export`, or give another --export_dir or base_path"
            )
        )

    def _announce(self, model: ServedModel, version: int) -> None:
        """Is called when a version is served."""
        name = model.source.name
        logger.info("serving version %d of %s at %s", version, name, self._address)

    def _fail(self, failure: UserError) -> None:
        """Ends the process because of a problem at its start."""
        self._failure = failure
        if self._process:
            self._process.should_exit = True

    def _observe(self, record: RequestRecord) -> None:
        """Is called with a request that the application does not see: a refused one, or of gRPC."""
        self._metrics.observe_request(record)
        if self._access_log:
            self._access_log.write(record)

    async def _get_ready(self, request: Request) -> Response:
        problem = None
        if self._stopping:
            problem = "the server is shutting down"
        elif self._failure:
            problem = str(self._failure)
        elif not self._models.are_checked:
            problem = "the model is being loaded"
        elif not self._models.versions:
            problem = "no version of a model can be loaded"
        elif self._models.is_overdue:
            problem = "a batch does not end"
        if problem:
            return json_response(orjson.dumps({"status": problem}), 503)
        return json_response(orjson.dumps({"status": "ok", **self._served_versions()}))

    def _served_versions(self) -> dict[str, Any]:
        """The newest version of each model; of one model, its version alone."""
        versions = self._models.versions
        if len(self._models.names) > 1:
            return {"versions": versions}
        return {"version": versions[self._models.names[0]]}

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
        self._is_signalled = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends the server in order; a second signal ends the process at once."""
        if self._is_signalled:
            with contextlib.suppress(OSError):  # standard error is closed
                os.write(2, b"tf-transformer: ended by a second signal\n")
            os._exit(128 + sig)
        self._is_signalled = True
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens."""
        with patient_tls():
            await super().startup(sockets)

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


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    pass
