"""What the access log and the metrics tell about one request."""

import dataclasses
import datetime
import ipaddress
import re
import time
import uuid
from collections.abc import Iterable, MutableMapping
from typing import Any

from tf_transformer.serving.timing import Timing

CLIENT_CLOSED_REQUEST = 499  # the status of a request whose client did not wait for the answer
REQUEST_ID = re.compile(rb"[\w.:+/=-]{1,128}", re.ASCII)


@dataclasses.dataclass(eq=False)
class RequestRecord:
    """One request and its response. The parts of the server that handle it fill it in.

    Attributes:
      request_id: that of the client (header X-Request-Id), or a new one.
      remote: the address of the connection.
      method: of HTTP; None where the request could not be read, as for `path`.
      path: without the query, which can hold secrets.
      client: the name of its API key, or its address; "" before that is known.
      api: "predict", "status", "metadata", ..., or "other".
      entrypoint: "REST" or "GRPC".
      model: the name of a model that is served. It is "" for every other name, because the metrics
        have a label for each value.
      version: of the model.
      signature: a signature of the model, as `model`.
      rows: of a prediction.
      timing: of a prediction.
      status: of HTTP.
      error: the message of an error, without text of the request.
      bytes_in, bytes_out: of the bodies.
      wall_time, arrived: when the request arrived: date and time, and `time.monotonic`.
      seconds: from then until the response.
    """

    request_id: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)
    remote: str = ""
    method: str | None = None
    path: str | None = None
    client: str = ""
    api: str = "other"
    entrypoint: str = "REST"
    model: str = ""
    version: int | None = None
    signature: str = ""
    rows: int = 0
    timing: Timing = dataclasses.field(default_factory=Timing)
    status: int = 0
    error: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    wall_time: datetime.datetime = dataclasses.field(
        default_factory=lambda: datetime.datetime.now(datetime.timezone.utc)
    )
    arrived: float = dataclasses.field(default_factory=time.monotonic)
    seconds: float = 0.0

    def end(self, status: int) -> None:
        """Records that the response is ready."""
        self.status = status
        self.seconds = time.monotonic() - self.arrived


def request_record(scope: MutableMapping[str, Any]) -> RequestRecord:
    """Returns the record of a request, which begins with the first call.

    Args:
      scope: of the request (ASGI).
    """
    state = scope.setdefault("state", {})
    if "record" not in state:
        # The decoded path of the scope could hold line breaks.
        path = scope.get("raw_path", b"").partition(b"?")[0]
        state["record"] = RequestRecord(
            _request_id(scope["headers"]),
            remote=_address(scope),
            method=scope["method"],
            path=path.decode("ascii", "backslashreplace"),
        )
    return state["record"]


def _address(scope: MutableMapping[str, Any]) -> str:
    """The IP address of the client; "" where a proxy gives no such address."""
    address = (scope.get("client") or ("",))[0]
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    mapped = parsed.ipv4_mapped if parsed.version == 6 else None  # of a server at "::"
    return str(mapped or address)


def _request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The value of the header X-Request-Id, or a new id where it is missing or not printable."""
    value = dict(headers).get(b"x-request-id", b"")
    return value.decode() if REQUEST_ID.fullmatch(value) else uuid.uuid4().hex
