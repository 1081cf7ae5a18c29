"""The JSON of TensorFlow Serving's REST interface: requests, responses and errors.

A request in the row format has a response in the row format:

    {"signature_name": "nbest", "instances": ["a sentence", {"b64": "..."}]}
    {"predictions": [...]}

A request in the column format has a response in the column format:

    {"inputs": {"source": ["a sentence"], "target": ["ein Satz"]}}
    {"outputs": {...}}

The grammar and the error messages are those of `tensorflow/serving` (`g3doc/api_rest.md`,
`util/json_tensor.cc`).
"""

import base64
import binascii
import codecs
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import orjson

MAX_SHOWN_CHARACTERS = 200  # of a JSON value in an error message


class HasInputs(Protocol):
    """A signature, as far as the parser needs it."""

    inputs: list[str]  # the names of the inputs


class RestError(Exception):
    """A request whose response is an error.

    Args:
      status: the HTTP status.
      message: the value of "error" in the body.
      headers: of the response.
      private: a part of the message that quotes the body of the request. Logs have "..." instead.
    """

    def __init__(
        self,
        status: int,
        message: str,
        headers: dict[str, str] | None = None,
        private: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}
        self.private = private

    @property
    def log_message(self) -> str:
        """The message without text of the request."""
        return self.message.replace(self.private, "...") if self.private else self.message


def parse_predict(
    body: bytes, signatures: Mapping[str, HasInputs]
) -> tuple[str, dict[str, list[str | bytes]], bool]:
    """Parses a predict request.

    Args:
      body: bytes.
      signatures: name of a signature -> an object with `inputs`, the list of its input names.
    Returns: the name of the signature; its inputs, lists of strings or bytes by name; whether the
      request has the row format.
    Raises: RestError.
    """
    request = _parse_object(body)
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        reason = "not formatted correctly. 'signature_name' key must be a string value."
        raise _wrong_value(request, reason)
    name = name or "serving_default"
    if name not in signatures:
        shown = shorten(name)
        raise RestError(
            400, f'Serving signature name: "{shown}" not found in signature def', private=shown
        )
    if "instances" in request and "inputs" in request:
        reason = "expecting only one of 'inputs' or 'instances' keys to exist"
        raise _wrong_value(request, f"Not formatted correctly {reason}")
    if "instances" in request:
        return name, _parse_rows(request["instances"], signatures[name].inputs), True
    if "inputs" in request:
        return name, _parse_columns(request["inputs"], signatures[name].inputs), False
    raise RestError(400, "Missing 'inputs' or 'instances' key")


def _parse_object(body: bytes) -> dict[str, Any]:
    """Parses bytes that must hold a JSON object."""
    body = body.removeprefix(codecs.BOM_UTF8)
    if not body:
        raise RestError(400, "JSON Parse error: The document is empty")
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RestError(400, f"JSON Parse error: {error.msg} at offset: {error.pos}") from None
    if not isinstance(request, dict):
        raise _wrong_value(request, "Is not object")
    return request


def _parse_rows(instances: Any, names: list[str]) -> dict[str, list[str | bytes]]:
    """Parses the value of "instances". Returns: lists of strings or bytes by name."""
    if not isinstance(instances, list):
        raise _wrong_value(instances, "Excepting 'instances' to be an list/array")
    if not instances:
        raise RestError(400, "JSON Value: {} No values in 'instances' array")
    named = _is_object(instances[0])
    if not named and len(names) > 1:
        raise RestError(
            400,
            "instances is a plain list, but expecting list of objects "
            "as multiple input tensors required as per tensorinfo_map",
        )
    columns: dict[str, list[str | bytes]] = {name: [] for name in names}
    for i, instance in enumerate(instances):
        if _is_object(instance) != named:
            mismatch = "object but got list" if named else "value/list but got object"
            raise RestError(400, f"Expecting {mismatch} at item {i} of input list")
        row = instance if named else {names[0]: instance}
        if set(row) != set(names):
            shown = _shorten_json(instance)
            raise RestError(
                400,
                f"Failed to process element: {i} of 'instances' list. "
                f"JSON object: {shown} keys must be equal to: {','.join(names)}",
                private=shown,
            )
        for name, value in row.items():
            try:
                columns[name].append(_parse_string(value))
            except RestError as error:
                key = f" key: {name}" if named else ""
                raise RestError(
                    400,
                    f"Failed to process element: {i}{key} of 'instances' list. "
                    f"Error: {error.message}",
                    private=error.private,
                ) from None
    return columns


