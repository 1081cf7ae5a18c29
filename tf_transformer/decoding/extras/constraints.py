"""Lexical constraints: beam search among the outputs that contain given phrases.

This is dynamic beam allocation (Post and Vilar 2018). The cost of a step does not grow with the
number of constraints as in grid beam search (Hokamp and Liu 2017), because the beam stays at K:

- A phrase is *complete* where its tokens occur in a row in the hypothesis. *Met tokens* are those
  of the complete phrases, and the first tokens of one other phrase with which the hypothesis ends.
- The candidates of each hypothesis are its most probable continuations, and the tokens of all
  phrases. Those with the same number of met tokens are a *bank*. The banks share the K places of
  the beam equally; a bank with fewer candidates leaves its places to the others.
- Only a hypothesis with all phrases can end.

What is met follows from the tokens of a hypothesis, so the search keeps no further state. Phrases
can overlap in the output. A candidate is left out where the tokens that are not met yet, and the
end token, do not fit into the longest output; so every output contains its phrases.

Shapes: B sentences, K hypotheses a sentence, t tokens so far, V vocabulary, P phrases a sentence,
M tokens of the longest phrase, N = P M, C candidates, n hypotheses wanted, L longest output.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import regex
import tensorflow as tf

from tf_transformer.data.scripts import EAST_ASIAN, SOUTH_EAST_ASIAN
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.beam_search import (
    Beam,
    Candidates,
    LogitsProcessor,
    SearchResult,
    StepFunction,
    add_finished,
    first_beam,
    make_result,
    model_step,
    next_beam,
    next_log_probs,
    search_loop,
)
from tf_transformer.decoding.logits_processors import replace_tokens
from tf_transformer.decoding.scores import NEGATIVE_INFINITY, is_possible
from tf_transformer.decoding.text_batches import encode
from tf_transformer.errors import UserError
from tf_transformer.special_tokens import END, PAD, START

PhraseIds = list[list[int]]  # of one text

# The first letter is of a script without blanks between words.
_UNSPACED = regex.compile(rf"\P{{L}}*[{EAST_ASIAN}{SOUTH_EAST_ASIAN}]")


class Phrases(NamedTuple):
    """The constraints of each sentence. Where a sentence has fewer phrases, some are empty."""

    lengths: tf.Tensor  # int64 [B, P]
    tokens: tf.Tensor  # int64 [B, N], all tokens, each once, and padding
    # int64 [B, P, M, M]: at [p, j], the first j + 1 tokens of phrase p at the end of M places,
    # after padding; all padding where the phrase is shorter.
    beginnings: tf.Tensor


def constrained_beam_search(
    step: StepFunction,
    state: Any,
    max_lengths: tf.Tensor,
    phrases: tf.Tensor,
    beam_size: int = 4,
    alpha: float = 0.6,
    n_best: int = 1,
    processors: Sequence[LogitsProcessor] = (),
    fixed_length: tf.Tensor | None = None,
) -> SearchResult:
    """Searches the outputs that contain all phrases of their sentences.

    Args:
      step, state, max_lengths, beam_size, alpha, n_best, fixed_length: as for `beam_search`.
      phrases: int32 or int64 `[B, P, M]`, the phrases of each sentence, without start and end
        token, then padding; those of padding only are no constraints. A sentence has no output
        where its phrases and the end token have more tokens than its maximum length.
      processors: as for `beam_search`; the tokens of the phrases keep the log-probabilities of the
        model.
    Returns: a `SearchResult` with n = n_best.
    """

    def loop_body(beam: Beam) -> Beam:
        model_log_probs, state = model_step(step, beam)  # (B, K, V)
        log_probs = next_log_probs(model_log_probs, beam, processors)  # (B, K, V)
        return _extend(model_log_probs, log_probs, beam, n_best)._replace(state=state)

    constraints = make_phrases(tf.cast(phrases, tf.int64))
    beam = first_beam(state, max_lengths, beam_size, alpha, None, fixed_length, constraints)
    return make_result(*search_loop(loop_body, beam, fixed_length), n_best, fixed_length)


def make_phrases(phrases: tf.Tensor) -> Phrases:
    """Prepares padded phrases, int64 `[B, P, M]`."""
    longest = tf.shape(phrases, tf.int64)[2]  # M
    places = tf.range(longest)
    index = places + places[:, tf.newaxis] + 1 - longest  # (M, M), of place i in beginning j
    beginnings = tf.gather(phrases, tf.maximum(index, 0), axis=2)  # (B, P, M, M)
    exists = (index >= 0) & (phrases != PAD)[..., tf.newaxis]  # (B, P, M, M)
    beginnings = tf.where(exists, beginnings, tf.constant(PAD, tf.int64))
    lengths = tf.reduce_sum(tf.cast(phrases != PAD, tf.int64), axis=2)  # (B, P)

    tokens = tf.reshape(phrases, [tf.shape(phrases)[0], -1])  # (B, N)
    same = tokens[:, :, tf.newaxis] == tokens[:, tf.newaxis]  # (B, N, N)
    first = tf.argmax(same, axis=2) == tf.range(tf.shape(tokens, tf.int64)[1])  # (B, N)
    tokens = tf.where(first, tokens, tf.constant(PAD, tf.int64))
    return Phrases(lengths, tokens, beginnings)


def _extend(model_log_probs: tf.Tensor, log_probs: tf.Tensor, beam: Beam, n_best: int) -> Beam:
    """Extends every hypothesis by one token, and keeps the best of each bank.

    Args:
      model_log_probs: float32 `[B, K, V]`, for the tokens of the phrases.
      log_probs: float32 `[B, K, V]`, of `next_log_probs`, for the others.
      beam: a `Beam`, whose settings are `Phrases`.
      n_best: as for `beam_search`.
    """
    phrases, beam_size = beam.settings, beam.alive_ids.shape[1]
    is_complete = complete_phrases(beam.alive_ids, phrases)  # (B, K, P)
    total = tf.reduce_sum(phrases.lengths, axis=1)[:, tf.newaxis]  # (B, 1)
    free_log_probs, free_tokens, free_met = _free_candidates(
        log_probs, phrases, is_complete
    )  # (B, K, 2K or V)
    log_probs, tokens, met = _phrase_candidates(
        model_log_probs, beam, phrases, is_complete
    )  # (B, K, N)

    # All candidates, most probable first, without those after which the phrases do not fit.
    log_probs = tf.concat([free_log_probs, log_probs], axis=2)
    log_probs += beam.alive_log_probs[:, :, tf.newaxis]
    candidates = tf.shape(log_probs, tf.int64)[2]  # of each hypothesis
    log_probs = _flat(log_probs)  # (B, C)
    tokens = _flat(tf.concat([free_tokens, tokens], axis=2))
    met = _flat(tf.concat([free_met, met], axis=2))
    length = tf.cast(beam.t, tf.int64) + 2 + total - met  # with the missing tokens and END
    fits = (tokens == END) | (length <= beam.max_lengths[:, tf.newaxis])
    log_probs = tf.where(fits, log_probs, NEGATIVE_INFINITY)
    log_probs, best = tf.math.top_k(log_probs, tf.shape(log_probs)[1])  # (B, C)
    tokens, met = (tf.gather(each, best, batch_dims=1) for each in (tokens, met))
    beam_indices = tf.cast(best, tf.int64) // candidates

    def choose(priorities: tf.Tensor, number: int) -> Candidates:
        """The candidates with the highest priorities."""
        _, chosen = tf.math.top_k(priorities, number)
        parts = (log_probs, beam_indices, tokens)
        return Candidates(*(tf.gather(part, chosen, batch_dims=1) for part in parts))

    # Finished: as in beam search, those that end among the K best of the last bank.
    last_bank = choose(tf.where(met == total, log_probs, NEGATIVE_INFINITY), beam_size)
    beam = add_finished(beam, last_bank, last_bank.tokens == END)

    # Alive: from each bank the best, then from each the second best, and so on.
    can_stay = is_possible(log_probs) & (tokens != END)  # (B, C)
    banks = tf.shape(phrases.tokens)[1] + 1  # at most
    alive = choose(-_turns(can_stay, total - met, banks, beam_size), beam_size)
    possible = tf.where(alive.tokens == END, NEGATIVE_INFINITY, alive.log_probs)
    log_probs, chosen = tf.math.top_k(possible, beam_size)  # (B, K)
    return next_beam(beam, alive, log_probs, chosen, n_best)


def complete_phrases(ids: tf.Tensor, phrases: Phrases) -> tf.Tensor:
    """Whether each hypothesis contains each phrase, bool `[B, K, P]`; empty ones are contained.

    Args:
      ids: int64 `[B, K, L + 1]`, the start token, t tokens, and padding.
      phrases: `Phrases`.
    """
    windows = _windows(ids, tf.shape(phrases.beginnings)[2])  # (B, K, L + 1, M)
    whole = tf.maximum(phrases.lengths - 1, 0)  # (B, P)
    whole = tf.gather(phrases.beginnings, whole, batch_dims=2)  # (B, P, M)
    occurs = _match(windows[:, :, :, tf.newaxis], whole[:, tf.newaxis, tf.newaxis])
    return tf.reduce_any(occurs, axis=2)


def _free_candidates(
    log_probs: tf.Tensor, phrases: Phrases, is_complete: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The most probable continuations by other tokens than those of the phrases.

    Returns: log-probabilities, tokens, and met tokens, `[B, K, 2K or V]`.
    """
    beam_size, vocab_size = log_probs.shape[1:]
    cannot = tf.tile(phrases.tokens[:, tf.newaxis], [1, beam_size, 1])  # (B, K, N)
    log_probs = replace_tokens(log_probs, cannot, tf.fill(tf.shape(cannot), NEGATIVE_INFINITY))
    can_end = tf.reduce_all(is_complete, axis=2, keepdims=True)  # (B, K, 1)
    is_end = tf.range(vocab_size, dtype=tf.int64) == END  # (V)
    log_probs = tf.where(is_end & ~can_end, NEGATIVE_INFINITY, log_probs)
    log_probs, tokens = tf.math.top_k(log_probs, min(2 * beam_size, vocab_size))
    tokens = tf.cast(tokens, tf.int64)
    met = _met_tokens(is_complete, phrases.lengths[:, tf.newaxis])[:, :, tf.newaxis]  # (B, K, 1)
    return log_probs, tokens, tf.broadcast_to(met, tf.shape(tokens))


