"""Weights and vocabularies of `MarianMTModel` and `MarianTokenizer` (Hugging Face transformers).

Weights: both libraries compute the same function with post-norm layers. They differ in:
- Names: `encoder/layer1/mha/wq/kernel` is `model.encoder.layers.0.self_attn.q_proj.weight` there.
- Matrices: `[in, out]` here, `[out, in]` there.
- Positional encoding: sines in even and cosines in odd columns here (Sec. 3.5), all sines and then
  all cosines there. So each dimension of width d_model is permuted, here and there.
- Layer normalization: epsilon is 1e-6 here, and always 1e-5 there.

Vocabularies: Marian's SentencePiece models, `source.spm` and `target.spm`, only split text. The ids
of the sub-words are in `vocab.json`, which both languages can share. Here, a SentencePiece model
does both. So each of Marian's models becomes one with the sub-words of `vocab.json`, in the order
of our ids: the special tokens, then the others in the order of their ids. A sub-word of the other
language only is UNUSED: text is never split into it, but it can be decoded. Text is split without a
sub-word of Marian's model that `vocab.json` lacks, where transformers takes it as unknown. Where it
lacks some of the 256 bytes, no text becomes bytes. Language codes, such as >>fra<<, are tags.
"""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from sentencepiece import sentencepiece_model_pb2 as messages

from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.special_tokens import BLANK, END, PAD, START, UNK

Weights = dict[str, np.ndarray]

# Tensors with one row for each token.
SHARED = "model.shared.weight"
ENCODER_TABLE = "model.encoder.embed_tokens.weight"
DECODER_TABLE = "model.decoder.embed_tokens.weight"
PROJECTION = "lm_head.weight"
BIAS = "final_logits_bias"

# Names in a checkpoint -> names in a `MarianMTModel`: of whole tensors, and of parts of a layer.
_TOKEN_TENSORS = {
    "embedding/table": SHARED,
    "encoder/embedding/table": ENCODER_TABLE,
    "decoder/embedding/table": DECODER_TABLE,
    "final_layer/kernel": PROJECTION,
    "final_layer/bias": BIAS,
}
_PARTS = {
    "mha": "self_attn", "mha1": "self_attn", "mha2": "encoder_attn",
    "wq": "q_proj", "wk": "k_proj", "wv": "v_proj", "dense": "out_proj",
    "ffn": "", "inner": "fc1", "outer": "fc2",
    "encoder layernorm1": "self_attn_layer_norm", "encoder layernorm2": "final_layer_norm",
    "decoder layernorm1": "self_attn_layer_norm", "decoder layernorm2": "encoder_attn_layer_norm",
    "decoder layernorm3": "final_layer_norm",
    "kernel": "weight", "gamma": "weight", "bias": "bias", "beta": "bias",
}  # fmt: skip
# The end of a name in a checkpoint -> the dimension of width d_model.
_WIDTH_AXES = {
    "/table": 1, "/gamma": 0, "/beta": 0,
    "wq/kernel": 0, "wk/kernel": 0, "wv/kernel": 0, "dense/kernel": 1, "dense/bias": 0,
    "inner/kernel": 0, "outer/kernel": 1, "outer/bias": 0, "final_layer/kernel": 0,
}  # fmt: skip

_Piece: Any = messages.ModelProto.SentencePiece
START_PIECE = "[START]"
# The first token of a source of a multilingual model, such as >>fra<<.
LANGUAGE_CODE = re.compile(r">>.+<<")
CONTROL_SYMBOLS = ("<s>", "</s>", "<pad>", "<unk>")  # of SentencePiece, by default


def marian_name(name: str) -> str:
    """Returns the name in a `MarianMTModel` of an array of a checkpoint."""
    if name in _TOKEN_TENSORS:
        return _TOKEN_TENSORS[name]
    stack, layer, *parts = name.split("/")
    names = [_PARTS[part if part in _PARTS else f"{stack} {part}"] for part in parts]
    number = int(layer.removeprefix("layer")) - 1
    return ".".join(["model", stack, "layers", str(number), *filter(None, names)])


def to_marian(weights: Weights, d_model: int) -> Weights:
    """Converts weights, by their names in a checkpoint; returns them by `marian_name`."""
    order = _sines_then_cosines(d_model)
    tensors = {}
    for name, array in weights.items():
        tensor = _permute(name, array, order)
        tensor = tensor.T if name.endswith("kernel") else tensor
        tensor = tensor[np.newaxis] if marian_name(name) == BIAS else tensor
        tensors[marian_name(name)] = np.ascontiguousarray(tensor)
    return tensors


