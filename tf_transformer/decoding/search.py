"""Greedy and beam search (Sec. 6.1) over a step function; independent of any model.

A step function `step(ids, position, beam_indices, state)` computes the next-token logits for K
hypotheses of each of B sentences. It takes

- ids: int64 `[B, K]`, the last token of each hypothesis;
- position: int32 scalar, the position of these tokens, 0 for the start token;
- beam_indices: int64 `[B, K]`, which of the K hypotheses of the step before each one continues;
- state: what the step before returned, any structure of tensors whose first dimension is B.

It returns logits `[B, K, V]` for the next token, where V is a static dimension, and the new state.
Since it gets the beam indices, it can reorder its state, or leave it in place and remember who
continues whom.

**Forced prefix.** Both searches take the first tokens of each output, `prefix`: a search among the
outputs that begin with them. Where a token is forced, all others are impossible, and its
log-probability is that of the model, so scores are those of the whole output.

**Controls.** A function `adjust(log_probs, ids, t)` can change the log-probabilities of the next
token: see `decoding.controls`. A forced token keeps that of the model.

Shapes: B sentences, K hypotheses a sentence (the beam), t tokens so far, V vocabulary,
C candidates, n hypotheses wanted, L longest output, P longest prefix.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding.scores import NEGATIVE_INFINITY, is_possible
from tf_transformer.decoding.search_loop import (
    BeamState,
    SearchResult,
    column,
    is_last_token,
    is_next_position,
    last_tokens,
    of_rows,
    run_loop,
)
from tf_transformer.special_tokens import END, PAD, START

StepFunction = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]]
# Takes the log-probabilities of the next token [B, K, V], the ids [B, K, L + 1] of the start token,
# t tokens and padding, and t; returns other log-probabilities [B, K, V], at most 0.
Adjust = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


class BeamOptions(NamedTuple):
    """How a beam is extended; an option that is a tensor has a value for each sentence."""

    beam_size: int  # K
    alpha: float | tf.Tensor  # of the length penalty
    n_best: int | tf.Tensor  # hypotheses wanted
    prefix: tf.Tensor | None = None  # of `padded_prefix`
    beam_sizes: tf.Tensor | None = None  # int64, at most K; None: all have K
    adjust: Adjust | None = None


class Candidates(NamedTuple):
    """Hypotheses that are one token longer, best first."""

    log_probs: tf.Tensor  # float32 [B, C]
    beam_indices: tf.Tensor  # int64 [B, C], the hypothesis that each continues
    tokens: tf.Tensor  # int64 [B, C], the last one


def length_penalty(length: tf.Tensor | int, alpha: float | tf.Tensor) -> tf.Tensor:
    """lp(L) = ((5 + L) / 6)^alpha (Wu et al. 2016, Eq. 14), float32."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


def greedy_search(
    step: StepFunction,
    state: Any,
    max_lengths: tf.Tensor,
    alpha: float | tf.Tensor = 0.6,
    prefix: tf.Tensor | None = None,
    adjust: Adjust | None = None,
    fixed_length: tf.Tensor | None = None,
) -> SearchResult:
    """Takes the most probable token at each step.

    Args:
      step: a step function, called with K = 1.
      state: its first state.
      max_lengths: int32 `[B]`, the longest output of each sentence, with the end token.
      alpha: of the length penalty, a number or float32 `[B]`; it changes the scores only.
      prefix: int32 or int64 `[B, P]`, the first tokens of each output, without the start and the
        end token, then padding. It is cut where only the end token fits. None: all are free.
      adjust: of `decoding.controls`; None for the model's log-probabilities. Scores are sums of
        those that it returns.
      fixed_length: of `run_loop`, for XLA; None for a search that XLA does not compile.
    Returns: a `SearchResult` with n = 1.
    """
    prefix = None if prefix is None else padded_prefix(prefix)

    def choose(logits: tf.Tensor, beam: BeamState) -> tuple[tf.Tensor, tf.Tensor]:
        return continuations(logits, beam, 1, prefix, adjust)

    return follow(step, state, max_lengths, choose, alpha, fixed_length)


