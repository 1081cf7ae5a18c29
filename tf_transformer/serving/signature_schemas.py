"""JSON Schemas (2020-12) of the predict requests and responses of a signature.

The formats are those of `rest_format`: rows ("instances", "predictions") and columns ("inputs",
"outputs").
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tf_transformer.serving.signature_inputs import Input, Value, read_inputs

Schema = dict[str, Any]

# A string, or the bytes of one.
TEXT: Schema = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"b64": {"type": "string", "contentEncoding": "base64"}},
            "required": ["b64"],
            "additionalProperties": False,
        },
    ]
}
TEXT_REFERENCE: Schema = {"$ref": "#/components/schemas/Text"}
NUMBERS: dict[str, Schema] = {
    "DT_FLOAT": {"type": "number"},
    "DT_INT32": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "DT_INT64": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
}
DEFAULT_SIGNATURE = "serving_default"
EXAMPLE_TEXTS = {"target": "Anna schläft."}  # by the name of the input
EXAMPLE_TEXT = "Anna sleeps."  # for the other inputs


class Exchange(NamedTuple):
    """A request with its response, as schemas. The request has an example."""

    title: str
    request: Schema
    response: Schema


def row_exchange(name: str, description: Mapping[str, Any]) -> Exchange:
    """Returns the schemas of a signature in the row format.

    Args:
      name: of the signature.
      description: its `SignatureDef` as a dict, as in `LoadedModel.metadata`.
    """
    inputs, outputs = read_inputs(description), description["outputs"]
    values = {key: _input(given) for key, given in inputs.items()}
    forms = [_array(_inputs_object(inputs, values))]
    if len(inputs) == 1:
        forms.insert(0, _array(*values.values()))
    for form in forms:
        form["minItems"] = 1
    examples = {key: _example(key, given) for key, given in inputs.items()}
    example = examples if len(inputs) > 1 else next(iter(examples.values()))
    rows = {key: _value(key, info, _sizes(info)[1:]) for key, info in sorted(outputs.items())}
    row = next(iter(rows.values())) if len(rows) == 1 else _object(rows)
    return Exchange(
        f"{name}, rows",
        _request(name, "instances", _any_of(forms), [example]),
        _object({"predictions": _array(row)}),
    )


def column_exchange(name: str, description: Mapping[str, Any]) -> Exchange:
    """Returns the schemas of a signature in the column format; the arguments are as above."""
    inputs, outputs = read_inputs(description), description["outputs"]
    arrays = {key: _array(_input(given)) for key, given in inputs.items()}
    forms = [_inputs_object(inputs, arrays)]
    if len(inputs) == 1:
        forms.insert(0, *arrays.values())
    example = {key: [_example(key, given)] for key, given in inputs.items()}
    columns = {key: _value(key, info, _sizes(info)) for key, info in sorted(outputs.items())}
    value = next(iter(columns.values())) if len(columns) == 1 else _object(columns)
    return Exchange(
        f"{name}, columns",
        _request(name, "inputs", _any_of(forms), example),
        _object({"outputs": value}),
    )


def _request(name: str, key: str, value: Schema, example: Any) -> Schema:
    """The schema of a request body."""
    if name == DEFAULT_SIGNATURE:
        schema = _object({"signature_name": {"enum": [name, ""]}, key: value})
        schema["required"] = [key]
        return {**schema, "examples": [{key: example}]}
    schema = _object({"signature_name": {"const": name}, key: value})
    return {**schema, "examples": [{"signature_name": name, key: example}]}


def _input(given: Input) -> Schema:
    """The schema of a value of an input."""
    schema = TEXT_REFERENCE if given.dtype == "DT_STRING" else NUMBERS.get(given.dtype, {})
    return schema if given.default is None else {**schema, "default": _json(given.default)}


def _inputs_object(inputs: Mapping[str, Input], properties: Mapping[str, Schema]) -> Schema:
    """The schema of the inputs by name. Those with a default may be left out."""
    required = [key for key, given in inputs.items() if given.default is None]
    return {**_object(properties), "required": required}


def _example(name: str, given: Input) -> Any:
    """An example of a value of an input: the default, so that a reader sees each option."""
    if given.default is not None:
        return _json(given.default)
    return EXAMPLE_TEXTS.get(name, EXAMPLE_TEXT)


def _json(value: Value) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _value(name: str, info: Mapping[str, Any], sizes: list[int]) -> Schema:
    """The schema of an output, or of one row of it: nested arrays of these sizes (-1: any)."""
    if info.get("tensor_shape", {"unknown_rank": True}).get("unknown_rank"):
        return {}
    schema = _scalar(name, info["dtype"])
    for size in reversed(sizes):
        schema = _array(schema)
        if size >= 0:
            schema |= {"minItems": size, "maxItems": size}
    return schema


def _scalar(name: str, dtype: str) -> Schema:
    if dtype == "DT_STRING":
        return TEXT["anyOf"][1] if name.endswith("_bytes") else {"type": "string"}
    if dtype in ("DT_HALF", "DT_BFLOAT16", "DT_FLOAT", "DT_DOUBLE"):
        return {"type": ["number", "null"]}  # null: NaN or infinity
    return {"type": "boolean" if dtype == "DT_BOOL" else "integer"}


def _sizes(info: Mapping[str, Any]) -> list[int]:
    """The sizes of a tensor; -1 for one that depends on the request."""
    return [int(dim["size"]) for dim in info.get("tensor_shape", {}).get("dim", ())]


def _object(properties: Mapping[str, Schema]) -> Schema:
    """The schema of an object with exactly these keys."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _any_of(schemas: list[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
