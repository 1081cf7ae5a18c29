"""Models without TensorFlow, for tests of the server: they repeat texts in capital letters."""

import contextlib
import os
import threading
import time

import numpy as np

from tf_transformer.serving.model_source import ModelSource
from tf_transformer.serving.signature_inputs import Input


class FakeSignature:
    """Answers with the texts in capital letters, and with the version as the score."""

    inputs = {"text": Input()}
    may_be_batched = True

    def __init__(self, model):
        self._model = model

    def __call__(self, inputs, deadline=None):
        model = self._model
        model.batches.append(len(inputs["text"]))
        while not model.gate.wait(0.01):
            if model.is_closed or (deadline and time.monotonic() > deadline):
                raise TimeoutError
        model.computed.append(model.path)
        texts = [text.encode() if isinstance(text, str) else text for text in inputs["text"]]
        if b"bug" in texts:
            raise RuntimeError("out of order")
        upper = np.array([text.upper() for text in texts], object)
        return {"translation": upper, "score": np.full(len(texts), model.version, np.float32)}


class FakeModel:
    """A version in memory. A file "broken" in its folder makes that impossible.

    Attributes:
      gate: the event for which computations wait; it is set.
      batches: sizes of the batches.
    """

    loaded = []  # the versions that are in memory
    computed = []  # the folders of the versions, in the order of their computations

    def __init__(self, path, concurrency):
        if not os.path.isdir(path):
            raise OSError(f"{path} does not exist")
        if os.path.exists(os.path.join(path, "broken")):
            raise ValueError("it is broken")
        self.path = path
        self.version = int(os.path.basename(path))
        self.signatures = {"serving_default": FakeSignature(self)}
        tensors = {"translation": "DT_STRING", "score": "DT_FLOAT"}
        outputs = {name: {"name": name, "dtype": dtype} for name, dtype in tensors.items()}
        inputs = {"text": {"name": "text:0", "dtype": "DT_STRING"}}
        self.metadata = {"serving_default": {"inputs": inputs, "outputs": outputs}}
        self.gate = threading.Event()
        self.gate.set()
        self.batches = []
        self.is_closed = False
        self.loaded.append(self)

    def close(self):
        self.is_closed = True
        self.loaded.remove(self)


def fake_source(folder, name="anna", **policy):
    """A `ModelSource` of fake models in a folder."""
    return ModelSource(name, str(folder), load=FakeModel, **policy)


def add_versions(folder, *versions):
    for version in versions:
        (folder / str(version)).mkdir(parents=True)


@contextlib.contextmanager
def waiting(folder):
    """Lets the computations of the models below a folder wait; yields the models."""
    models = [model for model in FakeModel.loaded if model.path.startswith(str(folder))]
    for model in models:
        model.gate.clear()
    try:
        yield models
    finally:
        for model in models:
            model.gate.set()
