"""Languages: their codes, whether they have blanks between words, and their sentences."""

import functools
import re

import langcodes

from tf_transformer.errors import UserError

_WHITE_SPACE = re.compile(r"\s")

# Languages without blanks between words. In some of them, sentences have none between them either.
CHINESE = set("gan hsn lzh wuu yue zh".split())
WITHOUT_BLANKS_BETWEEN_SENTENCES = {"ja", "zh"}
LANGUAGES_WITHOUT_BLANKS = WITHOUT_BLANKS_BETWEEN_SENTENCES | set("bo dz km lo my th".split())

# Which can be names of columns. langcodes has names only with a database of 5 MB.
LANGUAGE_NAMES = """
afrikaans albanian amharic arabic armenian azerbaijani belarusian bengali bosnian bulgarian burmese
catalan chinese croatian czech danish dutch english estonian finnish french georgian german greek
gujarati hausa hebrew hindi hungarian icelandic igbo indonesian irish italian japanese kannada
kazakh khmer korean kurdish latin latvian lithuanian luganda luo macedonian malay malayalam maltese
mandarin marathi mongolian nepali norwegian pashto persian polish portuguese punjabi romanian
russian serbian sinhala slovak slovenian somali spanish swahili swedish tagalog tamil telugu thai
turkish ukrainian urdu uzbek vietnamese welsh wolof xhosa yoruba zulu
""".split()


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


@functools.cache
def choose_code(language: str, codes: tuple[str, ...]) -> str | None:
    """Returns the code of a language, or else the first one that can be taken for it, or None.

    A code without region and script is taken for a code with them, and the other way round. Other
    regions and scripts are not: pt_BR is not pt_PT, and zh_TW, whose script is Hant, not zh_Hans.
    """
    wanted = _subtags(language)
    same, fitting = [], []
    for code in codes:
        found = _subtags(code)
        if found == wanted:
            same.append(code)
        elif found[0] == wanted[0] and all(a == b for a, b in zip(found, wanted) if a and b):
            fitting.append(code)
    return next(iter(same + fitting), None)


def _subtags(code: str) -> tuple[str | None, ...]:
    """The base language, the region, and the script, also where the region implies it."""
    try:
        tag = langcodes.Language.get(code)
        script = tag.maximize().script if tag.script or tag.territory else None
        return base_language(code), tag.territory, script
    except langcodes.LanguageTagError:
        return code.lower(), None, None


def split_sentences(text: str, language: str) -> list[tuple[str, str]]:
    """Splits a line of text into sentences, by the rules of the package sentencex.

    Args:
      text: a line; all of its white space counts as blanks.
      language: a language code, such as "en" or "en_GB". A language without rules of its own is
        split by the rules of a similar language, or of English.
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
