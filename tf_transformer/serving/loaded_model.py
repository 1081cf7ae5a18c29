"""One version of an exported model in memory, and the folder in which newer ones appear."""

import contextlib
import os

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (the operations of the tokenizer)
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2


class Signature:
    """A function of an exported model: strings `[N]` by name -> arrays `[N, ...]` by name.

    Args:
      function: as `tf.saved_model.load` gives it.
      description: its `SignatureDef`.
    """

    def __init__(self, function, description):
        self._function, self.inputs = function, sorted(description.inputs)
        shapes = [
            [dim.size for dim in tensor.tensor_shape.dim[1:]]
            for tensor in description.outputs.values()
        ]
        # Where rows are padded to those beside them, a request is computed alone, so that its answer does not depend on others.
        self.may_be_batched = all(size >= 0 for shape in shapes for size in shape)

    def __call__(self, inputs):
        """Lists of bytes or strings by name, all of one length -> numpy arrays by name."""
        outputs = self._function(
            **{name: tf.constant(values, tf.string) for name, values in inputs.items()}
        )
        return {name: value.numpy() for name, value in outputs.items()}


class ServedModel:
    """A version of an exported model, after the requests that were recorded with it.

    Args:
      path: its folder, whose name is the version.
    Raises: OSError, ValueError, or one of TensorFlow's errors for a folder that is no whole model.
    """

    def __init__(self, path):
        self.path, self.version = path, int(os.path.basename(path))
        with open(os.path.join(path, "saved_model.pb"), "rb") as file:
            (graph,) = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs
        self._loaded = tf.saved_model.load(path)
        descriptions = {
            name: one for name, one in graph.signature_def.items() if not name.startswith("__")
        }
        self.signatures = {
            name: Signature(self._loaded.signatures[name], one)
            for name, one in descriptions.items()
        }
        how = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
        self.metadata = {
            name: json_format.MessageToDict(one, **how) for name, one in descriptions.items()
        }
        self._warm_up()

    def _warm_up(self):
        from tensorflow_serving.apis import prediction_log_pb2

        path = os.path.join(self.path, "assets.extra", "tf_serving_warmup_requests")
        for record in tf.data.TFRecordDataset(path) if os.path.exists(path) else []:
            request = prediction_log_pb2.PredictionLog.FromString(
                record.numpy()
            ).predict_log.request
            inputs = {
                name: np.atleast_1d(tf.make_ndarray(value))
                for name, value in request.inputs.items()
            }
            self.signatures[request.model_spec.signature_name](inputs)


class Reloader:
    """Looks for a newer version in a folder, and loads it.

    Args:
      folder: of the versions.
      say: prints a line; told of each version that cannot be loaded, once for its files as they stand.
    """

    def __init__(self, folder, say):
        self._folder, self._say, self._refused = folder, say, {}

    def look(self, current):
        """Returns: the newest version that can be loaded, as a `ServedModel`, where it is another than `current` (None at the start)."""
        for path in self._versions():
            if current and path == current.path:
                return None
            files = _files(path)
            if self._refused.get(path) == files:
                continue
            try:
                return ServedModel(path)
            except Exception as error:  # whatever TensorFlow finds wrong with the files
                self._refused[path] = files
                self._say(f"{path} cannot be loaded: {error}")
        return None

    def _versions(self):
        """Paths, newest first."""
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(self._folder) if name.isascii() and name.isdigit()]
            return [
                os.path.join(self._folder, name) for name in sorted(names, key=int, reverse=True)
            ]
        return []


def _files(path):
    """What there is in a folder, to see whether it has changed: name, time and size of each file."""
    found = []
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                state = os.stat(os.path.join(folder, name))
                found.append((folder, name, state.st_mtime_ns, state.st_size))
    return sorted(found)
