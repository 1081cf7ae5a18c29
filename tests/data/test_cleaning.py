"""Cleaning: which pairs are rejected and why, damaged text, and duplicates."""

import pytest

from tf_transformer.config import FilterConfig
from tf_transformer.data.cleaning import (
    COPIED,
    DAMAGED,
    DUPLICATE,
    EMPTY,
    FEW_LETTERS,
    HTML,
    LONG_WORD,
    OTHER_SCRIPT,
    SOURCE_DUPLICATE,
    TOO_LONG,
    WORD_RATIO,
    PairFilter,
    clean_pairs,
    is_damaged,
)
from tf_transformer.data.scripts import ScriptShare, scripts_of

GOOD = "This is a good sentence .", "Das ist ein guter Satz ."


def reason(source, target, languages=("en", "de"), **changes):
    return PairFilter(FilterConfig(**changes), *languages).reason(source, target)


def test_good_pairs_are_kept():
    assert reason(*GOOD) == ""
    # Short and free, with numbers, a long compound, an ampersand, a comparison.
    assert reason("Start over.", "Fangen Sie noch mal von vorne an.") == ""
    assert reason("It's 7:45.", "Es ist 7:45 Uhr.") == ""
    assert reason("I'm 19.", "Ich bin 19.") == ""
    assert reason("Tom is in Boston.", "Tom ist in Boston.") == ""
    assert reason("A free time activity", "Eine " + "Freizeitbeschäftigung" * 2) == ""
    assert reason(LONG, "Ja doch, ganz genau so.") == ""
    assert reason("AT&T said 1 < 2 > 0.", "AT&T sagte, dass 1 < 2 > 0.") == ""
    assert reason("The R&D; then the Q&A; then", "Erst F&E; dann Fragen &c;") == ""
    assert reason("It is a<b and b>c here", "Hier gilt a<b und b>c wieder") == ""
    assert reason("Über naïve Ärzte", "Ça va «bien» — œuvre À Âge") == ""


LONG = "Yes, of course it is, " + "and so on " * 3
REJECTED = [  # source, target, the reason, and the setting that turns the filter off
    ("", "Ja.", EMPTY, {}),
    ("Yes.", " \u00a0 ", EMPTY, {}),
    ("A tab\tin a line", "Ein Tabulator", DAMAGED, {}),
    ("A bell", "Eine Klingel\x07", DAMAGED, {}),
    ("A delete\x7f", "Eine Taste", DAMAGED, {}),
    ("A caf\ufffd", "Ein Café", DAMAGED, {"drop_damaged": False}),
    ("A caf\u00c3\u00a9", "Ein Café", DAMAGED, {}),  # UTF-8 as Latin-1
    ("Private \ue000 use", "Private Nutzung", DAMAGED, {}),
    ("A <b>bold</b> word", "Ein fettes Wort", HTML, {"drop_html": False}),
    ("A link", "Ein <a class=x href='y'>Verweis", HTML, {}),
    ("A word</b >", "Ein Wort", HTML, {}),
    ("A word <!-- b", "Ein Wort", HTML, {}),
    ("A word &#xA0; here", "Ein Wort", HTML, {}),
    ("A word", "Ein Wort&#160;", HTML, {}),
    ("Black &amp; white", "Schwarz und weiß", HTML, {}),
    ("word " * 151, "Wort " * 151, TOO_LONG, {"max_words": 0}),
    ("abcdefg " * 130, "Wort " * 130, TOO_LONG, {"max_characters": 0}),
    ("A key " + "x" * 51, "Ein Schlüssel", LONG_WORD, {"max_word_length": 0}),
    ("1 + 1 = 2 (a)", "1 + 1 = 2 (b)", FEW_LETTERS, {"min_letters": 0}),
    ("This is a sentence.", "Это предложение.", OTHER_SCRIPT, {"min_script": 0}),
    ("This is a sentence.", "This is a Sentence !", COPIED, {"max_overlap": 1}),
    ("All cars are very slow today now", "All cars are very slow today jetzt", COPIED, {}),
    (LONG, "Ja doch.", WORD_RATIO, {"max_word_ratio": 0}),
]