def _parse_columns(inputs: Any, names: list[str]) -> dict[str, list[str | bytes]]:
    """Parses the value of "inputs". Returns: lists of strings or bytes by name."""
    if not _is_object(inputs):
        if len(names) > 1:
            raise RestError(
                400,
                "inputs is a plain value/list, but expecting an object "
                "as multiple input tensors required as per tensorinfo_map",
            )
        inputs = {names[0]: inputs}
    columns = {}
    for name in names:
        if name not in inputs:
            raise RestError(400, f"Missing named input: {name} in 'inputs' object.")
        if not isinstance(inputs[name], list):
            raise RestError(400, f"input {name} must be a list of strings, one for each row")
        columns[name] = [_parse_string(value) for value in inputs[name]]
    if len({len(values) for values in columns.values()}) > 1:
        raise RestError(400, f"inputs {', '.join(names)} must have the same number of rows")
    return columns


def _is_object(value: Any) -> bool:
    """Whether a value is a JSON object with inputs by name, not an encoded string."""
    return isinstance(value, dict) and not _is_base64(value)


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def _parse_string(value: Any) -> str | bytes:
    """Returns a JSON string as str, and {"b64": ...} as bytes."""
    if isinstance(value, str):
        return value
    if _is_base64(value):
        return _decode_base64(value["b64"])
    if isinstance(value, dict):
        raise _wrong_value(value, "not formatted correctly for base64 data")
    if isinstance(value, list):
        raise RestError(400, "Encountered list at unexpected level: 0 expected < 0")
    raise _wrong_value(value, f"Type: {_json_type(value)} is not of expected type: string")


def _decode_base64(text: str) -> bytes:
    """Decodes base64, with line breaks or not, and with padding or not. Raises: RestError."""
    text = "".join(text.split())
    padding = "=" * (-len(text) % 4)
    try:
        return base64.b64decode(text + padding, validate=True)
    except (binascii.Error, ValueError):
        raise RestError(400, "Unable to base64 decode") from None


def _json_type(value: Any) -> str:
    """The type of a JSON value that is not a string, an object or an array, as in RapidJSON."""
    if value is None:
        return "Null"
    return str(value) if isinstance(value, bool) else "Number"


def _wrong_value(value: Any, reason: str) -> RestError:
    """The error of a JSON value."""
    shown = _shorten_json(value)
    return RestError(400, f"JSON Value: {shown} {reason}", private=shown)


def _shorten_json(value: Any) -> str:
    """The JSON of a value for an error message, cut if it is long."""
    try:
        return shorten(orjson.dumps(value).decode())
    except TypeError:  # orjson parses deeper nesting than it writes
        return "..."


def shorten(text: str) -> str:
    """Cuts a text that is long, for an error message."""
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return text
    return f"{text[:MAX_SHOWN_CHARACTERS]}..."


def format_response(outputs: Mapping[str, np.ndarray], in_rows: bool) -> bytes:
    """Writes the response to a predict request.

    Args:
      outputs: arrays `[N, ...]` by name, of bytes or numbers.
      in_rows: whether the request has the row format.
    Returns: JSON, as bytes. Numbers have the fewest digits that give the same float32; NaN and
      infinity are null.
    Raises: RestError when the outputs have no rows, or not the same number of rows.
    """
    if in_rows and (
        not all(array.ndim for array in outputs.values())
        or len({len(array) for array in outputs.values()}) != 1
    ):
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in outputs.items())
        raise RestError(
            500, f"the outputs of the model have no rows in common ({shapes}): send 'inputs'"
        )
    columns = {name: _json_values(name, array) for name, array in outputs.items()}
    if len(columns) == 1:
        (values,) = columns.values()
    elif in_rows:
        values = [dict(zip(columns, row)) for row in zip(*columns.values(), strict=True)]
    else:
        values = columns
    key = "predictions" if in_rows else "outputs"
    return orjson.dumps({key: values}, option=orjson.OPT_SERIALIZE_NUMPY)


def _json_values(name: str, array: np.ndarray) -> Any:
    """Converts an array of bytes to nested lists that orjson can write; numbers stay an array.

    As in TensorFlow Serving, the values of an output whose name ends with `_bytes` are not text.
    """
    if array.dtype != object:
        return array
    return _map_nested(_encode_base64 if name.endswith("_bytes") else _decode_text, array.tolist())


def _encode_base64(value: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(value).decode()}


def _decode_text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _map_nested(function: Callable[[Any], Any], values: list) -> list:
    """Applies a function to each element of nested lists."""
    return [
        _map_nested(function, value) if isinstance(value, list) else function(value)
        for value in values
    ]


def error_body(message: str) -> bytes:
    """Returns the body of an error response, as bytes."""
    return orjson.dumps({"error": message})
