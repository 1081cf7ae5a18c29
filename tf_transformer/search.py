"""Greedy and beam search (Sec. 6.1) over a step function; nothing here knows a model.

A step function `step(ids, position, state)` takes the last word of each of N hypotheses, int32 `[N]`, its position (0 for the start
symbol), and a state: any structure of tensors whose first dimension is N. It returns logits `[N, V]` for the next word and the new
state. Shapes: B sentences, K hypotheses a sentence (the beam), N = B x K, t words so far, V vocabulary.
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
    """What the loop of beam search carries. Alive and finished hypotheses are kept apart."""

    t: tf.Tensor  # int32 [], words so far
    alive_ids: tf.Tensor  # int32 [B, K, t]
    alive_log_probs: tf.Tensor  # float32 [B, K]
    finished_ids: tf.Tensor  # int32 [B, K, t]
    finished_scores: tf.Tensor  # float32 [B, K], best first
    done: tf.Tensor  # bool [B]
    state: Any  # of the step function, [N, ...]


def length_penalty(length, alpha):
    """lp(L) = ((5 + L) / 6)^alpha (Wu et al. 2016, Eq. 14), float32."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


def greedy_search(step, state, limits, alpha=0.6):
    """Takes the likeliest word at each step.

    Args:
      step: a step function, with N = B.
      state: its first state.
      limits: int32 `[B]`, the longest output of each sentence, the end symbol included.
      alpha: of the length penalty, for the score only.
    Returns: a `SearchResult` with n = 1.
    """
    rows = tf.shape(limits)[0]

    def body(t, ids, log_probs, done, state):
        logits, state = step(ids[:, -1], t, state)  # (B, V)
        words = _allowed(logits[:, tf.newaxis], t, limits)[:, 0]  # (B, V)
        word = tf.argmax(words, axis=-1, output_type=tf.int32)  # (B)
        gain = tf.gather(words, word, batch_dims=1)  # (B)
        word = tf.where(done, PAD, word)
        log_probs += tf.where(done, 0.0, gain)
        return t + 1, tf.concat([ids, word[:, tf.newaxis]], axis=1), log_probs, done | (word == END) | (t + 1 >= limits), state

    first = (0, tf.fill([rows, 1], START), tf.zeros([rows]), tf.zeros([rows], tf.bool), state)
    going = lambda t, ids, log_probs, done, state: ~tf.reduce_all(done)  # noqa: E731
    _, ids, log_probs, _, _ = tf.while_loop(going, body, first, shape_invariants=_any_shape(first))
    ids = ids[:, 1:]  # without the start symbol (B, L)
    lengths = _lengths(ids)
    scores = log_probs / length_penalty(lengths, alpha)
    return SearchResult(ids[:, tf.newaxis], scores[:, tf.newaxis], lengths[:, tf.newaxis])


def beam_search(step, state, limits, beam_size=4, alpha=0.6, n_best=1):
    """Keeps the `beam_size` likeliest beginnings of each sentence (Sec. 6.1; Wu et al. 2016).

    A hypothesis finishes when the end symbol is among the K best continuations. A sentence is done when nothing alive can still come
    among its `n_best` finished ones: log-probabilities only fall, and no penalty is larger than that of the limit. With K = 1 it is done
    when its one hypothesis ends, which makes it greedy search.

    Args:
      step: a step function, with N = B x beam_size.
      state: its first state.
      limits: int32 `[B]`, the longest output of each sentence, the end symbol included.
      beam_size: K.
      alpha: of the length penalty, at least 0.
      n_best: hypotheses to return, at most K.
    Returns: a `SearchResult` with n = n_best.
    """

    def body(*beam):
        return tuple(_grow(step, Beam(*beam), limits, beam_size, alpha, n_best))

    first = tuple(_first_beam(state, tf.shape(limits)[0], beam_size))
    going = lambda *beam: ~tf.reduce_all(Beam(*beam).done)  # noqa: E731
    last = Beam(*tf.while_loop(going, body, first, shape_invariants=_any_shape(first)))
    ids = last.finished_ids[:, :n_best]  # (B, n, L)
    return SearchResult(ids, last.finished_scores[:, :n_best], _lengths(ids))


