"""What `check` runs for each blank of `my_transformer.py`, with the package as the oracle.

A case is a generator of (name of the result, the reader's, the right one), and, where mistakes are
typical, a dict from what to say about a mistake to its result.
"""

from course import graduation

import contextlib
import functools
import io
import re
from typing import NamedTuple

import keras
import numpy as np
import sacrebleu
import tensorflow as tf

import tf_transformer as package
from tf_transformer.decoding.beam_search import SearchProblem
from tf_transformer.decoding.beam_search import beam_search as right_beam_search
from tf_transformer.decoding.scores import length_penalty as right_length_penalty

TEXTS = ["Yesterday I bought a red car.", "I sleep.", "Who should he help?"]
MIXED = "A reshape alone mixes positions and heads: transpose"


class Sizes(NamedTuple):
    """Batch, source, target, d_model, heads, width of the FFN, vocabulary."""

    B: int
    S: int
    T: int
    D: int
    H: int
    F: int
    V: int


SIZES = Sizes(2, 5, 4, 12, 3, 32, 50), Sizes(3, 6, 5, 8, 2, 24, 40)


def in_two_sizes(case):
    """Runs a case (m, random, sizes) twice, so that a constant does not pass for an argument."""

    @functools.wraps(case)
    def both(m, random):
        for sizes in SIZES:
            yield from case(m, random, sizes)

    return both


def normal(random, *shape):
    """Random numbers, float32."""
    return tf.constant(random.normal(size=shape), tf.float32)


def ids(random, batch, length, vocab_size=50):
    """Random ids (B, S) of all kinds, with 0 to B - 1 times padding at the ends of the rows."""
    array = random.integers(4, vocab_size, (batch, length)).astype("int32")
    array[:, :3] = random.permutation([1, 2, 3])  # unknown, START, END
    for row, padding in enumerate(random.permutation(batch)):
        array[row, length - padding :] = 0
    return tf.constant(array)


def copy(mine, theirs):
    """Copies the weights of a layer to that of the package; both have been called."""
    weights = mine.get_weights()
    shapes = [w.shape for w in weights], [w.shape for w in theirs.get_weights()]
    if shapes[0] != shapes[1]:
        unused = [name for name, part in vars(mine).items()
                  if hasattr(theirs, name) and getattr(part, "built", True) is False]  # fmt: skip
        shapes = "weights of the shapes {}, which must be {}".format(*shapes)
        raise AssertionError(f"never called: {' and '.join(unused)}" if unused else shapes)
    theirs.set_weights([w + 0.02 * i for i, w in enumerate(weights)])  # no zeros, no ones
    mine.set_weights(theirs.get_weights())


def flat(arrays):
    """The numbers of all arrays, one after the other."""
    return np.concatenate([np.ravel(array) for array in arrays])


def is_random(call):
    """Whether two calls differ, as with dropout."""
    return not np.allclose(call(), call())


def without_dropout(layer):
    """Sets the rates of the layer's own dropout to 0."""
    for part in vars(layer).values():
        if isinstance(part, keras.layers.Dropout):
            part.rate = 0.0


def each_dropout(layer, x, call):
    """Each dropout of a layer alone, then all at once; `call` returns the result for x."""
    names = sorted(name for name in vars(layer) if name.startswith("dropout"))
    for name in names:
        without_dropout(layer)
        getattr(layer, name).rate = 0.5
        yield f"{name} is on with training=True", is_random(call), True
    for name in names:
        getattr(layer, name).rate = 1 - 1e-12  # which keeps nothing
        norm = getattr(layer, name.replace("dropout", "layernorm"))
        x, nothing = norm(x), norm(0 * x)
    wrong = {"Dropout belongs before the addition: the residual path is never dropped": nothing}
    yield "the result where dropout drops all that it may", call(), x, wrong


@in_two_sizes
def attention(m, random, n):
    """Equation 1."""
    q, k = normal(random, n.B, n.T, n.D), normal(random, n.B, n.S, n.D)
    v, right = normal(random, n.B, n.S, 3), package.scaled_dot_product_attention
    yield "the result", m.scaled_dot_product_attention(q, k, v, None), right(q, k, v), {
        "The scores are not divided by the square root of d_k": right(q * n.D**0.5, k, v),
        "The scores are divided by d_k, not by its square root": right(q / n.D**0.5, k, v),
    }  # fmt: skip
    q *= 100  # a hidden key has no weight, also with a score that is much larger than the others
    mask = tf.cast(tf.range(n.S) % 2 == 0, tf.float32)[tf.newaxis]
    wrong = {
        "The mask changes nothing": right(q, k, v),
        "The mask is inverted: 1 must hide": right(q, k, v, 1 - mask),
    }
    got = m.scaled_dot_product_attention(q, k, v, mask)
    yield "the result with a mask", got, right(q, k, v, mask), wrong


