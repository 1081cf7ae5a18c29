"""Models without TensorFlow, for tests of the server: they repeat texts in capital letters."""

import os
import threading
import time

import numpy as np

from tf_transformer.serving.model_interface import Input, InvalidInputError, Signature

SECONDS = 120  # in which everything must happen, however busy the machine is


class FakeModel:
    """A version in memory. A file "broken" in its folder makes that impossible.

    Its signatures answer with the texts in capital letters, and with the version as the score. A
    computation waits for the gate. The text "bug" is an internal error, and "bad" an error of the
    request.

    Attributes:
      gate: the event for which computations wait; it is set.
      started: a semaphore that counts the computations.
      batches: their inputs.
    """

    loaded = []  # the versions that are in memory

    def __init__(self, path, concurrency=3):
        if os.path.exists(os.path.join(path, "broken")):
            raise ValueError(f"{path}/broken is broken")
        self.version = int(os.path.basename(path))
        self.gate = threading.Event()
        self.gate.set()
        self.started = threading.Semaphore(0)
        self.batches = []
        self.is_closed = False
        text, option = {"text": Input()}, {"beam_size": Input("DT_INT32", 4)}
        described = {"inputs": {"text": {"dtype": "DT_STRING"}}}
        self.signatures = {
            "serving_default": Signature(self.translate, text, True, described),
            "options": Signature(self.translate, {**option, **text}, True, {}),
            "alignments": Signature(self.translate, text, False, {}),
            "count_tokens": Signature(count_words, text, True, {}),
        }
        self.loaded.append(self)

    def translate(self, inputs, deadline=None):
        self.batches.append({name: list(values) for name, values in inputs.items()})
        self.started.release()
        while not self.gate.wait(0.01):
            if self.is_closed or (deadline and time.monotonic() > deadline):
                raise TimeoutError
        texts = [text.encode() if isinstance(text, str) else text for text in inputs["text"]]
        if b"bug" in texts:
            raise RuntimeError("out of order")
        if b"bad" in texts:
            raise InvalidInputError("the text is bad")
        upper = np.array([text.upper() for text in texts], object)
        return {"translation": upper, "score": np.full(len(texts), self.version, np.float32)}

    def close(self):
        self.is_closed = True
        self.loaded.remove(self)


def count_words(inputs, deadline):
    return {"tokens": np.array([len(text.split()) for text in inputs["text"]])}


def add_version(folder, name, *files):
    """Adds a version with empty files, which appears when it is complete."""
    new = folder / "new"
    new.mkdir()
    for file in files:
        (new / file).touch()
    new.rename(folder / str(name))


def wait_until(condition):
    """Waits until a condition is true. Returns: its value."""
    end = time.monotonic() + SECONDS
    while not (value := condition()):
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)
    return value
