"""Fine-tuning: a run that starts with the weights of another model (`init_from`)."""

import dataclasses
import logging
import os

import numpy as np

from tf_transformer.checkpoints.checkpoint import Adapt, read_state, restore
from tf_transformer.checkpoints.loading import check_same_vocabularies
from tf_transformer.checkpoints.model_folder import (
    find,
    find_model_dir,
    initial_config,
    is_built_in,
)
from tf_transformer.config import Config, ModelConfig, TrainConfig
from tf_transformer.data.tokenizer import Tokenizer, load_tokenizers
from tf_transformer.data.vocabulary_extension import segment_new_pieces
from tf_transformer.errors import UserError
from tf_transformer.model.transformer import Transformer
from tf_transformer.training.distribution import Workers

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


def initial_vocabulary(config: Config) -> tuple[Tokenizer, Tokenizer]:
    """Loads the vocabularies of the initial model, and checks that a run can start with it.

    The dropout rate may differ, and the number of positions where they are not learned.

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
    sizes = (tokenizer.vocab_size for tokenizer in tokenizers)
    if differences := initial.differences(config.with_vocabularies(*sizes), names):
        raise UserError(
            f"the model {init_from} has {differences}: fine-tuning keeps these settings, leave the "
            "flags out or give the same values"
        )
    path = find(find_model_dir(init_from), None)
    check_same_vocabularies(read_state(path), tokenizers, path)
    before, now = ((each.data.source, each.data.target) for each in (initial, config))
    if before != now:
        logger.warning(
            "the model %s translates from %s to %s, this run from %s to %s",
            *(init_from, *before, *now),
        )
    return tokenizers


def load_initial_weights(
    model: Transformer,
    tokenizers: tuple[Tokenizer, Tokenizer],
    settings: TrainConfig,
    workers: Workers,
) -> None:
    """Starts a run with the weights of the initial model; the chief reads them.

    Args:
      model: a built `Transformer`.
      tokenizers: of source and target. With `extend_vocab` they have more sub-words than those of
        the initial model.
      settings: a `TrainConfig`.
      workers: the `Workers`.
    Raises: UserError when the checkpoint is damaged.
    """
    if workers.is_chief:
        path = find(find_model_dir(settings.init_from), None)
        adapt = _row_extension(tokenizers, settings.init_from) if settings.extend_vocab else None
        restore(path, model, None, adapt)
        logger.info("starting with the weights of %s", path)
    workers.broadcast_weights(model.weights)


def _row_extension(tokenizers: tuple[Tokenizer, Tokenizer], init_from: str) -> Adapt:
    """Returns the function that gives weights of the initial model the rows of new sub-words.

    The rows of the old sub-words stay. Those of a new one become the mean of the rows of the old
    ones of which it is made. A tag has none, and keeps its random row.

    Args:
      tokenizers: of source and target, with more sub-words than those of the initial model.
      init_from: the initial model.
    """
    before = load_tokenizers(find_model_dir(init_from))
    source, target = map(segment_new_pieces, before, tokenizers)

    def extend(name: str, array: np.ndarray, initial: np.ndarray) -> np.ndarray:
        shapes = zip(array.shape, initial.shape)
        differing = [i for i, (old, new) in enumerate(shapes) if old != new]
        if len(differing) != 1:  # not a matrix of sub-words, or of another model
            return array
        (axis,) = differing
        parts = source if name.startswith("encoder/") else target
        rows, initial_rows = (np.moveaxis(each, axis, 0) for each in (array, initial))
        added = initial_rows[len(rows) :]
        if len(added) != len(parts):
            return array
        means = [rows[ids].mean(axis=0) if ids else row for ids, row in zip(parts, added)]
        return np.moveaxis(np.concatenate([rows, means]), 0, axis)

    return extend