@in_two_sizes
def padding_mask(m, random, n):
    """(B, 1, 1, S)."""
    seq = ids(random, n.B, n.S)
    right = package.create_padding_mask(seq)
    yield "the mask", m.create_padding_mask(seq), right, {"1 must hide, not show": 1 - right}


@in_two_sizes
def look_ahead_mask(m, random, n):
    """(T, T)."""
    right = package.create_look_ahead_mask(n.T)
    wrong = {
        "1 must hide, not show": 1 - right,
        "It hides the columns before t, not those after t": tf.transpose(right),
        "A position must see itself": tf.maximum(right, tf.eye(n.T)),
    }
    yield "the mask", m.create_look_ahead_mask(n.T), right, wrong


@in_two_sizes
def masks(m, random, n):
    """All three."""
    inp, tar = ids(random, n.B, n.S), ids(random, n.B, n.T)
    right = package.create_masks(inp, tar)
    without = package.create_look_ahead_mask(n.T)
    wrong = {"The decoder's mask does not hide the padding of tar": (right[0], without, right[2])}
    yield "the result", m.create_masks(inp, tar), right, wrong


@in_two_sizes
def split_heads(m, random, n):
    """(B, S, D) -> (B, H, S, K)."""
    x = normal(random, n.B, n.S, n.D)
    right = tf.transpose(tf.reshape(x, (n.B, n.S, n.H, -1)), (0, 2, 1, 3))
    wrong = {MIXED: tf.reshape(x, right.shape)}
    yield "the result", m.MultiHeadAttention(n.D, n.H).split_heads(x), right, wrong


