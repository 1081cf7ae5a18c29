"""Adds sub-words of another text to a vocabulary, for fine-tuning.

The ids of the vocabulary stay. Byte-pair encoding (BPE) continues: its next merges are those of the
most frequent neighbours in the text as the vocabulary segments it. SentencePiece learns them from a
text in which one character stands for each sub-word.
"""

import functools
import itertools
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer.data.tokenizer import (
    MAX_SENTENCE_BYTES,
    Tokenizer,
    texts_of,
    train_sentencepiece,
)
from tf_transformer.errors import UserError
from tf_transformer.host import number_of_cores
from tf_transformer.special_tokens import BLANK, UNK

# The characters that stand for sub-words: the private use planes of Unicode.
FIRST_SYMBOLS = range(0xF0000, 0xFFFFE)
MORE_SYMBOLS = range(0x100000, 0x10FFFE)
SYMBOLS = len(FIRST_SYMBOLS) + len(MORE_SYMBOLS)
BOUNDARY = "\t"  # which no merge crosses
SYMBOL_BYTES = 4  # in UTF-8
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
    Raises: UserError for a vocabulary that is not BPE, for a tag that is one of its sub-words, and
      for text of which nothing can be learned.
    """
    model = messages.ModelProto.FromString(tokenizer.model)
    if model.trainer_spec.model_type != messages.TrainerSpec.BPE:
        raise UserError("extend_vocab is for byte-pair encoding, not for other vocabularies")
    if tokenizer.vocab_size > SYMBOLS:
        raise UserError(f"extend_vocab is for a vocabulary of at most {SYMBOLS:,} sub-words")
    known = {piece.piece for piece in model.pieces}
    for tag in dict.fromkeys(tags):
        if tag in tokenizer.tags:
            continue
        if tag in known:
            raise UserError(f"tag {tag}: it is a sub-word of the vocabulary: give another name")
        known.add(tag)
        model.pieces.append(Piece(piece=tag, type=Piece.CONTROL))
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
      tokenizers: of source and target; one object twice when they are shared.
      pairs: a function that returns an iterator of (source, target) strings.
      number: of sub-words that are added at most to each vocabulary.
      tags: which begin sources, and are added to their vocabulary.
    Returns: the source's and the target's `Tokenizer`; one object twice when shared.
    Raises: UserError as `extend_vocabulary`.
    """
    source, target = tokenizers

    if source is target:
        extended = extend_vocabulary(source, texts_of(pairs, tags, 0, 1), number, tags)
        return extended, extended
    return (
        extend_vocabulary(source, texts_of(pairs, tags, 0), number, tags),
        extend_vocabulary(target, texts_of(pairs, tags, 1), number),
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
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    new = range(before.vocab_size, after.vocab_size)
    texts = ["" if piece in after.tags else piece for piece in after.pieces(new)]
    return processor.encode([text.replace(BLANK, " ") for text in texts])


def _learn(
    tokenizer: Tokenizer, sentences: Callable[[], Iterable[str]], number: int
) -> Iterator[str]:
    """The sub-words of the text that the next merges make: new characters, then merges."""
    text = _SymbolText(tokenizer)
    characters = len(set(itertools.chain.from_iterable(sentences())))
    model = train_sentencepiece(
        text.convert(sentences()),
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
    pieces = [
        piece.piece
        for piece in messages.ModelProto.FromString(model).pieces
        if piece.type == Piece.NORMAL
    ]
    learned = map(text.text_of, sorted(pieces, key=lambda piece: len(piece) > 1))
    return (piece for piece in learned if len(piece) <= MAX_PIECE_CHARACTERS)


class _SymbolText:
    """Text with one character, a symbol, for each sub-word of a vocabulary.

    Characters that are not in the vocabulary, whose bytes are sub-words, stay.

    Args:
      tokenizer: of the vocabulary.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
        self._pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        symbols = map(chr, itertools.chain(FIRST_SYMBOLS, MORE_SYMBOLS))
        self._symbols = list(itertools.islice(symbols, tokenizer.vocab_size))
        self._ids = {symbol: i for i, symbol in enumerate(self._symbols)}

    def convert(self, sentences: Iterable[str]) -> Iterator[str]:
        """Yields the sentences in symbols, with a boundary where no merge is allowed."""
        sentences = iter(sentences)
        while batch := list(itertools.islice(sentences, SENTENCES)):
            for ids in self._processor.encode(batch, num_threads=number_of_cores()):
                yield self._convert_ids(ids)

    def _convert_ids(self, ids: list[int]) -> str:
        symbols: list[str] = []
        before = BLANK  # so that the first sub-word has no boundary before it
        for is_byte, group in itertools.groupby(ids, self._processor.is_byte):
            numbers = list(group)
            # The unknown token occurs where a vocabulary has no bytes.
            texts = [(self._pieces[i], BOUNDARY if i == UNK else self._symbols[i]) for i in numbers]
            if is_byte:  # of characters that have no sub-word
                characters = self._processor.decode(numbers)
                texts = [(each, BOUNDARY if each in self._ids else each) for each in characters]
            for text, symbol in texts:
                symbols += [symbol] if _may_merge(before, text) else [BOUNDARY, symbol]
                before = text
        return "".join(symbols)

    def text_of(self, symbols: str) -> str:
        """The text of a piece of such text."""
        return "".join(
            self._pieces[self._ids[symbol]] if symbol in self._ids else symbol for symbol in symbols
        )


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