def from_marian(tensors: Weights, names: Iterable[str], d_model: int) -> Weights:
    """The inverse of `to_marian`; returns float32 arrays by these names of a checkpoint."""
    order = np.argsort(_sines_then_cosines(d_model))
    weights = {}
    for name in names:
        tensor = tensors[marian_name(name)]
        tensor = tensor[0] if marian_name(name) == BIAS else tensor
        array = tensor.T if name.endswith("kernel") else tensor
        weights[name] = _permute(name, array, order).astype(np.float32)
    return weights


def _sines_then_cosines(d_model: int) -> np.ndarray:
    """The columns of our positional encoding in the order of Marian's."""
    return np.concatenate([np.arange(0, d_model, 2), np.arange(1, d_model, 2)])


def _permute(name: str, array: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Permutes the dimension of width d_model of an array in a checkpoint, where it has one."""
    axes = [axis for end, axis in _WIDTH_AXES.items() if f"/{name}".endswith(end)]
    return np.take(array, order, axes[0]) if axes else array


def with_all_tables(tensors: Weights, shared: bool, tied: bool) -> Weights:
    """Adds the tables that a file holds only once, under one of their names, and the bias.

    Shared: encoder and decoder have one embedding. Tied: the decoder's is the output projection.
    """
    names = [SHARED, ENCODER_TABLE, DECODER_TABLE] if shared else [DECODER_TABLE]
    if tied:
        names.append(PROJECTION)
    stored = next((name for name in names if name in tensors), names[0])
    tensors = {**dict.fromkeys(names, tensors[stored]), **tensors}
    no_bias = np.zeros((1, len(tensors[PROJECTION])), np.float32)
    return {BIAS: no_bias, **tensors}


def token_order(size: int, pad: int, unk: int, start: int, end: int) -> list[int]:
    """Returns Marian's ids in the order of ours, the special tokens first.

    Its models start with padding, whose id then occurs twice.
    """
    special = [0, 0, 0, 0]
    special[PAD], special[UNK], special[START], special[END] = pad, unk, start, end
    return [*special, *(token for token in range(size) if token not in special)]


def to_tokenizer(spm: bytes, vocabulary: dict[str, int], order: list[int]) -> Tokenizer:
    """Makes a tokenizer of Marian's SentencePiece model, with ids in the order of `token_order`.

    The vocabulary is the content of `vocab.json`: ids by sub-words.
    """
    names = {token: piece for piece, token in vocabulary.items()}
    pieces = [names[token] for token in order]
    if order[START] == order[PAD]:
        pieces[START] = START_PIECE
    model = messages.ModelProto.FromString(spm)
    known = {piece.piece: piece for piece in model.pieces}
    del model.pieces[:]
    lowest = min((piece.score for piece in known.values()), default=0.0)
    model.pieces.extend(_piece(piece, known, lowest) for piece in pieces)
    found_bytes = [piece for piece in model.pieces if piece.type == _Piece.BYTE]
    if len(found_bytes) < 256:  # SentencePiece has all of them or none
        model.trainer_spec.byte_fallback = False
        for piece in found_bytes:
            piece.type = _Piece.UNUSED
    for token in (PAD, START, END):
        model.pieces[token].type = _Piece.CONTROL
    model.pieces[UNK].type = _Piece.UNKNOWN
    spec = model.trainer_spec  # by which SentencePiece looks up the special tokens
    spec.vocab_size = len(pieces)
    spec.pad_id, spec.pad_piece = PAD, pieces[PAD]
    spec.unk_id, spec.unk_piece = UNK, pieces[UNK]
    spec.bos_id, spec.bos_piece = START, pieces[START]
    spec.eos_id, spec.eos_piece = END, pieces[END]
    return Tokenizer(model.SerializeToString())


def _piece(text: str, known: dict[str, Any], lowest: float) -> Any:
    """A sub-word of the new model, of the known ones of Marian's model and their lowest score."""
    # Earlier versions wrote a blank before a code.
    if LANGUAGE_CODE.fullmatch(code := text.removeprefix(BLANK)):
        return _Piece(piece=code, type=_Piece.CONTROL)  # a tag
    if text in known:
        piece = known[text]
        if text in CONTROL_SYMBOLS:  # which would be taken for tags
            piece.type = _Piece.UNUSED
        return piece
    if len(text) == 1:
        # Marian's tokenizer looks up the id of a character that its model does not know. The score
        # is below all others, as SentencePiece's score of an unknown character.
        return _Piece(piece=text, score=lowest - 10)
    return _Piece(piece=text, type=_Piece.UNUSED)
