"""Build a model from its configuration, and load a trained one from a model folder."""

import dataclasses

from tf_transformer.checkpoints import checkpoint
from tf_transformer.checkpoints.paths import find, load_config
from tf_transformer.data.tokenizer import load_tokenizers
from tf_transformer.errors import UserError
from tf_transformer.model.transformer import Transformer


def build_model(model_config, precision="float32"):
    """A `Transformer` of a `ModelConfig`, with fresh weights.

    Args:
      model_config: a `ModelConfig`.
      precision: name of a Keras dtype policy; the weights are float32 in all of them.
    """
    settings = dataclasses.asdict(model_config)
    settings["rate"] = settings.pop("dropout_rate")
    for name in ("key_dim", "value_dim"):
        settings[name] = settings[name] or None
    model = Transformer(**settings, dtype=precision)
    model.build()
    return model


def load_model(model_dir, choice=None):
    """Reads a trained model.

    Args:
      model_dir: a model folder.
      choice: which checkpoint, as for `find`.
    Returns: model, (source tokenizer, target tokenizer), `Config`.
    Raises: UserError when something is missing, damaged, or does not belong together.
    """
    config = load_config(model_dir)
    path = find(model_dir, choice)
    tokenizers = load_tokenizers(model_dir, config.data.shared_vocab)
    check_vocabularies(config, tokenizers, model_dir)
    model = build_model(config.model)
    check_same_vocabularies(checkpoint.restore(path, model), tokenizers, path)
    return model, tokenizers, config


def check_vocabularies(config, tokenizers, model_dir):
    """Raises: UserError when the vocabularies of a folder have other sizes than its model."""
    sizes = (config.model.input_vocab_size, config.model.target_vocab_size)
    found = tuple(tokenizer.vocab_size for tokenizer in tokenizers)
    if found != sizes:
        raise UserError(
            f"{model_dir}: its vocabularies have {found} sub-words, its model {sizes}: they are of different runs"
        )


def check_same_vocabularies(state, tokenizers, path):
    """Raises: UserError when a checkpoint, whose state this is, was trained with other vocabularies, be they of the same size."""
    if state.get("vocabularies") != [tokenizer.fingerprint for tokenizer in tokenizers]:
        raise UserError(
            f"{path} was not trained with the vocabulary beside it: put back the one of its run, or train again"
        )
