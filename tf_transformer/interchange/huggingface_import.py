"""Import of a `MarianMTModel` of Hugging Face transformers, such as the OPUS-MT models.

The result is a model folder. Where the output projection has a bias, as in OPUS-MT models, the
embeddings and the projection become three matrices. They are equal after the import, and training
lets them differ. The decoder of OPUS-MT models starts with the padding token, whose row becomes
that of our start token.
"""

import json
import os
from typing import Any, NamedTuple

import numpy as np

from tf_transformer.atomic_io import atomic_folder
from tf_transformer.checkpoints import checkpoint, model_folder
from tf_transformer.checkpoints.loading import build_model
from tf_transformer.config import SAMPLING, Config, DataConfig, DecodeConfig, ModelConfig
from tf_transformer.data.segmentation import Vocabulary
from tf_transformer.data.tokenizer import Tokenizer, save_tokenizers
from tf_transformer.errors import UserError
from tf_transformer.export.errors import explain_write_errors
from tf_transformer.interchange import marian_weights
from tf_transformer.interchange.marian_vocabulary import to_tokenizer, token_order
from tf_transformer.interchange.marian_weights import Weights
from tf_transformer.interchange.safetensors_file import import_safetensors, read_tensors
from tf_transformer.model.transformer import Transformer
from tf_transformer.special_tokens import START

ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish"}
# Settings of `MarianConfig` that our model has with one value only, and the value in transformers
# of a setting that is not in the file.
REQUIRED: dict[str, tuple[Any, Any]] = {
    "model_type": ("marian", None),
    "normalize_before": (False, False),
    "normalize_embedding": (False, False),
    "add_final_layer_norm": (False, False),
    "scale_embedding": (True, False),
    "static_position_embeddings": (True, True),
}
EQUAL_SIZES = ("layers", "attention_heads", "ffn_dim")  # of the encoder and of the decoder
# The output bias of our start token where Marian has one token for padding and start. The start
# token, which no output has, then takes no probability.
START_BIAS = -100.0


class Source(NamedTuple):
    """What the folder of a `MarianMTModel` holds beside the weights."""

    folder: str
    config: dict[str, Any]
    generation: dict[str, Any]  # the settings of the search
    tokenizers: tuple[Tokenizer, Tokenizer]
    orders: list[list[int]]  # of source and target, Marian's ids in the order of ours
    languages: tuple[str, str]


def import_huggingface(
    folder: str, output: str, source: str | None = None, target: str | None = None
) -> None:
    """Writes a model folder with the weights and the vocabulary of a `MarianMTModel`.

    Args:
      folder: with `config.json`, `model.safetensors`, `source.spm`, `target.spm` and `vocab.json`.
      output: the model folder. It must not exist, and it appears when it is complete.
      source, target: language codes; None for those of `tokenizer_config.json`, or "en" and "de".
    Raises: UserError when a file is missing or damaged, the output exists, or the model cannot be
      expressed.
    """
    if os.path.exists(output):
        raise UserError(f"{output} already exists: remove it, or give another output")
    import_safetensors()  # fails before the vocabulary is read
    marian = _read_source(folder, source, target)
    tensors = _read_weights(marian)
    bias = tensors[marian_weights.BIAS]
    config = _config(marian, one_matrix=_is_tied(marian) and not bias.any())
    model = _make_model(config.model, tensors, marian)
    state = {
        "step": 0,
        "vocabularies": [tokenizer.fingerprint for tokenizer in marian.tokenizers],
    }
    parent = os.path.dirname(os.path.abspath(output))
    with explain_write_errors(output), atomic_folder(parent) as temporary:
        config.save(os.path.join(temporary, model_folder.CONFIG))
        save_tokenizers(marian.tokenizers, temporary)
        checkpoint.save(os.path.join(temporary, model_folder.AVERAGED), model, state=state)
        os.rename(temporary, output)


