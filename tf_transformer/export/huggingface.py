"""Export as, and import of, a `MarianMTModel` of Hugging Face transformers, such as OPUS-MT models.

    from transformers import MarianMTModel, MarianTokenizer
    model = MarianMTModel.from_pretrained("FOLDER")
    tokenizer = MarianTokenizer.from_pretrained("FOLDER")
    found = model.generate(**tokenizer(["a sentence"], return_tensors="pt"))
    print(tokenizer.batch_decode(found, skip_special_tokens=True))

The ids of the sub-words of an export are ours. transformers differs in:
- Layer normalization: its epsilon is 1e-5, ours 1e-6. The logits differ by less than 1e-4.
- Beam search: it divides scores by L ^ length_penalty, not by ((5 + L) / 6) ^ alpha.
- Length limits: an output has at most as many sub-words as the model has positions, and not
  `extra_decode_length` more than its source.

An import is a model folder. Where the output projection has a bias, as in OPUS-MT models, the
embeddings and the projection become three matrices. They are equal after the import, and training
lets them differ. The decoder of OPUS-MT models starts with the padding token, whose row our start
token gets.
"""

import glob
import json
import logging
import os
import pathlib
import pickle
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tf_transformer.checkpoints import checkpoint as checkpoints
from tf_transformer.checkpoints import model_folder
from tf_transformer.checkpoints.loading import build_model, load_model
from tf_transformer.config import (
    NORMALIZATIONS,
    SUBWORD_MODELS,
    Config,
    DataConfig,
    DecodeConfig,
    ModelConfig,
)
from tf_transformer.data.tokenizer import Tokenizer, save_tokenizers
from tf_transformer.errors import UserError, explain_missing_package
from tf_transformer.export import marian
from tf_transformer.export.marian import Weights
from tf_transformer.export.output_folder import check_new, new_output
from tf_transformer.model.transformer import Transformer
from tf_transformer.special_tokens import END, PAD, START, UNK

logger = logging.getLogger(__name__)

ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish"}
# Settings of `MarianConfig` that our model has with one value only, and the value in transformers
# of a setting that is not in the file.
FIXED: dict[str, tuple[Any, Any]] = {
    "model_type": ("marian", None),
    "normalize_before": (False, False),
    "normalize_embedding": (False, False),
    "add_final_layer_norm": (False, False),
    "scale_embedding": (True, False),
    "static_position_embeddings": (True, True),
}
# Its settings of each stack that encoder and decoder share here -> our settings.
STACK_SIZES = {"attention_heads": "num_heads", "ffn_dim": "dff"}
SPECIAL_IDS = {
    "pad_token_id": PAD,
    "eos_token_id": END,
    "decoder_start_token_id": START,
    "forced_eos_token_id": END,  # the last token of an output of maximum length
}
# The output bias of our start token where Marian has one token for padding and start. The start
# token, which no output has, then takes no probability.
START_BIAS = -100.0


def _safetensors() -> ModuleType:
    """Imports safetensors. Raises: UserError when it is not installed."""
    with explain_missing_package("safetensors", "huggingface"):
        import safetensors.numpy
    return safetensors


def export_huggingface(
    model_dir: str, output: str, checkpoint: str | None = None, **decode: Any
) -> None:
    """Writes a folder for `MarianMTModel.from_pretrained`.

    Args:
      model_dir, output, checkpoint, **decode: as for `write_ctranslate2_folder`.
    Raises: UserError when the output exists, the model cannot be read or expressed, or the output
      cannot be written.
    """
    check_new(output)
    safetensors = _safetensors()  # fails before the model is loaded, which takes seconds
    model, tokenizers, config = load_model(model_dir, checkpoint)
    check_sizes(config.model)
    warn_of_tags(tokenizers[0].tags)
    config = config.replace(**decode)
    variables = checkpoints.named_weights(model)
    weights = {name: variable.numpy() for name, variable in variables.items()}
    tensors = marian.to_marian(weights, config.model.d_model)
    with new_output(output) as folder:
        path = os.path.join(folder, "model.safetensors")
        safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
        _write_json(folder, "config.json", _marian_config(config))
        _write_json(folder, "generation_config.json", _generation_config(config))
        _write_tokenizers(folder, tokenizers, config)


