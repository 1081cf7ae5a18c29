"""The messages of TensorFlow Serving's gRPC interface: inputs, outputs and states.

The error messages are those of `tensorflow/serving` (`servables/tensorflow/predict_util.cc`).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.protobuf import error_codes_pb2, meta_graph_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from tf_transformer.serving.rest_format import RestError, shorten
from tf_transformer.serving.served_model import VersionState

SIGNATURES = "signature_def"  # the only metadata that there is

# The field of a TensorProto with the values of a type. Clients that are not written with TensorFlow
# read these fields, not `tensor_content`.
FIELDS = {
    tf.string: "string_val",
    tf.float32: "float_val",
    tf.int32: "int_val",
    tf.int64: "int64_val",
}


def read_inputs(
    request: predict_pb2.PredictRequest, names: Collection[str]
) -> dict[str, list[str | bytes]]:
    """Reads the inputs of a request.

    Args:
      request: the message.
      names: of the inputs of the signature.
    Returns: lists of bytes by name, all of the same length.
    Raises: RestError.
    """
    sent = set(request.inputs)
    if sent != set(names):
        extra, missing = sent.difference(names), set(names) - sent
        message = (
            f"input size does not match signature: {len(sent)}!={len(names)} "
            f"len({_braces(sent)}) != len({_braces(names)}). Sent extra: {_braces(extra)}. "
            f"Missing but required: {_braces(missing)}."
        )
        raise RestError(400, message, private=message)
    inputs = {name: _read_strings(name, request.inputs[name]) for name in names}
    if len({len(values) for values in inputs.values()}) > 1:
        raise RestError(400, f"inputs {', '.join(names)} must have the same number of rows")
    return inputs


def _read_strings(name: str, tensor: tensor_pb2.TensorProto) -> list[str | bytes]:
    """Reads a tensor of strings `[N]`. Raises: RestError."""
    if tensor.dtype != types_pb2.DT_STRING:
        known = types_pb2.DataType.DESCRIPTOR.values_by_number.get(tensor.dtype)
        kind = known.name if known else tensor.dtype
        raise RestError(400, f"input {name} has type {kind}: send DT_STRING")
    shape = [dimension.size for dimension in tensor.tensor_shape.dim]
    values: list[str | bytes] = list(tensor.string_val)
    # The shape alone says nothing on the size of the request.
    if tensor.tensor_shape.unknown_rank or shape != [len(values)]:
        raise RestError(
            400,
            f"input {name} has shape {shape[:8]} and {len(values)} strings: send a list of "
            "strings, one for each row",
        )
    return values


def check_output_filter(names: Iterable[str], known: Collection[str]) -> None:
    """Checks the field `output_filter` of a request.

    Args:
      names: of the outputs that the client wants.
      known: of all outputs of the signature.
    Raises: RestError.
    """
    seen = set()
    for name in names:
        if name not in known:
            shown = shorten(name)
            raise RestError(
                400,
                f"output tensor alias not found in signature: {shown} Outputs expected to be in "
                f"the set {_braces(known)}.",
                private=shown,
            )
        if name in seen:
            raise RestError(400, f"duplicate output tensor alias: {name}")
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
    dtype = tf.as_dtype(array.dtype)
    if dtype not in FIELDS:
        return tf.make_tensor_proto(array)
    tensor = tensor_pb2.TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=tf.TensorShape(array.shape).as_proto()
    )
    getattr(tensor, FIELDS[dtype]).extend(array.ravel().tolist())
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
