"""Greedy and beam search (Sec. 6.1) over a step function; independent of any model.

A step function `step(ids, position, beam_indices, state)` computes the next-token logits for K
hypotheses of each of B sentences. `kv_cache.make_decode_step` makes one of a model,
`ensemble.make_ensemble_step` of several models; `decoding.inference` gives it to a search, for
`Translator` and for exports. It takes

- ids: int64 `[B, K]`, the last token of each hypothesis;
- position: int32 scalar, the position of these tokens, 0 for the start token;
- beam_indices: int64 `[B, K]`, which of the K hypotheses of the step before each one continues;
- state: what the step before returned, any structure of tensors whose first dimension is B.

It returns logits `[B, K, V]` for the next token, where V is a static dimension, and the new state.

A search is one loop (`search_loop`) over one record (`BeamState`). Each step takes the log-softmax
of the logits, changes it by the logits processors, excludes what is impossible (`next_log_probs`),
and extends the hypotheses: by the best continuations (`extend_beam`), or by one token each
(`append_tokens`), which greedy search and `decoding.sampling` choose.

**Options of each sentence.** Sentences that are done leave the batch. `BeamState.rows` has the
indices of the others, so `tf.gather(option, beam.rows)` has their options.

**Forced prefix.** A search with a prefix is one among the outputs that begin with it. Where a token
is forced, all others are impossible, and it keeps the log-probability of the model, so the scores
count the whole output.

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
Results = tuple[tf.Tensor, tf.Tensor]  # finished ids [B, K, L + 1] and scores [B, K]


class SearchProblem(NamedTuple):
    """What every search is given: a step function, and what its outputs can be."""

    step: StepFunction
    state: Any  # the first one of the step function, [B, ...]
    max_lengths: tf.Tensor  # integers [B], the longest output of each sentence, with the end token
    alpha: float | tf.Tensor = 0.6  # of the length penalty, at least 0; or float32 [B]
    # Integers [B, P], the first tokens of each output, without the start and the end token, then
    # padding. It is cut where only the end token fits. None: all are free.
    prefix: tf.Tensor | None = None
    processors: Sequence[LogitsProcessor] = ()  # of `decoding.logits_processors`
    # int32 [], at least all of `max_lengths`: L for XLA, which must know all shapes before the
    # search starts. None: L is the largest of them, and the result has as little padding as it can.
    fixed_length: tf.Tensor | None = None

    def as_tensors(self) -> "SearchProblem":
        """The problem with a tensor for each option; the prefixes end with padding."""
        shape = tf.shape(self.max_lengths)
        prefix = tf.zeros([shape[0], 0], tf.int64) if self.prefix is None else self.prefix
        return self._replace(
            max_lengths=tf.cast(tf.maximum(self.max_lengths, 1), tf.int64),  # room for END
            alpha=tf.broadcast_to(tf.cast(self.alpha, tf.float32), shape),
            prefix=tf.pad(tf.cast(prefix, tf.int64), [[0, 0], [0, 1]], constant_values=PAD),
        )

    def repeat(self, number: int) -> "SearchProblem":
        """The problem with each sentence `number` times in a row."""

        def of_sentences(processor: LogitsProcessor) -> LogitsProcessor:
            return lambda log_probs, ids, t, rows: processor(log_probs, ids, t, rows // number)

        problem = self.as_tensors()
        options = {x: getattr(problem, x) for x in ("state", "max_lengths", "alpha", "prefix")}
        options = tf.nest.map_structure(lambda x: tf.repeat(x, number, axis=0), options)
        return problem._replace(processors=[*map(of_sentences, self.processors)], **options)


class SearchResult(NamedTuple):
    """The best hypotheses of each sentence, best first."""

    ids: tf.Tensor  # int32 [B, n, L], ending with the end token, then padding
    scores: tf.Tensor  # float32 [B, n], log-probability / length penalty; NEGATIVE_INFINITY: none
    lengths: tf.Tensor  # int32 [B, n], with the end token
    truncated: tf.Tensor  # bool [B, n], whether it has the longest length, where only END may come


class BeamState(NamedTuple):
    """What a step changes. Alive and finished hypotheses are kept apart (as in tensor2tensor).

    Ids have room for the longest output from the start, and padding after their last token.
    """

    t: tf.Tensor  # int32 [], tokens so far
    rows: tf.Tensor  # int64 [B], the index of each sentence in the first batch
    alive_ids: tf.Tensor  # int64 [B, K, L + 1], with the start token, then t tokens
    alive_log_probs: tf.Tensor  # float32 [B, K]
    beam_indices: tf.Tensor  # int64 [B, K], the hypothesis of the step before that each continues
    finished_ids: tf.Tensor  # int64 [B, K, L + 1], with the start token; padding only: none
    finished_scores: tf.Tensor  # float32 [B, K], best first
    done: tf.Tensor  # bool [B], whether no better hypothesis can come
    state: Any  # of the step function, [B, ...]


def greedy_search(problem: SearchProblem) -> SearchResult:
    """Takes the most probable token at each step. The step function is called with K = 1."""

    def extend(problem: SearchProblem, log_probs: tf.Tensor, beam: BeamState) -> BeamState:
        log_probs = next_log_probs(problem, log_probs, beam)  # (B, 1, V)
        return append_tokens(problem, log_probs, beam, tf.argmax(log_probs, axis=-1))

    return search_loop(problem, extend)


def beam_search(problem: SearchProblem, beam_size: int = 4, n_best: int = 1) -> SearchResult:
    """Keeps the `beam_size` most probable prefixes of each sentence (Sec. 6.1; Wu et al. 2016).

    A hypothesis finishes when the end token is among its K best continuations. A sentence is done
    when no alive hypothesis can still enter its `n_best` finished ones: log-probabilities only
    fall, and the longest output has the largest length penalty. With K = 1 a sentence is
    done when its hypothesis ends, which makes it greedy search.

    Args:
      problem: its step function is called with K = beam_size.
      n_best: hypotheses wanted, at most K. The search ends when these are certain.
    Returns: a `SearchResult` with n = n_best.
    """
    extend = functools.partial(extend_beam, beam_size=beam_size, n_best=n_best)
    return search_loop(problem, extend, beam_size, n_best)


def search_loop(
    problem: SearchProblem,
    extend: Callable[[SearchProblem, tf.Tensor, BeamState], BeamState],
    beam_size: int = 1,
    n_best: int = 1,
) -> SearchResult:
    """Extends the hypotheses by one token at a time, until all sentences are done.

    Args:
      problem: with a fixed length no shape can change: all sentences stay until the last is done.
      extend: a function of `problem.as_tensors()`, the model's log p(next token), float32
        `[B, K, V]`, and a `BeamState`. It returns the next one, with the old state of the step
        function.
      beam_size, n_best: K and n.
    """
    problem = problem.as_tensors()
    has_fixed_shapes = problem.fixed_length is not None

    def loop_cond(beam: BeamState, results: Results) -> tf.Tensor:
        return ~tf.reduce_all(beam.done) if has_fixed_shapes else tf.shape(beam.rows)[0] > 0

    def loop_body(beam: BeamState, results: Results) -> tuple[BeamState, Results]:
        last_tokens = beam.alive_ids[:, :, beam.t]  # (B, K)
        logits, state = problem.step(last_tokens, beam.t, beam.beam_indices, beam.state)
        log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))  # (B, K, V)
        beam = extend(problem, log_probs, beam)._replace(state=state)
        if has_fixed_shapes:
            return beam, (beam.finished_ids, beam.finished_scores)
        return tf.cond(
            tf.reduce_mean(tf.cast(beam.done, tf.float32)) >= 0.5,
            lambda: remove_done_sentences(beam, results),
            lambda: (beam, results),
        )

    beam = first_beam(problem, beam_size)
    loop_vars = beam, (beam.finished_ids, beam.finished_scores)
    # Any dimension can change: sentences leave, and the state of the step function grows.
    shapes = tf.nest.map_structure(lambda x: tf.TensorShape([None] * x.shape.rank), loop_vars)
    _, (ids, scores) = tf.while_loop(loop_cond, loop_body, loop_vars, shape_invariants=shapes)

    scores, best = tf.math.top_k(scores, n_best)  # (B, n)
    ids = tf.cast(tf.gather(ids, best, batch_dims=1)[:, :, 1:], tf.int32)  # (B, n, L)
    lengths = tf.reduce_sum(tf.cast(ids != PAD, tf.int32), axis=-1)  # (B, n)
    if not has_fixed_shapes:  # no padding after the longest one
        ids = ids[:, :, : tf.maximum(tf.reduce_max(lengths), 0)]
    max_lengths = tf.cast(problem.max_lengths, tf.int32)[:, tf.newaxis]  # (B, 1)
    return SearchResult(ids, scores, lengths, lengths >= max_lengths)


def first_beam(problem: SearchProblem, beam_size: int) -> BeamState:
    """One empty hypothesis for each sentence. The others of the beam are impossible."""
    sentences, longest = tf.shape(problem.max_lengths)[0], problem.fixed_length
    if longest is None:
        longest = tf.maximum(tf.cast(tf.reduce_max(problem.max_lengths), tf.int32), 0)
    start = tf.fill([sentences, beam_size, 1], tf.constant(START, tf.int64))
    alive_ids = tf.pad(start, [[0, 0], [0, 0], [0, longest]], constant_values=PAD)
    return BeamState(
        t=tf.constant(0),
        rows=tf.cast(tf.range(sentences), tf.int64),
        alive_ids=alive_ids,
        alive_log_probs=tf.tile([[0.0] + [NEGATIVE_INFINITY] * (beam_size - 1)], [sentences, 1]),
        beam_indices=tf.tile(tf.range(beam_size, dtype=tf.int64)[tf.newaxis], [sentences, 1]),
        finished_ids=tf.fill(tf.shape(alive_ids), tf.constant(PAD, tf.int64)),
        finished_scores=tf.fill([sentences, beam_size], NEGATIVE_INFINITY),
        done=tf.zeros([sentences], tf.bool),
        state=tf.nest.map_structure(tf.convert_to_tensor, problem.state),
    )


def next_log_probs(problem: SearchProblem, log_probs: tf.Tensor, beam: BeamState) -> tf.Tensor:
    """Applies the logits processors, and excludes the tokens that cannot come next.

    These are padding and the start token, all but the one that the prefix forces, and, at the
    longest output, all but the end token; processors do not change a forced or last token.

    Returns: float32 `[B, K, V]`, `NEGATIVE_INFINITY` or less for the excluded tokens.
    """
    prefix = tf.convert_to_tensor(problem.prefix)  # (all, P + 1)
    position = tf.minimum(beam.t, tf.shape(prefix)[1] - 1)
    forced = tf.gather(prefix[:, position], beam.rows)  # (B), PAD: none
    only = tf.where(_is_last_token(problem, beam), tf.constant(END, tf.int64), forced)
    is_free = (only == PAD)[:, tf.newaxis]  # (B, 1)
    processed = log_probs
    for processor in problem.processors:
        processed = processor(processed, beam.alive_ids, beam.t, beam.rows)
    if problem.processors:
        processed = tf.where(is_free[:, tf.newaxis], processed, log_probs)
    tokens = tf.range(log_probs.shape[-1], dtype=tf.int64)  # (V)
    special = (tokens == PAD) | (tokens == START)
    excluded = tf.where(is_free, special, tokens != only[:, tf.newaxis])  # (B, V)
    return processed + tf.where(excluded, NEGATIVE_INFINITY, 0.0)[:, tf.newaxis]


def append_tokens(
    problem: SearchProblem, log_probs: tf.Tensor, beam: BeamState, tokens: tf.Tensor
) -> BeamState:
    """Extends the only hypothesis of each sentence by a token. The sentence is done when it ends.

    Args:
      log_probs: float32 `[B, 1, V]`, with which the token is scored.
      tokens: int64 `[B, 1]`.
    """
    log_probs = tf.gather(log_probs, tokens[:, :, tf.newaxis], batch_dims=2)[:, :, 0]  # (B, 1)
    log_probs += beam.alive_log_probs
    ids = tf.where(_is_next_position(beam), tokens[:, :, tf.newaxis], beam.alive_ids)
    ends = (tokens == END) & ~beam.done[:, tf.newaxis]  # (B, 1)
    scores = _scores(problem, log_probs, beam)
    return beam._replace(
        t=beam.t + 1,
        alive_ids=ids,
        alive_log_probs=log_probs,
        finished_ids=tf.where(ends[:, :, tf.newaxis], ids, beam.finished_ids),
        finished_scores=tf.where(ends, scores, beam.finished_scores),
        done=beam.done | ends[:, 0] | _is_last_token(problem, beam),
    )


def extend_beam(
    problem: SearchProblem, log_probs: tf.Tensor, beam: BeamState, beam_size: int, n_best: int
) -> BeamState:
    """Extends every hypothesis by one token, and keeps the best: `extend` of `search_loop`."""
    vocab_size = log_probs.shape[-1]  # V

    # The 2K best continuations. At most K of them end here, so they contain the K best that do not.
    log_probs = next_log_probs(problem, log_probs, beam)  # (B, K, V)
    log_probs += beam.alive_log_probs[:, :, tf.newaxis]
    log_probs = tf.reshape(log_probs, [-1, beam_size * vocab_size])  # (B, K * V)
    log_probs, best = tf.math.top_k(log_probs, 2 * beam_size)  # (B, 2K)
    best = tf.cast(best, tf.int64)
    beam_indices, tokens = best // vocab_size, best % vocab_size  # (B, 2K)
    ids = tf.gather(beam.alive_ids, beam_indices, batch_dims=1)  # (B, 2K, L + 1)
    ids = tf.where(_is_next_position(beam), tokens[:, :, tf.newaxis], ids)

    # Finished: the K best of the old ones, and of the K best continuations that end here. They
    # stay where a sentence is done.
    ends = tokens == END  # (B, 2K)
    is_among_best = tf.constant([True] * beam_size + [False] * beam_size)  # (2K)
    finishes = ends & is_among_best & is_possible(log_probs) & ~beam.done[:, tf.newaxis]
    scores = tf.where(finishes, _scores(problem, log_probs, beam), NEGATIVE_INFINITY)  # (B, 2K)
    scores = tf.concat([beam.finished_scores, scores], axis=1)  # (B, 3K)
    finished_ids = tf.concat([beam.finished_ids, ids], axis=1)  # (B, 3K, L + 1)
    finished_scores, chosen = tf.math.top_k(scores, beam_size)  # (B, K)
    finished_ids = tf.gather(finished_ids, chosen, batch_dims=1)  # (B, K, L + 1)

    # Alive: the K best that do not end.
    log_probs = tf.where(ends, NEGATIVE_INFINITY, log_probs)  # (B, 2K)
    alive_log_probs, chosen = tf.math.top_k(log_probs, beam_size)  # (B, K)
    alive_ids = tf.gather(ids, chosen, batch_dims=1)  # (B, K, L + 1)
    beam_indices = tf.gather(beam_indices, chosen, batch_dims=1)  # (B, K)

    # Done: where no better hypothesis can come.
    max_lengths = tf.cast(tf.gather(problem.max_lengths, beam.rows), tf.float32)  # (B)
    largest_penalty = length_penalty(max_lengths, tf.gather(problem.alpha, beam.rows))  # (B)
    best_to_come = alive_log_probs[:, 0] / largest_penalty  # (B)
    done = beam.done | (best_to_come <= finished_scores[:, n_best - 1])
    done |= _is_last_token(problem, beam)
    if beam_size == 1:
        done |= is_possible(finished_scores[:, 0])
    return beam._replace(
        t=beam.t + 1,
        alive_ids=alive_ids,
        alive_log_probs=alive_log_probs,
        beam_indices=beam_indices,
        finished_ids=finished_ids,
        finished_scores=finished_scores,
        done=done,
    )


def remove_done_sentences(beam: BeamState, results: Results) -> tuple[BeamState, Results]:
    """Moves the sentences that are done to the results; the others continue in a smaller batch.

    The loop does this when half of the sentences are done. Translating 600 sentences takes 1.27 to
    1.30 times as long without it. The results have all sentences of the first batch.
    """
    leave, stay = tf.where(beam.done)[:, 0], tf.where(~beam.done)[:, 0]
    rows = tf.gather(beam.rows, leave)[:, tf.newaxis]
    ids, scores = (
        tf.tensor_scatter_nd_update(of_all, rows, tf.gather(finished, leave))
        for of_all, finished in zip(results, (beam.finished_ids, beam.finished_scores))
    )
    t, *others = beam
    others = tf.nest.map_structure(lambda x: tf.gather(x, stay), others)
    return BeamState(t, *others), (ids, scores)


def _scores(problem: SearchProblem, log_probs: tf.Tensor, beam: BeamState) -> tf.Tensor:
    """The scores of hypotheses that end with the next token; both `[B, hypotheses]`."""
    length, alpha = tf.cast(beam.t + 1, tf.float32), tf.gather(problem.alpha, beam.rows)  # (B)
    return log_probs / length_penalty(length, alpha)[:, tf.newaxis]


def _is_last_token(problem: SearchProblem, beam: BeamState) -> tf.Tensor:
    """Whether the next token of each sentence is the last one, bool `[B]`."""
    return tf.cast(beam.t + 1, tf.int64) >= tf.gather(problem.max_lengths, beam.rows)


def _is_next_position(beam: BeamState) -> tf.Tensor:
    """Where the next token is written, bool `[L + 1]`."""
    return tf.one_hot(beam.t + 1, tf.shape(beam.alive_ids)[2], True, False, dtype=tf.bool)