def check_sizes(sizes: ModelConfig) -> None:
    """Raises: UserError for a model that `MarianConfig` cannot describe."""
    depth = sizes.d_model / sizes.num_heads
    if sizes.norm != "post":
        problem = (
            "a model with norm pre cannot be exported for Hugging Face: Marian's layers are "
            "post-norm. Give --format=ctranslate2, saved_model or keras"
        )
    elif sizes.positional_encoding != "sinusoidal":
        problem = "Hugging Face's Marian has sinusoidal positions: this model has learned positions"
    elif sizes.depth != depth or sizes.value_depth != depth:
        problem = "Hugging Face's Marian has no other key_dim or value_dim than d_model / num_heads"
    else:
        return
    raise UserError(problem)


def warn_of_tags(tags: Iterable[str]) -> None:
    """Warns of tags that are not language codes of `MarianTokenizer`, which are ids only there."""
    others = [tag for tag in tags if not marian.LANGUAGE_CODE.fullmatch(tag)]
    if others:
        logger.warning(
            "MarianTokenizer encodes %s as text, because a tag for it is like >>de<<: put the id "
            "of the tag, which is in vocab.json, before the ids of a source",
            " and ".join(others),
        )


def _marian_config(config: Config) -> dict[str, Any]:
    """The content of `config.json`."""
    sizes = config.model
    return {
        **{name: value for name, (value, _) in FIXED.items()},
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": sizes.input_vocab_size,
        "decoder_vocab_size": sizes.target_vocab_size,
        "d_model": sizes.d_model,
        "encoder_layers": sizes.encoder_layers,
        "decoder_layers": sizes.decoder_layers,
        **{
            f"{side}_{name}": getattr(sizes, ours)
            for side in ("encoder", "decoder")
            for name, ours in STACK_SIZES.items()
        },
        "activation_function": sizes.activation,
        "dropout": sizes.dropout_rate,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "max_position_embeddings": max(sizes.pe_input, sizes.pe_target),
        "share_encoder_decoder_embeddings": sizes.shared_embeddings,
        "tie_word_embeddings": sizes.shared_embeddings,
        "bos_token_id": None,
        "dtype": "float32",
        **SPECIAL_IDS,
    }


def _generation_config(config: Config) -> dict[str, Any]:
    """The content of `generation_config.json`: the search."""
    settings = {
        **SPECIAL_IDS,
        "bad_words_ids": [[PAD], [START]],
        "num_beams": config.decode.beam_size,
        "max_length": config.model.pe_target,
    }
    if config.decode.beam_size > 1:  # transformers warns where it has no effect
        settings["length_penalty"] = config.decode.length_penalty
    return settings


def _write_tokenizers(folder: str, tokenizers: tuple[Tokenizer, Tokenizer], config: Config) -> None:
    """Writes the files of `MarianTokenizer`."""
    source, target = tokenizers
    is_separate = not source.same_vocabulary(target)
    pad, unk, eos = source.pieces([PAD, UNK, END])
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.data.source,
        "target_lang": config.data.target,
        "model_max_length": config.model.pe_input,
        "separate_vocabs": is_separate,
        # Text such as "[END]" is text, and not a special token.
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "pad_token": pad,
        "unk_token": unk,
        "eos_token": eos,
    }
    _write_json(folder, "tokenizer_config.json", settings)
    source.save(os.path.join(folder, "source.spm"))
    target.save(os.path.join(folder, "target.spm"))
    files = {"vocab.json": source}
    if is_separate:
        files["target_vocab.json"] = target
    for name, tokenizer in files.items():
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        _write_json(folder, name, {piece: token for token, piece in enumerate(pieces)})


def _write_json(folder: str, name: str, values: dict[str, Any]) -> None:
    text = json.dumps(values, ensure_ascii=False, indent=2)
    pathlib.Path(folder, name).write_text(text + "\n", "utf-8")


