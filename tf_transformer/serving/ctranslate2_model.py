"""A version of a model that was exported for CTranslate2, for the server.

Its signatures are those of a SavedModel but `alignments`: CTranslate2 returns no attention weights
of each layer and head. A row has the same result in every batch:
- Invalid UTF-8 is read as U+FFFD.
- Blank text has an empty translation with score 0.
- Text with more sub-words than the model has positions has an empty result, with score -1e9.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tf_transformer.decoding.scores import NEGATIVE_INFINITY, is_possible
from tf_transformer.decoding.text_batches import SCORED_TOKENS, length_batches
from tf_transformer.export.ctranslate2_translator import CTranslate2Translator
from tf_transformer.files import CHECKSUMS, is_intact
from tf_transformer.serving.model_interface import Input, Outputs, Signature

Texts = Any  # lists of str or bytes by name: the `Inputs` of signatures without numbers
Tensors = dict[str, tuple[str, list[int]]]  # name -> data type and shape, -1 for any size


class CTranslate2Model:
    """A version of a model that was exported for CTranslate2, in memory.

    Args:
      path: its folder.
      concurrency: calls that are computed at the same time; one of them only counts sub-words.
      compute_type: one of `ctranslate2_translator.COMPUTE_TYPES`.
    Raises: ValueError, OSError or UserError when the folder is not a complete export.
    """

    def __init__(self, path: str, concurrency: int = 1, compute_type: str = "default") -> None:
        if not is_intact(path):
            raise ValueError(f"its files are not those of its {CHECKSUMS}")
        self._translator = CTranslate2Translator(path, compute_type, max(1, concurrency - 1))
        self._beam_size = self._translator.decode.beam_size
        one, best, any_length = [-1], [-1, self._beam_size], [-1, -1]
        self.signatures = {
            "serving_default": _signature(
                self._translate, ["text"],
                {
                    "score": ("DT_FLOAT", one),
                    "translation": ("DT_STRING", one),
                    "truncated": ("DT_BOOL", one),
                },
            ),
            "nbest": _signature(
                self._n_best, ["text"],
                {
                    "scores": ("DT_FLOAT", best),
                    "translations": ("DT_STRING", best),
                    "truncated": ("DT_BOOL", best),
                },
            ),
            "score": _signature(
                self._score, ["source", "target"],
                {
                    "log_probability": ("DT_FLOAT", one),
                    "token_log_probabilities": ("DT_FLOAT", any_length),
                    "tokens": ("DT_STRING", any_length),
                },
            ),
            "count_tokens": _signature(
                self._count_tokens, ["text"], {"tokens": ("DT_INT32", one)}
            ),
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
        found = self._search(inputs["text"], self._beam_size, deadline)
        return dict(zip(("scores", "translations", "truncated"), found))

    def _search(
        self, texts: Sequence[str | bytes], number: int, deadline: float | None
    ) -> tuple[np.ndarray, ...]:
        """Returns: scores, float32 `[N, number]`; translations, bytes; truncated, bool."""
        translator = self._translator
        rows = translator.encode(texts)
        translations = np.full((len(rows), number), b"", object)
        scores = np.full((len(rows), number), NEGATIVE_INFINITY, np.float32)
        truncated = np.zeros(scores.shape, bool)
        scores[[not row for row in rows], 0] = 0.0
        fitting = [i for i, row in enumerate(rows) if 0 < len(row) < translator.max_source]
        for batch in _until(deadline, translator.batches(rows, fitting)):
            found = translator.search([rows[i] for i in batch], number)
            for i, hypotheses in zip(batch, found):
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
        for batch in _until(deadline, length_batches(tokens_of_pair, SCORED_TOKENS)):
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


def _until(deadline: float | None, batches: Iterable[list[int]]) -> Iterable[list[int]]:
    """Yields batches. Raises: TimeoutError after the deadline."""
    for batch in batches:
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError
        yield batch


def _signature(
    run: Callable[[Texts, float | None], Outputs], inputs: list[str], outputs: Tensors
) -> Signature:
    """Makes a signature of texts.

    Args:
      run: computes the outputs.
      inputs: names.
      outputs: their data types and shapes.
    """
    metadata = {
        "inputs": _describe({name: ("DT_STRING", [-1]) for name in inputs}),
        "outputs": _describe(outputs),
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }
    may_be_batched = all(size >= 0 for _, shape in outputs.values() for size in shape[1:])
    return Signature(run, dict.fromkeys(inputs, Input()), may_be_batched, metadata)


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
