"""Lexical constraints, compared with all outputs and with beam search."""

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
    without_padding,
)

from tf_transformer.config import ControlConfig
from tf_transformer.data.tokenizer import Tokenizer
from tf_transformer.decoding.beam_search import beam_search
from tf_transformer.decoding.extras.constraints import (
    constrained_beam_search,
    encode_phrases,
    make_phrases,
    missing_tokens,
)
from tf_transformer.decoding.logits_processors import make_processors
from tf_transformer.decoding.scores import is_possible
from tf_transformer.special_tokens import END, PAD, START


def contains(ids, phrase):
    return any(ids[i : i + len(phrase)] == phrase for i in range(len(ids)))


def missing(ids, phrases):
    """Tokens that are needed for the incomplete phrases, one of which can have begun."""
    open_phrases = [phrase for phrase in phrases if not contains(ids, phrase)]
    begun = [
        length
        for phrase in open_phrases
        for length in range(1, len(phrase))
        if ids[-length:] == phrase[:length]
    ]
    return sum(map(len, open_phrases)) - max(begun, default=0)


def is_allowed(ids, phrases, longest):
    """Whether each part has room for what it misses, and the output misses nothing."""
    room = [longest - t - missing(ids[:t], phrases) for t in range(len(ids))]
    return min(room) > 0 and not missing(ids, phrases)


def padded(constraints):
    """Lists of phrases -> int32 `[B, P, M]`."""
    phrases = max(map(len, constraints)) or 1
    longest = max((len(phrase) for row in constraints for phrase in row), default=1)
    ids = np.full((len(constraints), phrases, longest), PAD, np.int32)
    for i, row in enumerate(constraints):
        for p, phrase in enumerate(row):
            ids[i, p, : len(phrase)] = phrase
    return tf.constant(ids)


def random_constraints(seed, sentences):
    """Up to 3 phrases of up to 3 tokens for each sentence."""
    rng = np.random.default_rng(seed)

    def phrase():
        return [int(token) for token in rng.choice([1, 4, 5], rng.integers(1, 4))]

    return [[phrase() for _ in range(rng.integers(0, 4))] for _ in range(sentences)]


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_wide_beam_finds_the_optimum(alpha):
    constraints = [[[4, 5], [1]], [], [[5, 5]], [[4], [4], [5, 4]], [[1, 4], [4, 1]], [[4, 1, 5]]]
    table, max_lengths = markov_chains(41, 6), [5, 4, 5, 3, 4, 4]
    problem = make_problem(table, 100, max_lengths, alpha)
    result = constrained_beam_search(problem, padded(constraints), 100, n_best=30)
    for i, (phrases, longest) in enumerate(zip(constraints, max_lengths)):
        outputs = ranked_outputs(table[i], longest, alpha)
        outputs = [output for output in outputs if is_allowed(output[1], phrases, longest)]
        assert_same_outputs(outputs_of(result, i), outputs[:30])


@pytest.mark.parametrize("beam_size", [1, 2, 7])
def test_every_output_contains_its_phrases(beam_size):
    """Also at the smallest maximum length, and where END is very probable or improbable."""
    constraints = random_constraints(beam_size, 60)
    needed = [sum(map(len, row)) + 1 for row in constraints]
    max_lengths = [min(12, length + i % 3) for i, length in enumerate(needed)]
    for bias in (0.0, 8.0, -8.0):
        table = tf.nn.log_softmax(markov_chains(42, 60) + bias * tf.one_hot(END, V))
        problem = make_problem(table, beam_size, max_lengths)
        result = constrained_beam_search(problem, padded(constraints), beam_size, beam_size)
        assert is_possible(result.scores[:, 0]).numpy().all()
        for i, row in enumerate(constraints):
            for _, ids in outputs_of(result, i):
                assert all(contains(ids, phrase) for phrase in row), (ids, row)
                assert len(ids) <= max_lengths[i]
                assert ids[-1] == END


def test_phrases_that_do_not_fit_give_no_output():
    phrases = padded([[[4, 5, 1]], [[4, 5, 1]]])
    result = constrained_beam_search(make_problem(markov_chains(43, 2), 4, [3, 4]), phrases)
    assert is_possible(result.scores[:, 0]).numpy().tolist() == [False, True]
    assert without_padding(result.ids[1, 0]) == [4, 5, 1, END]


@pytest.mark.parametrize("beam_size, n_best", [(1, 1), (4, 1), (4, 4)])
def test_without_constraints_it_is_beam_search(beam_size, n_best):
    """Alone, and in a batch with sentences that have some."""
    processors = make_processors(ControlConfig(no_repeat_ngram_size=2))
    max_lengths = [7, 3, 9, 8, 1] * 4
    problem = make_problem(markov_chains(44, 20), beam_size, max_lengths, processors=processors)
    expected = beam_search(problem, beam_size, n_best)
    for constraints in ([[]] * 20, [[[4, 5], [1]] if i % 5 == 3 else [] for i in range(20)]):
        result = constrained_beam_search(problem, padded(constraints), beam_size, n_best)
        for i, row in enumerate(constraints):
            if not row:
                assert_same_outputs(outputs_of(result, i), outputs_of(expected, i))


def test_batch_independence():
    constraints, max_lengths = random_constraints(5, 20), [10, 11, 12, 10] * 5
    table = markov_chains(45, 20)
    together = constrained_beam_search(make_problem(table, 4, max_lengths), padded(constraints))
    for i, row in enumerate(constraints):
        problem = make_problem(table[i : i + 1], 4, max_lengths[i : i + 1])
        alone = constrained_beam_search(problem, padded([row]))
        assert_same_outputs(outputs_of(alone, 0), outputs_of(together, i))


def test_missing_tokens_by_hand():
    phrases = make_phrases(tf.constant([[[4, 5], [5, PAD], [5, 4], [PAD, PAD]]], tf.int64))
    ids = tf.constant([[[START, 1, 4, PAD], [START, 5, 1, PAD], [START, 1, 1, PAD]]], tf.int64)
    tokens = tf.constant([[[5, 4, 1, END]] * 3], tf.int64)
    expected = [[1, 4, 5, 5], [3, 3, 4, 4], [3, 4, 5, 5]]
    np.testing.assert_array_equal(missing_tokens(ids, 2, tokens, phrases)[0], expected)
    assert phrases.tokens[0].numpy().tolist() == [4, 5, 0, 0, 0, 0, 0, 0]


def test_phrases_begin_with_a_word_except_in_scripts_without_blanks():
    """The search appends sub-words: after others, a phrase is text as in a sentence."""
    text = ["「私は東京に住んでいます。」", "東京は大きい。", "ฉันรักกรุงเทพ", "I live in Tokyo."]
    tokenizer = Tokenizer.learn(text * 9, 350)
    for beginning, phrase, expected in (
        ("私は", "東京", "私は東京"),
        ("私は", "「東京」", "私は「東京」"),
        ("ฉันรัก", "กรุงเทพ", "ฉันรักกรุงเทพ"),
        ("I live in", "Tokyo", "I live in Tokyo"),
        ("東京は", "Tokyo", "東京は Tokyo"),
    ):
        ((ids,),) = encode_phrases(tokenizer, [[phrase]], [1])
        before = tokenizer.encode([beginning]).to_list()[0][:-1]
        assert tokenizer.decode(tf.constant([before + ids])).numpy()[0].decode() == expected
