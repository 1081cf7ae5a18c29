"""The inputs of a signature: one value of a type for each row, some of them with a default."""

import base64
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tf_transformer.serving.request_error import RequestError

Value = str | bytes | int | float

# The field of a TensorProto with the values of a type.
FIELDS = {
    "DT_STRING": "string_val",
    "DT_FLOAT": "float_val",
    "DT_INT32": "int_val",
    "DT_INT64": "int64_val",
}


@dataclasses.dataclass(frozen=True)
class Input:
    """An input of a signature, `[N]`.

    Attributes:
      dtype: the name of a type of TensorFlow, such as "DT_STRING" or "DT_INT32".
      default: the value of the rows of a request without this input; None: each request has it.
    """

    dtype: str = "DT_STRING"
    default: Value | None = None


def read_inputs(description: Mapping[str, Any]) -> dict[str, Input]:
    """Reads the inputs of a signature.

    Args:
      description: its `SignatureDef` as a dict, as in `LoadedModel.metadata`.
    Returns: the inputs by name, sorted by name.
    """
    defaults = description.get("defaults", {})
    return {
        name: Input(info["dtype"], _read_default(info["dtype"], defaults.get(name, {})))
        for name, info in sorted(description["inputs"].items())
    }


def _read_default(dtype: str, tensor: Mapping[str, Any]) -> Value | None:
    """The value of a `TensorProto` as a dict; None for one that has not one value."""
    values = tensor.get(FIELDS.get(dtype, ""), [])
    if len(values) != 1:
        return None
    if dtype == "DT_STRING":
        return base64.b64decode(values[0])
    return float(values[0]) if dtype == "DT_FLOAT" else int(values[0])


def default_values(inputs: Mapping[str, Input]) -> dict[str, Value]:
    """Returns the defaults of the inputs that have one, by name."""
    return {name: given.default for name, given in inputs.items() if given.default is not None}


def check_rows(columns: Mapping[str, Sequence[Value]]) -> None:
    """Raises: RequestError when the inputs of a request have different numbers of rows."""
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        names = ", ".join(columns)
        raise RequestError(400, f"inputs {names} must have the same number of rows")
    if not lengths:
        raise RequestError(400, "the request has no inputs")


def fill_in_defaults(
    columns: Mapping[str, Sequence[Value]], inputs: Mapping[str, Input]
) -> dict[str, Sequence[Value]]:
    """Adds the inputs that a request leaves out, with their defaults.

    Args:
      columns: the values of the rows by name, all of the same length.
      inputs: of the signature.
    """
    rows = len(next(iter(columns.values())))
    defaults = default_values(inputs)
    return {name: columns[name] if name in columns else [defaults[name]] * rows for name in inputs}
