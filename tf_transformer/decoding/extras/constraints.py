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
from typing import NamedTuple

import numpy as np
import regex
import tensorflow as tf

from tf_transformer.data.scripts import EAST_ASIAN, SOUTH_EAST_ASIAN
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.beam_search import (
    Beam,
    Candidates,
    SearchProblem,
    SearchResult,
    first_beam,
    next_beam,
    next_log_probs,
    search_loop,
)
from tf_transformer.decoding.logits_processors import replace_tokens
from tf_transformer.decoding.scores import NEGATIVE_INFINITY, is_possible
from tf_transformer.decoding.text_batches import encode, pad
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
    problem: SearchProblem, phrases: tf.Tensor, beam_size: int = 4, n_best: int = 1
) -> SearchResult:
    """Searches the outputs that contain all phrases of their sentences.

    Args:
      problem: a `SearchProblem` without a prefix. With its processors, the tokens of the phrases
        keep the log-probabilities of the model.
      phrases: int32 or int64 `[B, P, M]`, the phrases of each sentence, without start and end
        token, then padding; those of padding only are no constraints. A sentence has no output
        where its phrases and the end token have more tokens than its maximum length.
      beam_size, n_best: as for `beam_search`.
    Returns: a `SearchResult` with n = n_best.
    """

    def extend(model_log_probs: tf.Tensor, beam: Beam) -> Beam:
        log_probs = next_log_probs(model_log_probs, beam, problem.processors)  # (B, K, V)
        return _extend(model_log_probs, log_probs, beam, n_best)

    beam = first_beam(problem, beam_size)
    beam = beam._replace(settings=make_phrases(tf.cast(phrases, tf.int64)))
    return search_loop(problem, extend, beam, n_best)


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
    phrases, (beam_size, vocab_size) = beam.settings, log_probs.shape[1:]
    # Each hypothesis continues by the tokens of the phrases, and by the most probable others.
    of_phrases = tf.tile(phrases.tokens[:, tf.newaxis], [1, beam_size, 1])  # (B, K, N)
    excluded = tf.fill(tf.shape(of_phrases), NEGATIVE_INFINITY)
    log_probs = replace_tokens(log_probs, of_phrases, excluded)  # (B, K, V)
    log_probs, tokens = tf.math.top_k(log_probs, min(2 * beam_size, vocab_size))  # (B, K, 2K or V)
    of_model = tf.gather(model_log_probs, of_phrases, batch_dims=2)  # (B, K, N)
    log_probs = tf.concat([log_probs, of_model], axis=2) + beam.alive_log_probs[:, :, tf.newaxis]
    tokens = tf.concat([tf.cast(tokens, tf.int64), of_phrases], axis=2)  # (B, K, 2K + N)
    missing = missing_tokens(beam.alive_ids, beam.t, tokens, phrases)  # (B, K, 2K + N)

    # All candidates, most probable first. What is missing, and END, must fit.
    room = (beam.max_lengths - tf.cast(beam.t, tf.int64) - 2)[:, tf.newaxis, tf.newaxis]
    fits = tf.where(tokens == END, missing == 0, missing <= room)  # (B, K, 2K + N)
    log_probs = tf.where(fits & (tokens != PAD), log_probs, NEGATIVE_INFINITY)
    number = tf.shape(tokens, tf.int64)[2]
    log_probs, tokens, missing = (
        tf.reshape(x, [tf.shape(x)[0], -1]) for x in (log_probs, tokens, missing)
    )  # (B, C)
    log_probs, best = tf.math.top_k(log_probs, tf.shape(log_probs)[1])
    tokens, missing = (tf.gather(x, best, batch_dims=1) for x in (tokens, missing))
    beam_indices = tf.cast(best, tf.int64) // number

    def choose(log_probs: tf.Tensor, priorities: tf.Tensor) -> Candidates:
        """The K candidates of the highest priorities, most probable first."""
        _, chosen = tf.math.top_k(priorities, beam_size)  # (B, K)
        log_probs, order = tf.math.top_k(tf.gather(log_probs, chosen, batch_dims=1), beam_size)
        chosen = tf.gather(chosen, order, batch_dims=1)
        others = (tf.gather(part, chosen, batch_dims=1) for part in (beam_indices, tokens))
        return Candidates(log_probs, *others)

    # Finished: as in beam search, those that end among the K best of the last bank.
    of_last_bank = tf.where(missing == 0, log_probs, NEGATIVE_INFINITY)
    last_bank = choose(of_last_bank, of_last_bank)
    # Alive: from each bank the best, then from each the second best, and so on.
    can_stay = is_possible(log_probs) & (tokens != END)  # (B, C)
    banks = tf.shape(phrases.tokens)[1] + 1  # at most
    turns = _turns(can_stay, missing, banks, beam_size)
    alive = choose(tf.where(can_stay, log_probs, NEGATIVE_INFINITY), -turns)
    return next_beam(beam, last_bank, last_bank.tokens == END, alive, n_best)