def follow(
    step: StepFunction,
    state: Any,
    max_lengths: tf.Tensor,
    choose: Callable[[tf.Tensor, BeamState], tuple[tf.Tensor, tf.Tensor]],
    alpha: float | tf.Tensor,
    fixed_length: tf.Tensor | None = None,
) -> SearchResult:
    """Extends one hypothesis of each sentence, by the token that a function chooses.

    Args:
      step, state, max_lengths, alpha, fixed_length: as for `greedy_search`.
      choose: a function of the logits `[B, 1, V]` and the `BeamState`; it returns the tokens'
        log-probabilities `[B, 1, 1]`, and the tokens, int64 `[B, 1, 1]`. At the longest output it
        must choose the end token.
    Returns: a `SearchResult` with n = 1.
    """

    def loop_body(beam: BeamState) -> BeamState:
        logits, state = step(last_tokens(beam), beam.t, beam.beam_indices, beam.state)  # (B, 1, V)
        log_probs, tokens = choose(logits, beam)  # (B, 1, 1)
        log_probs = beam.alive_log_probs + log_probs[:, :, 0]  # (B, 1)
        alive_ids = tf.where(is_next_position(beam), tokens, beam.alive_ids)  # (B, 1, L + 1)

        ends = (tokens[:, 0, 0] == END) & ~beam.done  # (B)
        penalty = length_penalty(beam.t + 1, column(of_rows(alpha, beam)))
        scores = log_probs / penalty  # (B, 1)
        return beam._replace(
            t=beam.t + 1,
            alive_ids=alive_ids,
            alive_log_probs=log_probs,
            finished_ids=tf.where(ends[:, tf.newaxis, tf.newaxis], alive_ids, beam.finished_ids),
            finished_scores=tf.where(ends[:, tf.newaxis], scores, beam.finished_scores),
            done=beam.done | ends | is_last_token(beam),
            state=state,
        )

    return run_loop(loop_body, state, max_lengths, 1, 1, fixed_length=fixed_length)


def beam_search(
    step: StepFunction,
    state: Any,
    max_lengths: tf.Tensor,
    beam_size: int = 4,
    alpha: float | tf.Tensor = 0.6,
    n_best: int | tf.Tensor = 1,
    prefix: tf.Tensor | None = None,
    beam_sizes: tf.Tensor | None = None,
    adjust: Adjust | None = None,
    fixed_length: tf.Tensor | None = None,
) -> SearchResult:
    """Keeps the `beam_size` most probable prefixes of each sentence (Sec. 6.1; Wu et al. 2016).

    A hypothesis finishes when the end token is among its K best continuations. A sentence is done
    when no alive hypothesis can still enter its `n_best` finished ones: log-probabilities only
    fall, and the largest length penalty is that of the longest output. With K = 1 a sentence is
    done when its hypothesis ends, which makes it greedy search.

    Args:
      step: a step function, called with K = beam_size.
      state: its first state.
      max_lengths: int32 `[B]`, the longest output of each sentence, with the end token.
      beam_size: K.
      alpha: of the length penalty, at least 0; a number or float32 `[B]`.
      n_best: hypotheses wanted, at most K; a number or int32 `[B]`.
      prefix, adjust, fixed_length: as for `greedy_search`.
      beam_sizes: int32 `[B]`, the beam size of each sentence, 1 to K; None: all have K.
    Returns: a `SearchResult` with n = n_best, or n = K where n_best is a tensor.
    """
    prefix, wanted = None if prefix is None else padded_prefix(prefix), n_best
    if beam_sizes is not None:
        beam_sizes = tf.cast(beam_sizes, tf.int64)
    if isinstance(n_best, tf.Tensor):
        wanted, n_best = beam_size, tf.cast(n_best, tf.int64)
    options = BeamOptions(beam_size, alpha, n_best, prefix, beam_sizes, adjust)

    def loop_body(beam: BeamState) -> BeamState:
        logits, state = step(last_tokens(beam), beam.t, beam.beam_indices, beam.state)  # (B, K, V)
        return extend_beam(logits, beam, options)._replace(state=state)

    return run_loop(loop_body, state, max_lengths, beam_size, wanted, fixed_length=fixed_length)


