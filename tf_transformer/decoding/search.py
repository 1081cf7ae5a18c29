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

Ids and indices are int64: a GPU has no kernels for int32, which TensorFlow computes on the host.
Only the position is int32, since the host runs the loop (`benchmarks/gpu_kernels.py`).

Shapes: B sentences, K hypotheses a sentence (the beam), t tokens so far, V vocabulary,
n hypotheses wanted, L longest output, P longest prefix.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.decoding.scores import NEGATIVE_INFINITY, is_possible
from tf_transformer.special_tokens import END, PAD, START

StepFunction = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]]


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
    alive_ids: tf.Tensor  # int64 [B, K, t + 1], with the start token
    alive_log_probs: tf.Tensor  # float32 [B, K]
    beam_indices: tf.Tensor  # int64 [B, K], the hypothesis of the step before that each continues
    finished_ids: tf.Tensor  # int64 [B, K, t]
    finished_scores: tf.Tensor  # float32 [B, K], best first
    done: tf.Tensor  # bool [B]
    state: Any  # of the step function, [B, ...]


def length_penalty(length: tf.Tensor | int, alpha: float | tf.Tensor) -> tf.Tensor:
    """lp(L) = ((5 + L) / 6)^alpha (Wu et al. 2016, Eq. 14), float32."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


def greedy_search(
    step: StepFunction,
    state: Any,
    max_lengths: tf.Tensor,
    alpha: float | tf.Tensor = 0.6,
    prefix: tf.Tensor | None = None,
) -> SearchResult:
    """Takes the most probable token at each step.

    Args:
      step: a step function, called with K = 1.
      state: its first state.
      max_lengths: int32 `[B]`, the longest output of each sentence, with the end token.
      alpha: of the length penalty, a number or float32 `[B]`; it changes the scores only.
      prefix: int32 or int64 `[B, P]`, the first tokens of each output, without the start and the
        end token, then padding. It is cut where only the end token fits. None: all are free.
    Returns: a `SearchResult` with n = 1.
    """
    prefix = None if prefix is None else padded_prefix(prefix)

    def choose(logits: tf.Tensor, beam: BeamState) -> tuple[tf.Tensor, tf.Tensor]:
        return _continuations(logits, beam, prefix, 1)

    return follow(step, state, max_lengths, choose, alpha)


def follow(
    step: StepFunction,
    state: Any,
    max_lengths: tf.Tensor,
    choose: Callable[[tf.Tensor, BeamState], tuple[tf.Tensor, tf.Tensor]],
    alpha: float | tf.Tensor,
) -> SearchResult:
    """Extends one hypothesis of each sentence, by the token that a function chooses.

    Args:
      step, state, max_lengths, alpha: as for `greedy_search`.
      choose: a function of the logits `[B, 1, V]` and the `BeamState`; it returns the tokens'
        log-probabilities `[B, 1, 1]`, and the tokens, int64 `[B, 1, 1]`. At the longest output it
        must choose the end token.
    Returns: a `SearchResult` with n = 1.
    """

    def loop_body(beam: BeamState) -> BeamState:
        last_ids = beam.alive_ids[:, :, -1]  # (B, 1)
        logits, state = step(last_ids, beam.t, beam.beam_indices, beam.state)  # (B, 1, V)
        log_probs, tokens = choose(logits, beam)  # (B, 1, 1)
        log_probs = beam.alive_log_probs + log_probs[:, :, 0]  # (B, 1)
        alive_ids = tf.concat([beam.alive_ids, tokens], axis=2)  # (B, 1, t + 2)

        ends = (tokens[:, 0, 0] == END) & ~beam.done  # (B)
        old_ids = _append_padding(beam)  # (B, 1, t + 1)
        penalty = length_penalty(beam.t + 1, column(of_rows(alpha, beam)))
        scores = log_probs / penalty  # (B, 1)
        return beam._replace(
            t=beam.t + 1,
            alive_ids=alive_ids,
            alive_log_probs=log_probs,
            finished_ids=tf.where(ends[:, tf.newaxis, tf.newaxis], alive_ids[:, :, 1:], old_ids),
            finished_scores=tf.where(ends[:, tf.newaxis], scores, beam.finished_scores),
            done=beam.done | ends | is_last_token(beam),
            state=state,
        )

    return _search(loop_body, state, max_lengths, 1, 1)


def beam_search(
    step: StepFunction,
    state: Any,
    max_lengths: tf.Tensor,
    beam_size: int = 4,
    alpha: float | tf.Tensor = 0.6,
    n_best: int | tf.Tensor = 1,
    prefix: tf.Tensor | None = None,
    beam_sizes: tf.Tensor | None = None,
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
      prefix: as for `greedy_search`.
      beam_sizes: int32 `[B]`, the beam size of each sentence, 1 to K; None: all have K.
    Returns: a `SearchResult` with n = n_best, or n = K where n_best is a tensor.
    """

    def loop_body(beam: BeamState) -> BeamState:
        return _extend_beam(step, beam, beam_size, alpha, n_best, prefix, beam_sizes)

    prefix, wanted = None if prefix is None else padded_prefix(prefix), n_best
    if beam_sizes is not None:
        beam_sizes = tf.cast(beam_sizes, tf.int64)
    if isinstance(n_best, tf.Tensor):
        wanted, n_best = beam_size, tf.cast(n_best, tf.int64)
    return _search(loop_body, state, max_lengths, beam_size, wanted)


