"""The exercises of notebook 05."""

from course import Exercise

import numpy as np


def softmax(logits):
    """The softmax over the last axis."""
    exponentials = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def smoothed_gradient(logits, label, e):
    """Softmax minus the smoothed target."""
    target = np.full(len(logits), e / len(logits))
    target[label] += 1 - e
    return softmax(np.asarray(logits, np.float64)) - target


def is_gradient(answer):
    """Whether a function is `smoothed_gradient`."""
    random = np.random.default_rng()
    for e in (0.1, 0.0, 0.3):
        logits = random.normal(size=7)
        label = int(random.integers(7))
        expected = smoothed_gradient(logits, label, e)
        result = np.asarray(answer(logits, label, e), np.float64)
        if result.shape != (7,) or not np.allclose(result, expected, atol=1e-5):
            return False
    return True


def lowest_loss(e, vocab_size):
    """The entropy of the smoothed target."""
    label, other = 1 - e + e / vocab_size, e / vocab_size
    return -label * np.log(label) - (vocab_size - 1) * other * np.log(other)


def epsilon_for(perplexity, vocab_size):
    """The smoothing whose lowest loss has this perplexity."""
    low, high = 1e-9, 1 - 1e-9
    for _ in range(60):
        middle = (low + high) / 2
        if lowest_loss(middle, vocab_size) < np.log(perplexity):
            low = middle
        else:
            high = middle
    return low


def is_epsilon_for(answer):
    """Whether a function is `epsilon_for`, to three decimals."""
    random = np.random.default_rng()
    for vocab_size in (100, 2000, 37000):
        perplexity = float(random.uniform(1.5, 20))
        expected = epsilon_for(perplexity, vocab_size)
        if abs(float(answer(perplexity, vocab_size)) - expected) > 0.001:
            return False
    return True


def first_step(beta_1, beta_2):
    """The length of Adam's first update without the correction, in learning rates."""
    return (1 - beta_1) / np.sqrt(1 - beta_2)


def is_first_step(answer):
    """Whether a function is `first_step`."""
    random = np.random.default_rng()
    betas = [(0.9, 0.98), (0.9, 0.999), (0.5, 0.9)]
    for beta_1, beta_2 in [*betas, *random.uniform(0.1, 0.95, (4, 2)).tolist()]:
        result = float(answer(beta_1, beta_2))
        if not np.isclose(result, first_step(beta_1, beta_2), rtol=1e-3):
            return False
    return True


def is_tokens_at(answer):
    """Whether a function gives the tokens at a fraction of the peak."""
    random = np.random.default_rng()
    for _ in range(4):
        fraction = float(random.uniform(0.1, 0.9))
        d_model, warmup, tokens = (int(n) for n in random.integers(64, 4096, 3))
        result = float(answer(fraction, d_model, warmup, tokens))
        if not np.isclose(result, warmup / fraction**2 * tokens, rtol=0.01):
            return False
    return True


EXERCISES = {
    "05.1": Exercise(
        test=is_gradient,
        hint=(
            "The derivative of ln sum exp is the softmax; that of the label's logit is 1 at "
            "the label, that of the mean is 1 / V everywhere."
        ),
        wrong=(
            lambda logits, label, e: smoothed_gradient(logits, label, 0.0),
            lambda logits, label, e: -smoothed_gradient(logits, label, e),
            lambda logits, label, e: softmax(logits),
            0,
        ),
    ),
    "05.2": Exercise(
        test=is_epsilon_for,
        hint=(
            "The lowest loss is the entropy of q; it grows with epsilon and must be "
            "ln(perplexity). Halve an interval that contains the answer, many times."
        ),
        wrong=(
            lambda perplexity, vocab_size: 0.1,
            lambda perplexity, vocab_size: 1 - 1 / perplexity,
            lambda perplexity, vocab_size: epsilon_for(np.log(perplexity), vocab_size),
            0.061,
        ),
    ),
    "05.3": Exercise(
        test=is_first_step,
        hint=(
            "Put m = v = 0 on the right side of the first two equations, for one gradient g, and "
            "leave out both divisions by 1 - beta^t: g cancels."
        ),
        wrong=(
            1.0,
            lambda beta_1, beta_2: 1.0,
            lambda beta_1, beta_2: (1 - beta_1) / (1 - beta_2),
            lambda beta_1, beta_2: beta_1 / np.sqrt(beta_2),
        ),
    ),
    "05.4": Exercise(
        test=is_tokens_at,
        hint=(
            "After the peak the rate is proportional to step^-0.5. Solve "
            "(step / warmup_steps)^-0.5 = fraction for the step."
        ),
        wrong=(
            lambda fraction, d_model, warmup, tokens: warmup / fraction * tokens,
            lambda fraction, d_model, warmup, tokens: warmup * fraction * tokens,
            lambda fraction, d_model, warmup, tokens: warmup / fraction**2,
            400_000_000,
        ),
    ),
}