@in_two_sizes
def merge_heads(m, random, n):
    """(B, H, T, K) -> (B, T, D)."""
    x = normal(random, n.B, n.H, n.T, n.D // n.H)
    right = tf.reshape(tf.transpose(x, (0, 2, 1, 3)), (n.B, n.T, n.D))
    wrong = {MIXED: tf.reshape(x, right.shape)}
    yield "the result", m.MultiHeadAttention(n.D, n.H).merge_heads(x), right, wrong


@in_two_sizes
def multi_head(m, random, n):
    """The whole layer, with different queries, keys and values."""
    mine, theirs = (f.MultiHeadAttention(n.D, n.H) for f in (m, package))
    v, k, q = (normal(random, n.B, length, n.D) for length in (n.S, n.S, n.T))
    mine(v, k, q), theirs(v, k, q)
    copy(mine, theirs)
    mask = package.create_padding_mask(ids(random, n.B, n.S))
    wrong = {
        "The mask does not reach the attention": theirs(v, k, q),
        "Queries go through wq, keys through wk, values through wv": theirs(k, v, q, mask),
    }
    yield "the result with a mask", mine(v, k, q, mask), theirs(v, k, q, mask), wrong


@in_two_sizes
def positional_encoding(m, random, n):
    """(1, position, D)."""
    right = package.positional_encoding(n.V, n.D).numpy()
    halves = np.concatenate([right[..., 0::2], right[..., 1::2]], axis=-1)
    wrong = {"Sines are in the even columns, cosines in the odd ones": halves}
    got = m.positional_encoding(n.V, n.D)
    yield "the table", got, right, wrong
    yield "the table is a tensor, as of tf.constant", tf.is_tensor(got), True


@in_two_sizes
def embedding(m, random, n):
    """Ids to vectors."""
    layer, seq = m.Embedding(n.V, n.D), ids(random, n.B, n.S, n.V)
    rows = layer.table.numpy()[seq.numpy()]
    right = n.D**0.5 * rows
    yield "the result", layer(seq), right, {"The factor sqrt(d_model) is missing": rows}


@in_two_sizes
def embedding_logits(m, random, n):
    """Vectors to logits."""
    layer, x = m.Embedding(n.V, n.D), normal(random, n.B, n.T, n.D)
    right = x.numpy() @ layer.table.numpy().T
    wrong = {"Here is no factor sqrt(d_model)": n.D**0.5 * right}
    yield "the result", layer.logits(x), right, wrong


@in_two_sizes
def layer_normalization(m, random, n):
    """Mean 0 and variance 1 for each position, then gamma and beta."""
    epsilon = 1e-7 * n.V
    layer, x = m.LayerNormalization(epsilon), 5 + 2 * normal(random, n.B, n.S, n.D)
    layer(x)
    for i, variable in enumerate((layer.gamma, layer.beta)):
        variable.assign(normal(random, n.D) + i)
    parts = layer.gamma.numpy(), layer.beta.numpy()

    def right(axis):
        mean, variance = x.numpy().mean(axis, keepdims=True), x.numpy().var(axis, keepdims=True)
        return parts[0] * (x.numpy() - mean) / np.sqrt(variance + epsilon) + parts[1]

    wrong = {"Take mean and variance over the last axis: each position alone": right(1)}
    yield "the result", layer(x), right(-1), wrong
    x = 1e-3 * x  # epsilon counts
    yield "the result for small numbers (epsilon is inside the root)", layer(x), right(-1)


@in_two_sizes
def feed_forward(m, random, n):
    """Equation 2."""
    mine, theirs = (f.point_wise_feed_forward_network(n.D, n.F) for f in (m, package))
    x = 9 * normal(random, n.B, n.S, n.D)
    shape = tuple(mine(x).shape)
    theirs(x)
    yield "the shape of the result", shape, tuple(x.shape)
    copy(mine, theirs)
    inner, outer = theirs.layers
    wrong = {"The inner layer has no activation: relu": outer(x @ inner.kernel + inner.bias)}
    yield "the result", mine(x), theirs(x), wrong


@in_two_sizes
def encoder_layer(m, random, n):
    """One layer with a mask, and its dropout."""
    mine, theirs = (f.EncoderLayer(n.D, n.H, n.F, 0.5) for f in (m, package))
    x, mask = normal(random, n.B, n.S, n.D), package.create_padding_mask(ids(random, n.B, n.S))
    mine(x), theirs(x)
    copy(mine, theirs)
    wrong = {"The mask does not reach the attention": theirs(x, mask=0.0)}
    yield "the result with a mask", mine(x, False, mask), theirs(x, False, mask), wrong
    if n == SIZES[-1]:
        yield from each_dropout(mine, x, lambda: mine(x, training=True))


@in_two_sizes
def decoder_layer(m, random, n):
    """One layer with both masks."""
    mine, theirs = (f.DecoderLayer(n.D, n.H, n.F, 0.5) for f in (m, package))
    x, enc_output = normal(random, n.B, n.T, n.D), normal(random, n.B, n.S, n.D)
    _, ahead, padding = package.create_masks(ids(random, n.B, n.S), ids(random, n.B, n.T))
    mine(x, enc_output), theirs(x, enc_output)
    copy(mine, theirs)
    right = theirs(x, enc_output, look_ahead_mask=ahead, padding_mask=padding)
    wrong = {
        "The look-ahead mask does not reach mha1": theirs(x, enc_output, False, 0.0, padding),
        "The padding mask does not reach mha2": theirs(x, enc_output, False, ahead, 0.0),
    }
    yield "the result with masks", mine(x, enc_output, False, ahead, padding), right, wrong
    options = {"padding_mask": padding, "cache": m.Cache()}
    parts = [mine(x[:, t : t + 1], enc_output, **options)[0] for t in range(n.T)]
    ahead = package.create_look_ahead_mask(n.T)
    right, *_ = mine(x, enc_output, False, ahead, padding)
    yield "the output position by position, with a cache", tf.concat(parts, 1), right
    if n == SIZES[-1]:
        yield from each_dropout(mine, x, lambda: mine(x, enc_output, training=True)[0])


def stack_parts(stack, embedding, call):
    """Dropout and the last layer of a stack; `call` returns the output (B, T, D)."""
    sizes = embedding.d_model, 2, 16, embedding
    layers, none = (stack(number, *sizes, 0.5) for number in (1, 0))
    differ = is_random(lambda: call(none, True))
    yield "dropout is on after the positions with training=True", differ, True
    without_dropout(layers)
    differ = is_random(lambda: call(layers, True))
    yield "dropout is on in the layers with training=True", differ, True
    pre = stack(0, *sizes, norm="pre")
    x = call(none)
    yield "the result for norm='pre'", call(pre), pre.layernorm(x), {
        "The result is self.layernorm(x): it counts for norm='pre'": x
    }  # fmt: skip


@in_two_sizes
def encoder(m, random, n):
    """Two layers, on ids."""
    mine = m.Encoder(2, n.D, n.H, n.F, m.Embedding(n.V, n.D))
    theirs = package.Encoder(2, n.D, n.H, n.F, n.V, 1024)
    seq = ids(random, n.B, n.S, n.V)
    mask = package.create_padding_mask(seq)
    mine(seq), theirs(seq)
    copy(mine, theirs)
    wrong = {"The mask does not reach the layers": theirs(seq, mask=0.0)}
    yield "the result", mine(seq, False, mask), theirs(seq, False, mask), wrong
    if n == SIZES[-1]:
        yield from stack_parts(m.Encoder, mine.embedding, lambda stack, *on: stack(seq, *on))


@in_two_sizes
def decoder(m, random, n):
    """Two layers, on ids, and position by position with a cache."""
    mine = m.Decoder(2, n.D, n.H, n.F, m.Embedding(n.V, n.D))
    theirs = package.Decoder(2, n.D, n.H, n.F, n.V, 1024)
    tar, enc_output = ids(random, n.B, n.T, n.V), normal(random, n.B, n.S, n.D)
    _, ahead, padding = package.create_masks(ids(random, n.B, n.S), tar)
    mine(tar, enc_output), theirs(tar, enc_output)
    copy(mine, theirs)
    right, right_weights = theirs(tar, enc_output, False, ahead, padding)
    x, weights = mine(tar, enc_output, False, ahead, padding)
    yield "the output", x, right
    yield "the attention weights", weights, right_weights
    options = {"padding_mask": padding, "cache": m.Cache()}
    parts = [mine(tar[:, t : t + 1], enc_output, **options)[0] for t in range(n.T)]
    ahead = package.create_look_ahead_mask(n.T)
    right, _ = mine(tar, enc_output, False, ahead, padding)
    yield "the output with a cache", tf.concat(parts, 1), right
    if n == SIZES[-1]:
        yield from stack_parts(
            m.Decoder, mine.embedding, lambda stack, *on: stack(tar, enc_output, *on)[0]
        )


def transformer(m, random):
    """The weights of the trained model."""
    model = m.Transformer(2, 128, 4, 512, 2000)
    theirs = graduation.load_weights(model, "pocket-en-de")
    inp, tar = ids(random, 2, 7), ids(random, 2, 5)
    logits, weights = model(inp, tar)
    right, right_weights = theirs(inp, tar)
    yield "the logits of the trained model", logits, right
    yield "the attention weights", weights, right_weights
    model = m.Transformer((0, 1), 8, 2, 16, 50, rate=0.5)
    for here, other in (("encoder", model.decoder), ("decoder", model.encoder)):
        model.encoder.dropout.rate = model.decoder.dropout.rate = 0.5
        for layer in (other, *model.decoder.dec_layers):
            without_dropout(layer)
        differ = is_random(lambda: model(inp, tar, training=True)[0])
        yield f"dropout of the {here} is on with training=True", differ, True


@in_two_sizes
def cross_entropy(m, random, n):
    """The mean over the real tokens, for two epsilons."""
    labels, loss = ids(random, n.B, n.T, n.V), package.label_smoothed_cross_entropy
    logits = normal(random, n.B, n.T, n.V) + 6 * tf.one_hot(labels, n.V)
    for epsilon in (0.1, 0.3):
        total, tokens = loss(labels, logits, epsilon)
        plain, uniform = (loss(labels, logits, e)[0] / tokens for e in (0.0, 1.0))
        others = (n.V * uniform - plain) / (n.V - 1)
        wrong = {
            "This is the loss without label smoothing": plain,
            "Use the argument epsilon: here it is 0.3": loss(labels, logits, 0.1)[0] / tokens,
            "This is the sum over the tokens, not the mean": total,
            "Divide by the number of real tokens, without the padding": total / (n.B * n.T),
            "Divide epsilon by V": plain + epsilon * (n.V * uniform - plain),
            "The label gets its part of epsilon too: divide epsilon by V, not by V - 1":
                plain + epsilon * (others - plain),
        }  # fmt: skip
        got = m.label_smoothed_cross_entropy(labels, logits, epsilon)
        yield f"the loss for epsilon = {epsilon}", got, total / tokens, wrong


def custom_schedule(m, random):
    """Before and after the warm-up."""
    for sizes in ((512, 4000, 2.0), (128, 300, 0.8)):
        mine, theirs = m.CustomSchedule(*sizes), package.CustomSchedule(*sizes)
        in_graph = tf.function(mine.__call__, autograph=False)  # as `train` calls it
        for step in (1, 1000, 4000, 16000):
            rate = in_graph(tf.constant(step))
            yield f"the rate (times 1000) at step {step}", 1000 * rate, 1000 * theirs(step)


def make_batches(m, random):
    """Each pair once, below the limit, with little padding."""
    lengths = random.integers(2, 30, 400).tolist()
    pairs = [([4 + i] * (n + 1), [4 + i] * (n + i % 7)) for i, n in enumerate(lengths)]
    batches = m.make_batches(pairs, 200)
    rows = sorted(int(row[0]) - 4 for inp, _ in batches for row in inp)
    yield "the number of pairs in all batches", len(rows), 400
    yield "the list of the pairs in all batches, sorted", rows, list(range(400))
    size = max(len(inp) * max(inp.shape[1], tar.shape[1]) for inp, tar in batches)
    yield "all batches are within the limit", size <= 200, True
    padding = np.mean([np.mean(tar == 0) for _, tar in batches])
    yield "less than 10% is padding", padding < 0.1, True
    yield "batches are as full as they can be", len(batches) < 50, True
    long = m.make_batches([([4] * 9, [4] * 9)] * 2, 5)
    yield "the number of batches of two pairs, each longer than the limit", len(long), 2


def small_model(m, rate=0.0):
    """A tiny model that was never called, always with the same weights.

    Returns: the model, three batches as of `make_batches`, the package's loss of a batch.
    """
    keras.utils.set_random_seed(1)
    random, model = np.random.default_rng(1), m.Transformer(1, 8, 2, 16, 50, rate)
    batches = [(ids(random, b, b + 3), ids(random, b, b + 4)) for b in (2, 3, 4)]

    def loss(inp, tar):
        logits, _ = model(inp, tar[:, :-1], training=True)
        total, tokens = package.label_smoothed_cross_entropy(tar[:, 1:], logits)
        return total / tokens

    return model, batches, loss


def train_step(m, random):
    """One step of plain gradient descent."""
    (mine, (batch, *_), _), (theirs, _, loss) = small_model(m), small_model(m)
    with tf.GradientTape() as tape:
        right = loss(*batch)
    before = theirs.get_weights()
    gradients = tape.gradient(right, theirs.trainable_variables)
    updates = [-tf.convert_to_tensor(gradient) for gradient in gradients]
    got = m.train_step(mine, keras.optimizers.SGD(1.0), *batch)
    yield "the loss before the update", got, right
    changes = [after - weight for after, weight in zip(mine.get_weights(), before)]
    first_only = [updates[0], *(0 * update for update in updates[1:])]
    wrong = {
        "The weights do not change: apply the gradients": [0 * update for update in updates],
        "Take model.trainable_variables after the forward pass, which creates them": first_only,
    }
    wrong = {text: flat(each) for text, each in wrong.items()}
    yield "the change of all weights", flat(changes), flat(updates), wrong
    (mine, _, loss), sgd = small_model(m, rate=0.5), keras.optimizers.SGD(0.0)
    loss(*batch)  # creates the weights
    in_graph = tf.function(lambda: m.train_step(mine, sgd, *batch), autograph=False)
    yield "dropout is on: training=True", is_random(in_graph), True


def train(m, random):
    """Two hundred updates on three batches, of which six change nothing, and what is printed."""
    model, batches, loss = small_model(m)
    first, printed = [float(loss(*batch)) for batch in batches], io.StringIO()
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([5], [0.0, 0.01])
    with contextlib.redirect_stdout(printed):
        losses = m.train(model, batches, 200, rate)
    yield "the number of losses for 200 updates on 3 batches", len(losses), 200
    wrong = {"Each update takes the next batch, and after the last one the first": 3 * first[:1]}
    first.sort()
    for update in (0, 3):
        got = sorted(losses[update : update + 3])
        yield f"the losses of each batch from update {update + 1} on, sorted", got, first, wrong
    yield "the loss has fallen", np.mean(losses[-3:]) < np.mean(first), True
    numbers = list(map(float, re.findall(r"\d+\.\d+", printed.getvalue())))
    for update in (100, 200):
        yield f"the loss of update {update} is printed", str(update) in printed.getvalue(), True
        mean = np.mean(losses[update - 100 : update])
        is_mean = any(abs(number - mean) < 0.06 for number in numbers)
        yield f"the mean of the last 100 losses is printed at update {update}", is_mean, True


def in_training(m, random):
    """The loss in a graph for all lengths, as in `train`, is that without a graph."""
    model, (batch, *_), loss = small_model(m)
    right = loss(*batch)  # creates the weights
    signature = [tf.TensorSpec((None, None), tf.int32)] * 2

    @tf.function(input_signature=signature, autograph=False)
    def in_graph(inp, tar):
        logits, _ = model(inp, tar[:, :-1], training=True)
        return m.label_smoothed_cross_entropy(tar[:, 1:], logits)

    yield "the loss", in_graph.get_concrete_function()(*batch), right


def cache_append(m, random):
    """Three steps."""
    cache, parts = m.Cache(), [normal(random, 2, 3, n, 4) for n in (2, 1, 1)]
    for part in parts:
        got = cache.append("layer", part, 2 * part)
    right, newest = tf.concat(parts, axis=2), tf.concat(parts[1:], axis=2)
    wrong = {
        "The earlier keys and values are lost": (parts[2], 2 * parts[2]),
        "Store all keys and values, not the new ones alone": (newest, 2 * newest),
    }
    yield "the result of the third call", got, (right, 2 * right), wrong
    yield "the first result for another layer", cache.append("other", part, part), (part, part)


def trained(m):
    """The trained model in the reader's code, its vocabularies, and three sources (B, S)."""
    model = m.Transformer(2, 128, 4, 512, 2000)
    graduation.load_weights(model, "pocket-en-de")
    source, target = graduation.vocabularies("pocket-en-de")
    rows = [[*source.encode(text), 3] for text in TEXTS]
    length = max(map(len, rows))
    inp = np.array([row + [0] * (length - len(row)) for row in rows], np.int32)
    return model, target, inp


def is_same(got, right):
    """Whether both are equal; prints them where they differ."""
    if got != right:
        print(f"  yours: {got}\n  right: {right}")
    return got == right


def greedy_search(m, random):
    """The translations of the package."""
    model, target, inp = trained(m)
    right = package.Translator.load("pocket-en-de", beam_size=1)(TEXTS)
    make, calls = m.make_next_log_probs, []

    def counted(*arguments):
        next_log_probs, cache = make(*arguments)
        return lambda newest: calls.append(1) or next_log_probs(newest), cache

    m.make_next_log_probs = counted
    rows = m.greedy_search(model, inp)
    got = [target.decode(row) for row in rows]
    yield "the translations are those of the package", is_same(got, right), True
    in_time = len(calls) <= max(map(len, rows)) + 1
    yield "the search ends when each sentence has its END", in_time, True
    m.make_next_log_probs = lambda *_: (lambda newest: tf.one_hot([4] * len(newest), 9), None)
    (endless,) = m.greedy_search(None, np.zeros((1, 5), int), extra=2)
    yield "the number of ids without END, for 5 ids of the source and extra = 2", len(endless), 7


def length_penalty(m, random):
    """Numbers."""
    for length, alpha in ((1, 0.6), (10, 0.6), (10, 0.0), (30, 1.0)):
        right = right_length_penalty(length, alpha)
        yield f"lp({length}) for alpha {alpha}", m.length_penalty(length, alpha), right


def beam_search(m, random):
    """The best hypothesis of toys, then the best translation and its score."""
    # Seeds on which typical mistakes give another best hypothesis.
    for seed, alpha in ((3, 0.6), (14, 0.6), (27, 0.6), (5, 1.2)):
        (score, got), (right_score, right) = toy_outputs(m, seed, alpha)
        yield "the ids end with END", got[-1] == 3, True
        yield "the ids begin after START", 2 not in got, True
        rule = "an END counts only among the 2 best of all extensions, and ends its prefix"
        same = is_same(got, right)
        yield f"the best hypothesis of a toy with a beam of 2 is right ({rule})", same, True
        yield f"its score for alpha = {alpha}", score, right_score
    model, target, inp = trained(m)
    best = package.Translator.load("pocket-en-de").n_best([TEXTS[0], TEXTS[2]], 1)
    for row, right in zip((inp[:1], inp[2:]), best):
        row = row[:, : np.count_nonzero(row)]
        score, ids_of_best = m.beam_search(model, row)[0]
        text = target.decode(ids_of_best)
        yield "the translation is right", is_same(text, right[0][0]), True
        yield "the score of the translation", score, right[0][1]


def toy_outputs(m, seed, alpha):
    """The best hypothesis of a beam of 2 for a random model that knows the last word only.

    Returns: score and ids of the reader, and of the package.
    """
    logits = 2 * normal(np.random.default_rng(seed), 6, 6) + [-1e9, 0, -1e9, 2, 0, 0]
    table = tf.nn.log_softmax(logits)  # (last id, next id)

    class Cache:
        def select(self, rows):
            assert rows, "`kept` is empty: after the ENDs are gone, beam_size prefixes must remain"
            assert len(rows) <= 2, f"`kept` has {len(rows)} prefixes with a beam size of 2"

    make = m.make_next_log_probs
    m.make_next_log_probs = lambda *_: (lambda ids: tf.gather(table, ids[:, 0]), Cache())
    hypotheses = m.beam_search(None, np.zeros((1, 1), int), beam_size=2, alpha=alpha, extra=60)
    assert hypotheses, "no hypothesis ends in a toy: the best extensions come first"
    m.make_next_log_probs = make
    problem = SearchProblem(
        lambda ids, _, rows, state: (tf.gather(table, ids), state), (), tf.constant([61]), alpha
    )
    right = right_beam_search(problem, beam_size=2)
    return hypotheses[0], (right.scores[0, 0], [i for i in right.ids[0, 0].numpy().tolist() if i])


def clipped_matches(m, random):
    """The example of Papineni et al. 2002."""
    theirs = "the cat is on the mat".split()
    right = {1: (2, 7), 2: (0, 6)}
    for n, counts in right.items():
        got = m.clipped_matches(["the"] * 7, theirs, n)
        wrong = {"Clip: count an n-gram at most as often as in the reference": (7, 7)}
        yield f"the counts of 7 x 'the', n = {n}", got, counts, wrong
    yield "the counts of equal sentences, n = 4", m.clipped_matches(theirs, theirs, 4), (3, 3)


def bleu(m, random):
    """Three hundred sentences with errors, also shorter and longer ones."""
    words = "der die das ein eine Auto Haus rot alt ist hat . , ich du".split()
    references = [" ".join(random.choice(words, 12)) for _ in range(300)]
    for length in (12, 9, 15):
        ours = [[random.choice(words) if random.random() < 0.2 else word for word in line.split()]
                for line in references]  # fmt: skip
        ours = [" ".join([*line, "ja", "ja", "ja"][:length]) for line in ours]
        right = sacrebleu.corpus_bleu(ours, [references], tokenize="none").score
        penalty = np.exp(1 - 12 / length)
        wrong = {"The brevity penalty is missing or upside down": right / penalty}
        if length > 12:
            wrong = {"The brevity penalty is at most 1": right * penalty}
        yield f"BLEU of sentences of {length} words", m.bleu(ours, references), right, wrong
    for text in ("", "der Hund"):
        yield f"BLEU of {text!r} (no 4-grams)", m.bleu([text], ["der Hund bellt ."]), 0.0


CASES = {
    "scaled_dot_product_attention": attention, "create_padding_mask": padding_mask,
    "create_look_ahead_mask": look_ahead_mask, "create_masks": masks,
    "split_heads": split_heads, "merge_heads": merge_heads, "project_to_heads": multi_head,
    "multi_head_attention": multi_head, "positional_encoding": positional_encoding,
    "embedding": embedding, "embedding_logits": embedding_logits,
    "layer_normalization": layer_normalization, "feed_forward_network": feed_forward,
    "encoder_layer": encoder_layer, "decoder_layer": decoder_layer, "encoder": encoder,
    "decoder": decoder, "transformer": transformer, "label_smoothed_cross_entropy": cross_entropy,
    "custom_schedule": custom_schedule, "make_batches": make_batches, "train_step": train_step,
    "train": train, "cache_append": cache_append, "greedy_search": greedy_search,
    "length_penalty": length_penalty, "beam_search": beam_search,
    "clipped_matches": clipped_matches, "bleu": bleu,
}  # fmt: skip
IN_GRAPH = list(CASES)[: list(CASES).index("custom_schedule")]  # the model and the loss
