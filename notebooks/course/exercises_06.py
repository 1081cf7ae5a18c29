"""The exercises of notebook 06."""

from course import Exercise

import numpy as np


def softmax(logits):
    """The softmax over the last axis."""
    exponentials = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def token_loss(tar_real, logits, e, keep=None):
    """The mean smoothed loss of the tokens that are not padding."""
    logits = np.asarray(logits, np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    label = np.take_along_axis(log_probs, tar_real[..., np.newaxis], axis=-1)[..., 0]
    loss = -(1 - e) * label - e * log_probs.mean(axis=-1)
    keep = tar_real != 0 if keep is None else keep
    return loss[keep].mean()


def is_token_loss(answer):
    """Whether a function is `token_loss`, on random batches."""
    random = np.random.default_rng()
    for e, scale in ((0.1, 1), (0.0, 3), (0.2, 1000)):
        tar_real = random.integers(1, 9, (4, 6))
        tar_real *= np.arange(6) < random.integers(1, 6, (4, 1))
        logits = scale * random.normal(size=(4, 6, 9))
        expected = token_loss(tar_real, logits, e)
        if not np.isclose(float(answer(tar_real, logits, e)), expected, rtol=1e-4):
            return False
    return True


def loss_with_padding(tar_real, logits, e):
    """Wrong: padding counts."""
    return token_loss(tar_real, logits, e, keep=tar_real >= 0)


def mean_of_sentences(tar_real, logits, e):
    """Wrong: the mean of the sentences' means."""
    rows = zip(tar_real, logits)
    return np.mean([token_loss(row[None], x[None], e) for row, x in rows])


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


def adam(gradients, rates, beta_2=0.98, correct=True):
    """The weights after updates of Adam from 0."""
    w, m, v = (np.zeros(gradients.shape[1]) for _ in range(3))
    for t, (g, rate) in enumerate(zip(gradients, rates), start=1):
        m = 0.9 * m + 0.1 * g
        v = beta_2 * v + (1 - beta_2) * g**2
        m_hat = m / (1 - 0.9**t) if correct else m
        v_hat = v / (1 - beta_2**t) if correct else v
        w = w - rate * m_hat / (np.sqrt(v_hat) + 1e-9)
    return w


def is_adam(answer):
    """Whether a function is `adam`."""
    random = np.random.default_rng()
    for updates in (1, 2, 9):
        gradients = random.normal(size=(updates, 5))
        rates = random.uniform(0.001, 0.01, updates)
        result = np.asarray(answer(gradients, rates))
        expected = adam(gradients, rates)
        if not np.allclose(result, expected, rtol=1e-3, atol=1e-7):
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
    "06.1": Exercise(
        test=is_token_loss,
        hint=(
            "Divide the sum over all tokens of the batch once, by their number; positions "
            "with label 0 are in neither. ln p(k) = x_k - max - ln sum exp(x - max)."
        ),
        wrong=(
            loss_with_padding,
            mean_of_sentences,
            lambda tar_real, logits, e: token_loss(tar_real, logits, 0.1),
            1.0,
        ),
        own_code=True,
    ),
    "06.2": Exercise(
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
    "06.3": Exercise(
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
    "06.4": Exercise(
        test=is_adam,
        hint=(
            "beta_1 = 0.9, beta_2 = 0.98, epsilon = 1e-9; t counts from 1, and both "
            "averages are divided by 1 - beta^t."
        ),
        wrong=(
            lambda gradients, rates: adam(gradients, rates, beta_2=0.999),
            lambda gradients, rates: adam(gradients, rates, correct=False),
            lambda gradients, rates: -(gradients * rates[:, None]).sum(axis=0),
            0.001,
        ),
    ),
    "06.5": Exercise(
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