@pytest.mark.parametrize(("source", "target", "expected", "off"), REJECTED)
def test_reasons(source, target, expected, off):
    assert reason(source, target) == expected
    if off:
        assert reason(source, target, **off) == ""


def test_bounds_are_exact():
    """13 words to 4 and 5: the ratio is 3.25 and 2.6."""
    words = " ".join("abcdefghijklm")
    assert reason(words, "n o p q") == WORD_RATIO
    assert reason(words, "n o p q r") == ""
    # 3 of 4 different words are on both sides, then 3 of 5.
    assert reason("Anna Berta Carl sees", "Anna Berta Carl", max_overlap=0.74) == COPIED
    assert reason("Anna Berta Carl sees", "Anna Berta Carl", max_overlap=0.75) == ""
    assert reason("a " * 150, "b " * 150) == ""
    assert reason("A key " + "x" * 50, "Ein Schlüssel") == ""
    # 2 letters of 5 characters.
    assert reason("ab123", "ein Wort", min_letters=0.4) == ""
    assert reason("ab123", "ein Wort", min_letters=0.41) == FEW_LETTERS


def test_scripts():
    assert scripts_of("pt_BR") == ["Latn"]
    assert scripts_of("sr") == scripts_of("kk") == ["Cyrl", "Latn"]
    assert scripts_of("sr_Latn_RS") == ["Latn"]
    assert scripts_of("zh-Hans") == scripts_of("cmn") == ["Hani"]
    assert scripts_of("tlh") == []
    # 3 Cyrillic letters of 5; digits and punctuation do not count.
    assert ScriptShare(["Cyrl"])("дом OK, 1234!") == 0.6
    assert ScriptShare(["Cyrl"])("1234") == 1.0
    assert ScriptShare(["Latn"])("naïve 雨") == 5 / 6
    assert ScriptShare(scripts_of("ja"))("コーヒーを飲む") == 1.0  # the long vowels do not count


def test_other_languages():
    assert reason("Hello, world!", "Привет, мир!", ("en", "ru")) == ""
    assert reason("Hello, world!", "Bonjour le monde !", ("en", "ru")) == OTHER_SCRIPT
    kept = PairFilter(FilterConfig(), "en", "tlh")
    assert kept.unknown == ["tlh"]
    assert kept.reason("Hello, world!", "Привет, мир!") == ""
    # Names of products: 9 characters, which count as 27 letters, and 12 letters; then 3 and 13.
    product = "我想买一台新的 iPhone 15 Pro Max 手机"
    assert reason("I would like a new one", product, ("en", "zh")) == ""
    assert ScriptShare(scripts_of("zh"))(product) == 27 / 39
    assert reason("I use these two", "我用iPhone和MacBook", ("en", "zh")) == OTHER_SCRIPT
    assert ScriptShare(scripts_of("ko"))("이 iPad") == 3 / 7
    assert ScriptShare(scripts_of("zh"))("雨のち晴れ") == 2 / 5  # Japanese
    # 29 Chinese characters count as 15 words, and 30 Thai ones as 6.
    chinese = "我们今天早上去公园散步然后回家吃午饭下午又去图书馆看书学习"
    english = "This morning we went to the park"
    assert reason(english, chinese, ("en", "zh"), max_words=15) == ""
    assert reason(english, chinese, ("en", "zh"), max_words=14) == TOO_LONG
    assert reason(english, chinese, ("en", "zh"), max_word_length=10) == ""
    assert reason("We eat", "ก" * 30, ("en", "th"), max_words=6) == ""
    assert reason("We eat", "ก" * 31, ("en", "th"), max_words=6) == TOO_LONG


def clean(pairs, **changes):
    config = FilterConfig(**changes)
    texts = [(PairFilter(config, "en", "de"), [(*pair, None) for pair in pairs])]
    return [reason for reason, _ in clean_pairs(texts, config)]


def test_one_source_in_several_target_languages():
    """It is a duplicate only of a pair with the same target language."""
    config = FilterConfig(drop_source_duplicates=True)
    german = [("Good morning", "Guten Morgen", None), ("Good morning", "Morgen", None)]
    french = [("Good morning", "Bonjour", None)]
    texts = [(PairFilter(config, "en", "de"), german), (PairFilter(config, "en", "fr"), french)]
    assert [reason for reason, _ in clean_pairs(texts, config)] == ["", SOURCE_DUPLICATE, ""]


