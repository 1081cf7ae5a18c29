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
            remote=remote_address((scope.get("client") or ("",))[0]),
            method=scope["method"],
            path=path.decode("ascii", "backslashreplace"),
        )
    return state["record"]


def parse_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parses the IP address of a client, without a zone such as "%eth0".

    A server at "::" sees clients with IPv4 as ::ffff:192.0.2.7. The result is their own address.

    Raises: ValueError for what is no IP address.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return (parsed.version == 6 and parsed.ipv4_mapped) or parsed


def remote_address(address: str) -> str:
    """Returns the IP address of a client for the log; "" where a proxy gives no such address."""
    try:
        parsed = parse_address(address)
    except ValueError:
        return ""
    return str(parsed) if parsed.version == 4 else address


def _request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The value of the header X-Request-Id, or a new id where it is missing or not printable."""
    value = dict(headers).get(b"x-request-id", b"")
    return value.decode() if REQUEST_ID.fullmatch(value) else uuid.uuid4().hex
