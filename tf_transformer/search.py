"""Greedy and beam search (Sec. 6.1) over a step function; nothing here knows a model.

A step function `step(ids, position, parents, state)` makes one word more for K hypotheses of each of B sentences. It takes their last
words, int32 `[B, K]`, at `position` (0 for the start symbol); `parents`, int32 `[B, K]`: which of the K hypotheses of the step before
each of them goes on from; and a state as that step left it, any structure of tensors whose first dimension is B. It returns logits
`[B, K, V]` for the next word and the new state. So a state can follow its hypotheses, or keep still and remember who follows whom.

Shapes: B sentences, K hypotheses a sentence (the beam), t words so far, V vocabulary, n hypotheses wanted, L longest output.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.config import END, PAD, START

IMPOSSIBLE = -1e9  # log-probability of what cannot be


class SearchResult(NamedTuple):
    """The best hypotheses of each sentence, best first."""

    ids: tf.Tensor  # int32 [B, n, L], ending with the end symbol, then padding
    scores: tf.Tensor  # float32 [B, n], log-probability / length penalty; IMPOSSIBLE where there are fewer than n
    lengths: tf.Tensor  # int32 [B, n], with the end symbol


class Beam(NamedTuple):
    """What the loop of a search carries. Alive and finished hypotheses are kept apart; sentences that are done leave."""

    t: tf.Tensor  # int32 [], words so far
    rows: tf.Tensor  # int32 [B], the number of each sentence in the batch
    limits: tf.Tensor  # int32 [B], longest outputs
    alive_ids: tf.Tensor  # int32 [B, K, t + 1], with the start symbol
    alive_log_probs: tf.Tensor  # float32 [B, K]
    parents: tf.Tensor  # int32 [B, K], where each alive one stood a step before
    finished_ids: tf.Tensor  # int32 [B, K, t]
    finished_scores: tf.Tensor  # float32 [B, K], best first
    done: tf.Tensor  # bool [B]
    state: Any  # of the step function, [B, ...]


def length_penalty(length, alpha):
    """lp(L) = ((5 + L) / 6)^alpha (Wu et al. 2016, Eq. 14), float32."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


def greedy_search(step, state, limits, alpha=0.6):
    """Takes the likeliest word at each step.

    Args:
      step: a step function, with K = 1.
      state: its first state.
      limits: int32 `[B]`, the longest output of each sentence, the end symbol included.
      alpha: of the length penalty, for the score only.
    Returns: a `SearchResult` with n = 1.
    """

    def grow(beam):
        logits, state = step(beam.alive_ids[:, :, -1], beam.t, beam.parents, beam.state)  # (B, 1, V)
        log_probs, words = _continuations(logits, beam.t, beam.limits, 1)  # (B, 1, 1)
        log_probs = beam.alive_log_probs + log_probs[:, :, 0]  # (B, 1)
        alive_ids = tf.concat([beam.alive_ids, words], axis=2)  # (B, 1, t + 2)
        ended = (words[:, 0, 0] == END) & ~beam.done  # (B)
        old_ids = tf.pad(beam.finished_ids, [[0, 0], [0, 0], [0, 1]], constant_values=PAD)
        return beam._replace(
            t=beam.t + 1,
            alive_ids=alive_ids,
            alive_log_probs=log_probs,
            finished_ids=tf.where(ended[:, tf.newaxis, tf.newaxis], alive_ids[:, :, 1:], old_ids),
            finished_scores=tf.where(ended[:, tf.newaxis], log_probs / length_penalty(beam.t + 1, alpha), beam.finished_scores),
            done=beam.done | ended | (beam.t + 1 >= beam.limits),
            state=state,
        )

    return _search(grow, state, limits, 1, 1)


