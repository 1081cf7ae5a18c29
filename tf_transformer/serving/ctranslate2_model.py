"""A version of a model that was exported for CTranslate2, for the server.

Its signatures are those of a SavedModel but `alignments`: CTranslate2 returns no attention weights
of each layer and head. A row has the same result in every batch:
- Invalid UTF-8 is read as U+FFFD.
- Blank text has an empty translation with score 0.
- Text with more sub-words than the model has positions has an empty result, with score -1e9.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tf_transformer.decoding.scores import NEGATIVE_INFINITY, is_possible
from tf_transformer.decoding.text_batches import SCORED_TOKENS, length_batches
from tf_transformer.export.ctranslate2_translator import CTranslate2Translator
from tf_transformer.files import CHECKSUMS, is_intact
from tf_transformer.serving.model_interface import Input, Outputs, Signature

Texts = Any  # lists of str or bytes by name: the `Inputs` of signatures without numbers
Tensor = tuple[str, list[int]]  # data type and shape of each row, -1 for any size


class CTranslate2Model:
    """A version of a model that was exported for CTranslate2, in memory.

    Args:
      path: its folder.
      concurrency: calls that are computed at the same time; one of them only counts sub-words.
      compute_type: as of `CTranslate2Translator`.
    Raises: ValueError, OSError or UserError when the folder is not a complete export.
    """

    def __init__(self, path: str, concurrency: int = 1, compute_type: str = "default") -> None:
        if not is_intact(path):
            raise ValueError(f"its files are not those of its {CHECKSUMS}")
        self._translator = CTranslate2Translator(path, compute_type, max(1, concurrency - 1))
        best = [self._translator.decode.beam_size]
        self.signatures = {
            "serving_default": _signature(
                self._translate, ["text"],
                score=("DT_FLOAT", []), translation=("DT_STRING", []), truncated=("DT_BOOL", []),
            ),
            "nbest": _signature(
                self._n_best, ["text"],
                scores=("DT_FLOAT", best), translations=("DT_STRING", best),
                truncated=("DT_BOOL", best),
            ),
            "score": _signature(
                self._score, ["source", "target"],
                log_probability=("DT_FLOAT", []),
                token_log_probabilities=("DT_FLOAT", [-1]), tokens=("DT_STRING", [-1]),
            ),
            "count_tokens": _signature(self._count_tokens, ["text"], tokens=("DT_INT32", [])),
        }  # fmt: skip
        self.signatures["nbest"].warm_up()

    def close(self) -> None:
        """Frees the memory, after the batches that CTranslate2 computes now."""
        self.signatures.clear()  # they refer to this object

    def _translate(self, inputs: Texts, deadline: float | None) -> Outputs:
        found = self._search(inputs["text"], 1, deadline)
        names = ("score", "translation", "truncated")
        return {name: values[:, 0] for name, values in zip(names, found)}

    def _n_best(self, inputs: Texts, deadline: float | None) -> Outputs:
        found = self._search(inputs["text"], self._translator.decode.beam_size, deadline)
        return dict(zip(("scores", "translations", "truncated"), found))

    def _search(
        self, texts: Sequence[str | bytes], number: int, deadline: float | None
    ) -> tuple[np.ndarray, ...]:
        """Returns: scores, float32 `[N, number]`; translations, bytes; truncated, bool."""
        translations = np.full((len(texts), number), b"", object)
        scores = np.full((len(texts), number), NEGATIVE_INFINITY, np.float32)
        truncated = np.zeros(scores.shape, bool)
        rows = self._translator.encode(texts)
        found = self._translator.search(rows, number, lambda _: _check(deadline))
        for i, hypotheses in enumerate(found):
            for k, hypothesis in enumerate(hypotheses):
                translation, score = hypothesis
                if is_possible(score):
                    translations[i, k], scores[i, k] = translation.encode(), score
                    truncated[i, k] = hypothesis.truncated
        return scores, translations, truncated

    def _score(self, inputs: Texts, deadline: float | None) -> Outputs:
        translator = self._translator
        sources = translator.encode(inputs["source"])
        targets = translator.encode_targets(inputs["target"])
        lengths = {
            i: len(target) + 1
            for i, (source, target) in enumerate(zip(sources, targets))
            if len(source) < translator.max_source and len(target) < translator.max_target
        }
        shape = len(sources), max(lengths.values(), default=0)
        totals = np.full(len(sources), NEGATIVE_INFINITY, np.float32)
        log_probs = np.zeros(shape, np.float32)
        tokens = np.full(shape, b"", object)
        tokens_of_pair = {i: max(length, len(sources[i]) + 1) for i, length in lengths.items()}
        for batch in length_batches(tokens_of_pair, SCORED_TOKENS):
            _check(deadline)
            found = translator.log_probs([sources[i] for i in batch], [targets[i] for i in batch])
            for i, values in zip(batch, found):
                totals[i] = np.sum(values)
                log_probs[i, : len(values)] = values
                tokens[i, : len(values)] = [
                    piece.encode() for piece in (*targets[i], translator.end)
                ]
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
) -> Signature:
    """Makes a signature of texts: what computes it, and its inputs and outputs by name."""
    metadata = {
        "inputs": {name: _describe(name, "DT_STRING", []) for name in inputs},
        "outputs": {name: _describe(name, *output) for name, output in outputs.items()},
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }
    may_be_batched = all(size >= 0 for _, shape in outputs.values() for size in shape)
    return Signature(run, dict.fromkeys(inputs, Input()), may_be_batched, metadata)


def _describe(name: str, dtype: str, shape: list[int]) -> dict[str, Any]:
    """Describes a tensor `[N, *shape]` as the JSON of TensorFlow Serving does."""
    sizes = [{"size": str(size), "name": ""} for size in (-1, *shape)]
    return {
        "dtype": dtype,
        "tensor_shape": {"dim": sizes, "unknown_rank": False},
        "name": name,
    }