def missing_tokens(ids: tf.Tensor, t: tf.Tensor, tokens: tf.Tensor, phrases: Phrases) -> tf.Tensor:
    """Counts the tokens of the phrases that are not met after given tokens.

    Args:
      ids: int64 `[B, K, L + 1]`, the start token, t tokens, and padding.
      t: int32.
      tokens: int64 `[B, K, C]`, the next ones.
      phrases: `Phrases`.
    Returns: int64 `[B, K, C]`.
    """
    longest = tf.shape(phrases.beginnings)[2]  # M
    windows = _windows(ids, longest)  # (B, K, L + 1, M)
    whole = tf.maximum(phrases.lengths - 1, 0)  # (B, P)
    whole = tf.gather(phrases.beginnings, whole, batch_dims=2)  # (B, P, M)
    occurs = _match(windows[:, :, :, tf.newaxis], whole[:, tf.newaxis, tf.newaxis])
    is_complete = tf.reduce_any(occurs, axis=2)[:, :, tf.newaxis]  # (B, K, 1, P)

    # The tokens of each phrase with which a hypothesis ends, after the next token.
    # Two slices: in a loop, XLA takes the second one from 0 where `t` is in the same brackets.
    windows = windows[:, :, t]  # (B, K, M)
    windows = tf.tile(windows[:, :, tf.newaxis, 1:], [1, 1, tf.shape(tokens)[2], 1])
    windows = tf.concat([windows, tokens[..., tf.newaxis]], axis=3)  # (B, K, C, M)
    beginnings = phrases.beginnings[:, tf.newaxis, tf.newaxis]  # (B, 1, 1, P, M, M)
    ends_with = _match(windows[:, :, :, tf.newaxis, tf.newaxis], beginnings)  # (B, K, C, P, M)
    ends_with &= beginnings[..., -1] != PAD
    zero, length = tf.constant(0, tf.int64), tf.cast(tf.range(1, longest + 1), tf.int64)
    begun = tf.reduce_max(tf.where(ends_with, length, zero), axis=4)  # (B, K, C, P)

    lengths = phrases.lengths[:, tf.newaxis, tf.newaxis]  # (B, 1, 1, P)
    is_complete |= begun == lengths  # (B, K, C, P)
    begun = tf.reduce_max(tf.where(is_complete, zero, begun), axis=3)  # (B, K, C)
    return tf.reduce_sum(tf.where(is_complete, zero, lengths), axis=3) - begun


def _turns(can_stay: tf.Tensor, missing: tf.Tensor, banks: tf.Tensor, size: int) -> tf.Tensor:
    """The order in which candidates get places: the best of each bank, then the second best, ...

    Of the candidates with the same rank in their banks, that with fewer missing tokens comes first.

    Args:
      can_stay: bool `[B, C]`, the candidates that can get a place, most probable first.
      missing: int64 `[B, C]`, their missing tokens, less than `banks`.
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


def encode_phrases(
    tokenizer: Tokenizer, constraints: Sequence[Sequence[str]], line_numbers: Sequence[int]
) -> list[PhraseIds]:
    """Encodes the phrases of each text, without the end token.

    A phrase begins with a blank, and so with a word, except in scripts without blanks.

    Args:
      tokenizer: of the target.
      constraints: for each text its phrases.
      line_numbers: the line number of each text, for messages.
    Raises: UserError for an empty phrase.
    """
    found = [[_encode_phrase(tokenizer, each) for each in phrases] for phrases in constraints]
    for number, rows in zip(line_numbers, found, strict=True):
        if not all(rows):
            raise UserError(
                f"line {number:,} has an empty constraint: give a phrase, or an empty line for none"
            )
    return found


def _encode_phrase(tokenizer: Tokenizer, phrase: str) -> list[int]:
    if _UNSPACED.match(phrase):
        tokenizer = tokenizer.without_initial_blank
    return encode(tokenizer, [phrase])[0][:-1]


def pad_phrases(phrases: Sequence[PhraseIds]) -> np.ndarray:
    """The phrases of texts, int32 `[B, P, M]`; P and M are at least 1."""
    number = max(1, *map(len, phrases))
    rows = [row[i] if i < len(row) else [PAD] for row in phrases for i in range(number)]
    return pad(rows, max(map(len, rows))).reshape(len(phrases), number, -1)
