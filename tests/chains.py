"""Step functions over random Markov chains, whose outputs can be enumerated."""

import itertools

import numpy as np
import tensorflow as tf

from tf_transformer.decoding.beam_search import SearchProblem
from tf_transformer.decoding.scores import is_possible, length_penalty
from tf_transformer.special_tokens import END, PAD, START

V = 6  # padding, unknown, start, end, and two more tokens


def markov_chains(seed, sentences, scale=2.0):
    """Log-probabilities of random second-order Markov chains, one chain for each sentence.

    Returns: float32 `[sentences, position, second-to-last token, last token, V]`.
    """
    logits = np.random.default_rng(seed).normal(size=(sentences, 12, V, V, V)) * scale
    return tf.nn.log_softmax(tf.constant(logits, tf.float32))


def make_problem(table, beam_size, max_lengths, *options, **named_options):
    """The `SearchProblem` of a step function over `markov_chains`.

    The state holds the index of each sentence `[B]` and the second-to-last token of each
    hypothesis `[B, K]`, so that wrong beam indices change the logits.
    """

    def step(ids, position, beam_indices, state):
        sentence, previous = state
        previous = tf.gather(previous, beam_indices, batch_dims=1)  # (B, K)
        sentences = tf.broadcast_to(sentence[:, tf.newaxis], tf.shape(ids))  # (B, K)
        positions = tf.fill(tf.shape(ids), tf.cast(position, tf.int64))  # (B, K)
        index = tf.stack([sentences, positions, previous, ids], axis=2)  # (B, K, 4)
        return tf.gather_nd(table, index), (sentence, ids)

    sentences = table.shape[0]
    first = tf.fill([sentences, beam_size], tf.constant(PAD, tf.int64))
    state = tf.range(sentences, dtype=tf.int64), first
    return SearchProblem(step, state, tf.constant(max_lengths), *options, **named_options)


def without_padding(ids):
    return [int(token) for token in ids if token != PAD]


def exhaustive_outputs(max_length):
    """All outputs: lists of tokens with END."""
    tokens = [token for token in range(V) if token not in (PAD, START, END)]
    bodies = (itertools.product(tokens, repeat=length) for length in range(max_length))
    return [[*body, END] for body in itertools.chain.from_iterable(bodies)]


def score_of(table, ids, alpha=0.6, adjust=lambda log_probs, tokens: log_probs):
    """The score of an output of one sentence.

    Args:
      table: `[position, second-to-last token, last token, V]`.
      ids: the tokens with END.
      adjust: (log-probabilities `[V]` of a token, the tokens before it) -> other ones.
    """
    history = [PAD, START, *ids]
    log_prob = 0.0
    for t, token in enumerate(ids):
        log_probs = np.asarray(table[t, history[t], history[t + 1]], np.float64)
        log_prob += adjust(log_probs, ids[:t])[token]
    return log_prob / float(length_penalty(len(ids), alpha))


def ranked_outputs(table, max_length, *options, **named_options):
    """All possible outputs of one sentence as pairs (`score_of`, tokens with END), best first."""
    table = np.asarray(table)
    outputs = exhaustive_outputs(max_length)
    pairs = [(score_of(table, ids, *options, **named_options), ids) for ids in outputs]
    return sorted((pair for pair in pairs if is_possible(pair[0])), reverse=True)


def outputs_of(result, i):
    """The same pairs of the hypotheses of a search for sentence `i`."""
    outputs = []
    for ids, score, length, _ in zip(*(part[i].numpy() for part in result)):
        if is_possible(score):
            outputs.append((score, without_padding(ids)))
            assert length == len(outputs[-1][1])
    return outputs


def assert_same_outputs(outputs, expected_outputs):
    assert [ids for _, ids in outputs] == [ids for _, ids in expected_outputs]
    scores, expected = ([score for score, _ in each] for each in (outputs, expected_outputs))
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