def test_duplicates():
    """The first of equal pairs is kept."""
    pairs = [("Yes", "Ja"), ("Yes", "Doch"), ("Yes", "Ja"), ("No", "Nein"), ("Yes", "Ja")]
    assert clean(pairs) == ["", "", DUPLICATE, "", DUPLICATE]
    assert clean(pairs, drop_duplicates=False) == [""] * 5
    expected = ["", SOURCE_DUPLICATE, DUPLICATE, "", DUPLICATE]
    assert clean(pairs, drop_source_duplicates=True) == expected
    # A rejected pair is not the first of its kind.
    pairs = [("Yes", "Да"), ("Yes", "Да"), ("", ""), ("", "")]
    assert clean(pairs, drop_source_duplicates=True) == [OTHER_SCRIPT] * 2 + [EMPTY] * 2


def decoded_as_windows_1252(text):
    """Undefined bytes become control characters, as web browsers decode them."""
    undefined = {0x81, 0x8D, 0x8F, 0x90, 0x9D}
    return "".join(
        chr(byte) if byte in undefined else bytes([byte]).decode("cp1252") for byte in text.encode()
    )


@pytest.mark.parametrize(
    "text",
    [
        "Ärger und Öl", "Übung", "Spaß", "São Paulo", "amanhã", "É isso", "Łódź", "piękny",
        "kőfal", "güneş", "İstanbul", "můžeš", "æði", "það er", "på", "déjà vu", "à\u00a0", "voilà",
        "20°C", "10 km, 20\u00a0km", "mot,\u00a0mot", "«mot»", "¿Qué?", "Đã đi", "một người",
        "được", "“quoted”", "it’s", "one – two", "wait…", "€5", "Привет", "Ελλάδα",
        "שלום", "سلام", "日本語", "中文", "한국어", "ภาษา", "हिन्दी", "😀",
    ],
)  # fmt: skip
def test_utf_8_that_was_decoded_as_windows_1252(text):
    wrong = decoded_as_windows_1252(text)
    assert is_damaged(wrong) == (wrong != text)
    assert not is_damaged(text)
    assert is_damaged(text.encode().decode("latin-1")) == (not text.isascii())


@pytest.mark.parametrize(
    "text",
    [
        # Portuguese, Vietnamese, Icelandic, French, Swedish, German.
        "“AMANHÔ disse. A MAÇÃ… Não, né…” — É…É…", "A IRMÃ\u00a0de João: nº 5, 3ª, 2,5 m²",
        "Họ ĐÃ\u00a0ĐI. “ĐÃ” — ĐÃ… thật à…»", "ĐÃ\u00a0đi đến “MỘT” nơi. Kẻ thù»",
        "ÞAÐ ER BORл. „JÁ“ SAGÐI HÚN…", "já»… „Það“ er æði…",
        "Il est allé…» L’ÉTÉ» CAFÉ™ ÇA… «\u00a0À\u00a0»", "voilà…» naïf”… “Ô…” «\u00a0Â\u00a0»",
        "GÅ… “SMÅ” på SJÖ® Å–Ö. 20 Å², Å\u00a0ena", "Å’s längd, IKEA’s JÄ\u00a0så",
        "„Spaß“, MAß³, STRAß… Ä“ „Ö“ 5½\u00a0×\u00a03½", "§5, £5, ±5 µm, © 2020 Müller®, ¼",
        # Czech, Turkish, Italian, Romanian, Polish, Spanish, Karelian.
        "Co máš…” Víš…« Úžasný VÝŠKA NÍŽE STÍŽNOST ÚŠKLEBEK", "ODTÜ’nün AÖÇ’nde İTÜ’den HÂL»",
        "È… C’È” PERCHÉ”", "ÎNTÂI” Â… ROMÂNĂ”", "„ŻÓŁĆ”… OŚ” MÓC”", "¿Qué»… está» NIÑº", "Äššä…",
    ],
)  # fmt: skip
def test_correct_text(text):
    assert not is_damaged(text)