def import_huggingface(
    folder: str, output: str, source: str | None = None, target: str | None = None
) -> None:
    """Writes a model folder with the weights and the vocabulary of a `MarianMTModel`.

    Args:
      folder: with `config.json`, `source.spm`, `target.spm`, `vocab.json`, and the weights in
        `model.safetensors`, its shards, or `pytorch_model.bin`.
      output: the model folder. It must not exist, and it appears when it is complete.
      source, target: language codes; None: of `tokenizer_config.json`, or else "en" and "de".
    Raises: UserError when a file is missing or damaged, the output exists, or the model cannot be
      expressed.
    """
    check_new(output)
    safetensors = _safetensors()  # fails before the vocabulary is read
    damage = (
        *(OSError, ValueError, TypeError, LookupError, RuntimeError, DecodeError),
        *(pickle.UnpicklingError, safetensors.SafetensorError),
    )
    try:
        config, tokenizers, model = _read_marian(folder, source, target)
    except UserError:
        raise
    except FileNotFoundError as error:
        problem = f"no file {error.filename}" if error.filename else error
        raise UserError(f"{problem}: give the folder of a MarianMTModel") from None
    except damage as error:
        raise UserError(
            f"{folder} could not be read as a MarianMTModel ({type(error).__name__}: {error}): "
            "copy it again"
        ) from error
    vocabularies = [tokenizer.fingerprint for tokenizer in tokenizers]
    with new_output(output) as temporary:
        config.save(os.path.join(temporary, model_folder.CONFIG))
        save_tokenizers(tokenizers, temporary)
        state = {"step": 0, "vocabularies": vocabularies}
        checkpoints.save(os.path.join(temporary, model_folder.AVERAGED), model, state=state)


def _read_marian(
    folder: str, source: str | None, target: str | None
) -> tuple[Config, tuple[Tokenizer, Tokenizer], Transformer]:
    sizes = _read_json(folder, "config.json")
    _check_architecture(os.path.join(folder, "config.json"), sizes)
    names = _read_json(folder, "tokenizer_config.json", optional=True)
    tokenizers, orders = _read_tokenizers(folder, sizes, names)
    # Whether encoder and decoder have one embedding, and the decoder's is the output projection.
    is_shared = sizes.get("share_encoder_decoder_embeddings", True)
    is_tied = sizes.get("tie_word_embeddings", True)
    tensors = _read_tensors(folder, orders, is_shared, is_tied)
    starts_with_padding = sizes["decoder_start_token_id"] == sizes["pad_token_id"]
    is_one_matrix = is_shared and is_tied and tokenizers[0].same_vocabulary(tokenizers[1])
    # As transformers does: an old folder has the settings of the search in `config.json`.
    search = _read_json(folder, "generation_config.json", optional=True) or sizes
    search = {name: value for name, value in search.items() if value is not None}
    positions = sizes["max_position_embeddings"]
    longest = min(search.get("max_length", positions), positions)
    depths = sizes["encoder_layers"], sizes["decoder_layers"]
    model_config = ModelConfig(
        num_layers=depths[0],
        num_decoder_layers=0 if depths[0] == depths[1] else depths[1],
        **{ours: sizes[f"encoder_{name}"] for name, ours in STACK_SIZES.items()},
        d_model=sizes["d_model"],
        dropout_rate=sizes.get("dropout", ModelConfig.dropout_rate),
        input_vocab_size=tokenizers[0].vocab_size,
        target_vocab_size=tokenizers[1].vocab_size,
        pe_input=positions,
        pe_target=longest,
        activation=ACTIVATIONS[sizes["activation_function"]],
        shared_embeddings=is_one_matrix
        and not starts_with_padding
        and not tensors[marian.BIAS].any(),
    )
    kind = tokenizers[0].subword_model
    sides = zip(("source_normalization", "target_normalization"), tokenizers)
    rules = {name: tokenizer.normalizer_spec.name for name, tokenizer in sides}
    data = DataConfig(
        data=os.path.abspath(folder),  # the data of its training is not known
        source=source or names.get("source_lang") or DataConfig.source,
        target=target or names.get("target_lang") or DataConfig.target,
        vocab_size=max(tokenizer.vocab_size for tokenizer in tokenizers),
        subword_model=kind if kind in SUBWORD_MODELS else DataConfig.subword_model,
        shared_vocab=tokenizers[0].same_vocabulary(tokenizers[1]),
        **{name: rule for name, rule in rules.items() if rule in NORMALIZATIONS},
        max_length=min(DataConfig.max_length, longest),
    )
    decode = DecodeConfig(
        beam_size=search.get("num_beams", 1),
        length_penalty=search.get("length_penalty", 1.0),
    )
    model = build_model(model_config)
    variables = checkpoints.named_weights(model)
    unused = set(tensors) - set(map(marian.marian_name, variables))
    if others := sorted(name for name in unused if ".layers." in name):
        raise UserError(f"{folder} has {others[0]}, of a layer that config.json has not")
    weights = marian.from_marian(tensors, variables, model_config.d_model)
    if starts_with_padding:
        weights["final_layer/kernel"][:, START] = 0
        weights["final_layer/bias"][START] = START_BIAS
    for name, variable in variables.items():
        variable.assign(weights[name])
    # The settings of the training are the defaults.
    return Config(model=model_config, data=data, decode=decode), tokenizers, model


