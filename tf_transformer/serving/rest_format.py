"""The JSON of TensorFlow Serving's REST interface: requests in, answers and errors out.

    {"signature_name": "nbest", "instances": ["a sentence", {"b64": "..."}]}       rows;    answered by {"predictions": [...]}
    {"inputs": {"source": ["a sentence"], "target": ["ein Satz"]}}                 columns; answered by {"outputs": {...}}

Its grammar and its words for mistakes are those of `tensorflow/serving` (`g3doc/api_rest.md`, `util/json_tensor.cc`).
"""

import base64
import binascii

import orjson


class RestError(Exception):
    """A request that gets an error for an answer.

    Args:
      status: the HTTP status.
      message: what the body says under "error".
    """

    def __init__(self, status, message):
        super().__init__(message)
        self.status, self.message = status, message


def parse_predict(body, signatures):
    """Reads a request to predict.

    Args:
      body: bytes.
      signatures: objects with `inputs`, a list of names, by the name of the signature.
    Returns: the name of the signature; its inputs, lists of strings or bytes by name; whether they came in rows.
    Raises: RestError.
    """
    if not body:
        raise RestError(400, "JSON Parse error: The document is empty")
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RestError(400, f"JSON Parse error: {error.msg} at offset: {error.pos}") from None
    if not isinstance(request, dict):
        raise RestError(400, f"JSON Value: {_shown(request)} Is not object")
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        raise RestError(
            400,
            f"JSON Value: {_shown(request)} not formatted correctly. 'signature_name' key must be a string value.",
        )
    name = name or "serving_default"
    if name not in signatures:
        raise RestError(400, f'Serving signature name: "{name}" not found in signature def')
    if "instances" in request and "inputs" in request:
        message = (
            "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist"
        )
        raise RestError(400, f"JSON Value: {_shown(request)} {message}")
    if "instances" in request:
        return name, _rows(request["instances"], signatures[name].inputs), True
    if "inputs" in request:
        return name, _columns(request["inputs"], signatures[name].inputs), False
    raise RestError(400, "Missing 'inputs' or 'instances' key")


def _rows(instances, names):
    if not isinstance(instances, list):
        raise RestError(
            400, f"JSON Value: {_shown(instances)} Excepting 'instances' to be an list/array"
        )
    if not instances:
        raise RestError(400, "JSON Value: {} No values in 'instances' array")
    found = {name: [] for name in names}
    named = _is_object(instances[0])
    if not named and len(names) > 1:
        message = "instances is a plain list, but expecting list of objects as multiple input tensors required as per tensorinfo_map"
        raise RestError(400, message)
    for i, one in enumerate(instances):
        if _is_object(one) != named:
            got = "object but got list" if named else "value/list but got object"
            raise RestError(400, f"Expecting {got} at item {i} of input list")
        row = one if named else {names[0]: one}
        if set(row) != set(names):
            where = f"Failed to process element: {i} of 'instances' list."
            raise RestError(
                400, f"{where} JSON object: {_shown(one)} keys must be equal to: {','.join(names)}"
            )
        for name, value in row.items():
            try:
                found[name].append(_string(value))
            except RestError as error:
                key = f" key: {name}" if named else ""
                raise RestError(
                    400,
                    f"Failed to process element: {i}{key} of 'instances' list. Error: {error.message}",
                ) from None
    return found


def _columns(inputs, names):
    if not _is_object(inputs):
        if len(names) > 1:
            raise RestError(
                400,
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per tensorinfo_map",
            )
        inputs = {names[0]: inputs}
    found = {}
    for name in names:
        if name not in inputs:
            raise RestError(400, f"Missing named input: {name} in 'inputs' object.")
        if not isinstance(inputs[name], list):
            raise RestError(400, f"input {name} must be a list of strings, one for each row")
        found[name] = [_string(value) for value in inputs[name]]
    if len({len(values) for values in found.values()}) > 1:
        raise RestError(400, f"inputs {', '.join(names)} must have as many rows as each other")
    return found


def _is_object(value):
    return isinstance(value, dict) and not _is_base64(value)


def _is_base64(value):
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def _string(value):
    """A string, or {"b64": ...} as bytes."""
    if isinstance(value, str):
        return value
    if _is_base64(value):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError):
            raise RestError(400, "Unable to base64 decode") from None
    if isinstance(value, dict):
        raise RestError(400, f"JSON Value: {_shown(value)} not formatted correctly for base64 data")
    if isinstance(value, list):
        raise RestError(400, "Encountered list at unexpected level: 0 expected < 0")
    raise RestError(
        400, f"JSON Value: {_shown(value)} Type: {_type(value)} is not of expected type: string"
    )


def _type(value):
    return {bool: str(value), int: "Number", float: "Number", type(None): "Null"}[type(value)]


def _shown(value, most=200):
    """A value for a message, cut where it is long."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:  # nested deeper than it writes
        return "..."
    return text if len(text) <= most else f"{text[:most]}..."


def answer(outputs, in_rows):
    """Writes the answer to a request.

    Args:
      outputs: arrays `[N, ...]` by name, of bytes or numbers.
      in_rows: whether the request came in rows.
    Returns: JSON, bytes. Numbers are written as short as float32 allows.
    """
    values = {name: _plain(name, array) for name, array in outputs.items()}
    if in_rows:
        if len(values) == 1:
            return orjson.dumps(
                {"predictions": next(iter(values.values()))}, option=orjson.OPT_SERIALIZE_NUMPY
            )
        names = list(values)
        rows = [dict(zip(names, row)) for row in zip(*values.values())]
        return orjson.dumps({"predictions": rows}, option=orjson.OPT_SERIALIZE_NUMPY)
    content = next(iter(values.values())) if len(values) == 1 else values
    return orjson.dumps({"outputs": content}, option=orjson.OPT_SERIALIZE_NUMPY)


def _plain(name, array):
    """What orjson can write of an array: lists of strings, or the numbers as they are. Names that end with _bytes hold no text."""
    if array.dtype != object:
        return array
    read = (
        (lambda x: {"b64": base64.b64encode(x).decode()})
        if name.endswith("_bytes")
        else (lambda x: x.decode("utf-8", "replace"))
    )
    nested = lambda values: [nested(v) if isinstance(v, list) else read(v) for v in values]  # noqa: E731
    return nested(array.tolist())


def error_body(message):
    """The body of an error, bytes."""
    return orjson.dumps({"error": message})
