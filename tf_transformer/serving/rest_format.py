"""The JSON of TensorFlow Serving's REST interface.

A request in rows has a response in rows, one in columns a response in columns:

    {"signature_name": "nbest", "instances": ["a sentence", {"b64": "..."}]}
    {"predictions": [...]}

    {"signature_name": "score", "inputs": {"source": ["a sentence"], "target": ["ein Satz"]}}
    {"outputs": {...}}

`export/signatures.py` defines the inputs of a signature. The values stay Python lists here:
`tensorflow_model.py` makes the tensors.
"""

import base64
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import orjson
from fastapi import HTTPException
from pydantic import BaseModel, BeforeValidator, FailFast, Field, TypeAdapter, ValidationError

from tf_transformer.config import ServeConfig
from tf_transformer.serving.model_interface import Input, Inputs, LoadedSignature, Outputs

DEFAULT_SIGNATURE = "serving_default"


class PredictRequest(BaseModel):
    """A request for predictions, with either `instances` or `inputs`."""

    signature_name: str = ""  # empty: DEFAULT_SIGNATURE
    instances: list[Any] | None = None  # rows: each an object of inputs by name, or the only input
    inputs: dict[str, Any] | list[Any] | None = None  # columns, by name; or the only input's


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _decode_base64(value: Any) -> Any:
    """`{"b64": ...}` -> bytes; other values stay. The padding may be left out."""
    if not _is_base64(value):
        return value
    return base64.b64decode(value["b64"] + "=" * (-len(value["b64"]) % 4), validate=True)


def _column(value: Any) -> TypeAdapter:
    """Reads a list of values up to the first error: there may be as many as rows."""
    return TypeAdapter(Annotated[list[value], FailFast()])


# The values of an input by the name of its type.
COLUMNS = {
    "DT_STRING": _column(Annotated[str | bytes, BeforeValidator(_decode_base64)]),
    "DT_INT32": _column(Annotated[int, Field(ge=-(2**31), lt=2**31)]),
    "DT_INT64": _column(Annotated[int, Field(ge=-(2**63), lt=2**63)]),
    "DT_FLOAT": _column(Annotated[float, Field(ge=-3.4e38, le=3.4e38)]),
}


def parse_predict(
    body: bytes, signatures: Mapping[str, LoadedSignature], settings: ServeConfig
) -> tuple[str, Inputs, bool]:
    """Parses a request for predictions, within the limits of the settings.

    Returns: the name of the signature; the values of all its inputs by name; whether the request
      is in rows.
    Raises: HTTPException.
    """
    # Half a million lists take a second. A row needs four brackets at most, and in a text each
    # bracket is a sub-word.
    brackets = body.count(b"[") + body.count(b"{")
    most = settings.max_request_tokens + 4 * settings.max_rows
    if brackets > most:
        raise HTTPException(413, f"{brackets:,} brackets: the server takes at most {most:,}")
    try:
        request = PredictRequest.model_validate(orjson.loads(body), strict=True)
    except orjson.JSONDecodeError as error:
        raise HTTPException(400, f"JSON Parse error: {error}") from None
    except ValidationError as error:
        raise HTTPException(400, _first_error(error)) from None
    name = request.signature_name or DEFAULT_SIGNATURE
    if name not in signatures:
        raise HTTPException(400, f'Serving signature name: "{name}" not found in signature def')
    inputs = signatures[name].inputs
    limit = settings.max_rows if signatures[name].may_be_batched else settings.max_rows_alone
    if (request.instances is None) == (request.inputs is None):
        raise HTTPException(400, "give one of the keys 'instances' and 'inputs'")
    given: Any = request.inputs
    lists = given.values() if isinstance(given, dict) else [given, request.instances]
    number = max((len(values) for values in lists if isinstance(values, list)), default=0)
    if number > limit:  # before the rows cost anything
        raise HTTPException(413, f"{number} rows in one request: {name} takes at most {limit}")
    if request.instances is not None:
        given = _columns_of_rows(request.instances, inputs)
    elif isinstance(given, list):
        given = {_only_input(inputs): given}
    _check_names(given, inputs)
    columns = {}
    for key, values in given.items():
        try:
            columns[key] = COLUMNS[inputs[key].dtype].validate_python(values, strict=True)
        except ValidationError as error:
            raise HTTPException(400, f"input {key}, {_first_error(error)}") from None
    rows = {len(values) for values in columns.values()}
    if len(rows) != 1:
        raise HTTPException(400, f"inputs {', '.join(columns)} must have the same number of rows")
    defaults = {key: [each.default] * number for key, each in inputs.items()}
    return name, {**defaults, **columns}, request.instances is not None


def _columns_of_rows(instances: list[Any], inputs: Mapping[str, Input]) -> dict[str, list[Any]]:
    """Rows -> columns of all inputs, where inputs that are left out have their default."""
    if not instances:
        raise HTTPException(400, "there are no values in 'instances'")
    rows = []
    for instance in instances:
        is_named = isinstance(instance, dict) and not _is_base64(instance)
        rows.append(instance if is_named else {_only_input(inputs): instance})
        _check_names(rows[-1], inputs)
    return {key: [row.get(key, each.default) for row in rows] for key, each in inputs.items()}


def _check_names(given: Mapping[str, Any], inputs: Mapping[str, Input]) -> None:
    """Raises: HTTPException for an unknown or a missing input."""
    for key in given.keys() - inputs.keys():
        raise HTTPException(400, f"unknown input {key}: the inputs are {', '.join(inputs)}")
    for key, each in inputs.items():
        if key not in given and each.default is None:
            raise HTTPException(400, f"input {key} is missing")


def _only_input(inputs: Mapping[str, Input]) -> str:
    """The input of plain values. Raises: HTTPException when a signature needs several."""
    required = [key for key, each in inputs.items() if each.default is None]
    if len(required) != 1:
        raise HTTPException(400, f"name the inputs of this signature: {', '.join(required)}")
    return required[0]


def _first_error(error: ValidationError) -> str:
    """The first problem of a value, without the value itself."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    (where,) = first["loc"][:1] or ["the request"]
    return f"{f'row {where}' if isinstance(where, int) else where}: {first['msg']}"


def format_response(outputs: Outputs, in_rows: bool) -> bytes:
    """Writes the response to a request for predictions, in rows or in columns.

    Returns: JSON, as bytes. Numbers have the fewest digits that give the same float32; NaN and
      infinity are null.
    """
    columns = {name: np.ascontiguousarray(array) for name, array in outputs.items()}
    values: Any = columns
    if len(columns) == 1:
        (values,) = columns.values()
    elif in_rows:
        values = [dict(zip(columns, row)) for row in zip(*columns.values(), strict=True)]
    key = "predictions" if in_rows else "outputs"
    return orjson.dumps({key: values}, default=_decode, option=orjson.OPT_SERIALIZE_NUMPY)


def _decode(value: Any) -> Any:
    """What orjson cannot write: bytes -> strings, and arrays of bytes -> lists of bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value.tolist()
