"""TensorFlow Serving's gRPC interface: predictions, signatures and states.

It has the models, the batching and the limits of the REST interface.

    tensorflow.serving.PredictionService/Predict
    tensorflow.serving.PredictionService/GetModelMetadata
    tensorflow.serving.ModelService/GetModelStatus

The call of an error has the status code that belongs to the status of HTTP. Each call has the
trailing metadata `x-request-id`.
"""

import asyncio
import functools
import logging
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
)

from tf_transformer.errors import UserError
from tf_transformer.serving.access import Access
from tf_transformer.serving.connections import RESERVED_CONNECTIONS, numeric_address
from tf_transformer.serving.grpc_format import (
    SIGNATURES,
    check_output_filter,
    read_inputs,
    write_metadata,
    write_outputs,
    write_states,
)
from tf_transformer.serving.model_interface import Inputs, Outputs
from tf_transformer.serving.request_error import RequestError, shorten
from tf_transformer.serving.request_record import (
    CLIENT_CLOSED_REQUEST,
    REQUEST_ID,
    RequestRecord,
    remote_address,
)
from tf_transformer.serving.serve_config import ServeConfig
from tf_transformer.serving.served_models import ServedModels
from tf_transformer.serving.served_version import ServedVersion, explain_errors
from tf_transformer.serving.server_metrics import STATUS_NAMES, ServerMetrics

logger = logging.getLogger(__name__)

PREDICTION_SERVICE = "tensorflow.serving.PredictionService"
MODEL_SERVICE = "tensorflow.serving.ModelService"
CONNECTION_AGE = 10  # of the oldest connections, in timeouts of a request
CLOSE_SECONDS = 2.0  # for the answers to calls that the end of the server interrupts

Context = grpc.aio.ServicerContext


