"""Logits processors, compared with their definitions in Python."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from chains import (
    V,
    assert_same_outputs,
    make_problem,
    markov_chains,
    outputs_of,
    ranked_outputs,
    score_of,
    without_padding,
)

from tf_transformer.config import GenerationConfig
from tf_transformer.decoding.beam_search import beam_search, greedy_search
from tf_transformer.decoding.logits_processors import PROCESSORS, make_processors
from tf_transformer.decoding.sampling import sample
from tf_transformer.decoding.scores import NEGATIVE_INFINITY
from tf_transformer.special_tokens import END, PAD, START

SETTINGS = [
    GenerationConfig(no_repeat_ngram_size=1),
    GenerationConfig(no_repeat_ngram_size=2),
    GenerationConfig(no_repeat_ngram_size=3, repetition_penalty=0.5),
    GenerationConfig(repetition_penalty=2.0),
    GenerationConfig(min_length=3),
    GenerationConfig(min_length=2, no_repeat_ngram_size=2),
]


def ngrams(tokens, size):
    return [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]


def adjusted(log_probs, tokens, generation, max_length):
    """The log-probabilities `[V]` of the token after these ones, from the definition.

    The last token of an output of the longest length can only be END, which is not changed.
    """
    if len(tokens) == max_length - 1:
        return np.array(log_probs, np.float64)
    changed = np.array(log_probs, np.float64)
    for token in set(tokens):
        changed[token] *= generation.repetition_penalty
    size = generation.no_repeat_ngram_size
    for token in range(V):
        if size and (*tokens, token)[-size:] in ngrams(tokens, size):
            changed[token] = NEGATIVE_INFINITY
    changed[[PAD, START]] = NEGATIVE_INFINITY
    if len(tokens) < generation.min_length:
        changed[END] = NEGATIVE_INFINITY
    return changed


def test_a_processor_is_off_by_default():
    assert make_processors(GenerationConfig()) == []
    for name in PROCESSORS:
        assert len(make_processors(GenerationConfig(**{name: 3}))) == 1


@pytest.mark.parametrize("generation", SETTINGS, ids=str)
def test_greedy_search(generation):
    table, max_length = markov_chains(21, 8), 9
    free = make_problem(table, 1, [max_length] * 8, 0.0)
    result = greedy_search(free._replace(processors=make_processors(generation)))
    changed = 0
    for i in range(8):
        ids, total = [PAD, START], 0.0
        while ids[-1] != END:
            log_probs = table[i, len(ids) - 2, ids[-2], ids[-1]]
            log_probs = adjusted(log_probs, ids[2:], generation, max_length)
            token = int(log_probs.argmax()) if len(ids) <= max_length else END
            total += log_probs[token]
            ids.append(token)
        assert without_padding(result.ids[i, 0]) == ids[2:]
        np.testing.assert_allclose(result.scores[i, 0], total, rtol=1e-5)
        changed += ids[2:] != without_padding(greedy_search(free).ids[i, 0])
    assert changed


@pytest.mark.parametrize(
    ("name", "values"),
    [("repetition_penalty", [0.5, 1.0, 2.0, 3.0] * 2), ("min_length", [0, 4] * 4)],
)
def test_each_sentence_can_have_its_own_value(name, values):
    """Also after others have left the batch, and of several samples."""
    table, seeds = markov_chains(25, 8, scale=0.7), tf.constant([[1, i] for i in range(8)])
    processors = make_processors(GenerationConfig(), **{name: tf.constant(values)})
    problem = make_problem(table, 1, tf.range(2, 10), processors=processors)
    together = greedy_search(problem), sample(problem, seeds, 3)
    for i, value in enumerate(values):
        processors = make_processors(GenerationConfig(**{name: value}))
        problem = make_problem(table[i : i + 1], 1, [2 + i], processors=processors)
        alone = greedy_search(problem), sample(problem, seeds[i : i + 1], 3)
        for one, other in zip(together, alone):
            assert_same_outputs(outputs_of(one, i), outputs_of(other, 0))


@pytest.mark.parametrize("generation", SETTINGS, ids=str)
def test_a_wide_beam_finds_the_optimum(generation):
    table, max_lengths = markov_chains(22, 4), [5, 4, 1, 5]
    problem = make_problem(table, 100, max_lengths, processors=make_processors(generation))
    result = beam_search(problem, 100, 30)
    for i, max_length in enumerate(max_lengths):
        adjust = functools.partial(adjusted, generation=generation, max_length=max_length)
        outputs = ranked_outputs(table[i], max_length, adjust=adjust)
        assert_same_outputs(outputs_of(result, i), outputs[:30])


def test_samples_repeat_no_ngram_and_have_the_scores_of_the_model():
    table, max_lengths = markov_chains(23, 3, scale=0.5), [9, 3, 8]
    seeds = tf.constant([[1, 1], [1, 2], [1, 3]])
    processors = make_processors(GenerationConfig(no_repeat_ngram_size=2))
    problem = make_problem(table, 1, max_lengths, 0.0, processors=processors)
    result = sample(problem, seeds, 40, temperature=1.5)
    for i in range(3):
        for score, ids in outputs_of(result, i):
            assert len(ngrams(ids, 2)) == len(set(ngrams(ids, 2)))
            np.testing.assert_allclose(score, score_of(table[i], ids, 0.0), rtol=1e-5)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_prefix_can_repeat(beam_size):
    """Forced tokens keep the log-probabilities of the model."""
    table = markov_chains(24, 2)
    prefix = tf.constant([[4, 4, 4], [5, 5, PAD]])
    processors = make_processors(GenerationConfig(no_repeat_ngram_size=1))
    problem = make_problem(table, beam_size, [7, 7], prefix=prefix, processors=processors)
    result = greedy_search(problem) if beam_size == 1 else beam_search(problem, beam_size)
    for i, forced in enumerate([[4, 4, 4], [5, 5]]):
        _, ids = outputs_of(result, i)[0]
        assert ids[: len(forced)] == forced
        free = ids[len(forced) :]
        assert len(set(free)) == len(free)
        assert forced[0] not in free
