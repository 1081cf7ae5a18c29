"""A version of a model that was exported for CTranslate2, for the server.

Its signatures are `serving_default`, `nbest`, `score` and `count_tokens` of a SavedModel.
CTranslate2 has no attention weights of each layer and head, which `alignments` returns, and the
rows of a batch cannot have options of their own, which `translate_with_options`, `sample` and
`alternatives` take. Unusual rows have the results that `export/signatures.py` describes.
"""

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tf_transformer.decoding.scores import NEGATIVE_INFINITY, is_possible
from tf_transformer.decoding.text_batches import SCORED_TOKENS, length_batches
from tf_transformer.export.ctranslate2_translator import CTranslate2Translator
from tf_transformer.files import CHECKSUMS, is_intact
from tf_transformer.serving.model_interface import Input, LoadedSignature, Outputs

Texts = Any  # lists of str or bytes by name: the `Inputs` of signatures without numbers
Tensor = tuple[str, list[int]]  # data type and shape of each row, -1 for any size


class CTranslate2Model:
    """A version of a model that was exported for CTranslate2, in memory.

    Args:
      path: its folder.
      compute_type, parallel: as of `CTranslate2Translator`.
    Raises: ValueError, OSError or UserError when the folder is not a complete export.
    """

    def __init__(self, path: str, compute_type: str = "default", parallel: int = 1) -> None:
        if not is_intact(path):
            raise ValueError(f"its files differ from its {CHECKSUMS}")
        self._translator = CTranslate2Translator(path, compute_type, parallel)
        beam_size = self._translator.decode.beam_size
        n_best = functools.partial(self._search, beam_size)
        self.signatures = {
            "serving_default": _signature(
                self._translate, ["text"],
                score=("DT_FLOAT", []), translation=("DT_STRING", []), truncated=("DT_BOOL", []),
            ),
            "nbest": _signature(
                n_best, ["text"],
                scores=("DT_FLOAT", [beam_size]), translations=("DT_STRING", [beam_size]),
                truncated=("DT_BOOL", [beam_size]),
            ),
            "score": _signature(
                self._score, ["source", "target"],
                log_probability=("DT_FLOAT", []),
                token_log_probabilities=("DT_FLOAT", [-1]), tokens=("DT_STRING", [-1]),
            ),
            "count_tokens": _signature(self._count_tokens, ["text"], tokens=("DT_INT32", [])),
        }  # fmt: skip

    def close(self) -> None:
        """Frees the memory, after the batches that CTranslate2 computes now."""
        self.signatures.clear()  # they refer to this object

    def _translate(self, inputs: Texts, deadline: float | None) -> Outputs:
        found = self._search(1, inputs, deadline)
        names = {"score": "scores", "translation": "translations", "truncated": "truncated"}
        return {name: found[several][:, 0] for name, several in names.items()}

    def _search(self, number: int, inputs: Texts, deadline: float | None) -> Outputs:
        """The best translations of texts `[N, number]`."""
        rows = self._translator.encode(inputs["text"])
        shape = len(rows), number
        translations = np.full(shape, b"", object)
        scores = np.full(shape, NEGATIVE_INFINITY, np.float32)
        truncated = np.zeros(shape, bool)
        found = self._translator.search(rows, number, lambda _: _check(deadline))
        for i, hypotheses in enumerate(found):
            for k, hypothesis in enumerate(hypotheses):
                translation, score = hypothesis
                if is_possible(score):
                    translations[i, k], scores[i, k] = translation.encode(), score
                    truncated[i, k] = hypothesis.truncated
        return {"scores": scores, "translations": translations, "truncated": truncated}

    def _score(self, inputs: Texts, deadline: float | None) -> Outputs:
        translator = self._translator
        sources = translator.encode(inputs["source"])
        targets = translator.encode_targets(inputs["target"])
        lengths = {  # with the end token
            i: max(len(source), len(target)) + 1
            for i, (source, target) in enumerate(zip(sources, targets))
            if len(source) < translator.max_source and len(target) < translator.max_target
        }
        shape = len(sources), max((len(targets[i]) + 1 for i in lengths), default=0)
        totals = np.full(len(sources), NEGATIVE_INFINITY, np.float32)
        log_probs = np.zeros(shape, np.float32)
        tokens = np.full(shape, b"", object)
        for batch in length_batches(lengths, SCORED_TOKENS):
            _check(deadline)
            found = translator.log_probs([sources[i] for i in batch], [targets[i] for i in batch])
            for i, values in zip(batch, found):
                totals[i] = np.sum(values)
                log_probs[i, : len(values)] = values
                pieces = [*targets[i], translator.end]
                tokens[i, : len(values)] = [piece.encode() for piece in pieces]
        return {"log_probability": totals, "token_log_probabilities": log_probs, "tokens": tokens}

    def _count_tokens(self, inputs: Texts, deadline: float | None) -> Outputs:
        lengths = [len(row) for row in self._translator.encode(inputs["text"])]
        return {"tokens": np.array(lengths, np.int32)}


def _check(deadline: float | None) -> None:
    """Raises: TimeoutError after the deadline."""
    if deadline is not None and time.monotonic() >= deadline:
        raise TimeoutError


def _signature(
    run: Callable[[Texts, float | None], Outputs], inputs: list[str], **outputs: Tensor
) -> LoadedSignature:
    """Makes a signature of texts: what computes it, and its inputs and outputs by name."""

    def describe(name: str, dtype: str, shape: list[int]) -> dict[str, Any]:
        """A tensor `[N, *shape]`, as in the JSON of TensorFlow Serving."""
        sizes = [{"size": str(size), "name": ""} for size in (-1, *shape)]
        shapes = {"dim": sizes, "unknown_rank": False}
        return {"dtype": dtype, "tensor_shape": shapes, "name": name}

    metadata = {
        "inputs": {name: describe(name, "DT_STRING", []) for name in inputs},
        "outputs": {name: describe(name, *output) for name, output in outputs.items()},
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }
    may_be_batched = all(size >= 0 for _, shape in outputs.values() for size in shape)
    return LoadedSignature(run, dict.fromkeys(inputs, Input()), may_be_batched, metadata)
