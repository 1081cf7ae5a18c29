"""Export of a trained model as a `MarianMTModel` of Hugging Face transformers.

    from transformers import MarianMTModel, MarianTokenizer
    model = MarianMTModel.from_pretrained("FOLDER")
    tokenizer = MarianTokenizer.from_pretrained("FOLDER")
    found = model.generate(**tokenizer(["a sentence"], return_tensors="pt"))
    print(tokenizer.batch_decode(found, skip_special_tokens=True))

The ids of the sub-words are ours. transformers differs in:
- Layer normalization: its epsilon is 1e-5, ours 1e-6. The logits differ by less than 1e-4.
- Beam search: it divides scores by L ^ length_penalty, not by ((5 + L) / 6) ^ alpha.
- Length limits: an output has at most as many sub-words as the model has positions, and not
  `extra_decode_length` more than its source.
"""

import json
import logging
import os
from collections.abc import Iterable
from typing import Any

from tf_transformer.atomic_io import atomic_folder, atomic_write
from tf_transformer.checkpoints import checkpoint as checkpoints
from tf_transformer.checkpoints.loading import load_model
from tf_transformer.config import Config, ModelConfig
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.errors import UserError
from tf_transformer.export.errors import explain_write_errors
from tf_transformer.interchange.marian_vocabulary import vocabulary_text
from tf_transformer.interchange.marian_weights import to_marian
from tf_transformer.interchange.safetensors_file import import_safetensors, write_tensors
from tf_transformer.special_tokens import END, PAD, START, UNK

logger = logging.getLogger(__name__)

SPECIAL_IDS = {
    "pad_token_id": PAD,
    "eos_token_id": END,
    "decoder_start_token_id": START,
    "forced_eos_token_id": END,  # the last token of an output of maximum length
}


def export_huggingface(
    model_dir: str, output: str, checkpoint: str | None = None, **decode: Any
) -> None:
    """Writes a folder for `MarianMTModel.from_pretrained`.

    Args:
      model_dir: a model folder, or the name of a built-in model.
      output: the folder to write. It must not exist, and it appears when it is complete.
      checkpoint: a name or a path, as for `checkpoints.model_folder.find`.
      **decode: fields of `DecodeConfig` to change.
    Raises: UserError when the output exists, the model cannot be read or expressed, or the output
      cannot be written.
    """
    if os.path.exists(output):
        raise UserError(f"{output} already exists: remove it, or give another output")
    import_safetensors()  # fails before the model is loaded, which takes seconds
    model, tokenizers, config = load_model(model_dir, checkpoint)
    _check_sizes(config.model)
    _warn_of_tags(tokenizers[0].tags)
    config = config.replace(**decode)
    variables = checkpoints.named_weights(model)
    weights = {name: variable.numpy() for name, variable in variables.items()}
    parent = os.path.dirname(os.path.abspath(output))
    with explain_write_errors(output), atomic_folder(parent) as folder:
        tensors = to_marian(weights, config.model.d_model)
        write_tensors(os.path.join(folder, "model.safetensors"), tensors)
        _write_json(folder, "config.json", _marian_config(config))
        _write_json(folder, "generation_config.json", _generation_config(config))
        _write_tokenizers(folder, tokenizers, config)
        os.rename(folder, output)


def _check_sizes(sizes: ModelConfig) -> None:
    """Raises: UserError for a model that `MarianConfig` cannot describe."""
    if sizes.positional_encoding != "sinusoidal":
        raise UserError(
            "a model with learned positions cannot be exported for Hugging Face: Marian's are "
            "sinusoidal"
        )
    depth = sizes.d_model / sizes.num_heads
    if sizes.depth != depth or sizes.value_depth != depth:
        raise UserError(
            "Hugging Face's Marian has only heads of depth d_model / num_heads: this model has "
            "another key_dim or value_dim"
        )


def _warn_of_tags(tags: Iterable[str]) -> None:
    """Warns of tags that are not language codes of `MarianTokenizer`, which are ids only there."""
    others = [tag for tag in tags if not tag.startswith(">>")]
    if others:
        logger.warning(
            "MarianTokenizer encodes %s as text, because a tag for it is like >>de<<: put the id "
            "of the tag, which is in vocab.json, before the ids of a source",
            " and ".join(others),
        )


def _marian_config(config: Config) -> dict[str, Any]:
    """The content of `config.json`."""
    sizes = config.model
    settings: dict[str, Any] = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": sizes.input_vocab_size,
        "decoder_vocab_size": sizes.target_vocab_size,
        "d_model": sizes.d_model,
        "activation_function": sizes.activation,
        "dropout": sizes.dropout_rate,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "max_position_embeddings": max(sizes.pe_input, sizes.pe_target),
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": sizes.shared_embeddings,
        "tie_word_embeddings": sizes.shared_embeddings,
        "normalize_before": False,
        "normalize_embedding": False,
        "static_position_embeddings": True,
        "bos_token_id": None,
        "dtype": "float32",
        **SPECIAL_IDS,
    }
    for side in ("encoder", "decoder"):
        settings[f"{side}_layers"] = sizes.num_layers
        settings[f"{side}_attention_heads"] = sizes.num_heads
        settings[f"{side}_ffn_dim"] = sizes.dff
    return settings


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
    source.save(os.path.join(folder, "source.spm"))
    target.save(os.path.join(folder, "target.spm"))
    with atomic_write(os.path.join(folder, "vocab.json")) as file:
        file.write(vocabulary_text(source))
    settings: dict[str, Any] = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.data.source,
        "target_lang": config.data.target,
        "model_max_length": config.model.pe_input,
        "separate_vocabs": source is not target,
        # Text such as "[END]" is text, and not a special token.
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
    }
    for name, token in (("pad_token", PAD), ("unk_token", UNK), ("eos_token", END)):
        (settings[name],) = source.pieces([token])
    if source is not target:
        with atomic_write(os.path.join(folder, "target_vocab.json")) as file:
            file.write(vocabulary_text(target))
    _write_json(folder, "tokenizer_config.json", settings)


def _write_json(folder: str, name: str, values: dict[str, Any]) -> None:
    with atomic_write(os.path.join(folder, name)) as file:
        file.write(json.dumps(values, ensure_ascii=False, indent=2) + "\n")