def extend_beam(logits: tf.Tensor, beam: BeamState, options: BeamOptions) -> BeamState:
    """Extends every hypothesis by one token, and keeps the best.

    Args:
      logits: `[B, K, V]`, of the next token.
      beam: a `BeamState`, with the old state of the step function.
      options: `BeamOptions`.
    Returns: the next `BeamState`, whose state is still the old one.
    """
    beam_size, sizes = options.beam_size, options.beam_sizes
    size: Any = beam_size if sizes is None else column(of_rows(sizes, beam))  # or (B, 1)
    rank = tf.range(2 * beam_size, dtype=tf.int64)  # (2K)

    # The 2K best continuations. At most K of them end here, so they contain the K best that do not.
    best = best_candidates(logits, beam, options)  # (B, 2K)
    if sizes is not None:  # a smaller beam has fewer continuations
        log_probs = tf.where(rank < 2 * size, best.log_probs, NEGATIVE_INFINITY)
        best = best._replace(log_probs=log_probs)
    ends = best.tokens == END  # (B, 2K)

    # Finished: the old ones, and those that end now among the K best of a sentence not yet done.
    beam = add_finished(beam, best, ends & (rank < size), options)

    # Alive: the K best of those that do not end.
    alive = tf.where(ends, NEGATIVE_INFINITY, best.log_probs)  # (B, 2K)
    alive_log_probs, chosen = tf.math.top_k(alive, beam_size)  # (B, K)
    if sizes is not None:  # and fewer hypotheses
        alive_log_probs = tf.where(rank[:beam_size] < size, alive_log_probs, NEGATIVE_INFINITY)
    return next_beam(beam, best, alive_log_probs, chosen, options)


