"""Translating the sentences of lines one by one, and joining the translations to lines again."""

import re
from collections.abc import Container, Sequence

from tf_transformer.data.scripts import (
    LINE_SEPARATORS,
    WITHOUT_BLANKS_BETWEEN_SENTENCES,
    base_language,
    split_sentences,
)
from tf_transformer.data.tags import add_tag, split_tag
from tf_transformer.decoding.scores import is_possible


class SplitLines:
    """Lines of text as a list of their sentences.

    Args:
      lines: a list of strings.
      source, target: the language codes of the lines and of their translations.
      tags: of the model; None where it is not known, see `data.tags.split_tag`.
    Raises: UserError when the package sentencex is not installed.

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

    def join(self, results: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
        """Joins the translations of the sentences to those of the lines.

        The white space between sentences is that of the line. Where a line has none, one blank
        separates two translations; before a Japanese or Chinese translation it is the reverse, one
        blank becomes none. A translation is one line: a blank replaces each line separator.

        Args:
          results: a pair (translation, score) for each sentence.
        Returns: a pair for each line, with the lowest score of its sentences. The translation of a
          line with an impossible sentence, such as one that is too long, is empty.
        """
        remaining = iter(results)
        joined = []
        for pairs in self._lines:
            parts, lowest = [], 0.0
            for number, (sentence, space) in enumerate(pairs, start=1):
                if sentence:
                    translation, score = next(remaining)
                    parts.append(translation)
                    lowest = min(lowest, score)
                is_between = sentence and number < len(pairs)
                parts.append(self._space_between(space) if is_between else space)
            text = re.sub(LINE_SEPARATORS, " ", "".join(parts))
            joined.append((text if is_possible(lowest) else "", lowest))
        return joined

    def _space_between(self, space: str) -> str:
        """The white space between two translations, from that between their sentences."""
        if self._is_target_unspaced:
            return "" if space == " " else space
        return space or " "