def _read_json(folder: str, name: str, optional: bool = False) -> dict[str, Any]:
    """Reads an object; {} where an optional file does not exist. Raises: UserError."""
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    except FileNotFoundError:
        if optional:
            return {}
        raise UserError(f"no file {path}: give the folder of a MarianMTModel") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} could not be read: {error}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no JSON object: give the folder of a MarianMTModel")
    return values


def _read_source(folder: str, source: str | None, target: str | None) -> Source:
    config = _read_json(folder, "config.json")
    _check_architecture(os.path.join(folder, "config.json"), config)
    names = _read_json(folder, "tokenizer_config.json", optional=True)
    separate = bool(names.get("separate_vocabs"))
    files = ["vocab.json", "target_vocab.json" if separate else "vocab.json"]
    orders, tokenizers = [], []
    for side, file in zip(("source.spm", "target.spm"), files):
        vocabulary = _read_json(folder, file)
        orders.append(_order(os.path.join(folder, file), vocabulary, config, names))
        path = os.path.join(folder, side)
        tokenizers.append(to_tokenizer(_read_bytes(path), vocabulary, orders[-1], path))
    if tokenizers[0].fingerprint == tokenizers[1].fingerprint:
        tokenizers[1] = tokenizers[0]
    languages = (
        source or names.get("source_lang") or DataConfig.source,
        target or names.get("target_lang") or DataConfig.target,
    )
    # As transformers does: an old folder has the settings of the search in `config.json`.
    generation = _read_json(folder, "generation_config.json", optional=True) or config
    return Source(folder, config, generation, (tokenizers[0], tokenizers[1]), orders, languages)


def _check_architecture(path: str, config: dict[str, Any]) -> None:
    """Raises: UserError where our model cannot express Marian's."""
    for name, (required, default) in REQUIRED.items():
        value = config.get(name, default)
        if value != required:
            raise UserError(f"{path}: {name} is {value!r}, and only {required!r} can be imported")
    if config.get("activation_function") not in ACTIVATIONS:
        names = ", ".join(ACTIVATIONS)
        raise UserError(
            f"{path}: activation_function is {config.get('activation_function')!r}, and only "
            f"{names} can be imported"
        )
    needed = [f"{side}_{name}" for side in ("encoder", "decoder") for name in EQUAL_SIZES]
    ids = ["pad_token_id", "eos_token_id", "decoder_start_token_id"]
    for name in [*needed, *ids, "d_model", "max_position_embeddings"]:
        if type(config.get(name)) is not int:
            raise UserError(f"{path}: {name} is {config.get(name)!r}, and an integer is needed")
    for name in EQUAL_SIZES:
        if config[f"encoder_{name}"] != config[f"decoder_{name}"]:
            raise UserError(
                f"{path}: encoder_{name} and decoder_{name} differ, and only equal ones can be "
                "imported"
            )


def _order(
    path: str, vocabulary: dict[str, Any], config: dict[str, Any], names: dict[str, Any]
) -> list[int]:
    """Marian's ids in the order of ours. Raises: UserError."""
    unk = names.get("unk_token", "<unk>")
    unk = unk.get("content") if isinstance(unk, dict) else unk
    if sorted(vocabulary.values(), key=str) != sorted(range(len(vocabulary)), key=str):
        raise UserError(f"{path}: its ids are not 0 to {len(vocabulary) - 1}, each of them once")
    if unk not in vocabulary:
        raise UserError(f"{path}: the unknown token {unk!r} is missing")
    special = [config[f"{name}_token_id"] for name in ("pad", "decoder_start", "eos")]
    for token in special:
        if not 0 <= token < len(vocabulary):
            raise UserError(f"{path}: the special token {token} of config.json is missing")
    pad, start, end = special
    return token_order(len(vocabulary), pad, vocabulary[unk], start, end)


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UserError(f"{path} could not be read: {error.strerror}") from None


def _starts_with_padding(marian: Source) -> bool:
    return marian.config["decoder_start_token_id"] == marian.config["pad_token_id"]


