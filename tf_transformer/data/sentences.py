"""Splitting a line of text into sentences."""

import re

from tf_transformer.errors import UserError

WHITE_SPACE = re.compile(r"\s")


def split_sentences(text: str, language: str) -> list[tuple[str, str]]:
    """Splits a line of text into sentences, by the rules of the package sentencex.

    Args:
      text: a line; all of its white space counts as blanks.
      language: a language code, such as "en" or "en_GB". A language without rules of its own has
        those of a similar language, or of English.
    Returns: a list of pairs (sentence, white space after it), whose concatenation is the text.
      White space at the start of the text comes after an empty sentence.
    Raises: UserError when sentencex is not installed.
    """
    try:
        import sentencex
    except ModuleNotFoundError:
        raise UserError("the package sentencex is missing: pip install sentencex") from None
    # Each character of white space becomes one blank, which keeps the offsets. Version 1.0.32 of
    # sentencex fails at an initial before white space that is not ASCII.
    segments = sentencex.segment(base_language(language), WHITE_SPACE.sub(" ", text))
    pairs: list[tuple[str, str]] = []
    end = 0
    for segment in segments:
        start, end = end, end + len(segment)
        rest = text[start:end].lstrip()
        space = text[start : end - len(rest)]  # at the start of the text, or of a segment
        if space:
            sentence, before = pairs.pop() if pairs else ("", "")
            pairs.append((sentence, before + space))
        if rest:
            sentence = rest.rstrip()
            pairs.append((sentence, rest[len(sentence) :]))
    return pairs


def base_language(code: str) -> str:
    """Returns a language code without script and region: "pt" for "pt_BR"."""
    return re.split("[-_]", code.lower())[0]
