"""The exercises of notebook 06."""

import numpy as np

from course import Exercise


def smoothed_gradient(logits, word, e):
    """Softmax minus smoothed target: the gradient of the smoothed loss of a word by its logits."""
    p = np.exp(logits - np.max(logits))
    p /= p.sum()
    return p - ((1 - e) * np.eye(len(logits))[word] + e / len(logits))


def is_gradient(answer):
    """Whether a function of logits, word and e returns `smoothed_gradient`."""
    cases = [
        (np.array([0.5, -1.0, 2.0, 0.0], np.float32), 2, 0.1),
        (np.array([1.0, 3.0, 0.2], np.float32), 1, 0.0),
    ]
    return all(
        np.allclose(np.ravel(answer(*case)), smoothed_gradient(*case), atol=1e-4) for case in cases
    )


def least_perplexity(e, vocab_size):
    """The perplexity of the entropy of the smoothed target distribution, 0 < e < 1."""
    q = 1 - e + e / vocab_size
    return np.exp(-q * np.log(q) - (vocab_size - 1) * e / vocab_size * np.log(e / vocab_size))


def is_global_mean(answer):
    """Whether a function of sums and token counts divides once."""
    cases = [
        ([30.0, 4.0, 12.0], [10.0, 1.0, 12.0], 2.0),
        ([7.0, 0.0], [2.0, 0.0], 3.5),
        ([5.0], [4.0], 1.25),
    ]
    with np.errstate(all="ignore"):
        return all(abs(float(answer(sums, tokens)) - mean) < 1e-5 for sums, tokens, mean in cases)


EXERCISES = {
    "6.1": Exercise(
        test=is_gradient,
        hint=(
            "The derivative of log sum exp is the softmax, that of the right logit is 1 and "
            "that of the mean is 1 / V."
        ),
        wrong=(
            lambda logits, word, e: smoothed_gradient(logits, word, 0.0),
            lambda logits, word, e: -smoothed_gradient(logits, word, e),
            0,
        ),
    ),
    "6.2": Exercise(
        test=lambda answer: (
            0 < float(answer) < 1 and abs(least_perplexity(float(answer), 2000) - 2) < 0.02
        ),
        hint=(
            "floor(e, 2000) grows with e and must be log 2: halve an interval that holds the "
            "answer, again and again."
        ),
        wrong=(0.1, 0.05, 0.5, 2),
    ),
    "6.3": Exercise(
        test=lambda answer: abs(float(answer) - (0.6 / 0.001) ** 2 / 128) <= 1,
        hint="The peak is scale x (d_model x warmup_steps)^-0.5; solve it for warmup_steps.",
        wrong=(400, 4000, 7812.5, 4687.5),
    ),
    "6.4": Exercise(
        test=is_global_mean,
        hint="Add up first and divide once; a replica without tokens then does no harm.",
        wrong=(
            lambda sums, tokens: np.mean(np.divide(sums, tokens)),
            lambda sums, tokens: sum(sums),
            2.0,
        ),
    ),
}
