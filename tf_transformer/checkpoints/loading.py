"""Build a model from its configuration, and load a trained model from a model folder."""

import dataclasses
from typing import Any

from tf_transformer.checkpoints.checkpoint import restore
from tf_transformer.checkpoints.model_folder import find, find_model_dir, load_config
from tf_transformer.config import Config, ModelConfig
from tf_transformer.data.tokenizer import Tokenizer, load_tokenizers
from tf_transformer.errors import UserError
from tf_transformer.model.transformer import Transformer
from tf_transformer.model.variant import Variant


def build_transformer(sizes: ModelConfig, precision: str) -> Transformer:
    """Returns a `Transformer`; arguments as for `build_model`."""
    variant = Variant(**{f.name: getattr(sizes, f.name) for f in dataclasses.fields(Variant)})
    return Transformer(
        sizes.num_layers, sizes.d_model, sizes.num_heads, sizes.dff, sizes.input_vocab_size,
        sizes.target_vocab_size, sizes.pe_input, sizes.pe_target, sizes.dropout_rate,
        variant=variant, shared_embeddings=sizes.shared_embeddings, dtype=precision,
    )  # fmt: skip


# `ModelConfig.architecture` -> a function that returns a `Transformer`, such as a changed one.
ARCHITECTURES = {"transformer": build_transformer}


def build_model(model_config: ModelConfig, precision: str = "float32") -> Transformer:
    """Builds the model of an architecture, with new weights.

    Args:
      precision: name of a Keras dtype policy. Under "bfloat16", which is for inference, the weights
        are bfloat16, except in layer norm and positions; under the others they are float32.
    Raises: UserError for an unknown architecture.
    """
    name = model_config.architecture
    if name not in ARCHITECTURES:
        raise UserError(f"no architecture {name!r}: known are {', '.join(ARCHITECTURES)}")
    model = ARCHITECTURES[name](model_config, precision)
    model.build()
    return model


def load_model(
    model_dir: str, checkpoint: str | None = None, precision: str = "float32"
) -> tuple[Transformer, tuple[Tokenizer, Tokenizer], Config]:
    """Loads a trained model.

    Args:
      model_dir: a model folder, or the name of a built-in model such as "pocket-en-de".
      checkpoint: a name or a path, as for `find`.
      precision: as for `build_model`.
    Returns: model, (source tokenizer, target tokenizer), `Config`.
    Raises: UserError when a file is missing or damaged, or the files are of different runs.
    """
    model_dir = find_model_dir(model_dir)
    config = load_config(model_dir)
    path = find(model_dir, checkpoint)
    tokenizers = load_tokenizers(model_dir)
    model = build_model(config.model, precision)
    state = restore(path, model)
    check_same_vocabularies(state, tokenizers, path)
    return model, tokenizers, config


def check_same_vocabularies(
    state: dict[str, Any], tokenizers: tuple[Tokenizer, Tokenizer], path: str
) -> None:
    """Checks that a checkpoint was trained with these vocabularies, not with others of their size.

    Args:
      state: the training state of the checkpoint, which is at `path`.
    Raises: UserError when it was trained with others.
    """
    if state.get("vocabularies") != [tokenizer.fingerprint for tokenizer in tokenizers]:
        raise UserError(
            f"{path} was not trained with the vocabulary in its folder: restore the vocabulary of "
            "its run, or train again"
        )
