"""Damaged text is found, and correct text of many languages is not taken for it."""

import pytest

from tf_transformer.data.damage import is_damaged


def decoded_as_windows_1252(text):
    """Undefined bytes become control characters, as web browsers decode them."""
    undefined = {0x81, 0x8D, 0x8F, 0x90, 0x9D}
    return "".join(
        chr(byte) if byte in undefined else bytes([byte]).decode("cp1252") for byte in text.encode()
    )


@pytest.mark.parametrize(
    "text",
    [
        "Ärger und Öl", "Übung", "Spaß", "ÖPNV", "São Paulo", "amanhã", "É isso", "Łódź", "piękny",
        "kőfal", "güneş", "İstanbul", "můžeš", "æði", "það er", "på", "déjà vu", "à\u00a0", "voilà",
        "20°C", "10 km, 20\u00a0km", "mot,\u00a0mot", "«mot»", "¿Qué?", "Đã đi", "một người",
        "được", "cửa", "și", "“quoted”", "it’s", "one – two", "wait…", "€5", "Привет", "Ελλάδα",
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


@pytest.mark.parametrize("text", ["a\tb", "é\x07", "caf\ufffd", "é \ue000", "a\x7f"])
def test_characters_that_are_no_text(text):
    assert is_damaged(text)
