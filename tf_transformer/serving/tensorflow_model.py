"""A SavedModel in memory.

The model runs in a session, as in TensorFlow Serving, and not as a function of
`tf.saved_model.load`: the memory of a closed session is free again, and a run can be stopped after
a given time.
"""

import functools
import gc
import os
import re
import time
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations of the tokenizer)
from google.protobuf import json_format
from tensorflow.core.framework import types_pb2

from tf_transformer.files import CHECKSUMS, is_intact
from tf_transformer.serving.model_interface import (
    Input,
    Inputs,
    InvalidInputError,
    LoadedSignature,
    Outputs,
)

v1 = tf.compat.v1

ASSERTION = "assertion failed: "  # begins the message of tf.debugging.Assert


class TensorFlowModel:
    """A version of a SavedModel.

    Args:
      path: its folder.
    Raises: OSError, ValueError or an error of TensorFlow when the folder is not a complete model.
    """

    def __init__(self, path: str) -> None:
        if os.path.exists(os.path.join(path, CHECKSUMS)) and not is_intact(path):
            raise ValueError(f"its files differ from its {CHECKSUMS}")
        config = v1.ConfigProto(use_per_session_threads=True)
        config.gpu_options.allow_growth = True
        self._session = v1.Session(graph=tf.Graph(), config=config)
        with self._session.graph.as_default():
            graph = v1.saved_model.load(self._session, [tf.saved_model.SERVING], path)
        self.signatures = {
            name: self._signature(description)
            for name, description in graph.signature_def.items()
            if not name.startswith("__")
        }

    def _signature(self, description: Any) -> LoadedSignature:
        """Makes a signature of a `SignatureDef`."""
        defaults = {
            name: tf.make_ndarray(value).item() for name, value in description.defaults.items()
        }
        inputs = {
            name: Input(types_pb2.DataType.Name(info.dtype), defaults.get(name))
            for name, info in sorted(description.inputs.items())
        }
        shapes = [output.tensor_shape for output in description.outputs.values()]
        may_be_batched = all(dim.size >= 0 for shape in shapes for dim in shape.dim[1:])
        metadata = json_format.MessageToDict(
            description,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )
        run = functools.partial(self._run, description)
        return LoadedSignature(run, inputs, may_be_batched, metadata)

    def _run(self, description: Any, inputs: Inputs, deadline: float | None) -> Outputs:
        """Runs a signature."""
        feed = {}
        for name, info in description.inputs.items():
            dtype, values = tf.as_dtype(info.dtype).as_numpy_dtype, inputs[name]
            if dtype is object:
                values = [value.encode() if isinstance(value, str) else value for value in values]
            feed[info.name] = np.array(values, dtype)
        outputs = {name: info.name for name, info in sorted(description.outputs.items())}
        options = None
        if deadline is not None:
            milliseconds = round(1000 * (deadline - time.monotonic()))
            if milliseconds <= 0:  # 0 would mean no limit
                raise TimeoutError
            options = v1.RunOptions(timeout_in_ms=milliseconds)
        try:
            return self._session.run(outputs, feed, options=options)
        except tf.errors.DeadlineExceededError:
            raise TimeoutError from None
        except tf.errors.InvalidArgumentError as error:
            raise InvalidInputError(_first_line(error)) from error

    def close(self) -> None:
        """Stops what the model computes, and frees its memory."""
        self._session.close()
        self.signatures.clear()
        del self._session
        gc.collect()  # a graph has reference cycles


def _first_line(error: tf.errors.OpError) -> str:
    """The reason in an error message of TensorFlow, without the nodes of the graph."""
    lines = [line.strip() for line in error.message.splitlines() if line.strip()]
    line = next((line for line in lines if not line.startswith("Graph execution error")), "")
    if not line.startswith(ASSERTION):
        return line
    # A check of the graph: "assertion failed: [n_best must be 1 to] [4] [[{{node Assert}}]]".
    return " ".join(re.findall(r"\[([^][]*)\]", line.partition(" [[")[0]))
