"""Batches of ids from texts, and texts from the ids of a search."""

import logging
from collections.abc import Sequence

import numpy as np

from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.inference import detokenize
from tf_transformer.decoding.scores import is_possible
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import PAD

logger = logging.getLogger(__name__)


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Texts -> lists of ids; each ends with the end token."""
    return tokenizer.encode(list(texts)).to_list() if texts else []


def decode_hypotheses(
    tokenizer: Tokenizer, ids: np.ndarray, *numbers: np.ndarray
) -> list[list[tuple]]:
    """The tuples (translation, score, further numbers) of each sentence of a search."""
    batch_size, n_best, length = ids.shape
    texts = detokenize(tokenizer, ids.reshape(batch_size * n_best, length)).numpy()
    texts = texts.reshape(batch_size, n_best)
    return [
        [
            (text.decode("utf-8"), float(score), *map(float, others))
            for text, score, *others in zip(*row)
            if is_possible(score)
        ]
        or [("", float("-inf"))]  # a model whose logits are not finite
        for row in zip(texts, *numbers)
    ]


def pad(rows: list[list[int]]) -> np.ndarray:
    """Lists of ids -> int32 `[B, S]`."""
    batch = np.full((len(rows), max(map(len, rows))), PAD, np.int32)
    for i, row in enumerate(rows):
        batch[i, : len(row)] = row
    return batch


def find_long(
    rows: list[list[int]],
    positions: int,
    line_numbers: Sequence[int],
    skip_long: bool,
    is_prefix: bool = False,
) -> set[int]:
    """Finds the texts with more sub-words than the model has positions.

    Raises: UserError for the first one, unless `skip_long`.
    """
    long = {i for i, row in enumerate(rows) if len(row) > positions}
    for i in sorted(long):
        problem = (
            f"line {line_numbers[i]:,} has {'a prefix of ' if is_prefix else ''}"
            f"{len(rows[i]):,} sub-words, the model takes at most {positions:,}"
        )
        if not skip_long:
            raise UserError(f"{problem}: {'shorten it' if is_prefix else 'split the line'}")
        logger.warning("%s: its result is empty", problem)
    return long
