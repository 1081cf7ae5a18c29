"""A version of an exported model in memory.

The model runs in a session, as in TensorFlow Serving, and not as a function of
`tf.saved_model.load`: the memory of a closed session is free again, a run can be stopped after a
given time, and a call for one sentence takes half the time.
"""

import gc
import glob
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations of the tokenizer)
from google.protobuf import json_format
from tensorflow.core.framework import types_pb2

from tf_transformer.checkpoints import checksums
from tf_transformer.serving.model_interface import Inputs, InvalidInputError
from tf_transformer.serving.signature_inputs import Value, default_values, read_inputs

v1 = tf.compat.v1

# Up to this size of the weights, in bytes, the operations of a search are so small that to hand
# each one to a thread of a pool takes longer than to compute it. TensorFlow's single-threaded
# executor then takes 0.4 of the time for a sentence, and the same time for 32 (`pocket` model). In
# its loops, matrix products do not use oneDNN: 32 sentences take 1.6 times as long with `small`,
# and 1.8 times with `base` (two cores).
SMALL_MODEL = 16 * 2**20

ASSERTION = "assertion failed: "  # begins the message of tf.debugging.Assert

Run = Callable[[dict[str, str], dict[str, np.ndarray], float | None], dict[str, np.ndarray]]


class Signature:
    """A signature of an exported model: values `[N]` by name -> arrays `[N, ...]` by name.

    Args:
      run: computes tensors from others, by their names in the graph, until a deadline.
      description: its `SignatureDef`.
      metadata: the same as a dict.
    """

    def __init__(self, run: Run, description: Any, metadata: Mapping[str, Any]) -> None:
        self._run = run
        self._placeholders = {name: info.name for name, info in description.inputs.items()}
        self._outputs = {name: info.name for name, info in sorted(description.outputs.items())}
        self.inputs = read_inputs(metadata)
        sizes = [
            dim.size
            for tensor in description.outputs.values()
            for dim in tensor.tensor_shape.dim[1:]
        ]
        # Where the output of a row is padded to the longest row of the batch, requests are not
        # batched. The response to a request is then independent of other requests.
        self.may_be_batched = all(size >= 0 for size in sizes)

    def __call__(self, inputs: Inputs, deadline: float | None = None) -> dict[str, np.ndarray]:
        """Runs the signature.

        Args:
          inputs: lists of values by name, all of the same length.
          deadline: a time of `time.monotonic` at which the computation is stopped; None for none.
        Returns: NumPy arrays by name.
        Raises: TimeoutError after the deadline; InvalidInputError.
        """
        feed = {
            self._placeholders[name]: _array(inputs[name], given.dtype)
            for name, given in self.inputs.items()
        }
        return self._run(self._outputs, feed, deadline)


class LoadedModel:
    """A version of an exported model. The constructor runs its recorded warm-up requests.

    Args:
      path: its folder, whose name is the version.
      concurrency: calls that are computed at the same time; others wait.
    Raises: OSError, ValueError or an error of TensorFlow when the folder is not a complete model.
    """

    def __init__(self, path: str, concurrency: int = 1) -> None:
        self.path = path
        self.version = int(os.path.basename(path))
        if os.path.exists(os.path.join(path, checksums.NAME)) and not checksums.is_intact(path):
            raise ValueError(f"its files are not those of its {checksums.NAME}")
        config = v1.ConfigProto(use_per_session_threads=True)
        if _size_of_weights(path) <= SMALL_MODEL:
            config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
        config.gpu_options.allow_growth = True
        # With that executor, a call holds one thread, and another one while it computes a loop.
        # With fewer threads than that, calls would wait for each other forever.
        config.inter_op_parallelism_threads = 2 * concurrency
        self._free = threading.Semaphore(concurrency)
        self._session = v1.Session(graph=tf.Graph(), config=config)
        self.signatures: dict[str, Signature] = {}
        self.metadata: dict[str, dict[str, Any]] = {}
        try:
            self._load()
        except Exception:
            self.close()
            raise

    def _load(self) -> None:
        with self._session.graph.as_default():
            graph = v1.saved_model.load(self._session, [tf.saved_model.SERVING], self.path)
        for name, description in graph.signature_def.items():
            if name.startswith("__"):
                continue
            self.metadata[name] = json_format.MessageToDict(
                description,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            self.signatures[name] = Signature(self._run, description, self.metadata[name])
        self._warm_up()

    def _run(
        self, outputs: dict[str, str], feed: dict[str, np.ndarray], deadline: float | None
    ) -> dict[str, np.ndarray]:
        if not self._free.acquire(timeout=None if deadline is None else _seconds_until(deadline)):
            raise TimeoutError
        try:
            options = None
            if deadline is not None:
                milliseconds = round(1000 * _seconds_until(deadline))
                if not milliseconds:  # 0 would mean no limit
                    raise TimeoutError
                options = v1.RunOptions(timeout_in_ms=milliseconds)
            return self._session.run(outputs, feed, options=options)
        except tf.errors.DeadlineExceededError:
            raise TimeoutError from None
        except tf.errors.InvalidArgumentError as error:
            raise InvalidInputError(_first_line(error)) from error
        finally:
            self._free.release()

    def close(self) -> None:
        """Stops what the model computes, and frees its memory."""
        self._session.close()
        self.signatures.clear()
        del self._session
        gc.collect()  # a graph has reference cycles

    def _warm_up(self) -> None:
        from tensorflow_serving.apis import prediction_log_pb2

        path = os.path.join(self.path, "assets.extra", "tf_serving_warmup_requests")
        if not os.path.exists(path):
            return
        for record in tf.data.TFRecordDataset(path):
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
            request = log.predict_log.request
            inputs = {
                name: np.atleast_1d(tf.make_ndarray(value)).tolist()
                for name, value in request.inputs.items()
            }
            signature = self.signatures[request.model_spec.signature_name]
            if not default_values(signature.inputs):  # the others would double the time of loading
                signature(inputs)


def _size_of_weights(path: str) -> int:
    """The size of an export's weights, in bytes."""
    files = glob.glob(os.path.join(glob.escape(path), "variables", "*"))
    return sum(map(os.path.getsize, files))


def _seconds_until(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _array(values: Sequence[Value], dtype: str) -> np.ndarray:
    """Values of a type -> an array `[N]`, of bytes for strings."""
    if dtype != "DT_STRING":
        return np.array(values, tf.as_dtype(types_pb2.DataType.Value(dtype)).as_numpy_dtype)
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    return np.array(encoded, dtype=object)


def _first_line(error: tf.errors.OpError) -> str:
    """The reason in an error message of TensorFlow, without the nodes of the graph."""
    lines = [line.strip() for line in error.message.splitlines() if line.strip()]
    line = next((line for line in lines if not line.startswith("Graph execution error")), "")
    if not line.startswith(ASSERTION):
        return line
    # A check of the graph: "assertion failed: [n_best must be 1 to] [4] [[{{node Assert}}]]".
    return " ".join(re.findall(r"\[([^][]*)\]", line.partition(" [[")[0]))
