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
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import orjson

from tf_transformer.serving.request_error import RequestError, shorten
from tf_transformer.serving.signature_inputs import (
    Input,
    Value,
    check_rows,
    default_values,
    fill_in_defaults,
)

TYPE_NAMES = {"DT_INT32": "int32", "DT_INT64": "int64", "DT_FLOAT": "float"}
INT_LIMITS = {"DT_INT32": 2**31, "DT_INT64": 2**63}
MAX_EXACT_FLOAT = 2**24 - 1  # all whole numbers up to it are float32 numbers
MAX_FLOAT = float(np.finfo(np.float32).max)

Columns = dict[str, list[Value]]  # the values of the rows by the name of the input


class HasInputs(Protocol):
    """A signature, as far as the parser needs it."""

    inputs: dict[str, Input]


def parse_predict(
    body: bytes, signatures: Mapping[str, HasInputs]
) -> tuple[str, Mapping[str, Sequence[Value]], bool]:
    """Parses a predict request.

    Args:
      body: bytes.
      signatures: name of a signature -> an object with `inputs`.
    Returns: the name of the signature; the values of all its inputs by name; whether the request
      has the row format.
    Raises: RequestError.
    """
    request = _parse_object(body)
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        reason = "not formatted correctly. 'signature_name' key must be a string value."
        raise _wrong_value(request, reason)
    name = name or "serving_default"
    if name not in signatures:
        shown = shorten(name)
        raise RequestError(
            400, f'Serving signature name: "{shown}" not found in signature def', private=shown
        )
    if "instances" in request and "inputs" in request:
        reason = "expecting only one of 'inputs' or 'instances' keys to exist"
        raise _wrong_value(request, f"Not formatted correctly {reason}")
    inputs = signatures[name].inputs
    if "instances" in request:
        return name, _parse_rows(request["instances"], inputs), True
    if "inputs" in request:
        return name, fill_in_defaults(_parse_columns(request["inputs"], inputs), inputs), False
    raise RequestError(400, "Missing 'inputs' or 'instances' key")


def _parse_object(body: bytes) -> dict[str, Any]:
    """Parses bytes that must hold a JSON object."""
    body = body.removeprefix(codecs.BOM_UTF8)
    if not body:
        raise RequestError(400, "JSON Parse error: The document is empty")
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(400, f"JSON Parse error: {error.msg} at offset: {error.pos}") from None
    if not isinstance(request, dict):
        raise _wrong_value(request, "Is not object")
    return request


def _parse_rows(instances: Any, inputs: Mapping[str, Input]) -> Columns:
    """Parses the value of "instances". Rows without an input have its default."""
    if not isinstance(instances, list):
        raise _wrong_value(instances, "Excepting 'instances' to be an list/array")
    if not instances:
        raise RequestError(400, "JSON Value: {} No values in 'instances' array")
    named = _is_object(instances[0])
    if not named and len(inputs) > 1:
        raise RequestError(
            400,
            "instances is a plain list, but expecting list of objects "
            "as multiple input tensors required as per tensorinfo_map",
        )
    defaults = default_values(inputs)
    required = inputs.keys() - defaults
    columns: Columns = {name: [] for name in inputs}
    for i, instance in enumerate(instances):
        if _is_object(instance) != named:
            mismatch = "object but got list" if named else "value/list but got object"
            raise RequestError(400, f"Expecting {mismatch} at item {i} of input list")
        row = instance if named else dict.fromkeys(inputs, instance)
        if not required <= row.keys() <= inputs.keys():
            shown = _shorten_json(instance)
            optional = ",".join(defaults)
            raise RequestError(
                400,
                f"Failed to process element: {i} of 'instances' list. "
                f"JSON object: {shown} keys must be equal to: {','.join(sorted(required))}"
                + (f", and any of: {optional}" if optional else ""),
                private=shown,
            )
        for name, given in inputs.items():
            if name not in row:
                columns[name].append(defaults[name])
                continue
            try:
                columns[name].append(_parse_value(row[name], given.dtype))
            except RequestError as error:
                key = f" key: {name}" if named else ""
                raise RequestError(
                    400,
                    f"Failed to process element: {i}{key} of 'instances' list. "
                    f"Error: {error.message}",
                    private=error.private,
                ) from None
    return columns


def _parse_columns(columns: Any, inputs: Mapping[str, Input]) -> Columns:
    """Parses the value of "inputs". Returns: those that the request has."""
    if not _is_object(columns):
        if len(inputs) > 1:
            raise RequestError(
                400,
                "inputs is a plain value/list, but expecting an object "
                "as multiple input tensors required as per tensorinfo_map",
            )
        columns = dict.fromkeys(inputs, columns)
    for name in sorted(inputs.keys() - default_values(inputs) - columns.keys()):
        raise RequestError(400, f"Missing named input: {name} in 'inputs' object.")
    for name in sorted(columns.keys() - inputs.keys()):
        shown = shorten(name)
        message = f"Unknown named input: {shown} in 'inputs' object. Inputs: {', '.join(inputs)}"
        raise RequestError(400, message, private=shown)
    parsed = {name: _parse_column(name, columns[name], inputs[name].dtype) for name in columns}
    check_rows(parsed)
    return parsed


