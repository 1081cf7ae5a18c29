"""Adds sub-words of another text to a vocabulary, for fine-tuning.

The ids of the vocabulary stay. Byte-pair encoding (BPE) continues: its next merges are those of the
most frequent neighbours in the text as the vocabulary segments it. SentencePiece learns them from a
text in which one character, a symbol, stands for each sub-word.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer.data.normalization import normalizer_spec
from tf_transformer.data.tokenizer import (
    MAX_SENTENCE_BYTES,
    Tokenizer,
    texts_of,
    train_sentencepiece,
    with_normalizers,
)
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import BLANK, UNK

FIRST_SYMBOL = 0xF0000  # of the private use planes of Unicode, which have 131,000 characters
BOUNDARY = "\t"  # which no merge crosses
SYMBOL_BYTES = 4  # in UTF-8
BYTE = re.compile("<0x[0-9A-F]{2}>")
SENTENCES = 1000  # that are encoded at a time
MAX_PIECE_CHARACTERS = 16  # of a sub-word, as where SentencePiece learns a vocabulary

Piece = messages.ModelProto.SentencePiece


def extend_vocabulary(
    tokenizer: Tokenizer,
    sentences: Callable[[], Iterable[str]],
    number: int,
    tags: Sequence[str] = (),
) -> Tokenizer:
    """Adds the most frequent sub-words of a text, and tags.

    Args:
      tokenizer: the `Tokenizer` to extend, of a BPE vocabulary.
      sentences: a function that returns an iterator of the text, which is read twice.
      number: how many sub-words are added at most, the new characters of the text included.
      tags: which are added where the vocabulary lacks them.
    Returns: a `Tokenizer`, whose first ids are those of `tokenizer`.
    Raises: UserError for a vocabulary that is not BPE, and for text of which nothing can be
      learned.
    """
    model = messages.ModelProto.FromString(tokenizer.model)
    if model.trainer_spec.model_type != messages.TrainerSpec.BPE:
        raise UserError("extend_vocab is for byte-pair encoding, not for other vocabularies")
    for tag in dict.fromkeys(tags):
        if tag not in tokenizer.tags:
            model.pieces.append(Piece(piece=tag, type=Piece.CONTROL))
    known = {piece.piece for piece in model.pieces}
    lowest = min(piece.score for piece in model.pieces)  # an earlier merge has a larger score
    learned = (piece for piece in _learn(tokenizer, sentences, number) if piece not in known)
    for rank, piece in enumerate(itertools.islice(learned, number), start=1):
        model.pieces.append(Piece(piece=piece, score=lowest - rank, type=Piece.NORMAL))
    model.trainer_spec.vocab_size = len(model.pieces)
    return Tokenizer(model.SerializeToString())


def extend_tokenizers(
    tokenizers: tuple[Tokenizer, Tokenizer],
    pairs: Callable[[], Iterable[tuple[str, str]]],
    number: int,
    tags: Sequence[str],
) -> tuple[Tokenizer, Tokenizer]:
    """Extends one shared vocabulary, or one for each language, as `extend_vocabulary` does.

    Args:
      tokenizers: of source and target.
      pairs: a function that returns an iterator of (source, target) strings.
      number: of sub-words that are added at most to each vocabulary.
      tags: which begin sources, and are added to their vocabulary.
    Returns: the source's and the target's `Tokenizer`.
    """
    source, target = tokenizers
    if source.same_vocabulary(target):
        texts = texts_of(pairs, tags, source.normalize, target.normalize)
        specs = [each.normalizer_spec for each in tokenizers]
        plain = source.with_normalizer(normalizer_spec("identity"))
        return with_normalizers(extend_vocabulary(plain, texts, number, tags), specs)
    return (
        extend_vocabulary(source, texts_of(pairs, tags, str, None), number, tags),
        extend_vocabulary(target, texts_of(pairs, tags, None, str), number),
    )


def segment_new_pieces(before: Tokenizer, after: Tokenizer) -> list[list[int]]:
    """Returns the sub-words of which the new ones are made.

    Args:
      before: a `Tokenizer`.
      after: the same with more sub-words.
    Returns: for each new id, the ids of its text in `before`; empty for a tag.
    """
    model = messages.ModelProto.FromString(before.model)
    model.normalizer_spec.add_dummy_prefix = False  # a sub-word can be the end of a word
    model.normalizer_spec.remove_extra_whitespaces = False
    model.normalizer_spec.precompiled_charsmap = b""  # a sub-word is in its normal form
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    new = range(before.vocab_size, after.vocab_size)
    texts = ["" if piece in after.tags else piece for piece in after.pieces(new)]
    return processor.encode([text.replace(BLANK, " ") for text in texts])


def _learn(
    tokenizer: Tokenizer, sentences: Callable[[], Iterable[str]], number: int
) -> Iterator[str]:
    """The sub-words of the text that the next merges make: new characters, then merges."""
    known = tokenizer.pieces(range(tokenizer.vocab_size))
    characters = len(set(itertools.chain.from_iterable(sentences())))
    model = train_sentencepiece(
        _symbol_texts(tokenizer, sentences()),
        tokenizer.vocab_size + characters + number,  # SentencePiece counts all symbols too
        model_type="bpe",
        max_sentence_length=SYMBOL_BYTES * MAX_SENTENCE_BYTES,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        split_by_unicode_script=False,
        split_by_number=False,
        pretokenization_delimiter=BOUNDARY,
    )
    pieces = messages.ModelProto.FromString(model).pieces
    learned = [piece.piece for piece in pieces if piece.type == Piece.NORMAL]
    for symbols in sorted(learned, key=lambda symbols: len(symbols) > 1):
        codes = (ord(symbol) - FIRST_SYMBOL for symbol in symbols)
        text = "".join(known[n] if n >= 0 else symbol for n, symbol in zip(codes, symbols))
        if len(text) <= MAX_PIECE_CHARACTERS:
            yield text


def _symbol_texts(tokenizer: Tokenizer, sentences: Iterable[str]) -> Iterator[str]:
    """Yields the sentences in symbols."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    iterator = iter(sentences)
    while batch := list(itertools.islice(iterator, SENTENCES)):
        for ids in tokenizer.for_targets().encode_lists(batch):
            yield "".join(_symbols(ids[:-1], pieces))  # without the end token


