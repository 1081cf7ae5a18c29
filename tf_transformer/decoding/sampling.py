"""Sampling: outputs drawn from the model's distribution, token by token; over a step function.

At each step the next token is drawn from p(token | tokens before), which three settings change in
this order:

- temperature T: p is softmax(logits / T);
- top-k: the k most probable tokens are kept (Fan et al. 2018);
- top-p, the nucleus: the fewest most probable tokens whose probabilities sum to at least p are kept
  (Holtzman et al. 2020).

What is kept is divided by its sum. A token is drawn by one uniform number u: it is the first one
whose cumulative probability is more than u.

Of equal logits, top-k and top-p keep all or none.

The random numbers of a sentence come from its own seed, so its samples do not depend on the other
sentences of the batch.

Shapes: B sentences, n samples of each, V vocabulary, C tokens that are sorted, L longest output.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.config import SamplingConfig
from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.decoding.search import (
    Adjust,
    StepFunction,
    follow,
    forced_tokens,
    padded_prefix,
)
from tf_transformer.decoding.search_loop import (
    BeamState,
    SearchResult,
    column,
    is_last_token,
    of_rows,
)
from tf_transformer.special_tokens import END, PAD, START


class RowSampling(NamedTuple):
    """The settings of `SamplingConfig`, for each sentence."""

    temperature: tf.Tensor  # float32 [B]
    top_k: tf.Tensor  # int32 or int64 [B]
    top_p: tf.Tensor  # float32 [B]


def sample(
    step: StepFunction,
    state: Any,
    max_lengths: tf.Tensor,
    seeds: tf.Tensor,
    n_best: int,
    sampling: SamplingConfig | RowSampling,
    alpha: float | tf.Tensor = 0.6,
    prefix: tf.Tensor | None = None,
    adjust: Adjust | None = None,
) -> SearchResult:
    """Draws outputs from the model's distribution (ancestral sampling).

    Args:
      step: a step function, called with K = 1 for B * n sentences at first.
      state: its first state for B sentences.
      max_lengths: int32 `[B]`, the longest output of each sentence, with the end token.
      seeds: int32 `[B, 2]`, of the random numbers of each sentence.
      n_best: n, samples of each sentence.
      sampling: a `SamplingConfig`, or a `RowSampling`.
      alpha: of the length penalty; it changes the scores only.
      prefix: as for `greedy_search`.
      adjust: of `decoding.controls`, before the settings; None for the model's log-probabilities.
    Returns: a `SearchResult` in the order of drawing, in which an output can occur several times.
      The scores are those of a search: of the model's distribution, at temperature 1 with all
      tokens.
    """
    max_lengths = tf.maximum(max_lengths, 1)
    numbers = _uniform_numbers(seeds, max_lengths, n_best)  # (B * n, L)
    if prefix is not None:
        prefix = tf.repeat(padded_prefix(prefix), n_best, axis=0)
    state = tf.nest.map_structure(lambda leaf: tf.repeat(leaf, n_best, axis=0), state)
    if isinstance(sampling, RowSampling):
        sampling = RowSampling(*(tf.repeat(option, n_best) for option in sampling))
        sampling = sampling._replace(top_k=tf.cast(sampling.top_k, tf.int64))

    def choose(logits: tf.Tensor, beam: BeamState) -> tuple[tf.Tensor, tf.Tensor]:
        logits = tf.cast(logits, tf.float32)  # (B * n, 1, V)
        settings = _of_rows(sampling, beam)
        adjusted = logits
        if adjust is not None:
            adjusted = adjust(tf.nn.log_softmax(logits), beam.alive_ids, beam.t)
        tokens = _draw(adjusted[:, 0], tf.gather(numbers[:, beam.t], beam.rows), settings)
        if prefix is not None:
            forced = forced_tokens(prefix, beam)
            tokens = tf.where(forced == PAD, tokens, forced)
        tokens = tf.where(is_last_token(beam), tf.constant(END, tf.int64), tokens)
        tokens = tokens[:, tf.newaxis, tf.newaxis]
        return tf.gather(tf.nn.log_softmax(logits), tokens, batch_dims=2), tokens

    result = follow(step, state, tf.repeat(max_lengths, n_best), choose, alpha)
    ids = tf.reshape(result.ids, [-1, n_best, tf.shape(result.ids)[2]])
    scores = tf.reshape(result.scores, [-1, n_best])
    return SearchResult(ids, scores, tf.reshape(result.lengths, [-1, n_best]))


def _of_rows(
    sampling: SamplingConfig | RowSampling, beam: BeamState
) -> SamplingConfig | RowSampling:
    """The settings of the sentences left in the loop; those of a `RowSampling` are `[B * n, 1]`."""
    if isinstance(sampling, RowSampling):
        return RowSampling(*(column(of_rows(option, beam)) for option in sampling))
    return sampling


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


def _draw(
    logits: tf.Tensor, numbers: tf.Tensor, sampling: SamplingConfig | RowSampling
) -> tf.Tensor:
    """Draws a token for each row, but not padding or the start token.

    Args:
      logits: float32 `[N, V]`.
      numbers: float32 `[N]`, from [0, 1).
      sampling: the settings; those of a `RowSampling` have shape `[N, 1]`.
    Returns: int64 `[N]`.
    """
    vocabulary = tf.range(logits.shape[-1])  # (V)
    excluded = (vocabulary == PAD) | (vocabulary == START)
    logits = tf.where(excluded, NEGATIVE_INFINITY, logits / sampling.temperature)
    if isinstance(sampling, RowSampling) or sampling.top_k or sampling.top_p < 1:
        smallest = _smallest_kept(logits, sampling)
        logits = tf.where(logits >= smallest, logits, NEGATIVE_INFINITY)
    p = tf.nn.softmax(logits)  # (N, V)
    cumulative = tf.cumsum(p, axis=-1)
    above = cumulative > numbers[:, tf.newaxis] * cumulative[:, -1:]
    return tf.argmax(above & (p > 0), axis=-1)


def _smallest_kept(logits: tf.Tensor, sampling: SamplingConfig | RowSampling) -> tf.Tensor:
    """The smallest logit that top-k and top-p keep, `[N, 1]`; tokens that are equal to it stay."""
    top_k, top_p, size = sampling.top_k, sampling.top_p, logits.shape[-1]
    if isinstance(sampling, RowSampling):
        keeps_all = (top_k == 0) & (top_p >= 1)  # (N, 1)
        top_k = tf.where(top_k == 0, tf.constant(size, tf.int64), top_k)  # (N, 1)

        def of_some() -> tf.Tensor:
            smallest = _smallest_of_nucleus(logits, size, top_k, top_p)
            return tf.where(keeps_all, NEGATIVE_INFINITY, smallest)

        def of_none() -> tf.Tensor:  # sorting a large vocabulary takes longer than the rest
            return tf.fill(tf.shape(top_p), NEGATIVE_INFINITY)

        return tf.cond(tf.reduce_all(keeps_all), of_none, of_some)
    top_k = min(top_k or size, size)
    return _smallest_of_nucleus(logits, top_k, top_k, top_p)


def _smallest_of_nucleus(
    logits: tf.Tensor, number: int, top_k: int | tf.Tensor, top_p: float | tf.Tensor
) -> tf.Tensor:
    """The same, among the `number` largest logits."""
    best, _ = tf.math.top_k(logits, number)  # (N, C), largest first
    rank = tf.range(number, dtype=tf.int64)
    p = tf.nn.softmax(tf.where(rank < top_k, best, NEGATIVE_INFINITY))  # (N, C)
    before = tf.cumsum(p, axis=-1, exclusive=True)  # (N, C), of more probable tokens
    kept = (rank == 0) | ((rank < top_k) & (before < top_p))  # (N, C)
    return tf.reduce_min(tf.where(kept, best, best[:, :1]), axis=-1, keepdims=True)
