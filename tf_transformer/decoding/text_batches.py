"""Texts as batches of ids, and lines as sentences. This module does not import TensorFlow."""

import itertools
import logging
import re
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tf_transformer.data.languages import (
    WITHOUT_BLANKS_BETWEEN_SENTENCES,
    base_language,
    split_sentences,
)
from tf_transformer.data.tags import add_tag, split_tag
from tf_transformer.data.text_files import LINE_SEPARATORS, check_list
from tf_transformer.decoding.scores import is_possible
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import BLANK, PAD

if TYPE_CHECKING:
    from tf_transformer.data.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

SCORED_TOKENS = 1024  # target tokens of a batch of a CPU, whose logits are in memory


class Translation(tuple[str, float]):
    """A pair (translation, score), with what else is known of the translation.

    Attributes:
      length: its sub-words, without the end token.
      truncated: whether it has reached the longest output, where the search ends it.
      alignment: of its words, as of `Translator.align`; empty where it is not computed.
    """

    length: int
    truncated: bool
    alignment: list[tuple[int, int]]

    def __new__(
        cls, pair: tuple[str, float], length: int = 0, truncated: bool = False
    ) -> "Translation":
        """Makes a translation of a pair."""
        self = super().__new__(cls, pair)
        self.length, self.truncated, self.alignment = length, truncated, []
        return self


def format_length(length: int, truncated: bool) -> str:
    """A length as text, "53"; "53+" where the longest output is reached."""
    return f"{length}{'+' if truncated else ''}"


def format_alignment(alignment: Sequence[tuple[int, int]]) -> str:
    """An alignment in the Pharaoh format: "0-0 1-2"."""
    return " ".join(f"{source}-{target}" for source, target in alignment)


def warn_of_truncated(lines: Sequence[int], extra: int) -> None:
    """Warns of translations that have reached the longest output, if there are any.

    Args:
      lines: the line number of each of them.
      extra: the setting `extra_decode_length`.
    """
    if lines:
        logger.warning(
            f"translations that are cut off at the longest output, {extra:,} sub-words more than "
            f"the source: {len(lines):,}, the first in line {lines[0]:,}: unless they only repeat "
            "themselves, give a larger --extra_decode_length"
        )


def word_indices(pieces: Sequence[str]) -> list[int]:
    """Returns for each sub-word of a text the index of its word, from 0; blanks separate words."""
    beginnings = itertools.accumulate(pieces)
    return [len(f"{text}.".replace(BLANK, " ").split()) - 1 for text in beginnings]


def encode(tokenizer: "Tokenizer", texts: Sequence[str]) -> list[list[int]]:
    """Texts -> lists of ids; each ends with the end token."""
    check_list(texts, '["Anna sleeps."]')
    return tokenizer.encode(list(texts)).to_list() if texts else []


def padded_length(length: int, limit: int) -> int:
    """The length of a batch for XLA: 0, 16, 32, 64 and so on, or the limit."""
    return min(max(16, 1 << (length - 1).bit_length()), limit) if length else 0


def pad(rows: list[list[int]], length: int) -> np.ndarray:
    """Lists of ids -> int32 `[B, length]`."""
    batch = np.full((len(rows), length), PAD, np.int32)
    for i, row in enumerate(rows):
        batch[i, : len(row)] = row
    return batch


def check_n_best(number: int, beam_size: int) -> None:
    """Raises: UserError for a number of translations above the beam size."""
    if not 1 <= number <= beam_size:
        raise UserError(
            f"{number} translations of a beam of {beam_size}: give a larger --beam_size"
        )


def find_long(
    rows: Sequence[Sequence],
    positions: int,
    line_numbers: Sequence[int],
    skip_long: bool,
    what: str = "",
) -> set[int]:
    """Finds the texts, or their prefixes, with more sub-words than the model has positions.

    Args:
      what: "a prefix of " in messages about prefixes.
    Raises: UserError for the first one, unless `skip_long`.
    """
    long = {i for i, row in enumerate(rows) if len(row) > positions}
    for i in sorted(long):
        problem = (
            f"line {line_numbers[i]:,} has {what}"
            f"{len(rows[i]):,} sub-words, the model takes at most {positions:,}"
        )
        if not skip_long:
            raise UserError(f"{problem}: {'shorten it' if what else 'split the line'}")
        logger.warning("%s: its result is empty", problem)
    return long


def length_batches(lengths: dict[int, int], batch_tokens: int) -> Iterator[list[int]]:
    """Groups texts by length, longest first: lack of memory then shows in the first batch.

    Args:
      lengths: index of each text -> its length in tokens.
      batch_tokens: most tokens of a batch, padding included. A batch has at least one text.
    """
    order = sorted(lengths, key=lambda i: -lengths[i])
    while order:
        rows = max(1, batch_tokens // lengths[order[0]])
        yield order[:rows]
        order = order[rows:]


class SplitLines:
    """Lines of text as a list of their sentences, whose translations are joined to lines again.

    Args:
      lines: a list of strings.
      source, target: the language codes of the lines and of their translations.
      tags: of the model; None where it is not known, see `data.tags.split_tag`.

    Attributes:
      sentences: of all lines, in order, each with the tag of its line. A blank line has none.
      line_indices: for each sentence, the index of its line.
    """

    def __init__(
        self, lines: Sequence[str], source: str, target: str, tags: Container[str] | None = None
    ) -> None:
        self._is_target_unspaced = base_language(target) in WITHOUT_BLANKS_BETWEEN_SENTENCES
        self._lines = []
        self.sentences: list[str] = []
        self.line_indices: list[int] = []
        for index, line in enumerate(lines):
            tag, text = split_tag(line, tags)
            self._lines.append(split_sentences(text, source))
            sentences = [add_tag(tag, sentence) for sentence, _ in self._lines[-1] if sentence]
            self.sentences += sentences
            self.line_indices += [index] * len(sentences)

    def join(self, results: Sequence[Translation]) -> list[Translation]:
        """Joins the translations of the sentences to translations of the lines.

        The white space between sentences stays. Where a line has none, one blank separates two
        translations; before a Japanese or Chinese translation it is the reverse, one blank becomes
        none. A translation is one line: a blank replaces each line separator.

        Args:
          results: a `Translation` of each sentence.
        Returns: one of each line, with the lowest score of its sentences. It is empty where a
          sentence is impossible, such as one that is too long.
        """
        remaining = iter(results)
        joined = []
        for pairs in self._lines:
            parts, lowest, length, truncated = [], 0.0, 0, False
            for number, (sentence, space) in enumerate(pairs, start=1):
                if sentence:
                    result = next(remaining)
                    parts.append(result[0])
                    lowest = min(lowest, result[1])
                    length += result.length
                    truncated |= result.truncated
                    if number < len(pairs) and self._is_target_unspaced:
                        space = "" if space == " " else space
                    elif number < len(pairs):
                        space = space or " "
                parts.append(space)
            text = re.sub(LINE_SEPARATORS, " ", "".join(parts))
            pair = text if is_possible(lowest) else "", lowest
            joined.append(Translation(pair, length, truncated))
        return joined