def _parse_column(name: str, values: Any, dtype: str) -> list[Value]:
    """Parses the values of an input."""
    if not isinstance(values, list):
        kind = "strings" if dtype == "DT_STRING" else "numbers"
        raise RequestError(400, f"input {name} must be a list of {kind}, one for each row")
    parsed: list[Value] = []
    for value in values:
        try:
            parsed.append(_parse_value(value, dtype))
        except RequestError as error:
            where = f"Failed to process element: {len(parsed)} of input {name}. "
            raise RequestError(
                400, f"{where}Error: {error.message}", private=error.private
            ) from None
    return parsed


def _is_object(value: Any) -> bool:
    """Whether a value is a JSON object with inputs by name, not an encoded string."""
    return isinstance(value, dict) and not _is_base64(value)


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def _parse_value(value: Any, dtype: str) -> Value:
    """Parses a value of an input. Raises: RequestError when it is not of the type."""
    if dtype == "DT_STRING":
        return _parse_string(value)
    if isinstance(value, list):
        raise RequestError(400, "Encountered list at unexpected level: 0 expected < 0")
    if dtype == "DT_FLOAT" and type(value) in (int, float):  # a bool is not a number
        largest = MAX_EXACT_FLOAT if isinstance(value, int) else MAX_FLOAT
        if abs(value) <= largest:
            return float(value)
        shown = _shorten_json(value)
        message = f"Cannot convert JSON value: {shown} to float without loss of precision."
        raise RequestError(400, message, private=shown)
    limit = INT_LIMITS.get(dtype, 0)
    if type(value) is int and -limit <= value < limit:
        return value
    expected = TYPE_NAMES.get(dtype, dtype)
    raise _wrong_value(value, f"Type: {_json_type(value)} is not of expected type: {expected}")


def _parse_string(value: Any) -> str | bytes:
    """Returns a JSON string as str, and {"b64": ...} as bytes."""
    if isinstance(value, str):
        return value
    if _is_base64(value):
        return _decode_base64(value["b64"])
    if isinstance(value, dict):
        raise _wrong_value(value, "not formatted correctly for base64 data")
    if isinstance(value, list):
        raise RequestError(400, "Encountered list at unexpected level: 0 expected < 0")
    raise _wrong_value(value, f"Type: {_json_type(value)} is not of expected type: string")


def _decode_base64(text: str) -> bytes:
    """Decodes base64, with line breaks or not, and with padding or not. Raises: RequestError."""
    text = "".join(text.split())
    padding = "=" * (-len(text) % 4)
    try:
        return base64.b64decode(text + padding, validate=True)
    except (binascii.Error, ValueError):
        raise RequestError(400, "Unable to base64 decode") from None


def _json_type(value: Any) -> str:
    """The type of a JSON value that is not an array, as in RapidJSON."""
    if value is None:
        return "Null"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return "String"
    return "Object" if isinstance(value, dict) else "Number"


def _wrong_value(value: Any, reason: str) -> RequestError:
    """The error of a JSON value."""
    shown = _shorten_json(value)
    return RequestError(400, f"JSON Value: {shown} {reason}", private=shown)


def _shorten_json(value: Any) -> str:
    """The JSON of a value for an error message, cut if it is long."""
    try:
        return shorten(orjson.dumps(value).decode())
    except TypeError:  # orjson parses deeper nesting than it writes
        return "..."


def format_response(outputs: Mapping[str, np.ndarray], in_rows: bool) -> bytes:
    """Writes the response to a predict request.

    Args:
      outputs: arrays `[N, ...]` by name, of bytes or numbers.
      in_rows: whether the request has the row format.
    Returns: JSON, as bytes. Numbers have the fewest digits that give the same float32; NaN and
      infinity are null.
    Raises: RequestError when the outputs have no rows, or not the same number of rows.
    """
    if in_rows and (
        not all(array.ndim for array in outputs.values())
        or len({len(array) for array in outputs.values()}) != 1
    ):
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in outputs.items())
        raise RequestError(
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
    """Converts an array of bytes to nested lists, and another one to an array, that orjson writes.

    As in TensorFlow Serving, the values of an output whose name ends with `_bytes` are not text.
    """
    if array.dtype != object:
        return np.ascontiguousarray(array) if array.ndim else array[()]
    return _map_nested(_encode_base64 if name.endswith("_bytes") else _decode_text, array.tolist())


def _encode_base64(value: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(value).decode()}


def _decode_text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _map_nested(function: Callable[[Any], Any], values: Any) -> Any:
    """Applies a function to each element of nested lists, or to a value that is no list."""
    if isinstance(values, list):
        return [_map_nested(function, value) for value in values]
    return function(values)


def error_body(message: str) -> bytes:
    """Returns the body of an error response, as bytes."""
    return orjson.dumps({"error": message})