def _phrase_candidates(
    log_probs: tf.Tensor, beam: Beam, phrases: Phrases, is_complete: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The continuations by the tokens of the phrases.

    Returns: log-probabilities, tokens, and met tokens, `[B, K, N]`.
    """
    tokens = tf.tile(phrases.tokens[:, tf.newaxis], [1, log_probs.shape[1], 1])  # (B, K, N)
    log_probs = tf.gather(log_probs, tokens, batch_dims=2)  # (B, K, N)
    log_probs = tf.where(tokens == PAD, NEGATIVE_INFINITY, log_probs)

    longest = tf.shape(phrases.beginnings)[2]  # M
    # Two slices: in a loop, XLA takes the second one from 0 where `beam.t` is in the same brackets.
    windows = _windows(beam.alive_ids, longest)[:, :, beam.t]  # (B, K, M)
    windows = tf.tile(windows[:, :, tf.newaxis, 1:], [1, 1, tf.shape(tokens)[2], 1])
    windows = tf.concat([windows, tokens[..., tf.newaxis]], axis=3)  # (B, K, N, M)
    beginnings = phrases.beginnings[:, tf.newaxis, tf.newaxis]  # (B, 1, 1, P, M, M)
    ends_with = _match(windows[:, :, :, tf.newaxis, tf.newaxis], beginnings)  # (B, K, N, P, M)
    ends_with &= beginnings[..., -1] != PAD
    zero, length = tf.constant(0, tf.int64), tf.cast(tf.range(1, longest + 1), tf.int64)
    begun = tf.reduce_max(tf.where(ends_with, length, zero), axis=4)  # (B, K, N, P), tokens
    lengths = phrases.lengths[:, tf.newaxis, tf.newaxis]  # (B, 1, 1, P)
    completes = is_complete[:, :, tf.newaxis] | (begun == lengths)  # (B, K, N, P)
    begun = tf.reduce_max(tf.where(completes, zero, begun), axis=3)  # (B, K, N)
    return log_probs, tokens, _met_tokens(completes, lengths) + begun


def _met_tokens(is_complete: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """The tokens of the complete phrases: `[..., P]` -> int64 `[...]`."""
    return tf.reduce_sum(tf.cast(is_complete, tf.int64) * lengths, axis=-1)


def _turns(can_stay: tf.Tensor, missing: tf.Tensor, banks: tf.Tensor, size: int) -> tf.Tensor:
    """The order in which candidates get places: the best of each bank, then the second best, ...

    Of the candidates with the same rank in their banks, that with fewer missing tokens comes first.

    Args:
      can_stay: bool `[B, C]`, the candidates that can get a place, most probable first.
      missing: int64 `[B, C]`, tokens that are not met, less than `banks`.
      banks: int32.
      size: places of the beam.
    Returns: float32 `[B, C]`, the smallest first.
    """
    in_bank = tf.one_hot(tf.where(can_stay, missing, tf.constant(-1, tf.int64)), banks)
    better = tf.cumsum(in_bank, axis=1, exclusive=True)  # (B, C, banks), candidates of each bank
    rank = tf.reduce_sum(better * in_bank, axis=2)  # (B, C)
    rank = tf.where(can_stay, tf.minimum(rank, float(size)), float(size + 1))
    return rank * tf.cast(banks, tf.float32) + tf.cast(missing, tf.float32)


def _windows(ids: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """The tokens up to each position: `[B, K, T]` -> `[B, K, T, number]`, START before them."""
    start = tf.tile(tf.zeros_like(ids[:, :, :1]) + START, [1, 1, number - 1])
    index = tf.range(tf.shape(ids)[2])[:, tf.newaxis] + tf.range(number)  # (T, number)
    return tf.gather(tf.concat([start, ids], axis=2), index, axis=2)


def _match(windows: tf.Tensor, patterns: tf.Tensor) -> tf.Tensor:
    """Whether windows `[..., M]` end with patterns `[..., M]`, which begin with padding."""
    return tf.reduce_all((patterns == PAD) | (patterns == windows), axis=-1)


def _flat(x: tf.Tensor) -> tf.Tensor:
    """`[B, K, C]` -> `[B, K * C]`."""
    return tf.reshape(x, [tf.shape(x)[0], -1])


def encode_phrases(
    tokenizer: Tokenizer,
    constraints: Sequence[Sequence[str]],
    limits: Sequence[int],
    line_numbers: Sequence[int] | None = None,
) -> list[PhraseIds]:
    """Encodes the phrases of each text, without the end token.

    A phrase begins with a blank, and so with a word, except in scripts without blanks.

    Args:
      tokenizer: of the target.
      constraints: for each text its phrases.
      limits: of each text the longest output, sub-words with the end token.
      line_numbers: the line number of each text, for messages; None for 1, 2, ...
    Raises: UserError for constraints that cannot be met, or of another number of texts.
    """
    if len(constraints) != len(limits):
        raise UserError(f"constraints of {len(constraints)} of {len(limits)} texts: give all")
    found = []
    for i, phrases in enumerate(constraints):
        number = line_numbers[i] if line_numbers else i + 1
        rows = [_encode_phrase(tokenizer, phrase) for phrase in phrases]
        if not all(rows):
            raise UserError(
                f"line {number:,} has an empty constraint: give a phrase, or an empty line for none"
            )
        length = sum(map(len, rows))
        if length >= limits[i]:
            raise UserError(
                f"line {number:,}: the constraints have {length:,} sub-words, and the translation "
                f"has at most {limits[i] - 1:,}: shorten them, or give a larger "
                "--extra_decode_length"
            )
        found.append(rows)
    return found


def _encode_phrase(tokenizer: Tokenizer, phrase: str) -> list[int]:
    if _UNSPACED.match(phrase):
        tokenizer = tokenizer.without_initial_blank
    ((*ids, _),) = encode(tokenizer, [phrase])
    return ids


def pad_phrases(phrases: Sequence[PhraseIds]) -> np.ndarray:
    """The phrases of texts, int32 `[B, P, M]`; P and M are at least 1."""
    number = max(1, *map(len, phrases))
    longest = max([1, *(len(phrase) for row in phrases for phrase in row)])
    padded = np.full((len(phrases), number, longest), PAD, np.int32)
    for i, row in enumerate(phrases):
        for place, phrase in enumerate(row):
            padded[i, place, : len(phrase)] = phrase
    return padded
