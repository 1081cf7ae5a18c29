"""A server with the page and invented answers, for tests of the page."""

import asyncio

import numpy as np
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from serving.fake_models import SECONDS
from tf_transformer.serving.server import add_pages

DESCRIPTION = {
    "source": "en", "target": "de", "beam_size": 4, "length_penalty": 0.6,
    "max_source_subwords": 1024, "max_aligned_subwords": 128,
}  # fmt: skip


class FakeServer:
    """The page, and answers of a model with 2 layers and 3 heads that replaces "e" by "E".

    Args:
      **others: further models by name, as fake servers.

    Attributes:
      description: of the model.
      signatures: names of those that the model has.
      states: of the versions.
      requests: pairs of signature and texts, in the order of arrival.
      errors: signature -> the pair of status and body that it answers.
      releases: pair of signature and text, or beginning of the translation -> the event for which
        the answer waits.
    """

    def __init__(self, **others):
        self.description = dict(DESCRIPTION)
        self.signatures = ["nbest", "alignments"]
        self.states = [{"version": n, "state": s} for n, s in (("6", "END"), ("7", "AVAILABLE"))]
        self.requests, self.errors, self.releases = [], {}, {}
        models = {"anna": self, **others}
        routes = [route for name, model in models.items() for route in model.routes(name)]
        self.app = Starlette(routes=routes)
        add_pages(self.app, {name: model.describe for name, model in models.items()})

    def describe(self):
        return self.description

    def routes(self, name):
        path = f"/v1/models/{name}"
        return [
            Route(path, lambda request: JSONResponse({"model_version_status": self.states})),
            Route(f"{path}/metadata", self.metadata),
            Route(f"{path}:predict", self.predict, methods=["POST"]),
        ]

    def metadata(self, request):
        signatures = dict.fromkeys(self.signatures, {})
        return JSONResponse({"metadata": {"signature_def": {"signature_def": signatures}}})

    async def predict(self, request):
        body = await request.json()
        signature, lines = body["signature_name"], body["instances"]
        self.requests.append((signature, lines))
        if signature in self.errors:
            status, content = self.errors[signature]
            return JSONResponse(content, status)
        rows = [getattr(self, signature)(line) for line in lines]
        text = lines[0] if isinstance(lines[0], str) else lines[0]["target_prefix"]
        if release := self.releases.get((signature, text)):
            await asyncio.to_thread(release.wait, SECONDS)
        return JSONResponse({"predictions": rows})

    def nbest(self, line):
        if len(line) > 5000:
            return {"translations": ["", ""], "scores": [-1e9, -1e9]}
        return {"translations": [translated(line), line, ""], "scores": [-0.5, -1.25, -1e9]}

    def translate_with_options(self, row):
        answer = self.alternatives({**row, "text": translated(row["text"])})
        return {name: answer[name][:1] for name in ("translations", "scores")}

    def alternatives(self, row):
        text, prefix = row["text"], row["target_prefix"]
        if len(prefix) > 1000:
            return {"translations": [""] * 5, "probabilities": [0.0] * 5, "scores": [-1e9] * 5}
        # The tokenizer removes the space.
        first = text if prefix == "An " else prefix + text[len(prefix) :]
        translations = [first, f"{prefix}<i>x</i> y", first, "improbable", ""]
        probabilities = [0.75, 0.125, 0.01, 0.0005, 0.0]
        scores = [-0.5, -1.5, -2.5, -3.5, -1e9]
        return {"translations": translations, "probabilities": probabilities, "scores": scores}

    def alignments(self, line):
        source = [f"▁{word}" for word in line.split()] + ["[END]"]
        if len(source) > 128:
            return {"source_tokens": [], "target_tokens": [], "weights": [[[]] * 3] * 2}
        target = [translated(piece) for piece in source]
        weights = weights_of(line).tolist()
        return {"source_tokens": source, "target_tokens": target, "weights": weights}


def translated(line):
    return line.replace("e", "E")


def weights_of(line):
    """The weights of the fake server for a line, [L, H, T, S]."""
    length = len(line.split()) + 1
    return np.random.default_rng(length).dirichlet(np.ones(length), (2, 3, length))
