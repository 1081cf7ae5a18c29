"""The loop of a search: its state, and how sentences leave it.

Ids and indices are int64: a GPU has no kernels for int32, which TensorFlow computes on the host.
Only the position is int32, since the host runs the loop (`benchmarks/gpu_kernels.py`).

The ids of a hypothesis have room for the longest output from the start, and padding after their
last token.

Shapes: B sentences, K hypotheses a sentence (the beam), t tokens so far, n hypotheses wanted,
L longest output.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.special_tokens import PAD, START


class SearchResult(NamedTuple):
    """The best hypotheses of each sentence, best first."""

    ids: tf.Tensor  # int32 [B, n, L], ending with the end token, then padding
    scores: tf.Tensor  # float32 [B, n], log-probability / length penalty; NEGATIVE_INFINITY: none
    lengths: tf.Tensor  # int32 [B, n], with the end token


class BeamState(NamedTuple):
    """The loop variables. Alive and finished hypotheses are kept apart (as in tensor2tensor)."""

    t: tf.Tensor  # int32 [], tokens so far
    rows: tf.Tensor  # int64 [B], index of each sentence in the batch
    max_lengths: tf.Tensor  # int64 [B], longest outputs
    alive_ids: tf.Tensor  # int64 [B, K, L + 1], with the start token, then t tokens
    alive_log_probs: tf.Tensor  # float32 [B, K]
    beam_indices: tf.Tensor  # int64 [B, K], the hypothesis of the step before that each continues
    finished_ids: tf.Tensor  # int64 [B, K, L + 1], with the start token; padding only: none
    finished_scores: tf.Tensor  # float32 [B, K], best first
    done: tf.Tensor  # bool [B]
    state: Any  # of the step function, [B, ...]


def run_loop(
    loop_body: Callable[[BeamState], BeamState],
    state: Any,
    max_lengths: tf.Tensor,
    beam_size: int,
    n_best: int,
    groups: int = 1,
    fixed_length: tf.Tensor | None = None,
) -> SearchResult:
    """Extends the hypotheses by one token at a time, until all sentences are done.

    When half of the sentences are done, they leave the loop, and the others continue in a smaller
    batch. In a search that XLA compiles, no shape can change: all stay until the last is done.

    Args:
      loop_body: a function of a `BeamState` that returns the next one.
      state: the first state of the step function.
      max_lengths: int32 `[B]`, the longest output of each sentence, with the end token.
      beam_size: K.
      n_best: n, at most K.
      groups: into which the beam is divided; each begins with one hypothesis.
      fixed_length: int32 scalar, at least all of `max_lengths`; for XLA, which must know it before
        the search starts. None: sentences leave, and the results have no more padding than they
        need.
    Returns: a `SearchResult`; its L is `fixed_length` where that is given.
    """
    max_lengths = tf.maximum(max_lengths, 1)  # room for the end token
    if fixed_length is not None:
        beam = _first_beam(state, max_lengths, fixed_length, beam_size, groups)
        (beam,) = tf.while_loop(
            lambda beam: ~tf.reduce_all(beam.done), lambda beam: (loop_body(beam),), (beam,)
        )
        return _result(beam.finished_ids[:, :n_best], beam.finished_scores[:, :n_best])
    longest = tf.maximum(tf.reduce_max(max_lengths), 0)  # L
    beam = _first_beam(state, max_lengths, longest, beam_size, groups)
    return trim(_result(*_run_with_leaving(loop_body, beam, n_best)))


def _run_with_leaving(
    loop_body: Callable[[BeamState], BeamState], beam: BeamState, n_best: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """The loop in which sentences leave.

    Returns: int64 ids `[B, n, L + 1]` with start tokens, and scores `[B, n]`.
    """
    sentences, _, length = tf.unstack(tf.shape(beam.finished_ids))
    ids = tf.zeros([sentences, n_best, length], tf.int64)
    scores = tf.fill([sentences, n_best], NEGATIVE_INFINITY)
    shapes = _shapes(beam.alive_ids.shape[1], beam.state)

    def most_are_not_done(beam: BeamState) -> tf.Tensor:
        return tf.reduce_mean(tf.cast(beam.done, tf.float32)) < 0.5

    def until_half_are_done(ids: tf.Tensor, scores: tf.Tensor, beam: BeamState) -> tuple:
        (beam,) = tf.while_loop(
            most_are_not_done, lambda beam: (loop_body(beam),), (beam,), shape_invariants=(shapes,)
        )
        return _leave(ids, scores, beam)

    def any_left(ids: tf.Tensor, scores: tf.Tensor, beam: BeamState) -> tf.Tensor:
        return tf.size(beam.rows) > 0

    ids, scores, _ = tf.while_loop(
        any_left,
        until_half_are_done,
        (ids, scores, beam),
        shape_invariants=(ids.shape, scores.shape, shapes),
    )
    return ids, scores


def _result(ids: tf.Tensor, scores: tf.Tensor) -> SearchResult:
    """The result of hypotheses with start tokens, int64 `[B, n, L + 1]`."""
    ids = tf.cast(ids[:, :, 1:], tf.int32)
    return SearchResult(ids, scores, tf.reduce_sum(tf.cast(ids != PAD, tf.int32), axis=-1))


def trim(result: SearchResult) -> SearchResult:
    """Removes the padding after the longest hypothesis."""
    longest = tf.maximum(tf.reduce_max(result.lengths), 0)
    return result._replace(ids=result.ids[:, :, :longest])


def _leave(ids: tf.Tensor, scores: tf.Tensor, beam: BeamState) -> tuple:
    """Moves the sentences that are done from the beam to the results.

    Args:
      ids: int64 `[all, n, L + 1]`, the results.
      scores: float32 `[all, n]`.
      beam: a `BeamState`.
    Returns: ids, scores, and a `BeamState` of the other sentences.
    """
    n_best = ids.shape[1]
    leave, stay = tf.where(beam.done)[:, 0], tf.where(~beam.done)[:, 0]
    rows = tf.gather(beam.rows, leave)[:, tf.newaxis]
    found = tf.gather(beam.finished_ids[:, :n_best], leave)
    ids = tf.tensor_scatter_nd_update(ids, rows, found)
    found_scores = tf.gather(beam.finished_scores[:, :n_best], leave)
    scores = tf.tensor_scatter_nd_update(scores, rows, found_scores)
    t, *others = beam
    others = tf.nest.map_structure(lambda leaf: tf.gather(leaf, stay), others)
    return ids, scores, BeamState(t, *others)


def _first_beam(
    state: Any, max_lengths: tf.Tensor, longest: tf.Tensor, beam_size: int, groups: int
) -> BeamState:
    """One empty hypothesis for each group. The others of the beam are impossible."""
    sentences = tf.shape(max_lengths)[0]
    of_group = [0.0] + [NEGATIVE_INFINITY] * (beam_size // groups - 1)
    log_probs = tf.constant([of_group * groups])  # (1, K)
    padding = tf.zeros([sentences, beam_size, longest + 1], tf.int64)  # PAD is 0
    return BeamState(
        t=tf.constant(0),
        rows=tf.cast(tf.range(sentences), tf.int64),
        max_lengths=tf.cast(max_lengths, tf.int64),
        alive_ids=tf.concat([padding[:, :, :1] + START, padding[:, :, 1:]], axis=2),
        alive_log_probs=tf.tile(log_probs, [sentences, 1]),
        beam_indices=tf.tile(tf.range(beam_size, dtype=tf.int64)[tf.newaxis], [sentences, 1]),
        finished_ids=padding,
        finished_scores=tf.fill([sentences, beam_size], NEGATIVE_INFINITY),
        done=tf.zeros([sentences], tf.bool),
        state=state,
    )


def _shapes(beam_size: int, state: Any) -> BeamState:
    """The shapes of the loop variables; None is a dimension that changes."""

    def any_size(x: tf.Tensor) -> tf.TensorShape:
        return tf.TensorShape([None] * len(tf.convert_to_tensor(x).shape))

    sentences, hypotheses, prefixes = [None], [None, beam_size], [None, beam_size, None]
    shapes = BeamState(
        t=[],
        rows=sentences,
        max_lengths=sentences,
        alive_ids=prefixes,
        alive_log_probs=hypotheses,
        beam_indices=hypotheses,
        finished_ids=prefixes,
        finished_scores=hypotheses,
        done=sentences,
        state=None,
    )
    shapes = BeamState(*map(tf.TensorShape, shapes))
    return shapes._replace(state=tf.nest.map_structure(any_size, state))


def of_rows(option: Any, beam: BeamState) -> Any:
    """An option of the sentences left in the loop: `[all]` -> `[B]`; a number stays one."""
    return tf.gather(option, beam.rows) if isinstance(option, tf.Tensor) else option


def column(option: Any) -> Any:
    """`[B]` -> `[B, 1]`; a number stays one."""
    return option[:, tf.newaxis] if isinstance(option, tf.Tensor) else option


def is_last_token(beam: BeamState) -> tf.Tensor:
    """Whether the next token of each sentence is the last one, bool `[B]`."""
    return tf.cast(beam.t + 1, tf.int64) >= beam.max_lengths


def last_tokens(beam: BeamState) -> tf.Tensor:
    """The last token of each alive hypothesis, int64 `[B, K]`."""
    return beam.alive_ids[:, :, beam.t]


def is_next_position(beam: BeamState) -> tf.Tensor:
    """Where the next token is written, bool `[L + 1]`."""
    return tf.one_hot(beam.t + 1, tf.shape(beam.alive_ids)[2], True, False, dtype=tf.bool)