class GrpcServer:
    """The gRPC interface of a server.

    Args:
      models: the `ServedModels`.
      settings: a `ServeConfig` with a `grpc_port`.
      metrics: a `ServerMetrics`.
      access: an `Access`.
      observe: is called with each call when it is answered.
    """

    def __init__(
        self,
        models: ServedModels,
        settings: ServeConfig,
        metrics: ServerMetrics,
        access: Access,
        observe: Callable[[RequestRecord], None],
    ) -> None:
        self._models = models
        self._settings = settings
        self._metrics = metrics
        self._access = access
        self._observe = observe
        self._server: grpc.aio.Server | None = None
        self._end: asyncio.Task | None = None

    async def start(self) -> None:
        """Starts to listen. Raises: UserError when the port is not available."""
        settings = self._settings
        self._server = grpc.aio.server(
            options=_options(settings), maximum_concurrent_rpcs=settings.max_connections
        )
        self._server.add_generic_rpc_handlers(self._handlers())
        # gRPC would listen at each address of a name such as localhost that is free.
        host = numeric_address(settings.host)
        host = f"[{host}]" if ":" in host else host
        address = f"{host}:{settings.grpc_port}"
        try:
            if settings.tls_certificate:
                self._server.add_secure_port(address, _credentials(settings))
            else:
                self._server.add_insecure_port(address)
        except RuntimeError:
            raise UserError(
                f"cannot listen at {settings.host}, port {settings.grpc_port}: give another --host "
                "or --grpc_port"
            ) from None
        await self._server.start()
        logger.info("gRPC at %s", address)

    async def stop(self, seconds: float) -> None:
        """Refuses new calls, and waits until the others are answered, at most for some seconds."""
        if self._server:
            self._end = asyncio.ensure_future(self._server.stop(seconds + CLOSE_SECONDS))
            await asyncio.wait({self._end}, timeout=seconds)

    async def close(self) -> None:
        """Ends the connections after `stop`, when the models are closed."""
        if self._end:
            await self._end

    def _handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """The functions that answer, by service and method."""
        return (
            grpc.method_handlers_generic_handler(
                PREDICTION_SERVICE,
                {
                    "Predict": self._method("predict", self._predict, predict_pb2.PredictRequest),
                    "GetModelMetadata": self._method(
                        "metadata",
                        self._get_metadata,
                        get_model_metadata_pb2.GetModelMetadataRequest,
                    ),
                },
            ),
            grpc.method_handlers_generic_handler(
                MODEL_SERVICE,
                {
                    "GetModelStatus": self._method(
                        "status", self._get_status, get_model_status_pb2.GetModelStatusRequest
                    )
                },
            ),
        )

    def _method(
        self, api: str, answer: Callable[..., Awaitable[Any]], request_type: Any
    ) -> grpc.RpcMethodHandler:
        async def handle(data: bytes, context: Context) -> Any:
            return await self._handle(api, answer, request_type, data, context)

        return grpc.unary_unary_rpc_method_handler(
            handle,
            response_serializer=lambda response: response.SerializeToString(),
        )

    async def _handle(
        self,
        api: str,
        answer: Callable[[Any, Context, RequestRecord], Awaitable[Any]],
        request_type: Any,
        data: bytes,
        context: Context,
    ) -> Any:
        """Answers a call. An error becomes its status."""
        metadata = _text(context.invocation_metadata() or ())
        record = _record(api, data, metadata, context.peer())
        context.set_trailing_metadata((("x-request-id", record.request_id),))
        status = 200
        try:
            request = _parse(request_type, data)
            if request.model_spec.name in self._models.names:
                record.model = request.model_spec.name
            record.client = self._access.check(metadata, record.remote)
            response = await answer(request, context, record)
            record.bytes_out = response.ByteSize()
            return response
        except RequestError as error:
            status = error.status
            record.error, details = error.log_message, error.message
        except asyncio.CancelledError:
            status = CLIENT_CLOSED_REQUEST if context.time_remaining() != 0 else 504
            raise
        except Exception:  # a bug
            logger.exception("request %s failed", record.request_id)
            status = 500
            details = f"internal error; the log of the server has it as {record.request_id}"
            record.error = details
        finally:
            record.end(status)
            self._observe(record)
        if status == 413:  # clients know this text, which gRPC has for messages
            details = f"request larger than max: {details}"
        await context.abort(grpc.StatusCode[STATUS_NAMES.get(status, "INTERNAL")], details)
        raise AssertionError("abort raises")

    def _find(self, spec: model_pb2.ModelSpec) -> ServedVersion:
        """Returns the version that a call names. Raises: RequestError."""
        return self._models.find(spec.name, *_version_and_label(spec))

    async def _predict(
        self, request: predict_pb2.PredictRequest, context: Context, record: RequestRecord
    ) -> predict_pb2.PredictResponse:
        served = self._find(request.model_spec)
        model = served.model
        record.version = model.version
        name = request.model_spec.signature_name or "serving_default"
        if name not in model.signatures:
            shown = shorten(name)
            raise RequestError(400, f'Serving signature key "{shown}" not found.', private=shown)
        record.signature = name
        inputs = read_inputs(request, model.signatures[name].inputs)
        check_output_filter(request.output_filter, model.metadata[name]["outputs"])
        record.rows = len(next(iter(inputs.values())))
        response = predict_pb2.PredictResponse()
        response.model_spec.name = request.model_spec.name
        response.model_spec.version.value = model.version
        response.model_spec.signature_name = name
        with self._metrics.in_flight(record):
            outputs = await self._compute(served, inputs, context, record)
            await asyncio.to_thread(write_outputs, response, outputs, request.output_filter)
        return response

    async def _compute(
        self, served: ServedVersion, inputs: Inputs, context: Context, record: RequestRecord
    ) -> Outputs:
        """Computes a call until its client withdraws it. Raises: RequestError."""
        seconds = self._settings.timeout
        remaining = context.time_remaining()  # None without a deadline of the client
        if remaining is not None:
            seconds = min(seconds, remaining)
        deadline = time.monotonic() + seconds
        admit = functools.partial(self._access.admit, record.client)
        result = served.predict(record.signature, inputs, deadline, record.timing, admit)
        with explain_errors(self._settings, seconds):
            return await result  # which is cancelled with the call

    async def _get_metadata(
        self,
        request: get_model_metadata_pb2.GetModelMetadataRequest,
        context: Context,
        record: RequestRecord,
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        if not request.metadata_field:
            raise RequestError(
                400, "GetModelMetadataRequest must specify at least one metadata_field"
            )
        for field in request.metadata_field:
            if field != SIGNATURES:
                shown = shorten(field)
                raise RequestError(400, f"Metadata field {shown} is not supported", private=shown)
        model = self._find(request.model_spec).model
        record.version = model.version
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = request.model_spec.name
        response.model_spec.version.value = model.version
        write_metadata(response, model.metadata)
        return response

    async def _get_status(
        self,
        request: get_model_status_pb2.GetModelStatusRequest,
        context: Context,
        record: RequestRecord,
    ) -> get_model_status_pb2.GetModelStatusResponse:
        spec = request.model_spec
        response = get_model_status_pb2.GetModelStatusResponse()
        write_states(response, self._models.states(spec.name, *_version_and_label(spec)))
        return response


def _options(settings: ServeConfig) -> list[tuple[str, int]]:
    """The options of the server. Clients connect again by themselves."""
    milliseconds = round(1000 * settings.timeout)
    return [
        ("grpc.max_receive_message_length", settings.max_request_bytes),
        ("grpc.max_allowed_incoming_connections", settings.max_connections + RESERVED_CONNECTIONS),
        ("grpc.so_reuseport", 0),  # a port in use is an error
        ("grpc.max_connection_idle_ms", milliseconds),
        # This ends the calls that never send their request, too.
        ("grpc.max_connection_age_ms", CONNECTION_AGE * milliseconds),
        ("grpc.max_connection_age_grace_ms", 2 * milliseconds),
    ]


def _text(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """The metadata of a call whose values are text."""
    return {key: value for key, value in metadata if isinstance(value, str)}


def _parse(request_type: Any, data: bytes) -> Any:
    """Parses the message of a call. Raises: RequestError."""
    try:
        return request_type.FromString(data)
    except DecodeError:
        raise RequestError(400, f"the request is no {request_type.DESCRIPTOR.full_name}") from None


def _record(api: str, data: bytes, metadata: dict[str, str], peer: str) -> RequestRecord:
    """The record of a call; `peer` is such as "ipv4:127.0.0.1:1234" or "ipv6:%5B::1%5D:1234"."""
    address = urllib.parse.unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]")
    record = RequestRecord(remote=remote_address(address), api=api, entrypoint="GRPC")
    request_id = metadata.get("x-request-id", "").encode()
    if REQUEST_ID.fullmatch(request_id):
        record.request_id = request_id.decode()
    record.bytes_in = len(data)
    return record


def _version_and_label(spec: model_pb2.ModelSpec) -> tuple[int | None, str | None]:
    """The version or the label that a call names. Raises: RequestError when it names no model."""
    if not spec.name:
        raise RequestError(400, "ModelSpec has no name specified.")
    version = spec.version.value if spec.HasField("version") else None
    return version, spec.version_label if spec.HasField("version_label") else None


def _credentials(settings: ServeConfig) -> grpc.ServerCredentials:
    """The certificate and the private key of the server, as for HTTPS."""
    with open(settings.tls_certificate, "rb") as file:
        certificate = file.read()
    with open(settings.tls_key or settings.tls_certificate, "rb") as file:
        key = file.read()
    return grpc.ssl_server_credentials([(key, certificate)])
