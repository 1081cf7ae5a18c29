"""The exercises of notebook 07."""

from course import Exercise

import math
from collections import Counter

import numpy as np
import tensorflow as tf
from sacrebleu.metrics import BLEU

RANDOM = np.random.default_rng(7)
WORDS = 7


def finds_the_crossing(crossing_alpha):
    """07.1: on random hypotheses."""
    for _ in range(20):
        length_1, length_2 = RANDOM.choice(np.arange(3, 40), 2, replace=False).tolist()
        log_prob_1, log_prob_2 = (-RANDOM.uniform(1, 9, 2)).tolist()
        alpha = float(crossing_alpha(length_1, log_prob_1, length_2, log_prob_2))
        scores = [
            log_prob / ((5 + length) / 6) ** alpha
            for length, log_prob in ((length_1, log_prob_1), (length_2, log_prob_2))
        ]
        if not math.isclose(*scores, rel_tol=1e-4):
            return False
    return True


def _crossing(length_1, log_prob_1, length_2, log_prob_2, offset=5):
    ratio = math.log(log_prob_2 / log_prob_1)
    return ratio / math.log((offset + length_2) / (offset + length_1))


def _extend(log_probs, rows):
    total = np.asarray(log_probs)[:, np.newaxis] + rows
    best = np.argsort(total, axis=None)[::-1][: len(log_probs)]
    indices, words = np.divmod(best, rows.shape[1])
    return indices, words, total[indices, words]


def extends(extend):
    """07.2: on random log-probabilities, for several K and V."""
    for hypotheses, words in ((1, 5), (2, 3), (4, 9), (3, 50)):
        log_probs = np.log(RANDOM.dirichlet(np.ones(hypotheses)))
        rows = np.log(RANDOM.dirichlet(np.full(words, 0.3), hypotheses) + 1e-12)
        expected = _extend(log_probs, rows)
        answer = extend(log_probs.copy(), rows.copy())
        if len(answer) != 3:
            return False
        for ours, theirs in zip(answer, expected):
            if np.shape(ours) != (hypotheses,) or not np.allclose(ours, theirs, atol=1e-6):
                return False
    return True


def _best_of_each(log_probs, rows):
    words = rows.argmax(axis=1)
    total = log_probs + rows.max(axis=1)
    order = np.argsort(total)[::-1]
    return order, words[order], total[order]


def _without_the_past(log_probs, rows):
    return _extend(np.zeros(len(log_probs)), rows)


def _worst_first(log_probs, rows):
    return tuple(part[::-1] for part in _extend(log_probs, rows))


def _some_step(ids, position, beam_indices, state):
    """A step function with other logits for each position; its state counts the calls."""
    size = WORDS + int(position)
    logits = tf.random.stateless_normal([WORDS, size], seed=[7, int(position)])  # (V, V)
    return tf.gather(logits, ids), state + 1


def repeats_are_impossible(without_repeats):
    """07.3: a wrapped step function differs in the last words only."""
    step = without_repeats(_some_step)
    ids = tf.constant([[3, 4, 5], [6, 6, 1]])  # (B, K)
    state = tf.constant([1.0, 2.0])
    beam_indices = tf.constant([[0, 1, 2], [2, 1, 0]])  # (B, K)
    for position in (0, 3):
        expected, expected_state = _some_step(ids, position, beam_indices, state)
        last = tf.one_hot(ids, expected.shape[-1]).numpy() > 0  # (B, K, V)
        logits, new_state = step(ids, position, beam_indices, state)
        logits = np.asarray(logits)
        if not (logits[last] < -1e8).all():
            return False
        if not np.allclose(logits[~last], expected.numpy()[~last], atol=1e-5):
            return False
        if not np.array_equal(np.asarray(new_state), expected_state.numpy()):
            return False
    return True


def _does_nothing(step):
    return step


def _forbids_a_word(step):
    def wrapped(ids, position, beam_indices, state):
        logits, state = step(ids, position, beam_indices, state)
        return logits - 1e9 * tf.one_hot(3, logits.shape[-1]), state

    return wrapped


