"""A server for an exported model that speaks TensorFlow Serving's REST interface, for machines without TensorFlow Serving.

    GET  /v1/models/NAME[/versions/N]            status          GET /healthz    200 when it can answer
    GET  /v1/models/NAME[/versions/N]/metadata   signatures      GET /metrics    Prometheus, also as /monitoring/prometheus/metrics
    POST /v1/models/NAME[/versions/N]:predict    predictions     GET /           a page to try it

A newer version in the folder takes the place of the one in memory when it is loaded; what was asked before is answered by the older one.
"""

import asyncio
import concurrent.futures
import contextlib
import importlib.resources
import re
import signal
import socket
import time

import anyio
import orjson
import prometheus_client
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from tf_transformer.config import check_model_name
from tf_transformer.errors import UserError
from tf_transformer.serving.dynamic_batching import Batcher, FullError
from tf_transformer.serving.loaded_model import Reloader
from tf_transformer.serving.rest_format import RestError, answer, error_body, parse_predict

PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+))?(?P<rest>/metadata|:predict|:classify|:regress)?",
    re.I,
)
CLIENT_HAS_GONE = 499  # nobody reads this status but the metrics
INLINE = "'unsafe-inline'"
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; script-src {INLINE}; style-src {INLINE}; connect-src 'self'; img-src data:",
    "X-Content-Type-Options": "nosniff",
}


class _Protocol(H11Protocol):
    """Closes a connection on which no request, or no other after an answer, begins within the time for one: uvicorn waits for ever."""

    seconds = 60.0

    def connection_made(self, transport):
        super().connection_made(transport)
        self.loop.call_later(self.seconds, self._close_if_silent, None)

    def on_response_complete(self):
        super().on_response_complete()
        self.loop.call_later(self.seconds, self._close_if_silent, self.cycle)

    def _close_if_silent(self, last):
        if self.cycle is last and not self.transport.is_closing():
            self.transport.close()


class _Live:
    """A version that answers: its model, and a queue for each signature."""

    def __init__(self, model, settings, executor):
        self.model = model
        self.batchers = {
            name: Batcher(
                signature,
                executor,
                settings.max_batch_size if signature.may_be_batched else 0,
                settings.max_queue,
                settings.concurrent_batches,
            )
            for name, signature in model.signatures.items()
        }

    async def close(self):
        await asyncio.gather(*(batcher.close() for batcher in self.batchers.values()))


