"""Cleaning of sentence pairs, for `tf-transformer clean`: filters, damaged text, duplicates.

The filters find the noise of collected and crawled text: Moses' clean-corpus-n (lengths),
OpusFilter and bicleaner-hardrules have similar ones.
"""

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from html.entities import name2codepoint

import numpy as np
import regex

from tf_transformer.config import FilterConfig
from tf_transformer.data.corpus import WeightedPair
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
_RUN_OF_LETTERS = regex.compile(r"\p{L}[\p{L}\p{M}]*")
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
        scripts = {language: scripts_of(language) for language in (source, target)}
        self.unknown = [language for language, known in scripts.items() if not known]
        self._scripts = [
            ScriptShare(scripts[language]) if scripts[language] and config.min_script else None
            for language in (source, target)
        ]

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
        longest = max(len(word) for side in sides for word in ["", *side.words])
        if config.max_word_length and longest > config.max_word_length:
            return LONG_WORD
        for side, script in zip(sides, self._scripts):
            if config.min_letters and side.letter_share < config.min_letters:
                return FEW_LETTERS
            if script and script(side.text) < config.min_script:
                return OTHER_SCRIPT
        if config.max_overlap < 1 and _overlap(*sides) > config.max_overlap:
            return COPIED
        shorter, longer = sorted(side.count for side in sides)
        ratio = config.max_word_ratio
        exceeded = ratio and longer > MIN_WORDS_OF_RATIO and longer > ratio * shorter
        return WORD_RATIO if exceeded else ""


class SeenTexts:
    """A set of texts, of which it keeps 64-bit hashes.

    The hashes are in sorted arrays. An array is merged with the ones before it that are not larger,
    so there are few of them. A text takes 8 bytes, and at most 16 while arrays are merged. Among n
    texts, the expected number of those that are wrongly taken for duplicates is at most
    n^2 / 2^65: 4e-5 for 40 million.
    """

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def add(self, texts: Sequence[str]) -> np.ndarray:
        """Adds texts.

        Args:
          texts: several thousand at a time, for speed.
        Returns: bool `[texts]`, whether each of them is new; False for the second of two equal
          ones.
        """
        hashes = np.fromiter(map(_hash, texts), np.uint64, len(texts))
        unique, first = np.unique(hashes, return_index=True)
        is_new = np.ones(len(unique), bool)
        for array in self._arrays:
            indices = np.searchsorted(array, unique)
            is_new &= array[np.minimum(indices, len(array) - 1)] != unique
        new = unique[is_new]
        while self._arrays and len(self._arrays[-1]) <= len(new):
            new = np.sort(np.concatenate([self._arrays.pop(), new]))
        if len(new):
            self._arrays.append(new)
        result = np.zeros(len(texts), bool)
        result[first[is_new]] = True
        return result


def _hash(text: str) -> int:
    """A 64-bit hash, the same in every process."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


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
        self.letters = _RUN_OF_LETTERS.findall(text)
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


# Text in UTF-8 that was decoded as Windows-1252. The bytes of a character, one from C2 to F4 and
# then one to three from 80 to BF, become as many characters of Windows-1252: "ü" becomes "Ã¼", and
# "ł" becomes "Å‚". In correct text, few of these sequences occur: a letter is followed by a
# quotation mark, or by a letter such as "š". These are damage only in a context that correct text
# does not have.
#
# Bytes 80 to BF in Windows-1252, in three groups. A byte that it does not have is a control
# character, which is damage anyway.
_PUNCTUATION = "\u00a0\u00ad«»‘’“”‹›…–—•™®©°²³¹·"  # that can follow a letter
_LETTERS = "ŠŒŽšœžŸƒ"
_OTHERS = "€‚„†‡ˆ‰˜¡¢£¤¥¦§¨ª¬¯±´µ¶¸º¼½¾¿"
_ANY = f"{_PUNCTUATION}{_LETTERS}{_OTHERS}"
_STRANGE = f"{_LETTERS}{_OTHERS}"

_POSSIBLE = regex.compile(rf"[Â-ð][{_ANY}]")  # a quick test, which most sentences do not pass
_DECODED = regex.compile(
    "|".join(
        (
            # Latin letters: C2 to C5. "MAÇÃ…", "SMÅ…", "Äššä" are Portuguese, Swedish, Karelian.
            rf"Ã[{_STRANGE}©°³]|Å[{_STRANGE}]|Ä(?![šž])[{_STRANGE}]|Â[¡-¿--{_PUNCTUATION}]",
            rf"(?<=\p{{Ll}})(?:[ÂÃÄÅ][{_PUNCTUATION}]|È[™›])",  # "dejÃ " with U+00A0
            r"(?:[ÂÃÄÅ][\u00ad«»‘“”‹›…–—•™®©°²³¹·]|È[™›])(?=\p{Ll})",  # "Ã–sterreich"
            r"(?<![^\s\d])(?:Â[\u00ad«»®©°²³¹·]|Ã\u00a0)",  # "20Â°", "Ã la" with U+00A0
            rf"(?<![^\s\d])Ã[{_PUNCTUATION}](?=\p{{L}})",  # "Ã–PNV"
            r"(?<!\p{L})Â\u00a0(?!»)",
            # Two letters of Greek, Cyrillic, Hebrew or Arabic: CE to DB. Czech has "ÚŽ" and "ÍŽ".
            rf"[Î-Û](?:[{_STRANGE}][Î-Û][{_ANY}]|[{_ANY}][Î-Û][{_STRANGE}])",
            # Three bytes: E0 to EF. "máš…" and "né…”" are Czech and Portuguese.
            rf"[à-ï](?:[{_OTHERS}][{_ANY}]|[{_ANY}][{_OTHERS}])",
            rf"á[»º][{_ANY}](?=\p{{Ll}})",  # Vietnamese
            "â€|ðŸ",  # quotation marks, emojis
        )
    ),
    regex.V1,
)
_NOT_TEXT = regex.compile(r"[\p{Cc}\p{Co}\uFFFD]")  # control characters, private use


def is_damaged(text: str) -> bool:
    """Whether a text has characters that a damage of its bytes or a wrong encoding gives.

    These are control characters (tabs too), those of private use, U+FFFD, and sequences of UTF-8
    that was decoded as Windows-1252.
    """
    if text.isascii():
        return not text.isprintable()  # the control characters of ASCII are not printable
    if _NOT_TEXT.search(text):
        return True
    return _POSSIBLE.search(text) is not None and _DECODED.search(text) is not None
