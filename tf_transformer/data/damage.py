"""Damaged text: control characters, and UTF-8 that was decoded as Windows-1252.

The bytes of a UTF-8 character, one from C2 to F4 and then one to three from 80 to BF, become as
many characters of Windows-1252: "ü" becomes "Ã¼", and "ł" becomes "Å‚". In correct text, few of
these sequences occur: a letter is followed by a quotation mark, or by a letter such as "š". These
are damage only in a context that correct text does not have.
"""

import regex

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
