"""The exercises of notebook 07."""

import math
from collections import Counter

import numpy as np
import tensorflow as tf

from course import Exercise

WORDS = 7


def is_number(expected, tolerance=1e-6):
    """Returns a test for a number."""
    return lambda answer: abs(float(answer) - expected) <= tolerance


def _some_step(ids, position, beam_indices, state):
    """A step function with other logits for each position; its state counts the calls."""
    logits = tf.random.stateless_normal([WORDS, WORDS], seed=[7, int(position)])  # (V, V)
    return tf.gather(logits, ids), state + 1


def repeats_are_impossible(without_repeats):
    """Whether a wrapped step function differs from the wrapped one in the last words only."""
    step = without_repeats(_some_step)
    ids = tf.constant([[3, 4, 5], [6, 6, 1]])  # (B, K)
    state = tf.constant([1.0, 2.0])
    beam_indices = tf.constant([[0, 1, 2], [2, 1, 0]])  # (B, K)
    last = tf.one_hot(ids, WORDS).numpy() > 0  # (B, K, V)
    for position in (0, 3):
        expected, expected_state = _some_step(ids, position, beam_indices, state)
        logits, new_state = step(ids, position, beam_indices, state)
        logits = np.asarray(logits)
        if not (logits[last] < -1e8).all():
            return False
        if not np.allclose(logits[~last], expected.numpy()[~last], atol=1e-5):
            return False
        if not np.array_equal(np.asarray(new_state), expected_state.numpy()):
            return False
    return True


def _ngrams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _bleu(translation, reference, clip=True, brevity="exp"):
    """BLEU of one sentence, right or with one of the usual mistakes."""
    ours = translation.split()
    theirs = reference.split()
    product = 1.0
    for n in (1, 2, 3, 4):
        a = _ngrams(ours, n)
        b = _ngrams(theirs, n)
        if clip:
            matches = sum(min(count, b[gram]) for gram, count in a.items())
        else:
            matches = sum(count for gram, count in a.items() if gram in b)
        product *= matches / sum(a.values())
    ratio = len(ours) / len(theirs)
    penalties = {"exp": math.exp(min(0.0, 1 - 1 / ratio)), "ratio": min(1.0, ratio), "none": 1.0}
    return 100 * penalties[brevity] * product**0.25


PAIRS = [
    ("the cat sat on the mat", "the cat sat on the mat"),
    ("the cat sat on the", "the cat sat on the mat"),
    ("the cat sat on the mat on the mat on the mat", "today the cat sat on the mat"),
    ("it was not so very long ago that he came", "it was not very long ago that he came here"),
]


def is_bleu(sentence_bleu):
    """Whether a function returns the BLEU of some pairs."""
    return all(abs(float(sentence_bleu(*pair)) - _bleu(*pair)) < 0.01 for pair in PAIRS)


def _no_clipping(translation, reference):
    return _bleu(translation, reference, clip=False)


def _simplified_brevity(translation, reference):
    return _bleu(translation, reference, brevity="ratio")


def _no_brevity(translation, reference):
    return _bleu(translation, reference, brevity="none")


def _from_0_to_1(translation, reference):
    return _bleu(translation, reference) / 100


def _does_nothing(step):
    return step


def _forbids_a_word(step):
    def wrapped(ids, position, beam_indices, state):
        logits, state = step(ids, position, beam_indices, state)
        return logits - 1e9 * tf.one_hot(3, WORDS), state

    return wrapped


def _keeps_the_old_state(step):
    def wrapped(ids, position, beam_indices, state):
        logits, _ = step(ids, position, beam_indices, state)
        return logits - 1e9 * tf.one_hot(ids, WORDS), state

    return wrapped


EXERCISES = {
    "7.1": Exercise(
        test=is_number(50 * 51 // 2),
        hint=(
            "Step 1 computes 1 position, step 2 computes 2, and so on: add them up, the last "
            "one included."
        ),
        wrong=(50, 2500, 49 * 50 // 2, 2550, "many"),
    ),
    "7.2": Exercise(
        test=is_number(3),
        hint=(
            "Write down the likeliest sentence behind each first word. How many first words are "
            "likelier than that of the best one?"
        ),
        wrong=(0, 1, 2, 4, "right car"),
    ),
    "7.3": Exercise(
        test=repeats_are_impossible,
        hint=(
            "tf.one_hot(ids, tf.shape(logits)[-1]) has the shape of the logits, (B, K, V). The "
            "state to return is the new one."
        ),
        wrong=(_does_nothing, _forbids_a_word, _keeps_the_old_state, 3),
    ),
    "7.4": Exercise(
        test=is_number(math.log(5 / 4) / math.log(24 / 12), 0.002),
        hint="Both scores are equal when lp(19) / lp(7) = 5.0 / 4.0. What is (5 + 19) / (5 + 7)?",
        wrong=(0.6, 1.25, 0.8, 1.0, 0.25, math.log(5 / 4) / math.log(19 / 7)),
    ),
    "7.5": Exercise(
        test=is_bleu,
        hint=(
            "100 BP (p_1 p_2 p_3 p_4)^(1/4), where an n-gram counts at most as often as the "
            "reference has it. BP is 1 unless c < r."
        ),
        wrong=(_no_clipping, _simplified_brevity, _no_brevity, _from_0_to_1, 25.4),
    ),
}
