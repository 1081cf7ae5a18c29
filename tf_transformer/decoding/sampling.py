"""Sampling: outputs drawn from the model's distribution, token by token; over a step function.

The loop is `beam_search.search_loop`, and `inference.sample_translations` gives it a model. At each
step the next token is drawn from p(token | tokens before), which three settings change in this
order:

- temperature T: p is softmax(log p / T);
- top-k: the k most probable tokens are kept (Fan et al. 2018);
- top-p, the nucleus: the fewest most probable tokens whose probabilities sum to at least p are kept
  (Holtzman et al. 2020).

Of equal log-probabilities, top-k and top-p keep all or none. What is kept is divided by its sum. A
token is drawn by one uniform number u: it is the first one whose cumulative probability is more
than u. The numbers of a sentence come from its own seed, so its samples do not depend on the other
sentences of the batch.

Shapes: B sentences, n samples of each, V vocabulary, C tokens that are sorted, L longest output.
"""

from typing import Any

import tensorflow as tf

from tf_transformer.decoding.beam_search import (
    BeamState,
    SearchProblem,
    SearchResult,
    append_tokens,
    next_log_probs,
    search_loop,
)
from tf_transformer.decoding.scores import NEGATIVE_INFINITY


def sample(
    problem: SearchProblem,
    seeds: tf.Tensor,
    n_best: int = 1,
    temperature: float | tf.Tensor = 1.0,
    top_k: int | tf.Tensor = 0,
    top_p: float | tf.Tensor = 1.0,
) -> SearchResult:
    """Draws outputs from the model's distribution (ancestral sampling).

    Args:
      problem: of B sentences; its step function is called with B * n sentences and K = 1. The
        processors come before the settings. It has no fixed length.
      seeds: int32 `[B, 2]`, of the random numbers of each sentence.
      n_best: n, samples of each sentence.
      temperature, top_k, top_p: as in `SamplingConfig`, or tensors `[B]`.
    Returns: a `SearchResult` in the order of drawing, in which an output can occur several times.
      The scores are of the model's distribution, at temperature 1 with all tokens, as in a search.
    """
    max_lengths = tf.maximum(problem.max_lengths, 1)
    uniform_numbers = _uniform_numbers(seeds, max_lengths, n_best)  # (B * n, L)

    def of_samples(option: Any, dtype: tf.DType) -> tf.Tensor:
        option = tf.broadcast_to(tf.cast(option, dtype), tf.shape(max_lengths))
        return tf.repeat(option, n_best)  # (B * n)

    temperatures = of_samples(temperature, tf.float32)
    top_ks, top_ps = of_samples(top_k, tf.int64), of_samples(top_p, tf.float32)

    def extend(problem: SearchProblem, log_probs: tf.Tensor, beam: BeamState) -> BeamState:
        options = uniform_numbers[:, beam.t], temperatures, top_ks, top_ps
        number, temperature, top_k, top_p = (tf.gather(each, beam.rows) for each in options)
        scaled = next_log_probs(problem, log_probs, beam)[:, 0] / temperature[:, tf.newaxis]
        kept = scaled >= _smallest_kept(scaled, top_k, top_p)  # (B * n, V)
        p = tf.nn.softmax(tf.where(kept, scaled, NEGATIVE_INFINITY))  # (B * n, V)
        cumulative = tf.cumsum(p, axis=-1)
        above = cumulative > number[:, tf.newaxis] * cumulative[:, -1:]
        tokens = tf.argmax(above & (p > 0), axis=-1)[:, tf.newaxis]  # (B * n, 1)
        return append_tokens(problem, log_probs, beam, tokens)

    ids, *others = search_loop(problem.repeat(n_best), extend)  # (B * n, 1, ...)
    ids = tf.reshape(ids, [-1, n_best, tf.shape(ids)[2]])  # (B, n, L)
    return SearchResult(ids, *(tf.reshape(x, [-1, n_best]) for x in others))


def _uniform_numbers(seeds: tf.Tensor, max_lengths: tf.Tensor, n_best: int) -> tf.Tensor:
    """A number from [0, 1) for each token of each sample, float32 `[B * n, L]`."""
    longest = tf.reduce_max(max_lengths)  # L

    def of_sentence(seed_and_length: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        seed, length = seed_and_length
        numbers = tf.random.stateless_uniform([n_best, length], seed, alg="philox")
        return tf.pad(numbers, [[0, 0], [0, longest - length]])  # (n, L)

    signature = tf.TensorSpec([n_best, None], tf.float32)
    numbers = tf.map_fn(of_sentence, (seeds, max_lengths), fn_output_signature=signature)
    return tf.reshape(numbers, [-1, longest])


def _smallest_kept(log_probs: tf.Tensor, top_k: tf.Tensor, top_p: tf.Tensor) -> tf.Tensor:
    """The smallest log-probability that top-k and top-p keep: `[N, V]`, `[N]`, `[N]` -> `[N, 1]`.

    Only as many tokens are sorted as some row needs: sorting a large vocabulary takes longer than
    the rest.
    """
    vocab_size, one = tf.constant(log_probs.shape[-1], tf.int64), tf.constant(1, tf.int64)
    keeps_all = (top_k == 0) & (top_p >= 1)  # (N)
    top_k = tf.where(top_k == 0, vocab_size, tf.minimum(top_k, vocab_size))  # (N)
    number = tf.reduce_max(tf.where(keeps_all, one, top_k))  # C
    best, _ = tf.math.top_k(log_probs, tf.cast(number, tf.int32))  # (N, C), largest first
    rank = tf.range(number)  # (C)
    is_in_top_k = rank < top_k[:, tf.newaxis]  # (N, C)
    p = tf.nn.softmax(tf.where(is_in_top_k, best, NEGATIVE_INFINITY))  # (N, C)
    before = tf.cumsum(p, axis=-1, exclusive=True)  # (N, C), of more probable tokens
    kept = (rank == 0) | (is_in_top_k & (before < top_p[:, tf.newaxis]))  # (N, C)
    smallest = tf.reduce_min(tf.where(kept, best, best[:, :1]), axis=-1)  # (N)
    return tf.where(keeps_all, NEGATIVE_INFINITY, smallest)[:, tf.newaxis]
