"""Fine-tuning: a run that starts with the weights of another model (`init_from`)."""

import dataclasses
import logging
import os

from tf_transformer.checkpoints.checkpoint import read_state, restore
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

logger = logging.getLogger(__name__)


def recorded_init_from(init_from: str, model_dir: str) -> str:
    """Returns what `config.json` records: an absolute path, or the name of a built-in model.

    Raises: UserError where the run would start with the model that it replaces.
    """
    path = find_model_dir(init_from)
    if os.path.realpath(path) == os.path.realpath(model_dir):
        raise UserError(
            f"--init_from and --model_dir are both {model_dir}: give another --model_dir"
        )
    return os.path.basename(path) if is_built_in(path) else os.path.abspath(path)


def initial_vocabulary(config: Config) -> tuple[Tokenizer, Tokenizer]:
    """Loads the vocabularies of the initial model. Raises: UserError when the run has other sizes.

    The dropout rate may differ, and the number of positions where they are not learned.
    """
    init_from = config.train.init_from
    initial = initial_config(init_from)
    tokenizers = load_tokenizers(find_model_dir(init_from))
    names = {field.name for field in dataclasses.fields(ModelConfig)} - {"dropout_rate"}
    if initial.model.positional_encoding == "sinusoidal":
        names -= {"pe_input", "pe_target"}
    names |= {"vocab_size", "subword_model", "shared_vocab"}
    names |= {"source_normalization", "target_normalization"}
    sizes = (tokenizer.vocab_size for tokenizer in tokenizers)
    if differences := initial.differences(config.with_vocabularies(*sizes), names):
        raise UserError(
            f"the model {init_from} has {differences}: fine-tuning keeps these settings, leave the "
            "flags out or give the same values"
        )
    path = find(find_model_dir(init_from), None)
    check_same_vocabularies(read_state(path), tokenizers, path)
    before, now = (f"{each.data.source} to {each.data.target}" for each in (initial, config))
    if before != now:
        logger.warning(f"the model {init_from} translates from {before}, this run from {now}")
    return tokenizers


def load_initial_weights(model: Transformer, settings: TrainConfig, workers: Workers) -> None:
    """Starts a run with the weights of the initial model, which the chief reads."""
    if workers.is_chief:
        path = find(find_model_dir(settings.init_from), None)
        restore(path, model)
        logger.info("starting with the weights of %s", path)
    workers.broadcast_weights(model.weights)
