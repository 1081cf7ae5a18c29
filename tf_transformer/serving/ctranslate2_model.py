"""A version of a model that was exported for CTranslate2, for the server.

Its signatures are those of a SavedModel but `alignments`: CTranslate2 returns no attention weights
of each layer and head. A row has the same result in every batch:
- Invalid UTF-8 is read as U+FFFD.
- Blank text has an empty translation with score 0.
- Text with more sub-words than the model has positions has an empty result, with score -1e9.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np

from tf_transformer.checkpoints import checksums
from tf_transformer.decoding.scores import NEGATIVE_INFINITY, is_possible
from tf_transformer.decoding.text_batches import length_batches
from tf_transformer.export.ctranslate2_translator import (
    SCORED_TOKENS,
    CTranslate2Translator,
    Hypotheses,
    Pieces,
)
from tf_transformer.serving.model_interface import Inputs, InvalidInputError, Outputs
from tf_transformer.serving.signature_inputs import read_inputs

Texts = Sequence[str | bytes]
Tensors = dict[str, tuple[str, list[int]]]  # name -> data type and shape, -1 for any size


class CTranslate2Signature:
    """A function of a model: strings `[N]` by name -> arrays `[N, ...]` by name.

    Args:
      run: computes the outputs from the inputs, until a deadline.
      inputs: names.
      outputs: their data types and shapes.
    """

    def __init__(
        self,
        run: Callable[[dict[str, Texts], float | None], Outputs],
        inputs: list[str],
        outputs: Tensors,
    ) -> None:
        self._run = run
        # Where a row is padded to the longest of the batch, requests are not batched.
        self.may_be_batched = all(size >= 0 for _, shape in outputs.values() for size in shape[1:])
        strings = {name: ("DT_STRING", [-1]) for name in inputs}
        self.metadata = {
            "inputs": _describe(strings),
            "outputs": _describe(outputs),
            "method_name": "tensorflow/serving/predict",
            "defaults": {},
        }
        self.inputs = read_inputs(self.metadata)

    def __call__(self, inputs: Inputs, deadline: float | None = None) -> Outputs:
        """Runs the function; see `model_interface.Signature`."""
        if len({len(inputs[name]) for name in self.inputs}) > 1:
            raise InvalidInputError(
                f"inputs {', '.join(self.inputs)} have different numbers of rows"
            )
        texts = {name: cast(Texts, inputs[name]) for name in self.inputs}
        return self._run(texts, deadline)


class CTranslate2Model:
    """A version of a model that was exported for CTranslate2, in memory.

    Args:
      path: its folder, whose name is the version.
      concurrency: calls that are computed at the same time; one of them only counts sub-words.
      compute_type: one of `ctranslate2_translator.COMPUTE_TYPES`.
    Raises: ValueError, OSError or UserError when the folder is not a complete export.
    """

    def __init__(self, path: str, concurrency: int = 1, compute_type: str = "default") -> None:
        self.path = path
        self.version = int(os.path.basename(path))
        if not checksums.is_intact(path):
            raise ValueError(f"its files are not those of its {checksums.NAME}")
        parallel = max(1, concurrency - 1)
        translator = CTranslate2Translator(path, compute_type, parallel)
        self._translator: CTranslate2Translator | None = translator  # None: the model is closed
        beam_size = translator.decode.beam_size
        one, any_length = [-1], [-1, -1]
        self.signatures = {
            "serving_default": CTranslate2Signature(
                self._translate, ["text"],
                {"score": ("DT_FLOAT", one), "translation": ("DT_STRING", one)},
            ),
            "nbest": CTranslate2Signature(
                self._n_best, ["text"],
                {
                    "scores": ("DT_FLOAT", [-1, beam_size]),
                    "translations": ("DT_STRING", [-1, beam_size]),
                },
            ),
            "score": CTranslate2Signature(
                self._score, ["source", "target"],
                {
                    "log_probability": ("DT_FLOAT", one),
                    "token_log_probabilities": ("DT_FLOAT", any_length),
                    "tokens": ("DT_STRING", any_length),
                },
            ),
            "count_tokens": CTranslate2Signature(
                self._count_tokens, ["text"], {"tokens": ("DT_INT32", one)}
            ),
        }  # fmt: skip
        self.metadata: dict[str, dict[str, Any]] = {
            name: signature.metadata for name, signature in self.signatures.items()
        }
        self.signatures["nbest"]({"text": ["."]})  # the first call takes longer

    def close(self) -> None:
        """Frees the memory, after the batches that CTranslate2 computes now."""
        self._translator = None

    def _open(self) -> CTranslate2Translator:
        if self._translator is None:
            raise RuntimeError("the model is closed")
        return self._translator

    def _translate(self, inputs: dict[str, Texts], deadline: float | None) -> Outputs:
        translations, scores = self._search(inputs["text"], 1, deadline)
        return {"score": scores[:, 0], "translation": translations[:, 0]}

    def _n_best(self, inputs: dict[str, Texts], deadline: float | None) -> Outputs:
        number = self._open().decode.beam_size
        translations, scores = self._search(inputs["text"], number, deadline)
        return {"scores": scores, "translations": translations}

    def _search(
        self, texts: Texts, number: int, deadline: float | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns: translations, bytes `[N, number]`, and scores, float32 `[N, number]`."""
        translator = self._open()
        rows = translator.encode(texts)
        translations = np.full((len(rows), number), b"", object)
        scores = np.full((len(rows), number), NEGATIVE_INFINITY, np.float32)
        scores[[not row for row in rows], 0] = 0.0
        fitting = [i for i, row in enumerate(rows) if 0 < len(row) < translator.max_source]
        for batch in self._until(deadline, translator.batches(rows, fitting)):
            found = translator.search([rows[i] for i in batch], number)
            for i, hypotheses in zip(batch, found):
                _store(hypotheses, translations[i], scores[i])
        return translations, scores

    def _score(self, inputs: dict[str, Texts], deadline: float | None) -> Outputs:
        translator = self._open()
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
        for batch in self._until(deadline, length_batches(tokens_of_pair, SCORED_TOKENS)):
            found = translator.log_probs([sources[i] for i in batch], [targets[i] for i in batch])
            for i, values in zip(batch, found):
                totals[i] = np.sum(values)
                log_probs[i, : len(values)] = values
                tokens[i, : len(values)] = _encode([*targets[i], translator.end])
        return {"log_probability": totals, "token_log_probabilities": log_probs, "tokens": tokens}

    def _count_tokens(self, inputs: dict[str, Texts], deadline: float | None) -> Outputs:
        lengths = [len(row) for row in self._open().encode(inputs["text"])]
        return {"tokens": np.array(lengths, np.int32)}

    def _until(self, deadline: float | None, batches: Iterable[list[int]]) -> Iterable[list[int]]:
        """Yields batches. Raises: TimeoutError after the deadline; RuntimeError after `close`."""
        for batch in batches:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError
            self._open()
            yield batch


def _store(hypotheses: Hypotheses, translations: np.ndarray, scores: np.ndarray) -> None:
    """Stores the hypotheses of a text in its rows of the outputs."""
    for k, (translation, score) in enumerate(hypotheses):
        if is_possible(score):
            translations[k] = translation.encode()
            scores[k] = score


def _encode(pieces: Pieces) -> list[bytes]:
    return [piece.encode() for piece in pieces]


def _describe(tensors: Tensors) -> dict[str, dict[str, Any]]:
    """Describes tensors as the JSON of TensorFlow Serving does."""
    return {
        name: {
            "dtype": dtype,
            "tensor_shape": {
                "dim": [{"size": str(size), "name": ""} for size in shape],
                "unknown_rank": False,
            },
            "name": name,
        }
        for name, (dtype, shape) in tensors.items()
    }
