"""Sampling: outputs drawn from the model's distribution, token by token; over a step function.

At each step the next token is drawn from p(token | tokens before), which three settings change in
this order:

- temperature T: p is softmax(logits / T);
- top-k: the k most probable tokens are kept (Fan et al. 2018);
- top-p, the nucleus: the fewest most probable tokens whose probabilities sum to at least p are kept
  (Holtzman et al. 2020).

What is kept is divided by its sum. A token is drawn by one uniform number u: it is the first one
whose cumulative probability is more than u.

The random numbers of a sentence come from its own seed, so its samples do not depend on the other
sentences of the batch.

Shapes: B sentences, n samples of each, V vocabulary, C kept tokens, L longest output.
"""

from typing import Any

import tensorflow as tf

from tf_transformer.config import SamplingConfig
from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.decoding.search import (
    BeamState,
    SearchResult,
    StepFunction,
    follow,
    forced_tokens,
)
from tf_transformer.special_tokens import END, PAD, START


def sample(
    step: StepFunction,
    state: Any,
    max_lengths: tf.Tensor,
    seeds: tf.Tensor,
    n_best: int,
    sampling: SamplingConfig,
    alpha: float = 0.6,
    prefix: tf.Tensor | None = None,
) -> SearchResult:
    """Draws outputs from the model's distribution (ancestral sampling).

    Args:
      step: a step function, called with K = 1 for B * n sentences at first.
      state: its first state for B sentences.
      max_lengths: int32 `[B]`, the longest output of each sentence, with the end token.
      seeds: int32 `[B, 2]`, of the random numbers of each sentence.
      n_best: n, samples of each sentence.
      sampling: a `SamplingConfig`.
      alpha: of the length penalty; it changes the scores only.
      prefix: as for `greedy_search`.
    Returns: a `SearchResult` in the order of drawing, in which an output can occur several times.
      The scores are those of a search: of the model's distribution, at temperature 1 with all
      tokens.
    """
    max_lengths = tf.maximum(max_lengths, 1)
    numbers = _uniform_numbers(seeds, max_lengths, n_best)  # (B * n, L)
    if prefix is not None:
        prefix = tf.repeat(prefix, n_best, axis=0)
    state = tf.nest.map_structure(lambda leaf: tf.repeat(leaf, n_best, axis=0), state)

    def choose(logits: tf.Tensor, beam: BeamState) -> tuple[tf.Tensor, tf.Tensor]:
        logits = tf.cast(logits, tf.float32)  # (B * n, 1, V)
        tokens = _draw(logits[:, 0], tf.gather(numbers[:, beam.t], beam.rows), sampling)
        if prefix is not None:
            forced = forced_tokens(prefix, beam)
            tokens = tf.where(forced == PAD, tokens, forced)
        tokens = tf.where(beam.t + 1 >= beam.max_lengths, END, tokens)[:, tf.newaxis, tf.newaxis]
        return tf.gather(tf.nn.log_softmax(logits), tokens, batch_dims=2), tokens

    result = follow(step, state, tf.repeat(max_lengths, n_best), choose, alpha)
    ids = tf.reshape(result.ids, [-1, n_best, tf.shape(result.ids)[2]])
    scores = tf.reshape(result.scores, [-1, n_best])
    return SearchResult(ids, scores, tf.reshape(result.lengths, [-1, n_best]))


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


def _draw(logits: tf.Tensor, numbers: tf.Tensor, sampling: SamplingConfig) -> tf.Tensor:
    """Draws a token for each row, but not padding or the start token.

    Args:
      logits: float32 `[N, V]`.
      numbers: float32 `[N]`, from [0, 1).
      sampling: a `SamplingConfig`.
    Returns: int32 `[N]`.
    """
    vocabulary = tf.range(logits.shape[-1])  # (V)
    excluded = (vocabulary == PAD) | (vocabulary == START)
    logits = tf.where(excluded, NEGATIVE_INFINITY, logits / sampling.temperature)
    tokens = None
    if sampling.top_k or sampling.top_p < 1:
        kept = min(sampling.top_k or logits.shape[-1], logits.shape[-1])
        logits, tokens = tf.math.top_k(logits, kept)  # (N, C), most probable first
    p = tf.nn.softmax(logits)  # (N, C)
    if sampling.top_p < 1:
        before = tf.cumsum(p, axis=-1, exclusive=True)  # (N, C), of more probable tokens
        in_nucleus = (before < sampling.top_p) | (tf.range(p.shape[-1]) == 0)
        p = tf.where(in_nucleus, p, 0.0)
    cumulative = tf.cumsum(p, axis=-1)
    above = cumulative > numbers[:, tf.newaxis] * cumulative[:, -1:]
    first = tf.argmax(above & (p > 0), axis=-1, output_type=tf.int32)  # (N)
    return first if tokens is None else tf.gather(tokens, first, batch_dims=1)
