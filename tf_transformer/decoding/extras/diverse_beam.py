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

import tensorflow as tf

from tf_transformer.decoding.beam_search import (
    Beam,
    SearchProblem,
    SearchResult,
    extend_beam,
    first_beam,
    next_log_probs,
    search_loop,
)
from tf_transformer.decoding.scores import is_possible

# The parts of a `Beam` that the groups divide.
OF_HYPOTHESES = ("alive_ids", "alive_log_probs", "beam_indices", "finished_ids", "finished_scores")


def diverse_beam_search(
    problem: SearchProblem, beam_size: int, groups: int, strength: float, n_best: int = 1
) -> SearchResult:
    """Searches with groups that avoid each other's tokens.

    Args:
      problem, beam_size, n_best: as for `beam_search`.
      groups: G, a divisor of the beam size; 1 is beam search.
      strength: lambda of the diversity, at least 0.
    Returns: a `SearchResult` with the best hypotheses of all groups. Several groups can find the
      same hypothesis.
    """
    size = beam_size // groups

    def extend(log_probs: tf.Tensor, beam: Beam) -> Beam:
        extended: list[Beam] = []
        taken = tf.zeros_like(log_probs[:, :1])  # (B, 1, V), how often earlier groups took a token

        def avoid_taken(log_probs: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
            return log_probs - strength * taken

        for start in range(0, beam_size, size):
            group = _group(beam, start, size)
            of_group = log_probs[:, start : start + size]  # (B, K / G, V)
            of_group = next_log_probs(of_group, group, [*problem.processors, avoid_taken])
            group = extend_beam(of_group, group, min(n_best, size))
            tokens = group.alive_ids[:, :, group.t]  # (B, K / G)
            tokens = tf.where(is_possible(group.alive_log_probs), tokens, tf.constant(-1, tf.int64))
            taken += tf.reduce_sum(tf.one_hot(tokens, log_probs.shape[-1]), axis=1, keepdims=True)
            extended.append(group)
        return _join(extended, size)

    beam = first_beam(problem, beam_size)
    first_log_probs = tf.tile(beam.alive_log_probs[:, :size], [1, groups])  # (B, K)
    return search_loop(problem, extend, beam._replace(alive_log_probs=first_log_probs), n_best)


def _group(beam: Beam, start: int, size: int) -> Beam:
    """A group of a beam, as a beam of its own."""
    parts = {name: getattr(beam, name)[:, start : start + size] for name in OF_HYPOTHESES}
    group = beam._replace(**parts)
    if size == 1:  # as a beam of 1, which is done when its hypothesis ends
        group = group._replace(done=beam.done | is_possible(group.finished_scores[:, 0]))
    return group


def _join(groups: list[Beam], size: int) -> Beam:
    """The beam of all groups, done when all of them are."""
    parts = {name: [getattr(group, name) for group in groups] for name in OF_HYPOTHESES}
    joined = {name: tf.concat(part, axis=1) for name, part in parts.items()}
    joined["beam_indices"] += tf.range(len(groups) * size, dtype=tf.int64) // size * size
    done = tf.reduce_all([group.done for group in groups], axis=0)
    return groups[0]._replace(done=done, **joined)