def _read_json(folder: str, name: str, optional: bool = False) -> dict[str, Any]:
    """Reads an object; {} where an optional file does not exist."""
    path = os.path.join(folder, name)
    if optional and not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return dict(json.load(file))


def _check_architecture(path: str, config: dict[str, Any]) -> None:
    """Raises: UserError where our model cannot express Marian's."""
    allowed = {name: ([required], default) for name, (required, default) in FIXED.items()}
    allowed["activation_function"] = list(ACTIVATIONS), None
    for name in STACK_SIZES:
        allowed[f"decoder_{name}"] = [config.get(f"encoder_{name}")], None
    for name, (values, default) in allowed.items():
        value = config.get(name, default)
        if value not in values:
            raise UserError(
                f"{path}: {name} is {value!r}, and only {' or '.join(map(repr, values))} can be "
                "imported"
            )


def _read_tokenizers(
    folder: str, config: dict[str, Any], names: dict[str, Any]
) -> tuple[tuple[Tokenizer, Tokenizer], list[list[int]]]:
    """Makes the tokenizers; `names` is the content of `tokenizer_config.json`.

    Returns: the tokenizers, and for each Marian's ids in the order of ours.
    """
    unk = names.get("unk_token", "<unk>")
    unk = unk["content"] if isinstance(unk, dict) else unk
    pad, start, end = (config[f"{name}_token_id"] for name in ("pad", "decoder_start", "eos"))
    of_target = "target_vocab.json" if names.get("separate_vocabs") else "vocab.json"
    orders, tokenizers = [], []
    for side, file in (("source.spm", "vocab.json"), ("target.spm", of_target)):
        vocabulary = _read_json(folder, file)
        orders.append(marian.token_order(len(vocabulary), pad, vocabulary[unk], start, end))
        spm = pathlib.Path(folder, side).read_bytes()
        tokenizers.append(marian.to_tokenizer(spm, vocabulary, orders[-1]))
    source, target = tokenizers
    return (source, source if source.fingerprint == target.fingerprint else target), orders


def _load_weights(folder: str) -> Weights:
    """Loads `model.safetensors`, its shards, or else `pytorch_model.bin`."""
    paths = glob.glob(os.path.join(glob.escape(folder), "model*.safetensors"))
    pytorch = os.path.join(folder, "pytorch_model.bin")
    if paths or not os.path.isfile(pytorch):
        weights: Weights = {}
        for path in paths or [os.path.join(folder, "model.safetensors")]:
            weights |= _safetensors().numpy.load_file(path)
        return weights
    with explain_missing_package("torch", "torch"):
        import torch
    tensors = torch.load(pytorch, map_location="cpu", weights_only=True)
    return {name: tensor.float().numpy() for name, tensor in tensors.items()}


def _read_tensors(folder: str, orders: list[list[int]], is_shared: bool, is_tied: bool) -> Weights:
    """Reads the weights. The rows of tokens are in our order."""
    tensors = marian.with_all_tables(_load_weights(folder), is_shared, is_tied)
    source, target = orders
    rows = {
        marian.SHARED: (source, 0),
        marian.ENCODER_TABLE: (source, 0),
        marian.DECODER_TABLE: (target, 0),
        marian.PROJECTION: (target, 0),
        marian.BIAS: (target, 1),
    }
    for name, (order, axis) in rows.items():
        if name in tensors:
            if tensors[name].shape[axis] <= max(order):  # there can be more, for alignment
                raise UserError(
                    f"{folder}: {name} has {tensors[name].shape[axis]} rows, and the vocabulary "
                    f"{max(order) + 1} sub-words"
                )
            tensors[name] = np.take(tensors[name], order, axis)
    return tensors
