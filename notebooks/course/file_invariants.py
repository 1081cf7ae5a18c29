"""What holds for every right `my_transformer.py`, as ten measurements.

Each function takes the module and returns a difference that is zero, up to rounding, in a right
file. The first six are invariants of notebook I. The other four are taken from the paper.
"""

import functools

import keras
import numpy as np
import tensorflow as tf

ROUNDING = 1e-4  # the largest difference of two ways to compute a value in float32
V = 12  # sub-words of the small model


@functools.cache
def small_model(file):
    """An untrained model of the file: one layer of each kind, two heads."""
    keras.utils.set_random_seed(3)
    model = file.Transformer(1, 16, 2, 32, V, rate=0.0)
    model(*sentences())
    return model


def sentences():
    """Ids of six sentences of different lengths: source (6, 7), target (6, 6) from START on."""
    random = np.random.default_rng(3)
    inp, tar = random.integers(4, V, (6, 7)), random.integers(4, V, (6, 6))
    tar[:, 0] = 2
    for row in range(6):
        inp[row, 2 + row :], tar[row, 6 - row // 2 :] = 0, 0
    return inp.astype(np.int32), tar.astype(np.int32)


def apart(a, b):
    """The largest difference of two arrays, as a part of the largest value."""
    a, b = np.asarray(a), np.asarray(b)
    return float(np.abs(a - b).max() / np.abs(b).max())


def causality(file):
    """Another last target id changes no earlier logit."""
    model, (inp, tar) = small_model(file), sentences()
    other = tar.copy()
    other[:, -1] = 4 + (tar[:, -1] + 1) % (V - 4)
    return apart(model(inp, other)[0][:, :-1], model(inp, tar)[0][:, :-1])


def padding(file):
    """More padding changes no logit, and no loss."""
    model, (inp, tar) = small_model(file), sentences()
    logits = model(inp, tar)[0]  # (B, T, V)
    more = model(np.pad(inp, [(0, 0), (0, 3)]), np.pad(tar, [(0, 0), (0, 2)]))[0]
    loss = file.label_smoothed_cross_entropy
    more_loss = loss(np.pad(tar, [(0, 0), (0, 2)]), tf.pad(logits, [(0, 0), (0, 2), (0, 0)]))
    return max(apart(more[:, : tar.shape[1]], logits), apart(more_loss, loss(tar, logits)))


def batch(file):
    """A sentence alone has the logits that it has in a batch."""
    model, (inp, tar) = small_model(file), sentences()
    together = model(inp, tar)[0].numpy()  # (B, T, V)
    differences = []
    for source, target, logits in zip(inp, tar, together):
        source, target = source[source > 0], target[target > 0]
        alone = model(source[np.newaxis], target[np.newaxis])[0][0]  # (T, V)
        differences.append(apart(alone, logits[: len(target)]))
    return max(differences)


def full_log_p(file, inp, ids):
    """log p of each next id by one full pass: source (1, S), a list of ids -> (T, V)."""
    logits, _ = small_model(file)(inp, np.array([[2, *ids]], np.int32))
    return tf.nn.log_softmax(logits[0]).numpy()


def cache(file):
    """Position by position, with the cache, comes out what one full pass gives."""
    inp, ids = sentences()[0][5:], [5, 7, 4, 9]
    next_log_probs, _ = file.make_next_log_probs(small_model(file), inp)
    steps = [next_log_probs(np.array([[i]], np.int32))[0] for i in (2, *ids)]
    return apart(steps, full_log_p(file, inp, ids))


def search(file):
    """The score of a hypothesis is its log p, from a full pass, divided by the penalty.

    The difference is 1 if no hypothesis ends.
    """
    inp = sentences()[0][1:2]
    differences = []
    for score, ids in file.beam_search(small_model(file), inp, 8, 0.6, extra=0):
        log_p = full_log_p(file, inp, ids)[np.arange(len(ids)), ids].sum()
        differences.append(apart(score, log_p / ((5 + len(ids)) / 6) ** 0.6))
    return max(differences, default=1.0)


def replicas(file):
    """The loss of a batch is that of its halves, each with the weight of its tokens."""
    inp, tar = sentences()
    halves = [(inp[rows], tar[rows]) for rows in (slice(3), slice(3, 6))]
    tokens = [np.sum(tar[:, 1:] > 0) for _, tar in halves]
    still = keras.optimizers.SGD(0.0)
    whole, *losses = (
        float(file.train_step(small_model(file), still, *rows)) for rows in [(inp, tar), *halves]
    )
    return apart(np.average(losses, weights=tokens), whole)


class Guess:
    """A model that gives the same logits everywhere, whatever it reads."""

    def __init__(self):
        self.trainable_variables = [tf.Variable(np.linspace(-1, 1, V, dtype=np.float32))]

    def __call__(self, inp, tar, training=False):
        """Logits (B, T, V), and no attention weights."""
        return tf.broadcast_to(self.trainable_variables[0], (*tar.shape, V)), {}


def shift(file):
    """The first id is read and never predicted: another one leaves the loss of a guess."""
    inp, tar = sentences()
    other = tar.copy()
    other[:, 0] = 8
    losses = [
        file.train_step(Guess(), keras.optimizers.SGD(0.0), inp, rows) for rows in (other, tar)
    ]
    return apart(*losses)


def scale(file):
    """The logarithm of the ratio of two weights is q (k_1 - k_2) / sqrt(d_k) (Equation 1)."""
    q, k = np.random.default_rng(4).normal(size=(2, 2, 16)).astype(np.float32)
    _, weights = file.scaled_dot_product_attention(q, k, k)  # (2, 2)
    return apart(np.log(weights[:, 0] / weights[:, 1]), q @ (k[0] - k[1]) / 4)


def positions(file):
    """Columns 2i and 2i + 1 are a sine and a cosine of one angle (Section 3.5)."""
    table = file.positional_encoding(50, 16)[0].numpy()  # (50, 16)
    return apart(table[:, 0::2] ** 2 + table[:, 1::2] ** 2, np.ones((50, 8)))


def schedule(file):
    """The rate at update `warmup_steps` is (d_model warmup_steps)^-0.5 (Equation 3)."""
    return apart(file.CustomSchedule(64, 400)(400), (64 * 400) ** -0.5)


INVARIANTS = {
    invariant.__name__: invariant
    for invariant in (
        causality, padding, batch, cache, search, replicas, shift, scale, positions, schedule,
    )
}  # fmt: skip


def broken(file):
    """The names of the invariants that a file breaks."""
    return [name for name, invariant in INVARIANTS.items() if invariant(file) > ROUNDING]
