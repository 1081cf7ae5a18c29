"""Cleaning of sentence pairs, for `tf-transformer clean`: filters, damaged text, duplicates.

The filters find the noise of collected and crawled text: Moses' clean-corpus-n (lengths),
OpusFilter and bicleaner-hardrules have similar ones.
"""

import math
from collections.abc import Iterable, Iterator
from html.entities import name2codepoint

import regex

from tf_transformer.config import FilterConfig
from tf_transformer.data.corpus import WeightedPair, sentence_hash
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
        if config.drop_html and any(map(has_html, pair)):
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
    pairs_before: set[bytes] = set()
    sources_before: set[bytes] = set()
    for pair_filter, pairs in texts:
        for source, target, weight in pairs:
            reason = pair_filter.reason(source, target)
            if not reason and config.drop_duplicates:
                reason = DUPLICATE if _seen(pairs_before, f"{source}\n{target}") else ""
            if not reason and config.drop_source_duplicates:
                # A source may have a translation into each language.
                seen = _seen(sources_before, f"{pair_filter.target}\n{source}")
                reason = SOURCE_DUPLICATE if seen else ""
            yield reason, (source, target, weight)


def _seen(before: set[bytes], text: str) -> bool:
    """Whether a text was there before. Adds its hash, which takes less memory than the text.

    Among n texts, the expected number of those that are wrongly taken for duplicates is at most
    n^2 / 2^65: 4e-5 for 40 million.
    """
    hashed = sentence_hash(text)
    seen = hashed in before
    before.add(hashed)
    return seen


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


def has_html(text: str) -> bool:
    """Whether a text has a tag, such as <br>, or an entity of HTML or XML, such as &amp;."""
    if "<" in text and _TAG.search(text):
        return True
    # "R&D;" has no entity.
    names = _ENTITY.findall(text) if "&" in text else []
    return any(not name or name.lower() in _ENTITIES for name in names)


_NOT_TEXT = regex.compile(r"[\p{Cc}\p{Co}\uFFFD]")  # control characters, private use
# Text in UTF-8 that was decoded as Windows-1252: "Ã¼" for "ü". Encoded as Windows-1252, the
# characters in sequence that are not ASCII are UTF-8 again. So are some that are correct, by
# chance: letters that have punctuation after them, such as "é…”". Of "Ã", "Ä" and "Å" that is
# correct after a capital only, as in "IRMÃ…"; "Â" and "â" begin most damaged punctuation.
_NOT_ASCII = regex.compile(r"[^\x00-\x7f]{2,}")
_MARK = "[\u00a0\u00ad«»‘’“”‹›…–—•™®²¹·]"
_BY_CHANCE = regex.compile(rf"(?<!\p{{Ll}})[ÃÄÅ]{_MARK}|(?:[^ÂÃÄÅâ](?:{_MARK}|[©°³])+)+")
# A single letter of another script, such as Arabic for "Úž", is no text either.
_ONE_CHARACTER = regex.compile(r"[\p{Script=Latin}\p{Script=Common}--\p{Cc}]", regex.V1)


def is_damaged(text: str) -> bool:
    """Whether a text has characters that a damage of its bytes or a wrong encoding gives.

    These are control characters (tabs too), those of private use, U+FFFD, and sequences of UTF-8
    that was decoded as Windows-1252.
    """
    if text.isascii():
        return not text.isprintable()  # the control characters of ASCII are not printable
    if _NOT_TEXT.search(text):
        return True
    for match in _NOT_ASCII.finditer(text):
        try:
            decoded = match[0].encode("cp1252").decode()
        except UnicodeError:
            continue
        likely = len(decoded) > 1 or _ONE_CHARACTER.fullmatch(decoded)
        if likely and not _BY_CHANCE.fullmatch(text, *match.span()):
            return True
    return False