def beam_search(step, state, limits, beam_size=4, alpha=0.6, n_best=1):
    """Keeps the `beam_size` likeliest beginnings of each sentence (Sec. 6.1; Wu et al. 2016).

    A hypothesis finishes when the end symbol is among the K best continuations. A sentence is done when nothing alive can still come
    among its `n_best` finished ones: log-probabilities only fall, and no penalty is larger than that of the limit. With K = 1 it is done
    when its one hypothesis ends, which makes it greedy search.

    Args:
      step: a step function, with K = beam_size.
      state: its first state.
      limits: int32 `[B]`, the longest output of each sentence, the end symbol included.
      beam_size: K.
      alpha: of the length penalty, at least 0.
      n_best: hypotheses to return, at most K.
    Returns: a `SearchResult` with n = n_best.
    """
    return _search(lambda beam: _grow(step, beam, beam_size, alpha, n_best), state, limits, beam_size, n_best)


def _grow(step, beam, beam_size, alpha, n_best):
    """One word more for every hypothesis."""
    logits, state = step(beam.alive_ids[:, :, -1], beam.t, beam.parents, beam.state)  # (B, K, V)
    log_probs, words = _continuations(logits, beam.t, beam.limits, 2 * beam_size)  # (B, K, C)
    each = tf.shape(words)[2]  # C

    # The 2K best continuations: at most K of them end here, so K that go on are among them.
    log_probs = beam.alive_log_probs[:, :, tf.newaxis] + log_probs  # (B, K, C)
    log_probs, best = tf.math.top_k(tf.reshape(log_probs, [-1, beam_size * each]), 2 * beam_size)  # (B, 2K)
    word = tf.gather(tf.reshape(words, [-1, beam_size * each]), best, batch_dims=1)  # (B, 2K)
    parents = best // each  # (B, 2K)
    ids = tf.concat([tf.gather(beam.alive_ids, parents, batch_dims=1), word[:, :, tf.newaxis]], axis=2)  # (B, 2K, t + 2)
    ended = word == END  # (B, 2K)

    # Finished: the old ones and those that end now, among the K best of a sentence that is not done.
    possible = log_probs > IMPOSSIBLE / 2
    ends_now = ended & possible & (tf.range(2 * beam_size) < beam_size) & ~beam.done[:, tf.newaxis]
    scores = tf.where(ends_now, log_probs / length_penalty(beam.t + 1, alpha), IMPOSSIBLE)  # (B, 2K)
    old_ids = tf.pad(beam.finished_ids, [[0, 0], [0, 0], [0, 1]], constant_values=PAD)  # (B, K, t + 1)
    scores, best = tf.math.top_k(tf.concat([beam.finished_scores, scores], axis=1), beam_size)  # (B, K)
    finished_ids = tf.gather(tf.concat([old_ids, ids[:, :, 1:]], axis=1), best, batch_dims=1)  # (B, K, t + 1)

    # Alive: the K best of those that go on.
    alive_log_probs, best = tf.math.top_k(tf.where(ended, IMPOSSIBLE, log_probs), beam_size)  # (B, K)
    best_to_come = alive_log_probs[:, 0] / length_penalty(beam.limits, alpha)  # (B)
    done = beam.done | (best_to_come <= scores[:, n_best - 1]) | (beam.t + 1 >= beam.limits)
    if beam_size == 1:
        done |= scores[:, 0] > IMPOSSIBLE / 2
    return beam._replace(
        t=beam.t + 1,
        alive_ids=tf.gather(ids, best, batch_dims=1),
        alive_log_probs=alive_log_probs,
        parents=tf.gather(parents, best, batch_dims=1),
        finished_ids=finished_ids,
        finished_scores=scores,
        done=done,
        state=state,
    )