def _symbols(ids: list[int], pieces: list[str]) -> Iterator[str]:
    """Yields the symbols of a sentence, with a boundary where no merge is allowed.

    Characters that are not in the vocabulary, whose bytes are sub-words, stay.
    """
    before = BLANK  # so that the first sub-word has no boundary before it
    for is_byte, group in itertools.groupby(ids, lambda i: bool(BYTE.fullmatch(pieces[i]))):
        if is_byte:
            characters = bytes(int(pieces[i][3:5], 16) for i in group).decode("utf-8", "replace")
            # A character of the text that is a symbol stands for no sub-word.
            texts = [(each, BOUNDARY if ord(each) >= FIRST_SYMBOL else each) for each in characters]
        else:  # the unknown token occurs where a vocabulary has no bytes
            texts = [(pieces[i], BOUNDARY if i == UNK else chr(FIRST_SYMBOL + i)) for i in group]
        for text, symbol in texts:
            yield symbol if _may_merge(before, text) else BOUNDARY + symbol
            before = text


def _may_merge(first: str, second: str) -> bool:
    """Whether a merge may join two neighbours, as where SentencePiece learns a vocabulary.

    They are of one word, and both letters of one script, or neither of them letters.
    """
    if first == BLANK:
        return True
    return not second.startswith(BLANK) and _kind(first[-1]) == _kind(second[0])


@functools.cache
def _kind(character: str) -> str:
    """The script of a letter, by the first word of its name; "" for other characters."""
    if unicodedata.category(character)[0] not in "LM":
        return ""
    script = unicodedata.name(character, "").partition(" ")[0]
    return "CJK" if script in ("HIRAGANA", "KATAKANA") else script
