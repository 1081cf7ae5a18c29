"""What is known of languages: their scripts, whether they have blanks, and their sentences."""

import functools
import re

import langcodes
import regex
from langcodes.data_dicts import LIKELY_SUBTAGS

from tf_transformer.errors import UserError

# What Python's `str.splitlines` splits at, as a regular expression of Python and of RE2.
LINE_SEPARATORS = "[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]"
_WHITE_SPACE = re.compile(r"\s")

# Scripts without blanks between words, for a set in a regular expression.
EAST_ASIAN = r"\p{Script=Hani}\p{Script=Hira}\p{Script=Kana}"
SOUTH_EAST_ASIAN = r"\p{Script=Thai}\p{Script=Laoo}\p{Script=Khmr}\p{Script=Mymr}\p{Script=Tibt}"

# Languages that are written in a second script too; ISO 639 and ISO 15924 codes.
_SECOND_SCRIPT = {
    "kk": "Latn", "ks": "Deva", "ku": "Arab", "mn": "Mong", "pa": "Arab", "sd": "Deva",
    "sr": "Latn", "uz": "Cyrl",
}  # fmt: skip
# Codes of writing systems, which are no values of the property Script.
_WRITING_SYSTEMS = {
    "Hans": ["Hani"], "Hant": ["Bopo", "Hani"], "Hanb": ["Bopo", "Hani"],
    "Jpan": ["Hani", "Hira", "Kana"], "Kore": ["Hang", "Hani"], "Jamo": ["Hang"],
}  # fmt: skip
_SCRIPTS = {tag.split("-")[1] for tag in LIKELY_SUBTAGS.values()}  # such as "ru-Cyrl-RU"
# Languages without blanks between words. In some of them, sentences have none between them either.
CHINESE = set("gan hsn lzh wuu yue zh".split())
WITHOUT_BLANKS_BETWEEN_SENTENCES = {"ja", "zh"}
LANGUAGES_WITHOUT_BLANKS = WITHOUT_BLANKS_BETWEEN_SENTENCES | set("bo dz km lo my th".split())

# A word of English has about five letters and a blank, one of Chinese two characters.
_LETTERS_OF_CHARACTER = 3
_CHARACTER_SCRIPTS = {"Hani", "Hira", "Kana", "Hang"}
_CHARACTERS = regex.compile("|".join(rf"\p{{Script={name}}}" for name in _CHARACTER_SCRIPTS))


@functools.cache
def base_language(code: str) -> str:
    """Returns the shortest ISO 639 code of a language, without script and region.

    Args:
      code: of BCP 47, ISO 639-1, -2 or -3, or as in FLORES: "pt_BR", "por" and "por_Latn" are "pt",
        "arb" (standard Arabic) is "ar". Mandarin, Cantonese and the like are "zh". What is no code
        stays as it is.
    """
    first = re.split("[-_]", code.lower())[0]
    try:
        # "src" is Logudorese Sardinian too, but as a rule it names the source.
        base = langcodes.standardize_tag(first, macro=first != "src").split("-")[0]
    except langcodes.LanguageTagError:
        return first
    return "zh" if base in CHINESE else base


def scripts_of(language: str) -> list[str]:
    """Returns the ISO 15924 codes of the scripts of a language; none where it is not known.

    Args:
      language: a code such as "ru" or "pt_BR"; one with a script, such as "sr_Latn", has that one.
    """
    code = base_language(language)
    given = [part.capitalize() for part in re.split("[-_]", language)[1:]]
    scripts = [script for script in given if script in _SCRIPTS]
    if not scripts and code in LIKELY_SUBTAGS:
        scripts = [LIKELY_SUBTAGS[code].split("-")[1]]
        scripts += [_SECOND_SCRIPT[code]] if code in _SECOND_SCRIPT else []
    return [each for script in scripts for each in _WRITING_SYSTEMS.get(script, [script])]


class ScriptShare:
    """Computes how many of the letters of a text are of some scripts.

    Letters that many scripts have, such as the prolonged sound mark of Japanese, do not count. In
    Chinese, Japanese and Korean, a character counts as three letters, such as those of the Latin
    names of products.

    Args:
      scripts: ISO 15924 codes.
    """

    def __init__(self, scripts: list[str]) -> None:
        names = "".join(rf"\p{{Script={name}}}" for name in scripts)
        shared = r"\p{Script=Common}\p{Script=Inherited}"
        self._own = regex.compile(rf"[\p{{L}}&&[{names}]]+", regex.V1)
        self._other = regex.compile(rf"[\p{{L}}--[{names}{shared}]]+", regex.V1)
        self._is_latin = "Latn" in scripts
        self._has_characters = not _CHARACTER_SCRIPTS.isdisjoint(scripts)

    def __call__(self, text: str) -> float:
        """Returns the fraction of the letters, from 0 to 1; 1 where there are no letters."""
        if self._is_latin and text.isascii():
            return 1.0
        other = self._count(self._other, text)
        if not other:
            return 1.0
        own = self._count(self._own, text)
        return own / (own + other)

    def _count(self, letters: regex.Pattern[str], text: str) -> int:
        found = "".join(letters.findall(text))
        characters = len(_CHARACTERS.findall(found)) if self._has_characters else 0
        return len(found) + (_LETTERS_OF_CHARACTER - 1) * characters


def split_sentences(text: str, language: str) -> list[tuple[str, str]]:
    """Splits a line of text into sentences, by the rules of the package sentencex.

    Args:
      text: a line; all of its white space counts as blanks.
      language: a language code, such as "en" or "en_GB". A language without rules of its own has
        those of a similar language, or of English.
    Returns: a list of pairs (sentence, white space after it), whose concatenation is the text.
      White space at the start of the text comes after an empty sentence.
    Raises: UserError when sentencex is not installed, as on older systems of Apple.
    """
    try:
        import sentencex
    except ModuleNotFoundError:
        raise UserError("the package sentencex is missing: pip install sentencex") from None
    # Each character of white space becomes one blank, which keeps the offsets. Version 1.0.32 of
    # sentencex fails at an initial before white space that is not ASCII.
    segments = sentencex.segment(base_language(language), _WHITE_SPACE.sub(" ", text))
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
