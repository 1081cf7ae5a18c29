"""The messages of TensorFlow Serving's gRPC interface: inputs, outputs and states.

The error messages are those of `tensorflow/serving` (`servables/tensorflow/predict_util.cc`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.protobuf import error_codes_pb2, meta_graph_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from tf_transformer.serving.request_error import RequestError, shorten
from tf_transformer.serving.served_model import VersionState
from tf_transformer.serving.signature_inputs import (
    FIELDS,
    Input,
    Value,
    check_rows,
    default_values,
    fill_in_defaults,
)

SIGNATURES = "signature_def"  # the only metadata that there is


def read_inputs(
    request: predict_pb2.PredictRequest, inputs: Mapping[str, Input]
) -> dict[str, Sequence[Value]]:
    """Reads the inputs of a request.

    Args:
      request: the message.
      inputs: of the signature.
    Returns: the values of all inputs by name; those that the request leaves out are the defaults.
    Raises: RequestError.
    """
    sent, required = set(request.inputs), inputs.keys() - default_values(inputs)
    if not required <= sent <= inputs.keys():
        extra, missing = sent.difference(inputs), required - sent
        message = (
            f"input size does not match signature: {len(sent)}!={len(inputs)} "
            f"len({_braces(sent)}) != len({_braces(inputs)}). Sent extra: {_braces(extra)}. "
            f"Missing but required: {_braces(missing)}."
        )
        raise RequestError(400, message, private=message)
    columns: dict[str, list[Value]] = {}
    for name in sorted(
        sent, key=lambda name: (name not in required, name)
    ):  # the required ones first
        rows = None if name in required else len(next(iter(columns.values()), []))
        columns[name] = _read_values(name, request.inputs[name], inputs[name].dtype, rows)
    check_rows(columns)
    return fill_in_defaults(columns, inputs)


def _read_values(
    name: str, tensor: tensor_pb2.TensorProto, dtype: str, rows: int | None
) -> list[Value]:
    """Reads a tensor `[N]` of a type.

    A `TensorProto` may leave out the last values where they are equal, as `tf.make_tensor_proto`
    does for `(4, shape=[100])`. That is allowed for as many values as the request has rows, so that
    a small message cannot ask for much memory.

    Args:
      name: of the input.
      tensor: the message.
      dtype: of the input.
      rows: of the request; None for the inputs that tell it.
    Raises: RequestError.
    """
    if tensor.dtype != types_pb2.DataType.Value(dtype):
        known = types_pb2.DataType.DESCRIPTOR.values_by_number.get(tensor.dtype)
        kind = known.name if known else tensor.dtype
        raise RequestError(400, f"input {name} has type {kind}: send {dtype}")
    shape = [dimension.size for dimension in tensor.tensor_shape.dim]
    values: list[Value] = list(getattr(tensor, FIELDS.get(dtype, "string_val")))
    content = tensor.tensor_content  # where TensorFlow's own clients write several numbers
    numbers = tf.as_dtype(tensor.dtype)
    if content and dtype in FIELDS and numbers != tf.string and len(content) % numbers.size == 0:
        values = np.frombuffer(content, numbers.as_numpy_dtype).tolist()
    if values and shape == [rows]:
        values += values[-1:] * (shape[0] - len(values))
    # The shape alone says nothing on the size of the request.
    if tensor.tensor_shape.unknown_rank or shape != [len(values)]:
        kind = "strings" if numbers == tf.string else "numbers"
        raise RequestError(
            400,
            f"input {name} has shape {shape[:8]} and {len(values)} {kind}: send a list of "
            f"{kind}, one for each row",
        )
    return values


def check_output_filter(names: Iterable[str], known: Collection[str]) -> None:
    """Checks the field `output_filter` of a request.

    Args:
      names: of the outputs that the client wants.
      known: of all outputs of the signature.
    Raises: RequestError.
    """
    seen = set()
    for name in names:
        if name not in known:
            shown = shorten(name)
            raise RequestError(
                400,
                f"output tensor alias not found in signature: {shown} Outputs expected to be in "
                f"the set {_braces(known)}.",
                private=shown,
            )
        if name in seen:
            raise RequestError(400, f"duplicate output tensor alias: {name}")
        seen.add(name)


def _braces(names: Iterable[str]) -> str:
    return shorten("{" + ",".join(sorted(names)) + "}")


def write_outputs(
    response: predict_pb2.PredictResponse,
    outputs: Mapping[str, np.ndarray],
    wanted: Collection[str],
) -> None:
    """Writes outputs into a response.

    Args:
      response: the message.
      outputs: arrays by name.
      wanted: names of outputs; empty for all.
    """
    for name in wanted or outputs:
        response.outputs[name].CopyFrom(_write_tensor(outputs[name]))


def _write_tensor(array: np.ndarray) -> tensor_pb2.TensorProto:
    """Writes an array into a message.

    Clients that are not written with TensorFlow read the fields of the type, not `tensor_content`.
    """
    dtype = tf.as_dtype(array.dtype)
    field = FIELDS.get(types_pb2.DataType.Name(dtype.as_datatype_enum))
    if field is None:
        return tf.make_tensor_proto(array)
    tensor = tensor_pb2.TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=tf.TensorShape(array.shape).as_proto()
    )
    getattr(tensor, field).extend(array.ravel().tolist())
    return tensor


def write_metadata(
    response: get_model_metadata_pb2.GetModelMetadataResponse,
    signatures: Mapping[str, dict[str, Any]],
) -> None:
    """Writes signatures into a response; each is a `SignatureDef` as a dict."""
    definitions = get_model_metadata_pb2.SignatureDefMap()
    for name, signature in signatures.items():
        definition = meta_graph_pb2.SignatureDef()
        json_format.ParseDict(signature, definition)
        definitions.signature_def[name].CopyFrom(definition)
    response.metadata[SIGNATURES].Pack(definitions)


def write_states(
    response: get_model_status_pb2.GetModelStatusResponse, states: Iterable[VersionState]
) -> None:
    """Writes the states of versions into a response."""
    for state in states:
        message = response.model_version_status.add()
        message.version = state.version
        message.state = get_model_status_pb2.ModelVersionStatus.State.Value(state.state)
        message.status.error_code = error_codes_pb2.Code.Value(state.error_code)
        message.status.error_message = state.error_message