class Server:
    """The application.

    Args:
      folder: of the versions, as `export_saved_model` wrote them.
      name: of the model.
      settings: a `ServeConfig`.
      say: prints a line.
    Raises: UserError when the folder has no version that can be loaded, or the name would not do in an address.
    """

    def __init__(self, folder, name, settings, say=print):
        check_model_name(name)
        self._name, self._settings, self._say = name, settings, say
        self._html = (
            importlib.resources.files("tf_transformer")
            .joinpath("page.html")
            .read_text("utf-8")
            .replace("MODEL_NAME", name)
        )
        self._reloader = Reloader(folder, self._tell)
        self._first = self._reloader.look(None)
        if self._first is None:
            raise UserError(
                f"no version of a model that can be loaded in {folder}: export one first, or give another --export_dir"
            )
        self._address = f"http://{settings.host}:{settings.port}"
        self._live = None
        self._executor = concurrent.futures.ThreadPoolExecutor(
            settings.concurrent_batches, "predict"
        )
        self._loader = concurrent.futures.ThreadPoolExecutor(1, "load")
        self._make_metrics()
        self.app = Starlette(
            routes=[
                Route("/", self._page),
                Route("/healthz", self._health),
                Route("/metrics", self._metrics),
                Route("/monitoring/prometheus/metrics", self._metrics),
                Route(
                    "/{path:path}", self._rest, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]
                ),
            ],
            lifespan=self._lifespan,
        )

    def run(self):
        """Serves until SIGINT or SIGTERM, then answers what was asked before, and ends."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(
                number, lambda *_: None
            )  # uvicorn takes them over, and raises them again when all is done
        family = socket.AF_INET6 if ":" in self._settings.host else socket.AF_INET
        try:
            listening = socket.create_server(
                (self._settings.host, self._settings.port), family=family, backlog=2048
            )
        except OSError as error:
            where = f"{self._settings.host}, port {self._settings.port}"
            raise UserError(
                f"cannot listen at {where} ({error.strerror or error}): give another --host or --port"
            ) from None
        listening.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
        )  # else each answer waits 40 ms for its header to be acknowledged
        host, port = listening.getsockname()[:2]
        self._address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        uvicorn.Server(self.uvicorn_config()).run(sockets=[listening])

    def uvicorn_config(self):
        """How uvicorn runs the application."""
        settings = self._settings
        return uvicorn.Config(
            self.app, settings.host, settings.port, log_level="warning", access_log=False, limit_concurrency=settings.max_connections + 1,
            timeout_keep_alive=30, timeout_graceful_shutdown=int(settings.timeout) + 1, server_header=False, ws="none",
            http=type("Protocol", (_Protocol,), {"seconds": settings.timeout}),
        )  # fmt: skip

    def _make_metrics(self):
        self._registry = prometheus_client.CollectorRegistry()
        kind, where = {"registry": self._registry}, "tf_transformer_"
        self._requests = prometheus_client.Counter(
            f"{where}requests", "Requests by status", ["method", "status"], **kind
        )
        self._seconds = prometheus_client.Histogram(
            f"{where}seconds", "Seconds of requests that were answered", ["method"], **kind
        )
        self._texts = prometheus_client.Counter(
            f"{where}texts", "Rows of requests that were answered", ["method"], **kind
        )
        self._waiting = prometheus_client.Gauge(f"{where}waiting", "Requests in the queues", **kind)
        self._waiting.set_function(
            lambda: sum(b.waiting for b in self._live.batchers.values()) if self._live else 0
        )
        self._version = prometheus_client.Gauge(
            f"{where}version", "Version of the model that answers", **kind
        )
        prometheus_client.ProcessCollector(registry=self._registry)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app):
        first, self._first = self._first, None  # a newer one takes its place, also in memory
        self._serve(first)
        task = asyncio.create_task(self._look_for_versions())
        yield
        task.cancel()
        await self._live.close()
        self._executor.shutdown()

    def _serve(self, model):
        before, self._live = self._live, _Live(model, self._settings, self._executor)
        self._version.set(model.version)
        self._tell(f"version {model.version} of {self._name} answers at {self._address}")
        return before

    def _tell(self, line):
        with contextlib.suppress(OSError):  # nobody may read the log any more
            self._say(line)

    async def _look_for_versions(self):
        while True:
            await asyncio.sleep(self._settings.reload_seconds)
            look = asyncio.get_running_loop().run_in_executor(
                self._loader, self._reloader.look, self._live.model
            )
            if model := await look:
                await self._serve(model).close()

    async def _page(self, request):
        return Response(self._html, media_type="text/html", headers=HEADERS)

    async def _health(self, request):
        return _json(orjson.dumps({"status": "ok", "version": self._live.model.version}))

    async def _metrics(self, request):
        return Response(
            prometheus_client.generate_latest(self._registry),
            media_type=prometheus_client.CONTENT_TYPE_LATEST,
        )

    async def _rest(self, request):
        start, method = time.perf_counter(), "other"
        try:
            found = PATH.fullmatch(request.url.path)
            rest = (found["rest"] or "").lower() if found else None
            if found is None or (request.method == "POST") != rest.startswith(":"):
                raise RestError(
                    400 if request.url.path.startswith("/v1/") else 404,
                    f"Malformed request: {request.method} {request.url.path}",
                )
            method = rest.strip(":/") or "status"
            if rest in (":classify", ":regress"):
                raise RestError(
                    400,
                    f"Expected {rest[1:]} signature method_name to be tensorflow/serving/{rest[1:]}",
                )
            if rest == ":predict":
                body, rows = await self._predict(request, found["name"], found["version"])
            else:
                body, rows = (
                    self._describe(
                        self._version_for(found["name"], found["version"], status=not rest).model,
                        rest,
                    ),
                    0,
                )
            self._texts.labels(method).inc(rows)
            self._seconds.labels(method).observe(time.perf_counter() - start)
            status = 200
        except RestError as error:
            status, body = error.status, error_body(error.message)
        except (
            Exception
        ) as error:  # of TensorFlow, or a mistake of ours: never the end of the server
            status, body = 500, error_body(f"{type(error).__name__}: {error}")
        self._requests.labels(method, status).inc()
        return _json(body, status)

    def _version_for(self, name, version, status):
        live = self._live
        if name == self._name and version in (None, str(live.model.version)):
            return live
        if name == self._name:
            raise RestError(
                404,
                f"Could not find version {version} of model {name}"
                if status
                else _no_servable(f"Specific({name}, {version})"),
            )
        raise RestError(
            404,
            f"Could not find any versions of model {name}"
            if status
            else _no_servable(f"Latest({name})"),
        )

    def _describe(self, model, rest):
        if rest == "/metadata":
            signatures = {"signature_def": {"signature_def": model.metadata}}
            spec = {"name": self._name, "signature_name": "", "version": str(model.version)}
            return orjson.dumps({"model_spec": spec, "metadata": signatures})
        fine = {"error_code": "OK", "error_message": ""}
        return orjson.dumps(
            {
                "model_version_status": [
                    {"version": str(model.version), "state": "AVAILABLE", "status": fine}
                ]
            }
        )

    async def _predict(self, request, model, version):
        """Returns: the body of the answer, and the rows in it. Raises: RestError."""
        body = await self._body(request)
        live = self._version_for(
            model, version, status=False
        )  # from here to the queue nothing is awaited: it cannot close meanwhile
        name, inputs, in_rows = parse_predict(body, live.model.signatures)
        rows = len(next(iter(inputs.values())))
        most = (
            self._settings.max_rows
            if live.model.signatures[name].may_be_batched
            else self._settings.max_rows_alone
        )
        if rows > most:
            raise RestError(400, f"{rows} rows in one request: {name} takes at most {most}")
        try:
            work = live.batchers[name].submit(inputs)
        except FullError:
            raise RestError(
                503, f"{self._settings.max_queue} requests are waiting: try again later"
            ) from None
        gone = asyncio.ensure_future(_until_gone(request))
        try:
            await asyncio.wait(
                {work, gone}, timeout=self._settings.timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if work.done():
                return await asyncio.to_thread(answer, work.result(), in_rows), rows
            if gone.done():
                raise RestError(CLIENT_HAS_GONE, "the client has gone")
            raise RestError(504, f"no answer within {self._settings.timeout:g} s")
        finally:
            work.cancel()
            gone.cancel()

    async def _body(self, request):
        most, body = self._settings.max_request_bytes, bytearray()
        too_large = RestError(413, f"the request has more than {most:,} bytes")
        length = request.headers.get("content-length", "0")
        if length.isdigit() and int(length) > most:
            raise too_large

        try:
            with anyio.fail_after(self._settings.timeout):
                async for part in request.stream():
                    body.extend(part)
                    if len(body) > most:
                        raise too_large
        except TimeoutError:
            raise RestError(
                408, f"the request did not come within {self._settings.timeout:g} s"
            ) from None
        except ClientDisconnect:
            raise RestError(CLIENT_HAS_GONE, "the client has gone") from None
        return bytes(body)


async def _until_gone(request):
    """Ends when the client closes the connection; to be called when the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _no_servable(what):
    return f"Servable not found for request: {what}"


def _json(body, status=200):
    unread = (
        {"Connection": "close"} if status in (408, 413) else {}
    )  # of whose request more may come
    return Response(
        body,
        status,
        media_type="application/json",
        headers={"X-Content-Type-Options": "nosniff", **unread},
    )