def best_candidates(logits: tf.Tensor, beam: BeamState, options: BeamOptions) -> Candidates:
    """The 2K most probable continuations of all hypotheses, `Candidates` with C = 2K."""
    number = 2 * options.beam_size
    log_probs, tokens = continuations(logits, beam, number, options.prefix, options.adjust)
    candidates = tokens.shape[2]  # of each hypothesis
    log_probs = beam.alive_log_probs[:, :, tf.newaxis] + log_probs  # (B, K, candidates)
    log_probs = tf.reshape(log_probs, [-1, options.beam_size * candidates])
    log_probs, best = tf.math.top_k(log_probs, number)  # (B, 2K)
    best = tf.cast(best, tf.int64)
    tokens = tf.reshape(tokens, [-1, options.beam_size * candidates])
    tokens = tf.gather(tokens, best, batch_dims=1)  # (B, 2K)
    return Candidates(log_probs, best // candidates, tokens)


def add_finished(
    beam: BeamState, candidates: Candidates, ends: tf.Tensor, options: BeamOptions
) -> BeamState:
    """Adds the candidates that end to the finished hypotheses, and keeps the K best of these.

    Args:
      beam: a `BeamState`.
      candidates: `Candidates`.
      ends: bool `[B, C]`, whether a candidate can finish.
      options: `BeamOptions`.
    Returns: the `BeamState` with new finished hypotheses.
    """
    ends_now = ends & is_possible(candidates.log_probs) & ~beam.done[:, tf.newaxis]
    penalty = length_penalty(beam.t + 1, column(of_rows(options.alpha, beam)))
    scores = tf.where(ends_now, candidates.log_probs / penalty, NEGATIVE_INFINITY)  # (B, C)
    scores = tf.concat([beam.finished_scores, scores], axis=1)  # (B, K + C)
    scores, best = tf.math.top_k(scores, options.beam_size)  # (B, K)

    # Those that end now are an alive hypothesis and the end token.
    size = options.beam_size
    old = tf.zeros_like(beam.beam_indices) + tf.range(size, dtype=tf.int64)  # (B, K)
    source = tf.concat([old, size + candidates.beam_indices], axis=1)  # (B, K + C)
    source = tf.gather(source, best, batch_dims=1)  # (B, K)
    ids = tf.concat([beam.finished_ids, beam.alive_ids], axis=1)  # (B, 2K, L + 1)
    ids = tf.gather(ids, source, batch_dims=1)  # (B, K, L + 1)
    ends_here = (source >= size)[:, :, tf.newaxis] & is_next_position(beam)  # (B, K, L + 1)
    ids = tf.where(ends_here, tf.constant(END, tf.int64), ids)
    return beam._replace(finished_ids=ids, finished_scores=scores)


def next_beam(
    beam: BeamState,
    candidates: Candidates,
    alive_log_probs: tf.Tensor,
    chosen: tf.Tensor,
    options: BeamOptions,
) -> BeamState:
    """The beam of the next step; finds the sentences that are done.

    Args:
      beam: a `BeamState` with the finished hypotheses of the next step.
      candidates: `Candidates`.
      alive_log_probs: float32 `[B, K]`, those of the next step, best first.
      chosen: `[B, K]`, which of the candidates they are.
      options: `BeamOptions`.
    Returns: a `BeamState`, whose state is still the old one.
    """
    alpha, n_best = of_rows(options.alpha, beam), of_rows(options.n_best, beam)
    scores = beam.finished_scores  # (B, K)
    best_to_come = alive_log_probs[:, 0] / length_penalty(beam.max_lengths, alpha)  # (B)
    is_row_option = isinstance(n_best, tf.Tensor)
    wanted = tf.gather(scores, n_best - 1, batch_dims=1) if is_row_option else scores[:, n_best - 1]
    done = beam.done | (best_to_come <= wanted) | is_last_token(beam)
    if options.beam_size == 1:
        done |= is_possible(scores[:, 0])
    elif options.beam_sizes is not None:
        done |= is_possible(scores[:, 0]) & (of_rows(options.beam_sizes, beam) == 1)
    beam_indices = tf.gather(candidates.beam_indices, chosen, batch_dims=1)  # (B, K)
    tokens = tf.gather(candidates.tokens, chosen, batch_dims=1)[:, :, tf.newaxis]  # (B, K, 1)
    prefixes = tf.gather(beam.alive_ids, beam_indices, batch_dims=1)  # (B, K, L + 1)
    return beam._replace(
        t=beam.t + 1,
        alive_ids=tf.where(is_next_position(beam), tokens, prefixes),
        alive_log_probs=alive_log_probs,
        beam_indices=beam_indices,
        done=done,
    )


def continuations(
    logits: tf.Tensor,
    beam: BeamState,
    number: int,
    prefix: tf.Tensor | None = None,
    adjust: Adjust | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The most probable next tokens of each hypothesis.

    Padding and the start token are excluded, and so are all tokens but the one that a prefix
    forces. At its longest output a hypothesis can only end.

    Args:
      logits: `[B, K, V]`.
      beam: a `BeamState`.
      number: of tokens for each hypothesis.
      prefix: of `padded_prefix`, or None.
      adjust: as for `greedy_search`.
    Returns: log-probabilities and tokens `[B, K, C]`, best first, C = min(number, V). A
      continuation that is not allowed has `NEGATIVE_INFINITY`.
    """
    # log p(k) = logit(k) - log sum exp(logits). The sum comes from the most probable token, whose
    # p is never close to 0.
    logits = tf.cast(logits, tf.float32)
    p = tf.nn.softmax(logits)  # (B, K, V)
    best_logit = tf.reduce_max(logits, axis=-1, keepdims=True)  # (B, K, 1)
    log_sum = best_logit - tf.math.log(tf.reduce_max(p, axis=-1, keepdims=True))  # (B, K, 1)

    vocabulary = tf.range(logits.shape[-1], dtype=tf.int64)  # (V)
    at_limit = is_last_token(beam)[:, tf.newaxis, tf.newaxis]  # (B, 1, 1)
    allowed = logits  # (B, K, V)
    if adjust is not None:
        allowed = adjust(logits - log_sum, beam.alive_ids, beam.t) + log_sum
    if prefix is not None:
        forced = forced_tokens(prefix, beam)[:, tf.newaxis, tf.newaxis]  # (B, 1, 1)
        is_free = (forced == PAD) | at_limit
        of_forced = tf.where(forced == vocabulary, logits, NEGATIVE_INFINITY)
        allowed = tf.where(is_free, allowed, of_forced)
    excluded = (vocabulary == PAD) | (vocabulary == START)  # (V)
    allowed += tf.where(excluded, NEGATIVE_INFINITY, 0.0)
    if number == 1:
        tokens = tf.argmax(allowed, axis=-1)[..., tf.newaxis]  # (B, K, 1)
    else:
        _, tokens = tf.math.top_k(allowed, min(number, logits.shape[-1]))  # (B, K, C)
        tokens = tf.cast(tokens, tf.int64)

    first = tf.range(tokens.shape[-1]) == 0  # (C)
    tokens = tf.where(at_limit, tf.constant(END, tf.int64), tokens)
    log_probs = tf.gather(allowed, tokens, batch_dims=2) - log_sum  # (B, K, C)
    return tf.where(at_limit & ~first, NEGATIVE_INFINITY, log_probs), tokens


def padded_prefix(prefix: tf.Tensor) -> tf.Tensor:
    """The prefix as `forced_tokens` takes it: `[B, P]` -> int64 `[B, P + 1]`."""
    return tf.cast(tf.pad(prefix, [[0, 0], [0, 1]], constant_values=PAD), tf.int64)


def forced_tokens(prefix: tf.Tensor, beam: BeamState) -> tf.Tensor:
    """The next token of the padded prefix of each sentence, int64 `[B]`; PAD after its end."""
    longest = tf.shape(prefix)[1] - 1  # P
    return tf.gather(prefix[:, tf.minimum(beam.t, longest)], beam.rows)
