"""Fine-tuning: a run that starts with the weights of another model, or updates only some weights.

The settings are `init_from`, `init_optimizer` and `freeze`.
"""

import dataclasses
import logging
import os

import keras

from tf_transformer.checkpoints.checkpoint import named_weights, read_state, restore
from tf_transformer.checkpoints.loading import check_same_vocabularies
from tf_transformer.checkpoints.model_folder import (
    find,
    find_model_dir,
    initial_config,
    is_built_in,
)
from tf_transformer.config import Config, ModelConfig, TrainConfig
from tf_transformer.data.tokenizer import Tokenizer, load_tokenizers
from tf_transformer.errors import UserError
from tf_transformer.model.transformer import Transformer
from tf_transformer.training.distribution import Workers
from tf_transformer.training.optimizer import FusedAdam

logger = logging.getLogger(__name__)


def recorded_init_from(init_from: str, model_dir: str) -> str:
    """Returns what `config.json` records: an absolute path, or the name of a built-in model.

    Args:
      init_from: the setting.
      model_dir: the folder of the run.
    Raises: UserError where the run would start with the model that it replaces.
    """
    path = find_model_dir(init_from)
    if os.path.realpath(path) == os.path.realpath(model_dir):
        raise UserError(
            f"--init_from and --model_dir are both {model_dir}: give another --model_dir"
        )
    return os.path.basename(path) if is_built_in(path) else os.path.abspath(path)


def _initial_checkpoint(settings: TrainConfig) -> str:
    """The weights that other commands use too, or the newest ones, which have an optimizer."""
    name = "latest" if settings.init_optimizer else None
    return find(find_model_dir(settings.init_from), name)


def initial_vocabulary(config: Config) -> tuple[Tokenizer, Tokenizer]:
    """Loads the vocabularies of the initial model, and checks that a run can start with it.

    The dropout rate may differ, and the number of positions where they are not learned. With
    `init_optimizer`, the settings on which the state of the optimizer depends are compared too.

    Returns: the tokenizers of source and target.
    Raises: UserError when a file is missing, or the run has other sizes.
    """
    init_from = config.train.init_from
    initial = initial_config(init_from)
    tokenizers = load_tokenizers(find_model_dir(init_from))
    names = {field.name for field in dataclasses.fields(ModelConfig)} - {"dropout_rate"}
    if initial.model.positional_encoding == "sinusoidal":
        names -= {"pe_input", "pe_target"}
    names |= {"vocab_size", "subword_model", "shared_vocab"}
    names |= {"source_normalization", "target_normalization"}
    if config.train.init_optimizer:
        names |= {"freeze", "ema_decay"}
    sizes = (tokenizer.vocab_size for tokenizer in tokenizers)
    if differences := initial.differences(config.with_vocabularies(*sizes), names):
        raise UserError(
            f"the model {init_from} has {differences}: fine-tuning keeps these settings, leave the "
            "flags out or give the same values"
        )
    path = _initial_checkpoint(config.train)
    state = read_state(path)
    check_same_vocabularies(state, tokenizers, path)
    if config.train.init_optimizer and state["step"] >= config.train.train_steps:
        raise UserError(
            f"{path} has {state['step']:,} updates, and --init_optimizer counts from there: give a "
            f"larger --train_steps than {config.train.train_steps:,}"
        )
    before, now = ((each.data.source, each.data.target) for each in (initial, config))
    if before != now:
        logger.warning(
            "the model %s translates from %s to %s, this run from %s to %s",
            *(init_from, *before, *now),
        )
    return tokenizers


def load_initial_weights(
    model: Transformer,
    optimizer: FusedAdam,
    settings: TrainConfig,
    workers: Workers,
) -> None:
    """Starts a run with the weights of the initial model; the chief reads them.

    Args:
      model: a built `Transformer`.
      optimizer: a built `FusedAdam`. It stays new unless `init_optimizer` is set.
      settings: a `TrainConfig`.
      workers: the `Workers`.
    Raises: UserError when the checkpoint is damaged, or has another optimizer.
    """
    step = 0
    variables: list[keras.Variable] = list(model.weights)
    if settings.init_optimizer:
        variables += [variable for variable in optimizer.variables if variable.dtype == "float32"]
    if workers.is_chief:
        path = _initial_checkpoint(settings)
        state = restore(path, model, optimizer if settings.init_optimizer else None)
        step = state["step"] if settings.init_optimizer else 0
        logger.info("starting with the weights of %s", path)
    workers.broadcast_weights(variables)
    optimizer.iterations.assign(workers.broadcast(step))


def freeze(model: Transformer, parts: str) -> None:
    """Excludes weights from training: they get no gradients, and the optimizer no state for them.

    Args:
      model: a built `Transformer`.
      parts: of `config.FREEZABLE`, separated by commas, or "". The encoder and the decoder
        are the weights of their layers; the decoder has the output projection too, unless that is
        the embedding matrix. The embeddings are the embedding matrices and learned positions.
    """
    frozen = 0
    for name, variable in named_weights(model).items():  # such as "encoder/layer1/mha/wq/kernel"
        part = "encoder" if name.startswith("encoder/") else "decoder"
        if name.endswith(("/table", "/pos_encoding")):
            part = "embeddings"
        if part in parts.split(","):
            variable.trainable = False
            frozen += variable.value.shape.num_elements()
    if frozen:
        logger.info(f"frozen ({parts}): {frozen:,} of {model.count_params():,} parameters")
