"""Ensembles: several models that decode together.

At each step, the probability of the next token is the mean of the probabilities of the n models,

    p(y_t | y_<t, x) = 1/n sum_i p_i(y_t | y_<t, x),

computed as log p = logsumexp_i(log p_i) - log n. `make_ensemble_step` makes one step function for
`decoding.beam_search` of the step functions of the models (`decoding.kv_cache`).

Shapes: B sentences, K hypotheses a sentence, T target, V vocabulary.
"""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_transformer.checkpoints.loading import load_model
from tf_transformer.checkpoints.model_folder import model_list
from tf_transformer.config import Config
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.beam_search import StepFunction
from tf_transformer.decoding.kv_cache import make_decode_step
from tf_transformer.errors import UserError
from tf_transformer.model.transformer import Transformer


class Ensemble:
    """Built models with the same vocabularies, at least one."""

    def __init__(self, models: Sequence[Transformer]) -> None:
        self.models = list(models)
        self.pe_input = min(model.pe_input for model in models)  # positions that all models have
        self.pe_target = min(model.pe_target for model in models)
        self.target_vocab_size = models[0].target_vocab_size


Model = Transformer | Ensemble


def members(model: Model) -> list[Transformer]:
    """The models of an ensemble; a `Transformer` alone is a list of itself."""
    return model.models if isinstance(model, Ensemble) else [model]


def single_model(model: Model) -> Transformer:
    """Returns the model of what needs one. Raises: UserError for an ensemble."""
    if isinstance(model, Ensemble):
        raise UserError("attention weights belong to one model: give one, not an ensemble")
    return model


def average_probabilities(logits: Sequence[tf.Tensor]) -> tf.Tensor:
    """Logits `[..., V]` of the mean of the models' probabilities, from the logits of each model.

    The logits of one model are unchanged. Of several, the result is log-probabilities, float32.
    """
    if len(logits) == 1:
        return logits[0]
    log_probs = [tf.nn.log_softmax(tf.cast(each, tf.float32)) for each in logits]
    return tf.reduce_logsumexp(tf.stack(log_probs), axis=0) - math.log(len(logits))


def make_ensemble_step(
    model: Model, inp: tf.Tensor, beam_size: int, fixed_length: tf.Tensor | None = None
) -> tuple[StepFunction, Any]:
    """As `make_decode_step`, with a `DecodeState` for each model."""
    arguments = inp, beam_size, fixed_length
    steps, states = zip(*(make_decode_step(each, *arguments) for each in members(model)))

    def step(
        ids: tf.Tensor, position: tf.Tensor, beam_indices: tf.Tensor, state: Any
    ) -> tuple[tf.Tensor, Any]:
        results = (each(ids, position, beam_indices, part) for each, part in zip(steps, state))
        logits, new_states = zip(*results)
        return average_probabilities(logits), new_states

    return step, states


def load_models(
    model_dir: str, checkpoint: str | None = None, precision: str = "float32"
) -> tuple[Model, tuple[Tokenizer, Tokenizer], Config]:
    """Loads a model, or several as an ensemble.

    Args:
      model_dir, checkpoint: as for `model_list`.
      precision: as for `build_model`.
    Returns: the model, the tokenizers, and the `Config` of the first model.
    Raises: UserError when a model cannot be loaded, or two of them have different vocabularies.
    """
    names = model_list(model_dir, checkpoint)
    models, (first, *others), configs = zip(*(load_model(*name, precision) for name in names))
    for (folder, _), tokenizers in zip(names[1:], others):
        for side, one, other in zip(("source", "target"), first, tokenizers):
            if one.fingerprint != other.fingerprint:
                raise UserError(
                    f"{names[0][0]} and {folder} have different {side} vocabularies: an ensemble "
                    "needs models with the same ones"
                )
    return models[0] if len(models) == 1 else Ensemble(models), first, configs[0]