def _extend_beam(
    step: StepFunction,
    beam: BeamState,
    beam_size: int,
    alpha: float | tf.Tensor,
    n_best: int | tf.Tensor,
    prefix: tf.Tensor | None,
    beam_sizes: tf.Tensor | None,
) -> BeamState:
    """Extends every hypothesis by one token, and keeps the best."""
    alpha, n_best = of_rows(alpha, beam), of_rows(n_best, beam)
    size: Any = beam_size if beam_sizes is None else column(of_rows(beam_sizes, beam))  # or (B, 1)
    last_ids = beam.alive_ids[:, :, -1]  # (B, K)
    logits, state = step(last_ids, beam.t, beam.beam_indices, beam.state)  # (B, K, V)
    log_probs, tokens = _continuations(logits, beam, prefix, 2 * beam_size)  # (B, K, C)
    candidates = tokens.shape[2]  # C of each hypothesis

    # The 2K best continuations. At most K of them end here, so they contain the K best that do not.
    log_probs = beam.alive_log_probs[:, :, tf.newaxis] + log_probs  # (B, K, C)
    log_probs = tf.reshape(log_probs, [-1, beam_size * candidates])
    log_probs, best = tf.math.top_k(log_probs, 2 * beam_size)  # (B, 2K)
    best = tf.cast(best, tf.int64)
    rank = tf.range(2 * beam_size, dtype=tf.int64)  # (2K)
    if beam_sizes is not None:  # a smaller beam has fewer continuations
        log_probs = tf.where(rank < 2 * size, log_probs, NEGATIVE_INFINITY)
    tokens = tf.reshape(tokens, [-1, beam_size * candidates])
    tokens = tf.gather(tokens, best, batch_dims=1)  # (B, 2K)
    beam_indices = best // candidates  # (B, 2K)
    prefixes = tf.gather(beam.alive_ids, beam_indices, batch_dims=1)  # (B, 2K, t + 1)
    ids = tf.concat([prefixes, tokens[:, :, tf.newaxis]], axis=2)  # (B, 2K, t + 2)
    ends = tokens == END  # (B, 2K)

    # Finished: the old ones, and those that end now among the K best of a sentence not yet done.
    ends_now = ends & is_possible(log_probs) & (rank < size) & ~beam.done[:, tf.newaxis]
    scores = log_probs / length_penalty(beam.t + 1, column(alpha))
    scores = tf.where(ends_now, scores, NEGATIVE_INFINITY)  # (B, 2K)
    scores = tf.concat([beam.finished_scores, scores], axis=1)  # (B, 3K)
    scores, best = tf.math.top_k(scores, beam_size)  # (B, K)
    finished_ids = tf.concat([_append_padding(beam), ids[:, :, 1:]], axis=1)
    finished_ids = tf.gather(finished_ids, best, batch_dims=1)  # (B, K, t + 1)

    # Alive: the K best of those that do not end.
    alive = tf.where(ends, NEGATIVE_INFINITY, log_probs)  # (B, 2K)
    alive_log_probs, best = tf.math.top_k(alive, beam_size)  # (B, K)
    if beam_sizes is not None:  # and fewer hypotheses
        alive_log_probs = tf.where(rank[:beam_size] < size, alive_log_probs, NEGATIVE_INFINITY)
    best_to_come = alive_log_probs[:, 0] / length_penalty(beam.max_lengths, alpha)  # (B)
    is_row_option = isinstance(n_best, tf.Tensor)
    wanted = tf.gather(scores, n_best - 1, batch_dims=1) if is_row_option else scores[:, n_best - 1]
    done = beam.done | (best_to_come <= wanted) | is_last_token(beam)
    if beam_size == 1:
        done |= is_possible(scores[:, 0])
    elif beam_sizes is not None:
        done |= is_possible(scores[:, 0]) & (size[:, 0] == 1)
    return beam._replace(
        t=beam.t + 1,
        alive_ids=tf.gather(ids, best, batch_dims=1),
        alive_log_probs=alive_log_probs,
        beam_indices=tf.gather(beam_indices, best, batch_dims=1),
        finished_ids=finished_ids,
        finished_scores=scores,
        done=done,
        state=state,
    )


