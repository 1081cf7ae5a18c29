"""Batches of ids from texts. This module does not import TensorFlow."""

import logging
from collections.abc import Iterator, Sequence, Sized
from typing import TYPE_CHECKING

import numpy as np

from tf_transformer.errors import UserError
from tf_transformer.special_tokens import PAD

if TYPE_CHECKING:
    from tf_transformer.data.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


def encode(tokenizer: "Tokenizer", texts: Sequence[str]) -> list[list[int]]:
    """Texts -> lists of ids; each ends with the end token."""
    return tokenizer.encode(list(texts)).to_list() if texts else []


def pad(rows: list[list[int]]) -> np.ndarray:
    """Lists of ids -> int32 `[B, S]`."""
    batch = np.full((len(rows), max(map(len, rows))), PAD, np.int32)
    for i, row in enumerate(rows):
        batch[i, : len(row)] = row
    return batch


def find_long(
    rows: Sequence[Sized],
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


def length_batches(lengths: dict[int, int], batch_tokens: int) -> Iterator[list[int]]:
    """Groups texts by length, longest first.

    An out-of-memory error then comes with the first batch.

    Args:
      lengths: index of each text -> its length in tokens.
      batch_tokens: most tokens of a batch, padding included. A batch has at least one text.
    Yields: lists of indices.
    """
    order = sorted(lengths, key=lambda i: -lengths[i])
    while order:
        rows = max(1, batch_tokens // lengths[order[0]])
        yield order[:rows]
        order = order[rows:]
