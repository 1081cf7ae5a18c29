"""Diverse beam search (Vijayakumar et al. 2018): groups of a beam that differ from each other.

The beam of K hypotheses is divided into G groups of K / G. At each step the groups are extended one
after the other, each as by beam search, but the log-probability of a token falls by strength times
the number of hypotheses of earlier groups that have just taken it (Algorithm 1 with Hamming
diversity). As in fairseq and Hugging Face transformers, a hypothesis keeps these penalties in its
score. The first group has none: it is a beam search with K / G hypotheses.

Each group has its own finished hypotheses. A group whose own search is done is still extended until
all are done, so that its tokens reach the later groups.

Shapes: B sentences, K hypotheses a sentence, V vocabulary, n hypotheses wanted.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_transformer.config import ControlConfig
from tf_transformer.decoding.beam_search import (
    Beam,
    LogitsProcessor,
    SearchResult,
    StepFunction,
    extend_beam,
    first_beam,
    make_result,
    model_step,
    next_log_probs,
    search_loop,
)
from tf_transformer.decoding.scores import is_possible
from tf_transformer.errors import UserError

# The parts of a `Beam` that the groups divide.
OF_HYPOTHESES = ("alive_ids", "alive_log_probs", "beam_indices", "finished_ids", "finished_scores")


def check_groups(controls: ControlConfig, beam_size: int) -> None:
    """Raises: UserError for groups into which the beam cannot be divided."""
    if beam_size % controls.diverse_groups:
        raise UserError(
            f"{controls.diverse_groups} groups of a beam of {beam_size}: give a divisor of "
            "--beam_size as --diverse_groups"
        )


def diverse_beam_search(
    step: StepFunction,
    state: Any,
    max_lengths: tf.Tensor,
    beam_size: int,
    groups: int,
    strength: float,
    alpha: float = 0.6,
    n_best: int = 1,
    prefix: tf.Tensor | None = None,
    processors: Sequence[LogitsProcessor] = (),
    fixed_length: tf.Tensor | None = None,
) -> SearchResult:
    """Searches with groups that avoid each other's tokens.

    Args:
      step, state, max_lengths, beam_size: as for `beam_search`.
      groups: G, a divisor of the beam size; 1 is beam search.
      strength: lambda of the diversity, at least 0.
      alpha, prefix, processors, fixed_length: as for `beam_search`.
      n_best: hypotheses wanted, at most K.
    Returns: a `SearchResult` with the best hypotheses of all groups. Several groups can find the
      same hypothesis.
    """
    size = beam_size // groups

    def loop_body(beam: Beam) -> Beam:
        log_probs, state = model_step(step, beam)  # (B, K, V)
        extended: list[Beam] = []
        for start in range(0, beam_size, size):
            group = _group(beam, start, size)
            all_processors = [*processors, _avoid_tokens(extended, strength)]
            of_group = log_probs[:, start : start + size]  # (B, K / G, V)
            of_group = next_log_probs(of_group, group, all_processors if extended else processors)
            extended.append(extend_beam(of_group, group, min(n_best, size)))
        return _join(extended, size)._replace(state=state)

    beam = first_beam(state, max_lengths, beam_size, alpha, prefix, fixed_length, groups=groups)
    ids, scores = search_loop(loop_body, beam, fixed_length)
    scores, best = tf.math.top_k(scores, n_best)  # (B, n)
    return make_result(tf.gather(ids, best, batch_dims=1), scores, n_best, fixed_length)


def _avoid_tokens(groups: list[Beam], strength: float) -> LogitsProcessor:
    """The processor that makes the last tokens of these groups less probable."""

    def process(log_probs: tf.Tensor, ids: tf.Tensor, t: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        tokens = tf.concat([group.alive_ids[:, :, group.t] for group in groups], axis=1)  # (B, k)
        alive = tf.concat([is_possible(group.alive_log_probs) for group in groups], axis=1)
        taken = tf.one_hot(tokens, log_probs.shape[-1])  # (B, k, V)
        taken *= tf.cast(alive, tf.float32)[..., tf.newaxis]
        return log_probs - strength * tf.reduce_sum(taken, axis=1, keepdims=True)  # (B, K, V)

    return process


def _group(beam: Beam, start: int, size: int) -> Beam:
    """A group of a beam, as a beam of its own."""
    parts = {name: getattr(beam, name)[:, start : start + size] for name in OF_HYPOTHESES}
    group = beam._replace(**parts)
    if size == 1:  # as a beam of 1, which is done when its hypothesis ends
        group = group._replace(done=beam.done | is_possible(group.finished_scores[:, 0]))
    return group


def _join(groups: list[Beam], size: int) -> Beam:
    """The beam of all groups, done when all of them are."""
    groups = [
        group._replace(beam_indices=group.beam_indices + i * size) for i, group in enumerate(groups)
    ]
    parts = {name: [getattr(group, name) for group in groups] for name in OF_HYPOTHESES}
    joined = {name: tf.concat(part, axis=1) for name, part in parts.items()}
    done = tf.reduce_all(tf.stack([group.done for group in groups]), axis=0)
    return groups[0]._replace(done=done, **joined)
