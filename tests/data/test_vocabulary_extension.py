"""Vocabularies that get sub-words of another text."""

import re
from itertools import islice

import numpy as np
import pytest
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer.data.pocket import read_pairs
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.data.vocabulary_extension import (
    extend_vocabulary,
    segment_new_pieces,
)
from tf_transformer.errors import DamagedError, UserError

TEXT = [sentence for pair in islice(read_pairs(), 1000) for sentence in pair]
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
    return extend_vocabulary(before, lambda: OTHER, 90, ["<2de>", ">>fr<<"])


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
    texts = [*OTHER[:4], *TEXT[:200], "ein 🤷 und \ufffd"]
    short, long = after.encode(texts), before.encode(texts)
    assert np.all(short.row_lengths() <= long.row_lengths())
    np.testing.assert_array_equal(after.decode(short), before.decode(long))
    lengths = [sum(map(len, ids_of(tokenizer, OTHER[:4]))) for tokenizer in (before, after)]
    assert lengths[1] < 0.5 * lengths[0]
    assert max(len(ids) for ids in ids_of(after, ["Schiedsrichter", "私は"])) <= 4


def test_boundaries_are_those_of_a_learned_vocabulary(before):
    """Of scripts, of letters and other characters, and of length."""
    text = ["abcжд 3,50 10:30 Anna's 日本の"] * 50
    text += ["Donaudampfschifffahrtsgesellschaft Donaudampfschifffahrtsgesellschaft"] * 50
    extended = extend_vocabulary(before, lambda: text, 400)
    learned = Tokenizer.learn(iter(text), 1000)
    pieces = set(new_pieces(before, extended))
    assert max(map(len, pieces)) > 9
    for piece in ("3,50", "10:30", "abc", "жд"):
        for tokenizer in (extended, learned):
            found = tokenizer.pieces(range(tokenizer.vocab_size))
            assert piece in [text.strip("\u2581") for text in found], piece
    allowed = r"\u2581?([a-zA-Z]+|[а-я]+|[日本の]+|[\d,:']+)"
    for piece in pieces:
        assert re.fullmatch(allowed, piece) and len(piece) <= 16, piece


def test_merges_continue():
    """400 sub-words, extended by 60 with the same text, are the 460 of that text."""
    text = [sentence for sentence in TEXT if re.fullmatch(r"[a-zA-Zäöüß .]+", sentence)]
    small, large = (Tokenizer.learn(iter(text), size) for size in (400, 460))
    extended = extend_vocabulary(small, lambda: text, 60)
    assert set(extended.pieces(range(460))) == set(large.pieces(range(460)))
    assert [extended.pieces(ids) for ids in ids_of(extended, text)] == [
        large.pieces(ids) for ids in ids_of(large, text)
    ]


def test_parts_of_new_sub_words(before, after):
    parts = segment_new_pieces(before, after)
    pieces = new_pieces(before, after)
    assert len(parts) == len(pieces)
    assert parts[:2] == [[], []]  # tags
    for piece, ids in zip(pieces[2:], parts[2:]):
        assert ids
        text = b""
        for part in before.pieces(ids):
            is_byte = re.fullmatch(r"<0x(..)>", part)
            text += bytes.fromhex(is_byte[1]) if is_byte else part.encode()
        assert text.decode() == piece


def edited(tokenizer, edit):
    """A tokenizer whose SentencePiece model is edited."""
    model = messages.ModelProto.FromString(tokenizer.model)
    edit(model)
    return Tokenizer(model.SerializeToString())


def test_a_vocabulary_without_bytes(before):
    """Characters without an id are boundaries, and get no ids."""
    kind = messages.ModelProto.SentencePiece

    def remove_bytes(model):
        for piece in model.pieces:
            piece.type = kind.UNUSED if piece.type == kind.BYTE else piece.type
        model.trainer_spec.byte_fallback = False

    without = edited(before, remove_bytes)
    after = extend_vocabulary(without, lambda: ["私 Donau 私x ж"] * 9, 40)
    assert "\u2581Donau" in new_pieces(without, after)
    assert not re.search("UNK|<|私|ж", "".join(new_pieces(without, after)))


def test_what_cannot_be_extended(before):
    def damaged():
        yield "text"
        raise DamagedError("line 2 is damaged")

    def to_unigram(model):
        model.trainer_spec.model_type = messages.TrainerSpec.UNIGRAM

    for tokenizer, text, error, message in (
        (before, lambda: ["", " "], UserError, "the text is blank"),
        (before, damaged, DamagedError, "^line 2 is damaged"),
        (edited(before, to_unigram), lambda: ["text"], UserError, "is for byte-pair encoding"),
    ):
        with pytest.raises(error, match=message):
            extend_vocabulary(tokenizer, text, 5)
