"""The ids of the phrases that translations must contain: see `decoding.constraints`."""

from collections.abc import Sequence

import numpy as np
import regex

from tf_transformer.data.scripts import EAST_ASIAN, SOUTH_EAST_ASIAN
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.text_batches import encode
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import PAD

PhraseIds = list[list[int]]  # of one text

# The first letter is of a script without blanks between words.
_UNSPACED = regex.compile(rf"\P{{L}}*[{EAST_ASIAN}{SOUTH_EAST_ASIAN}]")


def encode_phrases(
    tokenizer: Tokenizer,
    constraints: Sequence[Sequence[str]],
    limits: Sequence[int],
    line_numbers: Sequence[int] | None = None,
) -> list[PhraseIds]:
    """Encodes the phrases of each text, without the end token.

    A phrase begins with a blank, and so with a word, except in scripts without blanks.

    Args:
      tokenizer: of the target.
      constraints: for each text its phrases.
      limits: of each text the longest output, sub-words with the end token.
      line_numbers: the line number of each text, for messages; None for 1, 2, ...
    Raises: UserError for constraints that cannot be met, or of another number of texts.
    """
    if len(constraints) != len(limits):
        raise UserError(f"constraints of {len(constraints)} of {len(limits)} texts: give all")
    found = []
    for i, phrases in enumerate(constraints):
        number = line_numbers[i] if line_numbers else i + 1
        rows = [_encode_phrase(tokenizer, phrase) for phrase in phrases]
        if not all(rows):
            raise UserError(
                f"line {number:,} has an empty constraint: give a phrase, or an empty line for none"
            )
        length = sum(map(len, rows))
        if length >= limits[i]:
            raise UserError(
                f"line {number:,}: the constraints have {length:,} sub-words, and the translation "
                f"has at most {limits[i] - 1:,}: shorten them, or give a larger "
                "--extra_decode_length"
            )
        found.append(rows)
    return found


def _encode_phrase(tokenizer: Tokenizer, phrase: str) -> list[int]:
    if _UNSPACED.match(phrase):
        tokenizer = tokenizer.without_initial_blank
    ((*ids, _),) = encode(tokenizer, [phrase])
    return ids


def pad_phrases(phrases: Sequence[PhraseIds], batch: Sequence[int]) -> np.ndarray:
    """The phrases of some texts, int32 `[B, P, M]`; at least one of these has phrases."""
    number = max(len(phrases[i]) for i in batch)
    longest = max(len(phrase) for i in batch for phrase in phrases[i])
    padded = np.full((len(batch), number, longest), PAD, np.int32)
    for row, i in enumerate(batch):
        for place, phrase in enumerate(phrases[i]):
            padded[row, place, : len(phrase)] = phrase
    return padded
