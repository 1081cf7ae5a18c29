"""Vocabularies of `MarianTokenizer` (Hugging Face transformers).

Marian's SentencePiece models, `source.spm` and `target.spm`, only split text. The ids of the
sub-words are in `vocab.json`, which both languages can share. Here, a SentencePiece model does
both. So each of Marian's models becomes one with the sub-words of `vocab.json`, in the order of our
ids: the special tokens, then the others in the order of their ids. A sub-word of the other language
only is UNUSED: text is never split into it, but it can be decoded.
"""

import json
import logging
import re
from typing import Any

from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import END, PAD, START, UNK

logger = logging.getLogger(__name__)

Piece: Any = messages.ModelProto.SentencePiece
START_PIECE = "[START]"
# The first token of a source of a multilingual model, such as >>fra<<.
LANGUAGE_CODE = re.compile(r">>.+<<")
CONTROL_SYMBOLS = ("<s>", "</s>", "<pad>", "<unk>")  # of SentencePiece, by default


def token_order(size: int, pad: int, unk: int, start: int, end: int) -> list[int]:
    """Returns Marian's ids in the order of ours.

    Args:
      size: number of Marian's ids.
      pad, unk, start, end: Marian's ids of the special tokens. Its models start with padding; the
        id then occurs twice.
    """
    special = [0, 0, 0, 0]
    special[PAD], special[UNK], special[START], special[END] = pad, unk, start, end
    return [*special, *(token for token in range(size) if token not in special)]


def to_tokenizer(spm: bytes, vocabulary: dict[str, int], order: list[int], path: str) -> Tokenizer:
    """Makes a tokenizer whose ids are those of `token_order`.

    Args:
      spm: Marian's SentencePiece model.
      vocabulary: of `vocab.json`, ids by sub-words.
      order: Marian's ids in the order of ours.
      path: of the SentencePiece model, for messages.
    Raises: UserError when it is not a SentencePiece model.
    """
    pieces = _ordered_pieces(vocabulary, order)
    model = messages.ModelProto()
    try:
        model.ParseFromString(spm)
    except DecodeError:
        raise UserError(f"{path} is not a SentencePiece model: copy it again") from None
    known = {piece.piece: piece for piece in model.pieces}
    absent = [
        piece.piece
        for piece in model.pieces
        if piece.type == Piece.NORMAL and piece.piece not in vocabulary
    ]
    if absent:
        logger.info(
            "%s: sub-words without an id: %d (such as %r); text is split without them, where "
            "transformers takes them as unknown",
            path, len(absent), absent[0],
        )  # fmt: skip
    del model.pieces[:]
    lowest = min((piece.score for piece in known.values()), default=0.0)
    model.pieces.extend(_piece(piece, known, lowest) for piece in pieces)
    for token in (PAD, START, END):
        model.pieces[token].type = Piece.CONTROL
    model.pieces[UNK].type = Piece.UNKNOWN
    _set_special_tokens(model.trainer_spec, pieces)
    try:
        return Tokenizer(model.SerializeToString())
    except RuntimeError as error:
        raise UserError(f"{path} does not fit to the vocabulary: {error}") from None


def _ordered_pieces(vocabulary: dict[str, int], order: list[int]) -> list[str]:
    """The sub-words in the order of our ids."""
    names = {token: piece for piece, token in vocabulary.items()}
    pieces = [names[token] for token in order]
    if order[START] == order[PAD]:
        pieces[START] = START_PIECE
    return pieces


def _piece(text: str, known: dict[str, Any], lowest: float) -> Any:
    """A sub-word of the new model.

    Args:
      text: the sub-word.
      known: the sub-words of Marian's model.
      lowest: the lowest score of them.
    """
    if text in known:
        piece = known[text]
        if text in CONTROL_SYMBOLS:  # which would be taken for tags
            piece.type = Piece.UNUSED
        return piece
    if len(text) == 1:
        # Marian's tokenizer looks up the id of a character that its model does not know. The score
        # is below all others, as SentencePiece's score of an unknown character.
        return Piece(piece=text, score=lowest - 10)
    if LANGUAGE_CODE.fullmatch(text):
        # Text begins with a blank, and Marian's tokenizer puts none before the code.
        return Piece(piece=f"\u2581{text}", type=Piece.USER_DEFINED)
    return Piece(piece=text, type=Piece.UNUSED)


def _set_special_tokens(spec: Any, pieces: list[str]) -> None:
    """Names the special tokens, of which SentencePiece looks up the ids."""
    spec.vocab_size = len(pieces)
    spec.pad_id, spec.pad_piece = PAD, pieces[PAD]
    spec.unk_id, spec.unk_piece = UNK, pieces[UNK]
    spec.bos_id, spec.bos_piece = START, pieces[START]
    spec.eos_id, spec.eos_piece = END, pieces[END]


def vocabulary_text(tokenizer: Tokenizer) -> str:
    """Returns the text of `vocab.json` for a tokenizer of ours, with our ids."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    vocabulary = {piece: token for token, piece in enumerate(pieces)}
    return json.dumps(vocabulary, ensure_ascii=False, indent=2) + "\n"
