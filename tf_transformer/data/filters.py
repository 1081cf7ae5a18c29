"""Filters of sentence pairs, for `tf-transformer clean`.

They find the noise of collected and crawled text: Moses' clean-corpus-n (lengths), OpusFilter and
bicleaner-hardrules have similar ones.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from html.entities import name2codepoint

import numpy as np
import regex

from tf_transformer.config import FilterConfig
from tf_transformer.data.corpus import WeightedPair
from tf_transformer.data.damage import is_damaged
from tf_transformer.data.duplicates import SeenTexts
from tf_transformer.data.scripts import EAST_ASIAN, SOUTH_EAST_ASIAN, ScriptShare, scripts_of

# Why a pair is rejected, in the order of the filters.
EMPTY = "empty side"
DAMAGED = "damaged characters"
HTML = "HTML"
TOO_LONG = "too long"
LONG_WORD = "long word"
FEW_LETTERS = "few letters"
OTHER_SCRIPT = "other script"
COPIED = "copied"
WORD_RATIO = "word ratio"
DUPLICATE = "duplicate pair"
SOURCE_DUPLICATE = "duplicate source"
REASONS = (
    EMPTY, DAMAGED, HTML, TOO_LONG, LONG_WORD, FEW_LETTERS, OTHER_SCRIPT, COPIED, WORD_RATIO,
    DUPLICATE, SOURCE_DUPLICATE,
)  # fmt: skip

# Translations of short sentences are often free: "It's useless." - "Das kann man in der Pfeife
# rauchen."
MIN_WORDS_OF_RATIO = 10
WINDOW = 20_000  # pairs whose duplicates are searched at the same time

_TAG = regex.compile(r"</?[a-z][a-z0-9]*(\s+[a-z][\w:.-]*\s*=[^<>]*|\s*)/?>|<!--", regex.I)
_ENTITY = regex.compile(r"&(?:([a-z]+[0-9]*)|#[0-9]+|#x[0-9a-f]+);", regex.I)
_ENTITIES = {name.lower() for name in (*name2codepoint, "apos")}  # of HTML 4 and XML
_LETTERS = regex.compile(r"\p{L}[\p{L}\p{M}]*")
# Without blanks between words, with about two and five characters in a word.
_EAST_ASIAN = regex.compile(f"[{EAST_ASIAN}]")
_SOUTH_EAST_ASIAN = regex.compile(f"[{SOUTH_EAST_ASIAN}]")


class PairFilter:
    """Finds out whether one pair is rejected; duplicates are left to `clean_pairs`.

    Args:
      config: a `FilterConfig`.
      source, target: language codes.
    Attributes:
      target: the code of the target language.
      unknown: those of the two languages whose script is not known; it is not checked.
    """

    def __init__(self, config: FilterConfig, source: str, target: str) -> None:
        self.target = target
        self._config = config
        self._scripts = []
        self.unknown = []
        for language in (source, target):
            scripts = scripts_of(language)
            if not scripts:
                self.unknown.append(language)
            checked = scripts and config.min_script
            self._scripts.append(ScriptShare(scripts) if checked else None)

    def reason(self, source: str, target: str) -> str:
        """Returns the first of `REASONS` for which a pair is rejected; "" where it is kept."""
        config = self._config
        if not (source.strip() and target.strip()):
            return EMPTY
        pair = source, target
        if config.drop_damaged and any(map(is_damaged, pair)):
            return DAMAGED
        if config.drop_html and any(map(_has_html, pair)):
            return HTML
        if config.max_characters and max(map(len, pair)) > config.max_characters:
            return TOO_LONG
        sides = _Side(source), _Side(target)
        if config.max_words and max(side.count for side in sides) > config.max_words:
            return TOO_LONG
        longest = max(max(map(len, side.words), default=0) for side in sides)
        if config.max_word_length and longest > config.max_word_length:
            return LONG_WORD
        return self._reason_of_letters(*sides) or self._reason_of_both(*sides)

    def _reason_of_letters(self, *sides: "_Side") -> str:
        config = self._config
        for side, script in zip(sides, self._scripts):
            if config.min_letters and side.letter_share < config.min_letters:
                return FEW_LETTERS
            if script and script(side.text) < config.min_script:
                return OTHER_SCRIPT
        return ""

    def _reason_of_both(self, source: "_Side", target: "_Side") -> str:
        config = self._config
        if config.max_overlap < 1 and _overlap(source, target) > config.max_overlap:
            return COPIED
        shorter, longer = sorted((source.count, target.count))
        ratio = config.max_word_ratio
        exceeded = ratio and longer > MIN_WORDS_OF_RATIO and longer > ratio * shorter
        return WORD_RATIO if exceeded else ""


def clean_pairs(
    texts: Iterable[tuple[PairFilter, Iterable[WeightedPair]]], config: FilterConfig
) -> Iterator[tuple[str, WeightedPair]]:
    """Finds the pairs to reject.

    Args:
      texts: of each text its `PairFilter` of `config`, and its pairs: (source, target, weight).
      config: a `FilterConfig`.
    Yields: the reason and the pair, for each pair of all texts; the reason is one of `REASONS`, or
      "" for a pair that is kept.
    """
    seen_pairs = SeenTexts() if config.drop_duplicates else None
    seen_sources = SeenTexts() if config.drop_source_duplicates else None
    stream = ((pair_filter, pair) for pair_filter, pairs in texts for pair in pairs)
    while window := list(itertools.islice(stream, WINDOW)):
        reasons = [pair_filter.reason(*pair[:2]) for pair_filter, pair in window]
        pairs = [pair for _, pair in window]
        _mark(reasons, DUPLICATE, seen_pairs, ("\n".join(pair[:2]) for pair in pairs))
        # A source may have a translation into each language.
        sources = (f"{pair_filter.target}\n{source}" for pair_filter, (source, _, _) in window)
        _mark(reasons, SOURCE_DUPLICATE, seen_sources, sources)
        yield from zip(reasons, pairs)


def _mark(reasons: list[str], reason: str, seen: SeenTexts | None, texts: Iterable[str]) -> None:
    """Writes a reason where a text was seen before, of the pairs that are not rejected so far."""
    if seen is None:
        return
    kept = [index for index, other in enumerate(reasons) if not other]
    is_new = seen.add([text for text, other in zip(texts, reasons) if not other])
    for index in np.flatnonzero(~is_new):
        reasons[kept[index]] = reason


class _Side:
    """A side of a pair.

    Attributes:
      text: a sentence.
      words: what stands between blanks, but not the characters of scripts without blanks.
      count: the number of words. Two characters of Chinese or Japanese, and five of Thai, Lao,
        Khmer, Burmese or Tibetan, count as one word.
      letters: the runs of letters, each with its marks.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = text.split()
        self.letters = _LETTERS.findall(text)
        unspaced = 0.0
        if not text.isascii():
            rest, east_asian = _EAST_ASIAN.subn(" ", text)
            rest, south_east_asian = _SOUTH_EAST_ASIAN.subn(" ", rest)
            if east_asian or south_east_asian:
                self.words = rest.split()
                unspaced = east_asian / 2 + south_east_asian / 5
        self.count = len(self.words) + math.ceil(unspaced)

    @property
    def letter_share(self) -> float:
        """The fraction of letters in the characters that are no blanks."""
        characters = sum(map(len, self.text.split()))
        return sum(map(len, self.letters)) / max(characters, 1)


def _overlap(source: _Side, target: _Side) -> float:
    """How many of the different words of two sentences are in both, from 0 to 1.

    Numbers and punctuation do not count, nor upper and lower case. Ott et al. (2018, "Analyzing
    Uncertainty in Neural Machine Translation") call a target above 0.5 a copy of its source.
    """
    sources, targets = (set(map(str.casefold, side.letters)) for side in (source, target))
    return len(sources & targets) / max(len(sources | targets), 1)


def _has_html(text: str) -> bool:
    if "<" in text and _TAG.search(text):
        return True
    # "R&D;" has no entity.
    names = _ENTITY.findall(text) if "&" in text else []
    return any(not name or name.lower() in _ENTITIES for name in names)