def _continuations(logits, t, limits, number):
    """The likeliest words after each hypothesis, without padding and start symbols, and with the end symbol alone at the limit.

    Returns: log-probabilities and words `[B, K, C]`, best first, C at most `number`; what is not allowed is impossible.
    """
    logits = tf.cast(logits, tf.float32)
    vocabulary = tf.range(tf.shape(logits)[-1])  # (V)
    allowed = logits + tf.where((vocabulary == PAD) | (vocabulary == START), IMPOSSIBLE, 0.0)  # (B, K, V)
    if number == 1:
        words = tf.argmax(allowed, axis=-1, output_type=tf.int32)[..., tf.newaxis]  # (B, K, 1)
    else:
        _, words = tf.math.top_k(allowed, tf.minimum(number, tf.size(vocabulary)))  # (B, K, C)
    # log p(k) = logit(k) - log sum exp(logits); that sum by the likeliest of all words, whose p is never near 0.
    p = tf.nn.softmax(logits)  # (B, K, V)
    log_sum = tf.reduce_max(logits, axis=-1, keepdims=True) - tf.math.log(tf.reduce_max(p, axis=-1, keepdims=True))  # (B, K, 1)
    at_limit, first = (t + 1 >= limits)[:, tf.newaxis, tf.newaxis], tf.range(tf.shape(words)[-1]) == 0  # (B, 1, 1), (C)
    words = tf.where(at_limit, END, words)
    log_probs = tf.gather(allowed, words, batch_dims=2) - log_sum  # (B, K, C)
    return tf.where(at_limit & ~first, IMPOSSIBLE, log_probs), words


def _search(grow, state, limits, beam_size, n_best):
    """Calls `grow`, a function of a `Beam`, until all sentences are done. When half of them are, these leave, and the others go on."""
    limits = tf.maximum(limits, 1)  # the end symbol
    longest = tf.maximum(tf.reduce_max(limits), 0)  # L
    beam = _first_beam(state, limits, beam_size)
    sentences = tf.shape(limits)[0]
    ids, scores = tf.zeros([sentences, n_best, longest], tf.int32), tf.fill([sentences, n_best], IMPOSSIBLE)

    def most_are_going(*beam):
        done = Beam(*beam).done
        return 2 * tf.reduce_sum(tf.cast(done, tf.int32)) < tf.size(done)

    def until_half_are_done(ids, scores, *beam):
        body = lambda *beam: tuple(grow(Beam(*beam)))  # noqa: E731
        beam = Beam(*tf.while_loop(most_are_going, body, beam, shape_invariants=_any_shape(beam)))
        rows = tf.boolean_mask(beam.rows, beam.done)[:, tf.newaxis]
        found = tf.pad(beam.finished_ids[:, :n_best], [[0, 0], [0, 0], [0, longest - beam.t]], constant_values=PAD)
        ids = tf.tensor_scatter_nd_update(ids, rows, tf.boolean_mask(found, beam.done))
        scores = tf.tensor_scatter_nd_update(scores, rows, tf.boolean_mask(beam.finished_scores[:, :n_best], beam.done))
        stay = tf.boolean_mask(tf.range(tf.size(beam.done)), ~beam.done)
        t, *others = beam
        return ids, scores, t, *tf.nest.map_structure(lambda leaf: tf.gather(leaf, stay), others)

    first = (ids, scores, *beam)
    going = lambda ids, scores, *beam: tf.size(Beam(*beam).rows) > 0  # noqa: E731
    ids, scores, *_ = tf.while_loop(going, until_half_are_done, first, shape_invariants=_any_shape(first))
    lengths = tf.reduce_sum(tf.cast(ids != PAD, tf.int32), axis=-1)  # (B, n)
    return SearchResult(ids[:, :, : tf.maximum(tf.reduce_max(lengths), 0)], scores, lengths)


def _first_beam(state, limits, beam_size):
    """One hypothesis without a word for each sentence; the other places of the beam are impossible."""
    rows = tf.shape(limits)[0]
    none = tf.fill([rows, beam_size], IMPOSSIBLE)
    only_one = tf.tile(tf.constant([[0.0] + [IMPOSSIBLE] * (beam_size - 1)]), [rows, 1])  # (B, K)
    parents, no_words = tf.tile(tf.range(beam_size)[tf.newaxis], [rows, 1]), tf.zeros([rows, beam_size, 0], tf.int32)
    start = tf.fill([rows, beam_size, 1], START)
    done = tf.zeros([rows], tf.bool)
    return Beam(tf.constant(0), tf.range(rows), limits, start, only_one, parents, no_words, none, done, state)


def _any_shape(loop_variables):
    """Shape invariants that let every dimension grow."""
    return tf.nest.map_structure(lambda x: tf.TensorShape([None] * len(tf.convert_to_tensor(x).shape)), loop_variables)
