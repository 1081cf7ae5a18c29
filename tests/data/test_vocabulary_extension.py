"""Vocabularies that get sub-words of another text."""

import re

import pytest

from tf_transformer.data.pocket import corpus as pocket
from tf_transformer.data.segmentation import messages
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.data.vocabulary_extension import (
    extend_tokenizers,
    extend_vocabulary,
    segment_new_pieces,
)
from tf_transformer.errors import UserError

TEXT = [sentence for pair in pocket.generate(1000) for sentence in pair]
OTHER = [
    "Zwei Schiedsrichter pfeifen gleichzeitig, und 1234 Zuschauer pfeifen.",
    "Der Schiedsrichter pfeift: das Spiel ist aus.",
    "Gänseblümchen und Schiedsrichter im Gänseblümchen-Stadion.",
    "私は昨日赤い車を買いました。",
] * 9


@pytest.fixture(scope="module")
def before():
    return Tokenizer.learn(iter(TEXT), 400)


@pytest.fixture(scope="module")
def after(before):
    return extend_vocabulary(before, iter(OTHER), 90, ["<2de>", ">>fr<<"])


def ids_of(tokenizer, texts):
    return tokenizer.encode(list(texts)).to_list()


def new_pieces(before, after):
    return after.pieces(range(before.vocab_size, after.vocab_size))


def test_old_ids_stay_and_new_ones_follow(before, after):
    assert after.pieces(range(before.vocab_size)) == before.pieces(range(before.vocab_size))
    assert after.vocab_size == before.vocab_size + 2 + 90
    assert after.tags == {"<2de>": before.vocab_size, ">>fr<<": before.vocab_size + 1}
    assert len(set(after.pieces(range(after.vocab_size)))) == after.vocab_size
    assert Tokenizer(after.model).fingerprint == after.fingerprint != before.fingerprint


def test_text_becomes_shorter_and_stays_the_same(before, after):
    for text in {*OTHER, *TEXT[:200], "ein 🤷 und \ufffd"}:
        (short,), (long,) = ids_of(after, [text]), ids_of(before, [text])
        assert len(short) <= len(long)
        assert after.decode([short]).numpy() == before.decode([long]).numpy()
    lengths = [sum(map(len, ids_of(tokenizer, OTHER[:4]))) for tokenizer in (before, after)]
    assert lengths[1] < 0.5 * lengths[0]
    assert max(len(ids) for ids in ids_of(after, ["Schiedsrichter", "私は"])) <= 4


def test_every_new_sub_word_is_text_of_which_it_was_learned(before, after):
    words = set(re.findall(r"\S+", " ".join(OTHER)))
    for piece in new_pieces(before, after)[2:]:
        word = piece.removeprefix("\u2581")
        assert any(w.startswith(word) if piece != word else word in w for w in words), piece
        # Of letters, or of digits, or of neither, as where a vocabulary is learned.
        assert re.fullmatch(r"\d+|[^\W\d]+|\W+", word), piece


def test_merges_continue():
    """400 sub-words, extended by 60 with the same text, are the 460 of that text."""
    text = [sentence for sentence in TEXT if re.fullmatch(r"[a-zA-Zäöüß .]+", sentence)]
    small, large = (Tokenizer.learn(iter(text), size) for size in (400, 460))
    extended = extend_vocabulary(small, iter(text), 60)
    assert set(extended.pieces(range(460))) == set(large.pieces(range(460)))
    assert [extended.pieces(ids) for ids in ids_of(extended, text)] == [
        large.pieces(ids) for ids in ids_of(large, text)
    ]


def test_tagged_text(before, after):
    ((tag, *ids),) = ids_of(after, ["<2de> Anna schläft."])
    assert tag == after.tags["<2de>"]
    assert ids_of(after, ["Anna schläft."]) == [ids]
    again = extend_vocabulary(after, ["Anna schläft."], 3, ["<2de>", "<BT>"])
    assert again.tags == {**after.tags, "<BT>": after.vocab_size}


def test_parts_of_new_sub_words(before, after):
    parts = segment_new_pieces(before, after)
    pieces = new_pieces(before, after)
    assert len(parts) == len(pieces)
    assert parts[:2] == [[], []]  # tags
    for piece, ids in zip(pieces[2:], parts[2:]):
        text = before.pieces(ids)
        if all(len(part) == 6 and part.startswith("<0x") for part in text):
            assert bytes(int(part[1:-1], 16) for part in text).decode() == piece
        else:
            joined = "".join(text)
            assert joined == piece or "<0x" in joined


def test_a_character_that_stands_for_a_sub_word(before):
    """It occurs in the text: it is not taken for the sub-word, and gets none."""
    text = "a\U000f0010b \U000f0010 ab"
    after = extend_vocabulary(before, [text] * 5, 20)
    assert "\U000f0010" not in "".join(new_pieces(before, after))
    assert after.decode(after.encode([text])).numpy()[0].decode() == text


def test_separate_vocabularies(before):
    german = Tokenizer.learn((de for _, de in pocket.generate(500)), 350)
    pairs = [("two referees", "zwei Schiedsrichter")] * 5
    source, target = extend_tokenizers((before, german), lambda: pairs, 30, ["<2de>"])
    assert source.tags and not target.tags
    assert "referees" in "".join(new_pieces(before, source))
    assert "Schiedsrichter" in "".join(new_pieces(german, target))
    shared = extend_tokenizers((before, before), lambda: pairs, 30, [])
    assert shared[0] is shared[1]
    text = "".join(new_pieces(before, shared[0]))
    assert "referee" in text and "Schieds" in text


def test_what_cannot_be_extended(before):
    with pytest.raises(UserError, match="extend_vocab 5: .*the text is blank"):
        extend_vocabulary(before, ["", " "], 5)

    def damaged():
        yield "text"
        raise UserError("line 2 is damaged")

    with pytest.raises(UserError, match="line 2 is damaged"):
        extend_vocabulary(before, damaged(), 5)
    model = messages.ModelProto.FromString(before.model)
    model.trainer_spec.model_type = messages.TrainerSpec.UNIGRAM
    with pytest.raises(UserError, match="for a vocabulary of byte-pair encoding"):
        extend_vocabulary(Tokenizer(model.SerializeToString()), ["text"], 5)
