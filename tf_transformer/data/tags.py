"""Tags: one token before a source sentence that says, for example, the language to translate to.

A tagged sentence is the text "TAG SENTENCE", such as "<2de> Hello!" (Johnson et al. 2017,
arXiv:1611.04558, Sec. 3). The tags of a model are control symbols of its source vocabulary, which
SentencePiece never makes of text. Only a tag that begins a text, before a blank and a sentence, is
encoded as its id. Anywhere else it is text like any other.
"""

import logging
import re
from collections.abc import Collection, Container, Iterable
from typing import TYPE_CHECKING

from tf_transformer.errors import UserError
from tf_transformer.special_tokens import END

if TYPE_CHECKING:  # the command doctor runs without it
    import sentencepiece

logger = logging.getLogger(__name__)

# <2de>, or >>de<< as in OPUS-MT; not <0x41>, the name of a byte.
TAG = re.compile(r"<(?!0x[0-9A-F]{2}>)[^\s<>,]+>|>>[^\s<>,]+<<")

LANGUAGE_TAG = re.compile(r"<2[\w-]+>|>>[\w-]+<<")


def parse_tags(text: str, corpora: int) -> list[str]:
    """Parses the setting `tag`, such as "<2de>,<2fr>".

    Returns: the tag of each of the `corpora`; "" where one has none.
    Raises: UserError for another number of tags, or what is not a tag.
    """
    tags = text.split(",") if text else [""] * corpora
    if len(tags) != corpora or not all(tag == "" or TAG.fullmatch(tag) for tag in tags):
        raise UserError(
            f"tag {text!r}: give one for each of the {corpora} corpora of data, separated by "
            "commas, such as <2de> or >>de<<; an empty one for none, as in ',<BT>'"
        )
    return tags


def vocabulary_tags(processor: "sentencepiece.SentencePieceProcessor") -> dict[str, int]:
    """Returns the tags of a vocabulary with their ids: its control symbols that are not special."""
    ids = filter(processor.is_control, range(END + 1, processor.get_piece_size()))
    return {processor.id_to_piece(token): token for token in ids}


def check_tag(tag: str, tags: Collection[str], flag: str = "tag") -> None:
    """Checks the tag that a flag gives. Raises: UserError when a model has other tags."""
    if tag not in tags:
        known = ", ".join(tags) or "none"
        raise UserError(f"--{flag}={tag}: the model has no such tag: its tags are {known}")


class TagWarnings:
    """Warns of sources whose tag a model does not know, and of those that lack one, each once.

    Args:
      training_tags: the setting `tag` with which it was trained.
    """

    def __init__(self, tags: Collection[str], training_tags: str) -> None:
        self._tags = tags
        self._known = f"it knows {', '.join(tags) or 'none'}"
        self._pattern = TAG if tags else LANGUAGE_TAG
        self._needs_tag = all(training_tags.split(","))
        self._warned: set[str] = set()

    def check(self, texts: Iterable[str], numbers: Iterable[int]) -> None:
        """Checks sources; `numbers` of their lines are for messages."""
        for text, number in zip(texts, numbers):
            head, _, sentence = text.strip(" ").partition(" ")
            if sentence and head in self._tags:
                continue
            if sentence and self._pattern.fullmatch(head):
                self._warn(
                    "line %d: the model does not know the tag %s, which is text to it: %s",
                    *(number, head, self._known),
                )
            elif self._needs_tag and text.strip():
                self._warn(
                    "line %d has no tag, and the model was trained with one before each source: "
                    "give --tag, or begin the line with one: %s",
                    *(number, self._known),
                )

    def _warn(self, message: str, *values: object) -> None:
        if message not in self._warned:
            self._warned.add(message)
            logger.warning(message, *values)


def add_tag(tag: str | None, text: str) -> str:
    """Returns the tagged text; without a tag, or for blank text, the text itself."""
    return f"{tag} {text}" if tag and text.strip() else text


def split_tag(text: str, tags: Container[str] | None) -> tuple[str, str]:
    """Splits a text into its tag and the sentence.

    Args:
      tags: of the model; None where it is not known. Then the usual tags of languages are some,
        such as <2de> and >>de<<.
    Returns: the tag, "" for none; the sentence.
    """
    head, _, sentence = text.lstrip(" ").partition(" ")
    sentence = sentence.lstrip(" ")
    is_tag = LANGUAGE_TAG.fullmatch(head) if tags is None else head in tags
    return (head, sentence) if sentence and is_tag else ("", text)


def tag_pattern(tags: Iterable[str]) -> str:
    """Returns a regular expression of RE2 that does the same: the groups are tag and sentence."""
    return f"(?s) *({'|'.join(map(re.escape, tags))}) +([^ ].*)"
