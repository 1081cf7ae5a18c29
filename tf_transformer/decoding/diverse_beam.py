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

from typing import Any

import tensorflow as tf

from tf_transformer.decoding.controls import combine
from tf_transformer.decoding.scores import is_possible
from tf_transformer.decoding.search import (
    Adjust,
    BeamOptions,
    StepFunction,
    extend_beam,
    padded_prefix,
)
from tf_transformer.decoding.search_loop import BeamState, SearchResult, last_tokens, run_loop, trim


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
    adjust: Adjust | None = None,
    fixed_length: tf.Tensor | None = None,
) -> SearchResult:
    """Searches with groups that avoid each other's tokens.

    Args:
      step, state, max_lengths, beam_size: as for `beam_search`.
      alpha, prefix, adjust, fixed_length: as for `beam_search`.
      groups: G, a divisor of the beam size; 1 is beam search.
      strength: lambda of the diversity, at least 0.
      n_best: hypotheses wanted, at most K.
    Returns: a `SearchResult` with the best hypotheses of all groups. Several groups can find the
      same hypothesis.
    """
    size = beam_size // groups
    prefix = None if prefix is None else padded_prefix(prefix)
    options = BeamOptions(size, alpha, min(n_best, size), prefix)

    def loop_body(beam: BeamState) -> BeamState:
        logits, state = step(last_tokens(beam), beam.t, beam.beam_indices, beam.state)  # (B, K, V)
        extended: list[BeamState] = []
        for start in range(0, beam_size, size):
            adjustments = [adjust] if adjust else []
            if extended:
                adjustments.append(_avoid_tokens(extended, strength))
            group = options._replace(adjust=combine(adjustments))
            of_group = logits[:, start : start + size]
            extended.append(extend_beam(of_group, _group(beam, start, size), group))
        return _join(extended, size)._replace(state=state)

    result = run_loop(loop_body, state, max_lengths, beam_size, beam_size, groups, fixed_length)
    scores, best = tf.math.top_k(result.scores, n_best)  # (B, n)
    ids, lengths = (tf.gather(each, best, batch_dims=1) for each in (result.ids, result.lengths))
    result = SearchResult(ids, scores, lengths)
    return trim(result) if fixed_length is None else result


def _avoid_tokens(groups: list[BeamState], strength: float) -> Adjust:
    """The function that makes the last tokens of these groups less probable."""

    def adjust(log_probs: tf.Tensor, ids: tf.Tensor, t: tf.Tensor) -> tf.Tensor:
        tokens = tf.concat([last_tokens(group) for group in groups], axis=1)  # (B, k)
        alive = tf.concat([is_possible(group.alive_log_probs) for group in groups], axis=1)
        taken = (
            tf.one_hot(tokens, log_probs.shape[-1]) * tf.cast(alive, tf.float32)[..., tf.newaxis]
        )
        return log_probs - strength * tf.reduce_sum(taken, axis=1, keepdims=True)  # (B, K, V)

    return adjust


def _group(beam: BeamState, start: int, size: int) -> BeamState:
    """A group of a beam, as a beam of its own."""
    places = slice(start, start + size)
    finished_scores = beam.finished_scores[:, places]
    done = beam.done
    if size == 1:  # as a beam of 1, which is done when its hypothesis ends
        done |= is_possible(finished_scores[:, 0])
    return beam._replace(
        alive_ids=beam.alive_ids[:, places],
        alive_log_probs=beam.alive_log_probs[:, places],
        beam_indices=beam.beam_indices[:, places],
        finished_ids=beam.finished_ids[:, places],
        finished_scores=finished_scores,
        done=done,
    )


def _join(groups: list[BeamState], size: int) -> BeamState:
    """The beam of all groups, done when all of them are."""
    indices = [group.beam_indices + i * size for i, group in enumerate(groups)]
    return groups[0]._replace(
        alive_ids=tf.concat([group.alive_ids for group in groups], axis=1),
        alive_log_probs=tf.concat([group.alive_log_probs for group in groups], axis=1),
        beam_indices=tf.concat(indices, axis=1),
        finished_ids=tf.concat([group.finished_ids for group in groups], axis=1),
        finished_scores=tf.concat([group.finished_scores for group in groups], axis=1),
        done=tf.reduce_all(tf.stack([group.done for group in groups]), axis=0),
    )