def of_rows(option: Any, beam: BeamState) -> Any:
    """An option of the sentences left in the loop: `[all]` -> `[B]`; a number stays one."""
    return tf.gather(option, beam.rows) if isinstance(option, tf.Tensor) else option


def column(option: Any) -> Any:
    """`[B]` -> `[B, 1]`; a number stays one."""
    return option[:, tf.newaxis] if isinstance(option, tf.Tensor) else option


def is_last_token(beam: BeamState) -> tf.Tensor:
    """Whether the next token of each sentence is the last one, bool `[B]`."""
    return tf.cast(beam.t + 1, tf.int64) >= beam.max_lengths


def _continuations(
    logits: tf.Tensor, beam: BeamState, prefix: tf.Tensor | None, number: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """The most probable next tokens of each hypothesis.

    Padding and the start token are excluded, and so are all tokens but the one that a prefix
    forces. At its longest output a hypothesis can only end.

    Returns: log-probabilities and tokens `[B, K, C]`, best first, C = min(number, V). A
      continuation that is not allowed has `NEGATIVE_INFINITY`.
    """
    logits = tf.cast(logits, tf.float32)
    vocabulary = tf.range(logits.shape[-1], dtype=tf.int64)  # (V)
    excluded = (vocabulary == PAD) | (vocabulary == START)  # (V)
    allowed = logits + tf.where(excluded, NEGATIVE_INFINITY, 0.0)  # (B, K, V)
    at_limit = is_last_token(beam)[:, tf.newaxis, tf.newaxis]  # (B, 1, 1)
    if prefix is not None:
        forced = forced_tokens(prefix, beam)[:, tf.newaxis, tf.newaxis]  # (B, 1, 1)
        is_free = (forced == PAD) | (forced == vocabulary) | at_limit  # (B, 1, V)
        allowed = tf.where(is_free, allowed, NEGATIVE_INFINITY)
    if number == 1:
        tokens = tf.argmax(allowed, axis=-1)[..., tf.newaxis]  # (B, K, 1)
    else:
        _, tokens = tf.math.top_k(allowed, min(number, logits.shape[-1]))  # (B, K, C)
        tokens = tf.cast(tokens, tf.int64)

    # log p(k) = logit(k) - log sum exp(logits). The sum comes from the most probable token, whose
    # p is never close to 0.
    p = tf.nn.softmax(logits)  # (B, K, V)
    best_logit = tf.reduce_max(logits, axis=-1, keepdims=True)  # (B, K, 1)
    log_sum = best_logit - tf.math.log(tf.reduce_max(p, axis=-1, keepdims=True))  # (B, K, 1)

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


def _append_padding(beam: BeamState) -> tf.Tensor:
    """The finished ids, one token longer: `[B, K, t]` -> `[B, K, t + 1]`."""
    padding = tf.zeros_like(beam.beam_indices)[:, :, tf.newaxis]  # (B, K, 1); PAD is 0
    return tf.concat([beam.finished_ids, padding], axis=2)  # a GPU has no `tf.pad` for int64


def _search(
    loop_body: Callable[[BeamState], BeamState],
    state: Any,
    max_lengths: tf.Tensor,
    beam_size: int,
    n_best: int,
) -> SearchResult:
    """Calls `loop_body`, a function of a `BeamState`, until all sentences are done.

    When half of the sentences are done, they leave the loop, and the others continue in a smaller
    batch.
    """
    max_lengths = tf.maximum(max_lengths, 1)  # room for the end token
    longest = tf.maximum(tf.reduce_max(max_lengths), 0)  # L
    sentences = tf.shape(max_lengths)[0]
    ids = tf.zeros([sentences, n_best, longest], tf.int64)
    scores = tf.fill([sentences, n_best], NEGATIVE_INFINITY)

    shapes = _shapes(beam_size, state)

    def most_are_not_done(beam: BeamState) -> tf.Tensor:
        return tf.reduce_mean(tf.cast(beam.done, tf.float32)) < 0.5

    def body(beam: BeamState) -> tuple[BeamState]:
        return (loop_body(beam),)

    def until_half_are_done(ids: tf.Tensor, scores: tf.Tensor, beam: BeamState) -> tuple:
        (beam,) = tf.while_loop(most_are_not_done, body, (beam,), shape_invariants=(shapes,))
        leave, stay = tf.where(beam.done)[:, 0], tf.where(~beam.done)[:, 0]
        rows = tf.gather(beam.rows, leave)[:, tf.newaxis]
        to_longest = [[0, 0], [0, 0], [0, longest - beam.t]]
        found = tf.pad(beam.finished_ids[:, :n_best], to_longest, constant_values=PAD)
        ids = tf.tensor_scatter_nd_update(ids, rows, tf.gather(found, leave))
        found_scores = tf.gather(beam.finished_scores[:, :n_best], leave)
        scores = tf.tensor_scatter_nd_update(scores, rows, found_scores)
        t, *others = beam
        others = tf.nest.map_structure(lambda leaf: tf.gather(leaf, stay), others)
        return ids, scores, BeamState(t, *others)

    def any_left(ids: tf.Tensor, scores: tf.Tensor, beam: BeamState) -> tf.Tensor:
        return tf.size(beam.rows) > 0

    ids, scores, _ = tf.while_loop(
        any_left,
        until_half_are_done,
        (ids, scores, _first_beam(state, max_lengths, beam_size)),
        shape_invariants=(ids.shape, scores.shape, shapes),
    )
    ids = tf.cast(ids, tf.int32)
    lengths = tf.reduce_sum(tf.cast(ids != PAD, tf.int32), axis=-1)  # (B, n)
    longest = tf.maximum(tf.reduce_max(lengths), 0)
    return SearchResult(ids[:, :, :longest], scores, lengths)


def _first_beam(state: Any, max_lengths: tf.Tensor, beam_size: int) -> BeamState:
    """One empty hypothesis for each sentence. The others of the beam are impossible."""
    sentences = tf.shape(max_lengths)[0]
    log_probs = tf.constant([[0.0] + [NEGATIVE_INFINITY] * (beam_size - 1)])  # (1, K)
    return BeamState(
        t=tf.constant(0),
        rows=tf.cast(tf.range(sentences), tf.int64),
        max_lengths=tf.cast(max_lengths, tf.int64),
        alive_ids=tf.fill([sentences, beam_size, 1], tf.constant(START, tf.int64)),
        alive_log_probs=tf.tile(log_probs, [sentences, 1]),
        beam_indices=tf.tile(tf.range(beam_size, dtype=tf.int64)[tf.newaxis], [sentences, 1]),
        finished_ids=tf.zeros([sentences, beam_size, 0], tf.int64),
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
