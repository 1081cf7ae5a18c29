"""Greedy and beam search (Sec. 6.1) over a step function; independent of any model.

A step function `step(ids, position, beam_indices, state)` computes the next-token logits for K
hypotheses of each of B sentences. It takes

- ids: int64 `[B, K]`, the last token of each hypothesis;
- position: int32 scalar, the position of these tokens, 0 for the start token;
- beam_indices: int64 `[B, K]`, which of the K hypotheses of the step before each one continues;
- state: what the step before returned, any structure of tensors whose first dimension is B.

It returns logits `[B, K, V]` for the next token, where V is a static dimension, and the new state.

A search is one loop (`search_loop`) over one record (`Beam`). Each step takes the log-softmax of
the logits, changes it by the logits processors, excludes what is impossible (`next_log_probs`), and
keeps the best continuations (`extend_beam`). Sentences that are done leave the batch
(`leave_batch`).

**Forced prefix.** A search with a prefix is one among the outputs that begin with it. Where a token
is forced, all others are impossible, and its log-probability is that of the model, so scores are
those of the whole output.

**Types.** Ids and indices are int64: a GPU has no kernels for int32, which TensorFlow computes on
the host. Only the position is int32, since the host runs the loop (`benchmarks/gpu_kernels.py`).

Shapes: B sentences, K hypotheses a sentence (the beam), t tokens so far, V vocabulary,
n hypotheses wanted, L longest output, P longest prefix.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding.scores import NEGATIVE_INFINITY, is_possible, length_penalty
from tf_transformer.special_tokens import END, PAD, START

StepFunction = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]]
# Takes the log-probabilities of the next token [B, K, V], the ids [B, K, L + 1] of the start token,
# t tokens and padding, t, and the rows [B] of the sentences in the first batch; returns other
# log-probabilities [B, K, V], at most 0. See `decoding.logits_processors`.
LogitsProcessor = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


class SearchProblem(NamedTuple):
    """What every search is given: a step function, and what its outputs can be."""

    step: StepFunction
    state: Any  # the first one of the step function, [B, ...]
    max_lengths: tf.Tensor  # int32 [B], the longest output of each sentence, with the end token
    alpha: float | tf.Tensor = 0.6  # of the length penalty, at least 0; or float32 [B]
    # Integers [B, P], the first tokens of each output, without the start and the end token, then
    # padding. It is cut where only the end token fits. None: all are free.
    prefix: tf.Tensor | None = None
    processors: Sequence[LogitsProcessor] = ()  # of `decoding.logits_processors`
    # int32 [], at least all of `max_lengths`: L for XLA, which must know all shapes before the
    # search starts. None: L is the largest of them, and the result has as little padding as it can.
    fixed_length: tf.Tensor | None = None

    def repeat(self, number: int) -> "SearchProblem":
        """The problem with each sentence `number` times in a row."""
        alpha = tf.broadcast_to(self.alpha, tf.shape(self.max_lengths))
        of_rows = {"state": self.state, "max_lengths": self.max_lengths, "alpha": alpha}
        if self.prefix is not None:
            of_rows["prefix"] = self.prefix
        repeat = functools.partial(tf.repeat, repeats=number, axis=0)

        def of_sentences(processor: LogitsProcessor) -> LogitsProcessor:
            return lambda log_probs, ids, t, rows: processor(log_probs, ids, t, rows // number)

        repeated = self._replace(**tf.nest.map_structure(repeat, of_rows))
        return repeated._replace(processors=[*map(of_sentences, self.processors)])


class SearchResult(NamedTuple):
    """The best hypotheses of each sentence, best first."""

    ids: tf.Tensor  # int32 [B, n, L], ending with the end token, then padding
    scores: tf.Tensor  # float32 [B, n], log-probability / length penalty; NEGATIVE_INFINITY: none
    lengths: tf.Tensor  # int32 [B, n], with the end token
    truncated: tf.Tensor  # bool [B, n], whether it has the longest length, where only END may come


class Beam(NamedTuple):
    """The record of a search. Alive and finished hypotheses are kept apart (as in tensor2tensor).

    Ids have room for the longest output from the start, and padding after their last token.
    """

    t: tf.Tensor  # int32 [], tokens so far
    # Of each sentence; these do not change.
    rows: tf.Tensor  # int64 [B], its index in the batch
    max_lengths: tf.Tensor  # int64 [B], longest output
    alpha: tf.Tensor  # float32 [B], of the length penalty
    prefix: tf.Tensor  # int64 [B, P + 1], the forced tokens, then at least one of padding
    settings: Any  # [B, ...], further ones of a kind of search
    # Of each hypothesis.
    alive_ids: tf.Tensor  # int64 [B, K, L + 1], with the start token, then t tokens
    alive_log_probs: tf.Tensor  # float32 [B, K]
    beam_indices: tf.Tensor  # int64 [B, K], the hypothesis of the step before that each continues
    finished_ids: tf.Tensor  # int64 [B, K, L + 1], with the start token; padding only: none
    finished_scores: tf.Tensor  # float32 [B, K], best first
    done: tf.Tensor  # bool [B]
    state: Any  # of the step function, [B, ...]


def greedy_search(problem: SearchProblem) -> SearchResult:
    """Takes the most probable token at each step. The step function is called with K = 1."""

    def most_probable(
        model_log_probs: tf.Tensor, log_probs: tf.Tensor, beam: Beam
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return log_probs, tf.argmax(log_probs, axis=-1)

    return follow(problem, most_probable)


def follow(
    problem: SearchProblem,
    choose: Callable[[tf.Tensor, tf.Tensor, Beam], tuple[tf.Tensor, tf.Tensor]],
    settings: Any = (),
) -> SearchResult:
    """Extends one hypothesis of each sentence, by the token that a function chooses.

    Args:
      problem: a `SearchProblem`, whose step function is called with K = 1.
      choose: a function of the log-probabilities of the model, those of `next_log_probs`, both
        `[B, 1, V]`, and the `Beam`. It returns the log-probabilities that are scored `[B, 1, V]`,
        and the tokens, int64 `[B, 1]`.
      settings: of the `Beam`.
    Returns: a `SearchResult` with n = 1.
    """

    def extend(model_log_probs: tf.Tensor, beam: Beam) -> Beam:
        possible = next_log_probs(model_log_probs, beam, problem.processors)  # (B, 1, V)
        scored, tokens = choose(model_log_probs, possible, beam)
        tokens = tokens[:, :, tf.newaxis]  # (B, 1, 1)
        log_probs = beam.alive_log_probs + tf.gather(scored, tokens, batch_dims=2)[:, :, 0]
        alive_ids = tf.where(_is_next_position(beam), tokens, beam.alive_ids)  # (B, 1, L + 1)
        ends = (tokens[:, :, 0] == END) & ~beam.done[:, tf.newaxis]  # (B, 1)
        return beam._replace(
            t=beam.t + 1,
            alive_ids=alive_ids,
            alive_log_probs=log_probs,
            finished_ids=tf.where(ends[:, :, tf.newaxis], alive_ids, beam.finished_ids),
            finished_scores=tf.where(ends, _scores(log_probs, beam), beam.finished_scores),
            done=beam.done | ends[:, 0] | _is_last_token(beam),
        )

    return search_loop(problem, extend, first_beam(problem, 1)._replace(settings=settings))


def beam_search(problem: SearchProblem, beam_size: int = 4, n_best: int = 1) -> SearchResult:
    """Keeps the `beam_size` most probable prefixes of each sentence (Sec. 6.1; Wu et al. 2016).

    A hypothesis finishes when the end token is among its K best continuations. A sentence is done
    when no alive hypothesis can still enter its `n_best` finished ones: log-probabilities only
    fall, and the largest length penalty is that of the longest output. With K = 1 a sentence is
    done when its hypothesis ends, which makes it greedy search.

    Args:
      problem: a `SearchProblem`, whose step function is called with K = beam_size.
      beam_size: K.
      n_best: hypotheses wanted, at most K. The search ends when these are certain.
    Returns: a `SearchResult` with n = n_best.
    """

    def extend(log_probs: tf.Tensor, beam: Beam) -> Beam:
        return extend_beam(next_log_probs(log_probs, beam, problem.processors), beam, n_best)

    return search_loop(problem, extend, first_beam(problem, beam_size), n_best)


def first_beam(problem: SearchProblem, beam_size: int) -> Beam:
    """One empty hypothesis for each sentence. The others of the beam are impossible."""
    max_lengths = tf.maximum(problem.max_lengths, 1)  # room for the end token
    longest = tf.reduce_max(max_lengths) if problem.fixed_length is None else problem.fixed_length
    sentences = tf.shape(max_lengths)[0]
    prefix = tf.zeros([sentences, 0], tf.int64) if problem.prefix is None else problem.prefix
    padding = tf.zeros([sentences, beam_size, tf.maximum(longest, 0) + 1], tf.int64)  # PAD is 0
    return Beam(
        t=tf.constant(0),
        rows=tf.cast(tf.range(sentences), tf.int64),
        max_lengths=tf.cast(max_lengths, tf.int64),
        alpha=tf.broadcast_to(tf.cast(problem.alpha, tf.float32), [sentences]),
        prefix=tf.pad(tf.cast(prefix, tf.int64), [[0, 0], [0, 1]], constant_values=PAD),
        settings=(),
        alive_ids=tf.concat([padding[:, :, :1] + START, padding[:, :, 1:]], axis=2),
        alive_log_probs=tf.tile([[0.0] + [NEGATIVE_INFINITY] * (beam_size - 1)], [sentences, 1]),
        beam_indices=tf.tile(tf.range(beam_size, dtype=tf.int64)[tf.newaxis], [sentences, 1]),
        finished_ids=padding,
        finished_scores=tf.fill([sentences, beam_size], NEGATIVE_INFINITY),
        done=tf.zeros([sentences], tf.bool),
        state=tf.nest.map_structure(tf.convert_to_tensor, problem.state),
    )


def search_loop(
    problem: SearchProblem, extend: Callable[[tf.Tensor, Beam], Beam], beam: Beam, n_best: int = 1
) -> SearchResult:
    """Extends the hypotheses by one token at a time, until all sentences are done.

    Args:
      problem: a `SearchProblem`. With a fixed length no shape can change: all sentences stay until
        the last is done.
      extend: a function of the model's log p(next token), float32 `[B, K, V]`, and of a `Beam`. It
        returns the next one, with the old state of the step function.
      beam: of `first_beam`.
      n_best: n, hypotheses wanted.
    """

    def loop_body(beam: Beam) -> Beam:
        last_tokens = beam.alive_ids[:, :, beam.t]  # (B, K)
        logits, state = problem.step(last_tokens, beam.t, beam.beam_indices, beam.state)
        log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))  # (B, K, V)
        return extend(log_probs, beam)._replace(state=state)

    def loop_body_with_results(beam: Beam, ids: tf.Tensor, scores: tf.Tensor) -> tuple:
        beam = loop_body(beam)
        most_are_done = tf.reduce_mean(tf.cast(beam.done, tf.float32)) >= 0.5
        return tf.cond(
            most_are_done, lambda: leave_batch(beam, ids, scores), lambda: (beam, ids, scores)
        )

    longest = tf.cast(beam.max_lengths, tf.int32)[:, tf.newaxis]  # (B, 1)
    if problem.fixed_length is not None:
        (beam,) = tf.while_loop(
            lambda beam: ~tf.reduce_all(beam.done), lambda beam: (loop_body(beam),), (beam,)
        )
        ids, scores = beam.finished_ids, beam.finished_scores
    else:
        # None is a dimension that changes: that of the sentences, and any in the state.
        shapes = tf.nest.map_structure(lambda x: tf.TensorShape([None, *x.shape[1:]]), beam)
        state = tf.nest.map_structure(lambda x: tf.TensorShape([None] * x.shape.rank), beam.state)
        shapes = shapes._replace(t=tf.TensorShape([]), state=state)
        ids, scores = beam.finished_ids, beam.finished_scores
        _, ids, scores = tf.while_loop(
            lambda beam, ids, scores: tf.shape(beam.rows)[0] > 0,
            loop_body_with_results,
            (beam, ids, scores),
            shape_invariants=(shapes, ids.shape, scores.shape),
        )

    scores, best = tf.math.top_k(scores, n_best)  # (B, n)
    ids = tf.cast(tf.gather(ids, best, batch_dims=1)[:, :, 1:], tf.int32)  # (B, n, L)
    lengths = tf.reduce_sum(tf.cast(ids != PAD, tf.int32), axis=-1)  # (B, n)
    if problem.fixed_length is None:  # no padding after the longest one
        ids = ids[:, :, : tf.maximum(tf.reduce_max(lengths), 0)]
    return SearchResult(ids, scores, lengths, lengths >= longest)


def leave_batch(beam: Beam, ids: tf.Tensor, scores: tf.Tensor) -> tuple:
    """Moves the sentences that are done to the results; the others continue in a smaller batch.

    The loop does this when half of the sentences are done. Translating 600 sentences takes 1.27 to
    1.30 times as long without it. Results are ids `[all, K, L + 1]` and scores `[all, K]`.
    """
    leave, stay = tf.where(beam.done)[:, 0], tf.where(~beam.done)[:, 0]
    rows = tf.gather(beam.rows, leave)[:, tf.newaxis]
    ids = tf.tensor_scatter_nd_update(ids, rows, tf.gather(beam.finished_ids, leave))
    scores = tf.tensor_scatter_nd_update(scores, rows, tf.gather(beam.finished_scores, leave))
    t, *others = beam
    return Beam(t, *tf.nest.map_structure(lambda x: tf.gather(x, stay), others)), ids, scores


def next_log_probs(
    log_probs: tf.Tensor, beam: Beam, processors: Sequence[LogitsProcessor] = ()
) -> tf.Tensor:
    """Applies the logits processors, and excludes the tokens that cannot come next.

    These are padding and the start token, all but the one that the prefix forces, and, at the
    longest output, all but the end token; processors do not change a forced or last token. Those
    of the model `[B, K, V]` become those of the search `[B, K, V]`, with `NEGATIVE_INFINITY` or
    less for the excluded tokens.
    """
    vocab_size = log_probs.shape[-1]  # V
    forced = beam.prefix[:, tf.minimum(beam.t, tf.shape(beam.prefix)[1] - 1)]  # (B), PAD: none
    only = tf.where(_is_last_token(beam), tf.constant(END, tf.int64), forced)[:, tf.newaxis]
    processed = log_probs
    for processor in processors:
        processed = processor(processed, beam.alive_ids, beam.t, beam.rows)
    if processors:
        processed = tf.where((only == PAD)[:, tf.newaxis], processed, log_probs)
    special = tf.one_hot([PAD, START], vocab_size, NEGATIVE_INFINITY, 0.0)  # (2, V)
    others = tf.one_hot(only[:, 0], vocab_size, 0.0, NEGATIVE_INFINITY)  # (B, V)
    excluded = tf.where(only == PAD, tf.reduce_sum(special, axis=0), others)  # (B, V)
    return processed + excluded[:, tf.newaxis]


def extend_beam(log_probs: tf.Tensor, beam: Beam, n_best: int) -> Beam:
    """Extends every hypothesis by one token, and keeps the best.

    Args:
      log_probs: float32 `[B, K, V]`, of `next_log_probs`.
      n_best: as for `beam_search`.
    Returns: the next `Beam`, with the old state of the step function.
    """
    beam_size, vocab_size = log_probs.shape[1:]
    is_next_position = _is_next_position(beam)  # (L + 1)

    # The 2K best continuations. At most K of them end here, so they contain the K best that do not.
    log_probs += beam.alive_log_probs[:, :, tf.newaxis]  # (B, K, V)
    log_probs = tf.reshape(log_probs, [-1, beam_size * vocab_size])
    log_probs, best = tf.math.top_k(log_probs, 2 * beam_size)  # (B, 2K)
    best = tf.cast(best, tf.int64)
    beam_indices, tokens = best // vocab_size, best % vocab_size  # (B, 2K)

    # Finished: the K best of the old ones, and of the K best continuations that end now, which are
    # an alive hypothesis and the end token. Those of a sentence that is done stay.
    ends = tokens == END  # (B, 2K)
    is_among_best = tf.constant([True] * beam_size + [False] * beam_size)  # (2K)
    finishes = ends & is_among_best & is_possible(log_probs) & ~beam.done[:, tf.newaxis]
    scores = tf.where(finishes, _scores(log_probs, beam), NEGATIVE_INFINITY)  # (B, 2K)
    scores = tf.concat([beam.finished_scores, scores], axis=1)  # (B, 3K)
    scores, best = tf.math.top_k(scores, beam_size)  # (B, K)
    old = tf.zeros_like(beam.beam_indices) + tf.range(beam_size, dtype=tf.int64)  # (B, K)
    source = tf.concat([old, beam_size + beam_indices], axis=1)  # (B, 3K)
    source = tf.gather(source, best, batch_dims=1)  # (B, K)
    ids = tf.concat([beam.finished_ids, beam.alive_ids], axis=1)  # (B, 2K, L + 1)
    ids = tf.gather(ids, source, batch_dims=1)  # (B, K, L + 1)
    ends_here = (source >= beam_size)[:, :, tf.newaxis] & is_next_position  # (B, K, L + 1)
    finished_ids = tf.where(ends_here, tf.constant(END, tf.int64), ids)

    # Alive: the K best that do not end.
    log_probs = tf.where(ends, NEGATIVE_INFINITY, log_probs)  # (B, 2K)
    log_probs, chosen = tf.math.top_k(log_probs, beam_size)  # (B, K)
    beam_indices, tokens = (tf.gather(x, chosen, batch_dims=1) for x in (beam_indices, tokens))
    prefixes = tf.gather(beam.alive_ids, beam_indices, batch_dims=1)  # (B, K, L + 1)
    alive_ids = tf.where(is_next_position, tokens[:, :, tf.newaxis], prefixes)

    # Done: where no better hypothesis can come.
    largest_penalty = length_penalty(tf.cast(beam.max_lengths, tf.float32), beam.alpha)  # (B)
    best_to_come = log_probs[:, 0] / largest_penalty  # (B)
    done = beam.done | (best_to_come <= scores[:, n_best - 1]) | _is_last_token(beam)
    if beam_size == 1:
        done |= is_possible(scores[:, 0])
    return beam._replace(
        t=beam.t + 1,
        alive_ids=alive_ids,
        alive_log_probs=log_probs,
        beam_indices=beam_indices,
        finished_ids=finished_ids,
        finished_scores=scores,
        done=done,
    )


def _scores(log_probs: tf.Tensor, beam: Beam) -> tf.Tensor:
    """The scores of hypotheses that end with the next token; both `[B, hypotheses]`."""
    length = tf.cast(beam.t + 1, tf.float32)
    return log_probs / length_penalty(length, beam.alpha)[:, tf.newaxis]


def _is_last_token(beam: Beam) -> tf.Tensor:
    """Whether the next token of each sentence is the last one, bool `[B]`."""
    return tf.cast(beam.t + 1, tf.int64) >= beam.max_lengths


def _is_next_position(beam: Beam) -> tf.Tensor:
    """Where the next token is written, bool `[L + 1]`."""
    return tf.one_hot(beam.t + 1, tf.shape(beam.alive_ids)[2], True, False, dtype=tf.bool)
