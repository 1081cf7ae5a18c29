"""A server for tests, and models without TensorFlow, which repeat texts in capital letters."""

import contextlib
import os
import threading
import time

import httpx2
import numpy as np
import uvicorn

from tf_transformer.config import ServeConfig
from tf_transformer.serving.model_interface import Input, InvalidInputError, LoadedSignature
from tf_transformer.serving.server import Server

SECONDS = 600  # in which everything must happen, however busy the machine is


class FakeModel:
    """A version in memory. A file "broken" in its folder makes that impossible.

    Its signatures answer with the texts in capital letters, and with the version as the score. A
    computation waits for the gate. The text "bug" is an internal error, and "bad" an error of the
    request. The count of the sub-words of a text with "slow" waits for the gate.

    Attributes:
      gate: the event for which computations wait; it is set.
      started: a semaphore that counts the computations.
      batches: their inputs.
      warmed: the inputs of the first runs, of the text ".".
      counted: the texts whose sub-words were counted, or are.
      parsers: the threads that looked up a signature for a request.
    """

    loaded = []  # the versions that are in memory

    def __init__(self, path):
        if os.path.exists(os.path.join(path, "broken")):
            raise ValueError(f"{path}/broken\nis broken")
        self.version = int(os.path.basename(path))
        self.gate = threading.Event()
        self.gate.set()
        self.started = threading.Semaphore(0)
        self.batches, self.warmed, self.counted, self.parsers = [], [], [], set()
        self.is_closed = False
        text, option = {"text": Input()}, {"beam_size": Input("DT_INT32", 4)}
        described = {"inputs": {"text": {"dtype": "DT_STRING"}}}
        self.signatures = Signatures(self.parsers)
        self.signatures |= {
            "serving_default": LoadedSignature(self.translate, text, True, described),
            "options": LoadedSignature(self.translate, {**option, **text}, True, {}),
            "alignments": LoadedSignature(self.translate, text, False, {}),
            "count_tokens": LoadedSignature(self.count, text, True, {}),
        }
        self.loaded.append(self)

    def translate(self, inputs, deadline=None):
        if inputs["text"] == ["."]:
            self.warmed.append(dict(inputs))
            return {}
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

    def count(self, inputs, deadline):
        self.counted += [text for text in inputs["text"] if text != "."]
        if any("slow" in text for text in inputs["text"]):
            assert self.gate.wait(SECONDS)
        return {"tokens": np.array([len(text.split()) for text in inputs["text"]])}

    def close(self):
        self.is_closed = True
        self.loaded.remove(self)


class Signatures(dict):
    """Signatures by name, which record the threads that look whether one is there."""

    def __init__(self, threads):
        super().__init__()
        self.threads = threads

    def __contains__(self, name):
        self.threads.add(threading.current_thread())
        return super().__contains__(name)


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


@contextlib.contextmanager
def listening(app, grace=1):
    """Runs an ASGI application in a thread. At its end, it waits `grace` seconds for requests.

    Yields: the uvicorn server, and its address.
    """
    # By default, it closes a connection 5 s after a response, when a request may be on its way.
    times = {"timeout_keep_alive": SECONDS, "timeout_graceful_shutdown": grace}
    config = uvicorn.Config(app, port=0, log_level="error", **times)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        host, port = server.servers[0].sockets[0].getsockname()
        yield server, f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def running(
    folder,
    load=FakeModel,
    is_ready=True,
    timeout=10 * SECONDS,
    grace=SECONDS,
    others=(),
    **settings,
):
    """A client of a server of the model "anna" that looks for versions at once, and has loaded one.

    `others` are pairs of the name and the folder of further models. Its attribute `server` is the
    uvicorn server.
    """
    settings = ServeConfig(reload_seconds=0.1, timeout=timeout, **settings)
    app = Server({"anna": str(folder), **dict(others)}, settings, load).app
    with listening(app, grace) as (server, url):
        try:
            with httpx2.Client(base_url=url, timeout=SECONDS) as web:
                if is_ready:
                    wait_until(lambda: web.get("/healthz/ready").status_code == 200)
                web.server = server
                yield web
        finally:
            for model in FakeModel.loaded:  # the server of a test that has failed ends too
                model.gate.set()