def _is_tied(marian: Source) -> bool:
    """Whether one matrix can be both embeddings and the projection, were there no bias."""
    tied = all(
        marian.config.get(name, True)
        for name in ("share_encoder_decoder_embeddings", "tie_word_embeddings")
    )
    one_vocabulary = marian.tokenizers[0] is marian.tokenizers[1]
    return tied and one_vocabulary and not _starts_with_padding(marian)


def _read_weights(marian: Source) -> Weights:
    """Reads the weights. The rows of tokens are in our order."""
    path = os.path.join(marian.folder, "model.safetensors")
    shared = marian.config.get("share_encoder_decoder_embeddings", True)
    tied = marian.config.get("tie_word_embeddings", True)
    tensors = marian_weights.with_all_tables(read_tensors(path), shared, tied)
    source, target = marian.orders
    rows = {
        marian_weights.SHARED: (source, 0),
        marian_weights.ENCODER_TABLE: (source, 0),
        marian_weights.DECODER_TABLE: (target, 0),
        marian_weights.PROJECTION: (target, 0),
        marian_weights.BIAS: (target, 1),
    }
    for name, (order, axis) in rows.items():
        if name in tensors:
            if tensors[name].shape[axis] != max(order) + 1:
                raise UserError(
                    f"{path}: {name} has {tensors[name].shape[axis]} rows, and the vocabulary "
                    f"{max(order) + 1} sub-words"
                )
            tensors[name] = np.take(tensors[name], order, axis)
    return tensors


def _config(marian: Source, one_matrix: bool) -> Config:
    """The settings of the model folder; those of the training are the defaults."""
    sizes = marian.config
    positions = sizes["max_position_embeddings"]
    source, target = marian.tokenizers
    search = {name: value for name, value in marian.generation.items() if value is not None}
    longest = search.get("max_length", positions)
    if type(longest) is not int:
        raise UserError(f"{marian.folder}: max_length is {longest!r}, and an integer is needed")
    longest = min(longest, positions)
    kind = Vocabulary(source.model).kind
    try:
        model = ModelConfig(
            num_layers=sizes["encoder_layers"],
            d_model=sizes["d_model"],
            num_heads=sizes["encoder_attention_heads"],
            dff=sizes["encoder_ffn_dim"],
            dropout_rate=sizes.get("dropout", ModelConfig.dropout_rate),
            input_vocab_size=source.vocab_size,
            target_vocab_size=target.vocab_size,
            pe_input=positions,
            pe_target=longest,
            activation=ACTIVATIONS[sizes["activation_function"]],
            shared_embeddings=one_matrix,
        )
        data = DataConfig(
            data=os.path.abspath(marian.folder),  # the data of its training is not known
            source=marian.languages[0],
            target=marian.languages[1],
            vocab_size=max(source.vocab_size, target.vocab_size),
            subword_model=kind if kind in SAMPLING else DataConfig.subword_model,
            shared_vocab=source is target,
            max_length=min(DataConfig.max_length, longest),
        )
        decode = DecodeConfig(
            beam_size=search.get("num_beams", 1),
            length_penalty=search.get("length_penalty", 1.0),
        )
    except UserError as error:
        raise UserError(f"{marian.folder}: {error}") from None
    return Config(model=model, data=data, decode=decode)


def _make_model(config: ModelConfig, tensors: Weights, marian: Source) -> Transformer:
    """Builds our model with Marian's weights."""
    model = build_model(config)
    variables = checkpoint.named_weights(model)
    weights = marian_weights.from_marian(tensors, variables, config.d_model)
    if _starts_with_padding(marian):
        weights["final_layer/kernel"][:, START] = 0
        weights["final_layer/bias"][START] = START_BIAS
    for name, variable in variables.items():
        if weights[name].shape != tuple(variable.shape):
            tensor = marian_weights.marian_name(name)
            raise UserError(
                f"{marian.folder}: {tensor} of model.safetensors does not have the shape that "
                "config.json gives"
            )
        variable.assign(weights[name])
    return model
