"""A version of an exported model in memory, and the search for newer versions."""

import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations of the tokenizer)
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2

logger = logging.getLogger(__name__)

Inputs = Mapping[str, Sequence[str | bytes]]  # of a signature, by name; all of the same length
FileList = list[tuple[str, str, int, int]]  # folder, name, time and size of each file


class Signature:
    """A signature of an exported model: strings `[N]` by name -> arrays `[N, ...]` by name.

    Args:
      function: of `tf.saved_model.load`.
      description: its `SignatureDef`.
    """

    def __init__(self, function: Any, description: Any) -> None:
        self._function = function
        self.inputs = sorted(description.inputs)
        sizes = [
            dim.size
            for tensor in description.outputs.values()
            for dim in tensor.tensor_shape.dim[1:]
        ]
        # Where the output of a row is padded to the longest row of the batch, requests are not
        # batched. The response to a request is then independent of other requests.
        self.may_be_batched = all(size >= 0 for size in sizes)

    def __call__(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """Runs the signature.

        Args:
          inputs: lists of strings or bytes by name, all of the same length.
        Returns: NumPy arrays by name.
        """
        tensors = {name: tf.constant(values, tf.string) for name, values in inputs.items()}
        outputs = self._function(**tensors)
        return {name: value.numpy() for name, value in outputs.items()}


class LoadedModel:
    """A version of an exported model. The constructor runs its recorded warm-up requests.

    Args:
      path: its folder, whose name is the version.
    Raises: OSError, ValueError or an error of TensorFlow when the folder is not a complete model.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.version = int(os.path.basename(path))
        with open(os.path.join(path, "saved_model.pb"), "rb") as file:
            (graph,) = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs
        self._module = tf.saved_model.load(path)
        self.signatures: dict[str, Signature] = {}
        self.metadata: dict[str, dict[str, Any]] = {}
        for name, description in graph.signature_def.items():
            if name.startswith("__"):
                continue
            self.signatures[name] = Signature(self._module.signatures[name], description)
            self.metadata[name] = json_format.MessageToDict(
                description,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
        self._warm_up()

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
            self.signatures[request.model_spec.signature_name](inputs)


class Reloader:
    """Loads the newest version in a folder.

    A version that cannot be loaded is logged as a warning, and tried again after its files have
    changed.

    Args:
      folder: of the versions.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        # Path of a version -> its files when it could not be loaded.
        self._failed: dict[str, FileList] = {}

    def load_newer(self, current: LoadedModel | None) -> LoadedModel | None:
        """Loads the newest version that can be loaded.

        Args:
          current: the `LoadedModel` that is served, or None at the start.
        Returns: a `LoadedModel`, or None if there is no newer version than `current`.
        """
        for path in self._versions():
            if current and path == current.path:
                return None
            files = _list_files(path)
            if self._failed.get(path) == files:
                continue
            try:
                return LoadedModel(path)
            except Exception as error:  # TensorFlow raises errors of many types
                self._failed[path] = files
                logger.warning("%s cannot be loaded: %s", path, error)
        return None

    def _versions(self) -> list[str]:
        """The paths of the versions, newest first."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        versions = [name for name in names if name.isascii() and name.isdigit()]
        versions.sort(key=int, reverse=True)
        return [os.path.join(self._folder, version) for version in versions]


def _list_files(path: str) -> FileList:
    """Lists folder, name, time and size of each file in a folder, to detect changes."""
    files = []
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.stat(os.path.join(folder, name))
                files.append((folder, name, status.st_mtime_ns, status.st_size))
    return sorted(files)