def _keeps_the_old_state(step):
    def wrapped(ids, position, beam_indices, state):
        logits, _ = step(ids, position, beam_indices, state)
        return logits - 1e9 * tf.one_hot(ids, logits.shape[-1]), state

    return wrapped


def _ngrams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _bleu(translations, references, clip=True, brevity="exp"):
    """BLEU of a corpus, right or with one of the usual mistakes."""
    product = 1.0
    for n in (1, 2, 3, 4):
        matches = total = 0
        for ours, theirs in zip(translations, references):
            a, b = _ngrams(ours.split(), n), _ngrams(theirs.split(), n)
            total += sum(a.values())
            if clip:
                matches += sum(min(count, b[gram]) for gram, count in a.items())
            else:
                matches += sum(count for gram, count in a.items() if gram in b)
        product *= matches / total
    c, r = (sum(len(text.split()) for text in side) for side in (translations, references))
    penalties = {"exp": math.exp(min(0.0, 1 - r / c)), "ratio": min(1.0, c / r), "none": 1.0}
    return 100 * penalties[brevity] * product**0.25


def _random_corpora():
    """A corpus of shorter and of longer translations, with repeated words."""
    corpora = []
    for shift in (-2, 3):
        translations, references = [], []
        for _ in range(6):
            reference = RANDOM.choice(list("abcdefgh"), RANDOM.integers(9, 20)).tolist()
            ours = reference[: len(reference) + min(0, shift)]
            ours[RANDOM.integers(len(ours))] = "x"
            if shift > 0:
                ours = ours[:4] + ours[:4] + ours[4:]
            translations.append(" ".join(ours))
            references.append(" ".join(reference))
        corpora.append((translations, references))
    return corpora


def is_corpus_bleu(corpus_bleu):
    """07.4: on random corpora, compared with sacreBLEU."""
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    for translations, references in _random_corpora():
        expected = bleu.corpus_score(translations, [references]).score
        answer = float(corpus_bleu(list(translations), list(references)))
        if abs(answer - expected) > 0.01:
            return False
    return True


def _no_clipping(translations, references):
    return _bleu(translations, references, clip=False)


def _simplified_brevity(translations, references):
    return _bleu(translations, references, brevity="ratio")


def _no_brevity(translations, references):
    return _bleu(translations, references, brevity="none")


def _mean_of_sentences(translations, references):
    return np.mean([_bleu([ours], [theirs]) for ours, theirs in zip(translations, references)])


EXERCISES = {
    "07.1": Exercise(
        test=finds_the_crossing,
        hint=(
            "Both scores are equal when log_prob_2 / log_prob_1 = lp(length_2) / lp(length_1). "
            "Take the logarithm of both sides."
        ),
        wrong=(
            1.573,
            lambda length_1, log_prob_1, length_2, log_prob_2: 0.6,
            lambda *args: _crossing(*args, offset=0),
            lambda *args: -_crossing(*args),
            lambda length_1, log_prob_1, length_2, log_prob_2: log_prob_2 / log_prob_1,
        ),
    ),
    "07.2": Exercise(
        test=extends,
        hint=(
            "Add the log-probability of each prefix to its row, (K, V). Sort all K x V sums "
            "together. np.divmod turns an index of the flat array into a row and a column."
        ),
        wrong=(_best_of_each, _without_the_past, _worst_first, [0, 1, 2]),
    ),
    "07.3": Exercise(
        test=repeats_are_impossible,
        hint=(
            "tf.one_hot(ids, tf.shape(logits)[-1]) has the shape of the logits, (B, K, V). The "
            "state to return is the new one."
        ),
        wrong=(_does_nothing, _forbids_a_word, _keeps_the_old_state, 3),
    ),
    "07.4": Exercise(
        test=is_corpus_bleu,
        hint=(
            "Sum the clipped matches and the totals over all sentences, for each n, before you "
            "divide. c and r are sums over all sentences too."
        ),
        wrong=(_no_clipping, _simplified_brevity, _no_brevity, _mean_of_sentences, 25.4),
    ),
}
