"""Logits processors: functions that change the log-probabilities of the next token.

`make_processors` makes them from the settings, and `beam_search.next_log_probs` applies them at
each step of a search. Each takes

- log_probs: float32 `[B, K, V]`, log p(next token) of each hypothesis;
- ids: int64 `[B, K, L + 1]`, the start token, the tokens so far, and padding;
- t: int32 scalar, the number of tokens so far, without the start token;
- the value of its setting, a number or a tensor `[B, 1, 1]`.

It returns the log-probabilities with which the search continues, not divided by their sum again. A
new one is a function here, its line in `PROCESSORS`, and a setting of `GenerationConfig`.

Shapes: B sentences, K hypotheses a sentence, t tokens so far, L longest output, V vocabulary,
N tokens to change.
"""

from collections.abc import Callable

import tensorflow as tf

from tf_transformer.config import DEFAULT_GENERATION, GenerationConfig
from tf_transformer.decoding.beam_search import LogitsProcessor
from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.special_tokens import END, PAD


def penalize_repetition(
    log_probs: tf.Tensor, ids: tf.Tensor, t: tf.Tensor, penalty: float | tf.Tensor
) -> tf.Tensor:
    """Multiplies the log-probabilities of tokens that have occurred (Keskar et al. 2019, Sec. 4.1).

    The paper divides logits, which can have both signs. Here, as in the beam search of Hugging Face
    transformers, it is the log-probability, which is never positive: log p' = penalty log p. The
    result does not change when a constant is added to all logits.

    Args:
      penalty: more than 1 makes these tokens less probable, less than 1 more probable.
    """
    penalized = tf.gather(log_probs, ids, batch_dims=2) * penalty  # (B, K, L + 1)
    return _replace_tokens(log_probs, ids, penalized)


def exclude_repeated_ngrams(
    log_probs: tf.Tensor, ids: tf.Tensor, t: tf.Tensor, size: int
) -> tf.Tensor:
    """Excludes the tokens that would repeat an n-gram (Paulus et al. 2017, Sec. 2.5).

    Where the last n - 1 tokens occurred before, the token that followed them is impossible. The
    start token makes no repetition: it occurs once.

    Args:
      size: n, at least 1.
    """
    number = tf.maximum(tf.shape(ids)[2] - size + 1, 0)  # N, n-grams and windows with padding
    followers = ids[:, :, size - 1 :]  # (B, K, N), the last token of each
    repeats = tf.ones_like(followers, tf.bool)
    for i in range(size - 1):
        # The position of token i of the n - 1 last ones. Before there are as many, one of them is
        # the start token at another place, which is no repetition.
        last = tf.maximum(t - (size - 2) + i, 0)
        repeats &= ids[:, :, i : i + number] == ids[:, :, last, tf.newaxis]  # (B, K, N)
    excluded = tf.where(repeats, followers, tf.constant(PAD, tf.int64))  # PAD is impossible anyway
    return _replace_tokens(log_probs, excluded, tf.fill(tf.shape(excluded), NEGATIVE_INFINITY))


def require_length(
    log_probs: tf.Tensor, ids: tf.Tensor, t: tf.Tensor, length: int | tf.Tensor
) -> tf.Tensor:
    """Excludes the end token from outputs that are shorter than `length`, without the end token.

    At the longest output only the end token can come, whatever the processors say: the shorter of
    both limits holds.
    """
    end, padding = tf.constant(END, tf.int64), tf.constant(PAD, tf.int64)
    excluded = tf.where(t < length, end, padding)  # PAD is impossible anyway
    excluded = tf.broadcast_to(excluded, [*tf.unstack(tf.shape(ids)[:2]), 1])  # (B, K, 1)
    return _replace_tokens(log_probs, excluded, tf.fill(tf.shape(excluded), NEGATIVE_INFINITY))


def _replace_tokens(log_probs: tf.Tensor, tokens: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Replaces the log-probabilities `[B, K, V]` of tokens `[B, K, N]` by values `[B, K, N]`.

    A token that occurs several times has the same value each time.
    """
    shape = tf.shape(log_probs)
    rows = tf.cast(tf.range(shape[0] * shape[1]), tf.int64)
    rows = tf.reshape(rows, [shape[0], shape[1], 1])  # (B, K, 1)
    flat = tf.reshape(log_probs, [-1])
    places = tf.reshape(rows * log_probs.shape[2] + tokens, [-1, 1])
    flat = tf.tensor_scatter_nd_update(flat, places, tf.reshape(values, [-1]))
    return tf.reshape(flat, shape)


# The settings of `GenerationConfig` -> the processor. In this order they are applied; with the
# default of its setting, a processor is off.
PROCESSORS: dict[str, Callable[..., tf.Tensor]] = {
    "repetition_penalty": penalize_repetition,
    "no_repeat_ngram_size": exclude_repeated_ngrams,
    "min_length": require_length,
}


def make_processors(generation: GenerationConfig, **values: tf.Tensor) -> list[LogitsProcessor]:
    """Returns the logits processors that are not off.

    Args:
      **values: settings as tensors `[B]`, a value for each sentence, which replace `generation`.
    """
    return [
        _with_value(function, values.get(name, getattr(generation, name)))
        for name, function in PROCESSORS.items()
        if name in values or getattr(generation, name) != getattr(DEFAULT_GENERATION, name)
    ]


def _with_value(function: Callable[..., tf.Tensor], value: float | tf.Tensor) -> LogitsProcessor:
    def process(log_probs: tf.Tensor, ids: tf.Tensor, t: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        if not tf.is_tensor(value):
            return function(log_probs, ids, t, value)
        return function(log_probs, ids, t, tf.gather(value, rows)[:, tf.newaxis, tf.newaxis])

    return process