def _first_beam(state, rows, beam_size):
    """One hypothesis without a word for each sentence; the other places of the beam are impossible."""
    empty = tf.zeros([rows, beam_size, 0], tf.int32)
    only_one = tf.constant([[0.0] + [IMPOSSIBLE] * (beam_size - 1)])  # (1, K)
    none = tf.fill([rows, beam_size], IMPOSSIBLE)
    return Beam(tf.constant(0), empty, tf.tile(only_one, [rows, 1]), empty, none, tf.zeros([rows], tf.bool), state)


def _grow(step, beam, limits, beam_size, alpha, n_best):
    """One word more for every hypothesis."""
    rows = tf.shape(limits)[0]
    start = tf.fill([rows, beam_size, 1], START)
    last = tf.concat([start, beam.alive_ids], axis=2)[:, :, -1]  # (B, K)
    logits, state = step(tf.reshape(last, [-1]), beam.t, beam.state)  # (N, V)
    vocab_size = tf.shape(logits)[-1]
    words = _allowed(tf.reshape(logits, [rows, beam_size, vocab_size]), beam.t, limits)  # (B, K, V)

    # The 2K best continuations: at most K of them end here, so K that go on are among them.
    log_probs = tf.reshape(beam.alive_log_probs[:, :, tf.newaxis] + words, [rows, beam_size * vocab_size])  # (B, K*V)
    log_probs, best = tf.math.top_k(log_probs, 2 * beam_size)  # (B, 2K)
    parent, word = best // vocab_size, best % vocab_size  # (B, 2K)
    ids = tf.concat([tf.gather(beam.alive_ids, parent, batch_dims=1), word[:, :, tf.newaxis]], axis=2)  # (B, 2K, t+1)
    ended = word == END  # (B, 2K)

    # Finished: the old ones and those that end now, among the K best of a sentence that is not done.
    possible = log_probs > IMPOSSIBLE / 2
    ends_now = ended & possible & (tf.range(2 * beam_size) < beam_size) & ~beam.done[:, tf.newaxis]
    scores = tf.where(ends_now, log_probs / length_penalty(beam.t + 1, alpha), IMPOSSIBLE)  # (B, 2K)
    old_ids = tf.pad(beam.finished_ids, [[0, 0], [0, 0], [0, 1]], constant_values=PAD)  # (B, K, t+1)
    scores, best = tf.math.top_k(tf.concat([beam.finished_scores, scores], axis=1), beam_size)  # (B, K)
    finished_ids = tf.gather(tf.concat([old_ids, ids], axis=1), best, batch_dims=1)  # (B, K, t+1)

    # Alive: the K best of those that go on. The state follows its hypothesis.
    alive_log_probs, best = tf.math.top_k(tf.where(ended, IMPOSSIBLE, log_probs), beam_size)  # (B, K)
    alive_ids = tf.gather(ids, best, batch_dims=1)  # (B, K, t+1)
    parent = tf.gather(parent, best, batch_dims=1) + tf.range(rows)[:, tf.newaxis] * beam_size  # (B, K), rows of N
    state = tf.nest.map_structure(lambda leaf: tf.gather(leaf, tf.reshape(parent, [-1])), state)

    best_to_come = alive_log_probs[:, 0] / length_penalty(limits, alpha)  # (B)
    done = beam.done | (best_to_come <= scores[:, n_best - 1]) | (beam.t + 1 >= limits)
    if beam_size == 1:
        done |= scores[:, 0] > IMPOSSIBLE / 2
    return Beam(beam.t + 1, alive_ids, alive_log_probs, finished_ids, scores, done, state)


def _allowed(logits, t, limits):
    """logits `[B, K, V]` -> log-probabilities, without padding and start symbols, and with the end symbol alone at the limit."""
    log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))
    word = tf.range(tf.shape(logits)[-1])  # (V)
    at_limit = (t + 1 >= limits)[:, tf.newaxis, tf.newaxis]  # (B, 1, 1)
    allowed = (word == END) | ((word != PAD) & (word != START) & ~at_limit)  # (B, 1, V)
    return tf.where(allowed, log_probs, IMPOSSIBLE)


def _lengths(ids):
    return tf.reduce_sum(tf.cast(ids != PAD, tf.int32), axis=-1)


def _any_shape(loop_variables):
    """Shape invariants that let every dimension grow."""
    return tf.nest.map_structure(lambda x: tf.TensorShape([None] * len(tf.convert_to_tensor(x).shape)), loop_variables)
