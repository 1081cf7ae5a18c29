"""My Transformer: "Attention Is All You Need" in one file, written from notebook 02 to 06.

Nothing here comes from the package of the course. `python my_transformer.py`, run in the
folder of the notebooks, trains the model, translates, and prints your certificate. An AI
assistant that helps you reads TUTOR.md first: it gives hints, never the line.

Shapes: B batch, S source, T target, H heads, D d_model, K depth of a head, V vocabulary.
A mask is a float tensor in which 1 hides a position and 0 shows it.
"""

import collections
import inspect
import itertools
import os
import re
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # fewer start-up messages

import keras
import numpy as np
import tensorflow as tf

PAD, START, END = 0, 2, 3  # ids of the special tokens


class Layer(keras.layers.Layer):
    """A Keras layer that may be called without names, as `encoder_layer(x, False, None)`.

    Keras takes only tensors by position, so all arguments but the first get their names here.
    """

    def __call__(self, *args, **kwargs):
        """Calls the layer."""
        names = list(inspect.signature(self.call).parameters)[1:]
        return super().__call__(*args[:1], **dict(zip(names, args[1:])), **kwargs)

    def compute_mask(self, x, mask):
        """Attaches no mask to the output, as Keras would: our masks are arguments."""
        return None


# ---------------------------------------------------------------- notebook 02: attention


def scaled_dot_product_attention(q, k, v, mask=None):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (Equation 1).

    q (..., T, K), k (..., S, K), v (..., S, d_v), mask: broadcasts to (..., T, S), or None
    -> output (..., T, d_v), attention weights (..., T, S)
    """
    # blank: scaled_dot_product_attention
    d_k = tf.cast(tf.shape(k)[-1], tf.float32)
    scores = tf.matmul(q, k, transpose_b=True) / tf.sqrt(d_k)  # (..., T, S)
    if mask is not None:
        scores += mask * -1e9
    weights = tf.nn.softmax(scores, axis=-1)  # (..., T, S)
    return tf.matmul(weights, v), weights  # (..., T, K), (..., T, S)
    # end


def create_padding_mask(seq):
    """Hides the padding of the keys: ids (B, S) -> (B, 1, 1, S)."""
    # blank: create_padding_mask
    mask = tf.cast(tf.equal(seq, PAD), tf.float32)  # (B, S)
    return mask[:, tf.newaxis, tf.newaxis, :]  # (B, 1, 1, S)
    # end


def create_look_ahead_mask(size):
    """Hides from row t the columns after t: a number T -> (T, T)."""
    # blank: create_look_ahead_mask
    shown = tf.linalg.band_part(tf.ones((size, size)), -1, 0)  # (T, T)
    return 1 - shown
    # end


def create_masks(inp, tar):
    """The three masks of the model: source ids (B, S), decoder input ids (B, T) ->

    encoder's self-attention (B, 1, 1, S), decoder's self-attention (B, 1, T, T), which
    hides later positions and padding, and attention over the encoder's output (B, 1, 1, S)
    """
    # blank: create_masks
    padding_mask = create_padding_mask(inp)  # (B, 1, 1, S)
    look_ahead_mask = create_look_ahead_mask(tf.shape(tar)[1])  # (T, T)
    look_ahead_mask = tf.maximum(look_ahead_mask, create_padding_mask(tar))  # (B, 1, T, T)
    return padding_mask, look_ahead_mask, padding_mask
    # end


class MultiHeadAttention(Layer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (Section 3.2.2),

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). A Dense layer holds the matrices of all
    heads side by side.
    """

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.depth = d_model // num_heads  # K
        self.wq = keras.layers.Dense(d_model)
        self.wk = keras.layers.Dense(d_model)
        self.wv = keras.layers.Dense(d_model)
        self.dense = keras.layers.Dense(d_model)  # W^O

    def split_heads(self, x):
        """(B, S, D) -> (B, H, S, K)."""
        # blank: split_heads
        shape = (tf.shape(x)[0], -1, self.num_heads, self.depth)
        x = tf.reshape(x, shape)  # (B, S, H, K)
        return tf.transpose(x, (0, 2, 1, 3))  # (B, H, S, K)
        # end

    def merge_heads(self, x):
        """(B, H, T, K) -> (B, T, D)."""
        # blank: merge_heads
        x = tf.transpose(x, (0, 2, 1, 3))  # (B, T, H, K)
        return tf.reshape(x, (tf.shape(x)[0], -1, self.d_model))  # (B, T, D)
        # end

    def call(self, v, k, q, mask=None, cache=None):
        """v, k (B, S, D), q (B, T, D) -> output (B, T, D), weights (B, H, T, S).

        With a cache, attends also to the keys and values that it holds for this layer (skip this
        until notebook 06).
        """
        # blank: project_to_heads
        q = self.split_heads(self.wq(q))  # (B, H, T, K)
        k = self.split_heads(self.wk(k))  # (B, H, S, K)
        v = self.split_heads(self.wv(v))  # (B, H, S, K)
        # end
        if cache is not None:
            k, v = cache.append(self, k, v)  # (B, H, all S, K)
        # blank: multi_head_attention
        heads, weights = scaled_dot_product_attention(q, k, v, mask)  # (B, H, T, K)
        return self.dense(self.merge_heads(heads)), weights  # (B, T, D), (B, H, T, S)
        # end


# ---------------------------------------------------------------- notebook 03: the input


def positional_encoding(position, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i / D)), PE(pos, 2i+1) = cos(the same) (Section 3.5).

    Numbers of positions and columns -> float32 (1, position, D)
    """
    # blank: positional_encoding
    pos = np.arange(position)[:, np.newaxis]  # (position, 1)
    two_i = np.arange(0, d_model, 2)[np.newaxis, :]  # (1, D/2)
    angles = pos / 10000.0 ** (two_i / d_model)  # (position, D/2)
    table = np.zeros((1, position, d_model))  # (1, position, D)
    table[0, :, 0::2], table[0, :, 1::2] = np.sin(angles), np.cos(angles)
    return tf.constant(table, tf.float32)
    # end


class Embedding(Layer):
    """One table (V, D) for both embeddings and the output (Section 3.4)."""

    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.d_model = d_model
        random = keras.initializers.RandomNormal(stddev=d_model**-0.5)
        self.table = self.add_weight(shape=(vocab_size, d_model), initializer=random, name="table")

    def call(self, ids):
        """The rows of the table, times sqrt(d_model): (B, S) -> (B, S, D)."""
        # blank: embedding
        return tf.gather(self.table, ids) * self.d_model**0.5  # (B, S, D)
        # end

    def logits(self, x):
        """The dot product with each row of the table: (B, T, D) -> (B, T, V)."""
        # blank: embedding_logits
        return tf.matmul(x, self.table, transpose_b=True)  # (B, T, V)
        # end


# ---------------------------------------------------------------- notebook 04: the model


class LayerNormalization(Layer):
    """gamma (x - mean) / sqrt(variance + epsilon) + beta, for each position alone."""

    def __init__(self, epsilon=1e-6):
        super().__init__()
        self.epsilon = epsilon

    def build(self, x_shape):
        """Creates gamma and beta for x (..., D)."""
        width = x_shape[-1]  # D
        self.gamma = self.add_weight(shape=(width,), initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=(width,), initializer="zeros", name="beta")

    def call(self, x):
        """(..., D) -> (..., D)."""
        # blank: layer_normalization
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)  # (..., 1)
        variance = tf.reduce_mean(tf.square(x - mean), axis=-1, keepdims=True)  # (..., 1)
        normalized = (x - mean) / tf.sqrt(variance + self.epsilon)  # (..., D)
        return self.gamma * normalized + self.beta
        # end


def point_wise_feed_forward_network(d_model, dff):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (Equation 2): a model (B, S, D) -> (B, S, D)."""
    # blank: feed_forward_network
    inner = keras.layers.Dense(dff, activation="relu")  # (B, S, dff)
    outer = keras.layers.Dense(d_model)  # (B, S, D)
    return keras.Sequential([inner, outer])
    # end


class EncoderLayer(Layer):
    """Self-attention, then the feed-forward network (Section 3.1).

    Around each of them: LayerNorm(x + Dropout(Sublayer(x))).
    """

    def __init__(self, d_model, num_heads, dff, rate=0.1):
        super().__init__()
        self.mha = MultiHeadAttention(d_model, num_heads)
        self.ffn = point_wise_feed_forward_network(d_model, dff)
        self.layernorm1, self.layernorm2 = LayerNormalization(), LayerNormalization()
        self.dropout1, self.dropout2 = (keras.layers.Dropout(rate) for _ in range(2))

    def call(self, x, training=False, mask=None):
        """x (B, S, D), mask (B, 1, 1, S) -> (B, S, D)."""
        # blank: encoder_layer
        attn_output, _ = self.mha(x, x, x, mask)  # (B, S, D)
        attn_output = self.dropout1(attn_output, training=training)
        out1 = self.layernorm1(x + attn_output)  # (B, S, D)
        ffn_output = self.ffn(out1)  # (B, S, D)
        ffn_output = self.dropout2(ffn_output, training=training)
        return self.layernorm2(out1 + ffn_output)  # (B, S, D)
        # end


class DecoderLayer(Layer):
    """Masked self-attention, attention over the encoder's output, feed-forward network."""

    def __init__(self, d_model, num_heads, dff, rate=0.1):
        super().__init__()
        self.mha1 = MultiHeadAttention(d_model, num_heads)
        self.mha2 = MultiHeadAttention(d_model, num_heads)
        self.ffn = point_wise_feed_forward_network(d_model, dff)
        self.layernorm1, self.layernorm2 = LayerNormalization(), LayerNormalization()
        self.layernorm3 = LayerNormalization()
        self.dropout1, self.dropout2, self.dropout3 = (keras.layers.Dropout(rate) for _ in range(3))

    def call(
        self, x, enc_output, training=False, look_ahead_mask=None, padding_mask=None, cache=None
    ):
        """x (B, T, D), enc_output (B, S, D) -> (B, T, D), weights of both attentions.

        Masks (B, 1, T, T) and (B, 1, 1, S). The cache belongs to the self-attention.
        """
        # blank: decoder_layer
        attn1, weights1 = self.mha1(x, x, x, look_ahead_mask, cache=cache)  # (B, T, D)
        out1 = self.layernorm1(x + self.dropout1(attn1, training=training))  # (B, T, D)
        attn2, weights2 = self.mha2(enc_output, enc_output, out1, padding_mask)
        out2 = self.layernorm2(out1 + self.dropout2(attn2, training=training))  # (B, T, D)
        ffn_output = self.dropout3(self.ffn(out2), training=training)  # (B, T, D)
        return self.layernorm3(out2 + ffn_output), weights1, weights2
        # end


class PreNormEncoderLayer(EncoderLayer):
    """Normalizes the input of each sub-layer instead: x + Dropout(Sublayer(LayerNorm(x)))."""

    def call(self, x, training=False, mask=None):
        """As of `EncoderLayer`."""
        y = self.layernorm1(x)  # (B, S, D)
        x = x + self.dropout1(self.mha(y, y, y, mask)[0], training=training)
        return x + self.dropout2(self.ffn(self.layernorm2(x)), training=training)


class PreNormDecoderLayer(DecoderLayer):
    """The same for the decoder (not of the paper; used since 2018, see notebook G)."""

    def call(
        self, x, enc_output, training=False, look_ahead_mask=None, padding_mask=None, cache=None
    ):
        """As of `DecoderLayer`."""
        y = self.layernorm1(x)  # (B, T, D)
        attn1, weights1 = self.mha1(y, y, y, look_ahead_mask, cache=cache)
        x = x + self.dropout1(attn1, training=training)  # (B, T, D)
        y = self.layernorm2(x)  # (B, T, D)
        attn2, weights2 = self.mha2(enc_output, enc_output, y, padding_mask)
        x = x + self.dropout2(attn2, training=training)  # (B, T, D)
        x = x + self.dropout3(self.ffn(self.layernorm3(x)), training=training)
        return x, weights1, weights2


class Encoder(Layer):
    """The left half of Figure 1: embedding, positions, dropout, N layers."""

    def __init__(
        self, num_layers, d_model, num_heads, dff, embedding, rate=0.1, norm="post",
        max_length=1024,
    ):  # fmt: skip
        super().__init__()
        layer = PreNormEncoderLayer if norm == "pre" else EncoderLayer
        self.embedding = embedding
        self.pos_encoding = positional_encoding(max_length, d_model)  # (1, max_length, D)
        self.enc_layers = [layer(d_model, num_heads, dff, rate) for _ in range(num_layers)]
        self.dropout = keras.layers.Dropout(rate)
        self.layernorm = LayerNormalization() if norm == "pre" else keras.layers.Identity()

    def call(self, x, training=False, mask=None):
        """Ids (B, S), mask (B, 1, 1, S) -> (B, S, D)."""
        # blank: encoder
        x = self.embedding(x)  # (B, S, D)
        x += self.pos_encoding[:, : tf.shape(x)[1]]
        x = self.dropout(x, training=training)
        for layer in self.enc_layers:
            x = layer(x, training, mask)  # (B, S, D)
        return self.layernorm(x)  # the identity in the paper's model
        # end


class Decoder(Layer):
    """The right half of Figure 1, without the last linear layer."""

    def __init__(
        self, num_layers, d_model, num_heads, dff, embedding, rate=0.1, norm="post",
        max_length=1024,
    ):  # fmt: skip
        super().__init__()
        layer = PreNormDecoderLayer if norm == "pre" else DecoderLayer
        self.embedding = embedding
        self.pos_encoding = positional_encoding(max_length, d_model)  # (1, max_length, D)
        self.dec_layers = [layer(d_model, num_heads, dff, rate) for _ in range(num_layers)]
        self.dropout = keras.layers.Dropout(rate)
        self.layernorm = LayerNormalization() if norm == "pre" else keras.layers.Identity()

    def call(
        self, x, enc_output, training=False, look_ahead_mask=None, padding_mask=None, cache=None
    ):
        """Ids (B, T), enc_output (B, S, D) -> (B, T, D), attention weights by name.

        With a cache, x has the new positions only, from cache.length on.
        """
        attention_weights = {}
        start, end = 0, tf.shape(x)[1]
        if cache is not None:
            start, end = cache.length, cache.length + x.shape[1]
            cache.length = end
        # blank: decoder
        x = self.embedding(x)  # (B, T, D)
        x += self.pos_encoding[:, start:end]
        x = self.dropout(x, training=training)
        masks = look_ahead_mask, padding_mask
        for i, layer in enumerate(self.dec_layers):
            x, *blocks = layer(x, enc_output, training, *masks, cache=cache)
            attention_weights[f"decoder_layer{i + 1}_block1"] = blocks[0]  # (B, H, T, T)
            attention_weights[f"decoder_layer{i + 1}_block2"] = blocks[1]  # (B, H, T, S)
        return self.layernorm(x), attention_weights
        # end


class Transformer(keras.Model):
    """Figure 1. `num_layers` is N, or (N of the encoder, N of the decoder)."""

    def __init__(self, num_layers, d_model, num_heads, dff, vocab_size, rate=0.1, norm="post"):
        super().__init__()
        n_enc, n_dec = num_layers if isinstance(num_layers, tuple) else (num_layers,) * 2
        self.embedding = Embedding(vocab_size, d_model)
        sizes = d_model, num_heads, dff, self.embedding, rate, norm
        self.encoder = Encoder(n_enc, *sizes)
        self.decoder = Decoder(n_dec, *sizes)

    def call(self, inp, tar, training=False):
        """Source ids (B, S), decoder input (B, T) -> logits (B, T, V), attention weights."""
        # blank: transformer
        enc_mask, look_ahead_mask, dec_mask = create_masks(inp, tar)
        enc_output = self.encoder(inp, training, enc_mask)  # (B, S, D)
        masks = look_ahead_mask, dec_mask
        x, weights = self.decoder(tar, enc_output, training, *masks)  # (B, T, D)
        return self.embedding.logits(x), weights  # (B, T, V)
        # end


# ---------------------------------------------------------------- notebook 05: training


def label_smoothed_cross_entropy(labels, logits, epsilon=0.1):
    """-sum_k q(k) log p(k), q(k) = (1 - epsilon) [k is the label] + epsilon / V (Section 5.4).

    labels (B, T), logits (B, T, V) -> the mean over the tokens that are not padding
    """
    # blank: label_smoothed_cross_entropy
    log_p = tf.nn.log_softmax(logits)  # (B, T, V)
    label_log_p = tf.gather(log_p, labels, batch_dims=2)  # (B, T)
    mean_log_p = tf.reduce_mean(log_p, axis=-1)  # (B, T)
    losses = -(1 - epsilon) * label_log_p - epsilon * mean_log_p  # (B, T)
    real = tf.cast(tf.not_equal(labels, PAD), tf.float32)  # (B, T)
    return tf.reduce_sum(losses * real) / tf.reduce_sum(real)  # ()
    # end


class CustomSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """lrate = scale D^-0.5 min(step^-0.5, step warmup_steps^-1.5) (Equation 3; scale 1)."""

    def __init__(self, d_model, warmup_steps=4000, scale=1.0):
        super().__init__()
        self.d_model, self.warmup_steps, self.scale = d_model, warmup_steps, scale

    def __call__(self, step):
        """The number of updates so far -> the learning rate."""
        step = tf.cast(step, tf.float32)
        # blank: custom_schedule
        fall, rise = tf.math.rsqrt(step), step * self.warmup_steps**-1.5
        return self.scale * self.d_model**-0.5 * tf.minimum(fall, rise)
        # end


def pad(rows):
    """Lists of ids -> int32 (B, length of the longest), padded with 0."""
    length = max(map(len, rows))
    return np.array([row + [PAD] * (length - len(row)) for row in rows], np.int32)


def make_batches(pairs, tokens):
    """Divides pairs of lists of ids into batches of sentences of similar length.

    -> a shuffled list of (inp (B, S), tar (B, T)), with B * max(S, T) <= tokens
    """
    batches, rows, longest = [], [], 0
    # blank: make_batches
    for inp, tar in sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0]))):
        longest = max(longest, len(inp), len(tar))
        if rows and (len(rows) + 1) * longest > tokens:
            batches.append(rows)
            rows, longest = [], max(len(inp), len(tar))
        rows.append((inp, tar))
    batches.append(rows)
    # end
    np.random.default_rng(1).shuffle(batches)
    return [(pad([inp for inp, _ in rows]), pad([tar for _, tar in rows])) for rows in batches]


def train_step(model, optimizer, inp, tar):
    """One update: reads tar without its last token, and predicts it without its first.

    inp (B, S), tar (B, T + 1) from START to END -> the loss before the update
    """
    # blank: train_step
    with tf.GradientTape() as tape:
        logits, _ = model(inp, tar[:, :-1], training=True)  # (B, T, V)
        loss = label_smoothed_cross_entropy(tar[:, 1:], logits)  # ()
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss
    # end


def train(model, batches, steps, schedule, checkpoints=None, every=50):
    """Makes `steps` updates with Adam (Section 5.3), and prints the loss of every 100th.

    checkpoints: a dict that gets a copy of the weights after each `every` updates, or None
    Returns: the losses, a list
    """
    adam = keras.optimizers.Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    losses = []
    signature = [tf.TensorSpec((None, None), tf.int32)] * 2  # one graph for all shapes

    @tf.function(input_signature=signature, autograph=False)
    def compiled(inp, tar):
        return train_step(model, adam, inp, tar)

    def update(inp, tar):
        loss, step = float(compiled(inp, tar)), int(adam.iterations)
        if checkpoints is not None and step % every == 0:
            checkpoints[step] = model.get_weights()
        return loss

    # blank: train
    for step, (inp, tar) in enumerate(itertools.islice(itertools.cycle(batches), steps)):
        losses.append(update(inp, tar))
        if (step + 1) % 100 == 0:
            print(f"update {step + 1:5}: loss {np.mean(losses[-100:]):.3f}", flush=True)
    return losses
    # end


def average(checkpoints):
    """The mean of each weight over several checkpoints (Section 6.1)."""
    return [np.mean(arrays, axis=0) for arrays in zip(*checkpoints)]


# ---------------------------------------------------------------- notebook 06: decoding


class Cache:
    """The keys and values of the positions so far, for a search."""

    def __init__(self):
        self.length = 0  # positions so far
        self.kept = {}  # layer -> keys and values (B, H, T, K)

    def append(self, layer, k, v):
        """Appends k, v (B, H, new, K) to those of the layer -> all of them (B, H, T, K)."""
        # blank: cache_append
        if layer in self.kept:
            old_k, old_v = self.kept[layer]
            k = tf.concat([old_k, k], axis=2)  # (B, H, T, K)
            v = tf.concat([old_v, v], axis=2)  # (B, H, T, K)
        self.kept[layer] = k, v
        return k, v
        # end

    def select(self, rows):
        """Keeps these rows of the batch, in this order: indices (new B)."""
        for layer, (k, v) in self.kept.items():
            self.kept[layer] = (tf.gather(k, rows), tf.gather(v, rows))  # (new B, H, T, K)


def make_next_log_probs(model, inp):
    """Encodes inp (B, S), and returns a function and its cache.

    The function takes the newest ids (B, 1) and returns log p of the next ids (B, V). It
    computes one position at each call, because the cache has the keys of the earlier ones.
    """
    mask, cache = create_padding_mask(inp), Cache()  # (B, 1, 1, S)
    enc_output = model.encoder(inp, mask=mask)  # (B, S, D)

    def next_log_probs(newest):
        x, _ = model.decoder(newest, enc_output, padding_mask=mask, cache=cache)  # (B, 1, D)
        return tf.nn.log_softmax(model.embedding.logits(x)[:, -1])  # (B, V)

    return next_log_probs, cache


def greedy_search(model, inp, extra=50):
    """Appends the most probable id until END, at most S + extra times.

    inp (B, S) -> lists of ids, each without START and END
    """
    next_log_probs, _ = make_next_log_probs(model, inp)
    tar = np.full((len(inp), 1), START, np.int32)  # (B, 1)
    # blank: greedy_search
    for _ in range(inp.shape[1] + extra):
        newest = np.argmax(next_log_probs(tar[:, -1:]), axis=-1)  # (B)
        tar = np.append(tar, newest[:, np.newaxis], axis=1).astype(np.int32)  # (B, T + 1)
        if (tar == END).any(axis=1).all():
            break
    # end
    return [list(itertools.takewhile(lambda i: i != END, row)) for row in tar[:, 1:].tolist()]


def length_penalty(length, alpha):
    """lp(L) = ((5 + L) / 6)^alpha (Wu et al. 2016, Equation 14)."""
    # blank: length_penalty
    return ((5 + length) / 6) ** alpha
    # end


def beam_search(model, inp, beam_size=4, alpha=0.6, extra=50):
    """Keeps the best beam_size prefixes at each step (Section 6.1).

    inp (1, S) -> finished hypotheses, best first: (log p / lp(length), ids from after START to END)
    """
    next_log_probs, cache = make_next_log_probs(model, inp)
    limit = inp.shape[1] + extra
    alive, finished = [(0.0, [START])], []  # (log p, ids)
    for length in range(1, limit + 1):
        newest = tf.constant([ids[-1:] for _, ids in alive])  # (n, 1)
        log_p = np.array([log_p for log_p, _ in alive])  # (n)
        # blank: beam_search
        total = log_p[:, np.newaxis] + next_log_probs(newest).numpy()  # (n, V)
        best = np.argsort(total, axis=None)[::-1][: 2 * beam_size]  # (2 * beam_size)
        extended = []  # (log p, ids, row of the prefix in alive), best first
        for row, word in zip(*np.unravel_index(best, total.shape)):
            extended.append((float(total[row, word]), [*alive[row][1], int(word)], row))
        for log_p, ids, _ in extended[:beam_size]:
            if ids[-1] == END:
                finished.append((log_p / length_penalty(length, alpha), ids[1:]))
        kept = [item for item in extended if item[1][-1] != END][:beam_size]
        # end
        cache.select([row for _, _, row in kept])
        alive = [(log_p, ids) for log_p, ids, _ in kept]
        bound = alive[0][0] / length_penalty(limit, alpha)  # no alive one can become better
        if finished and max(finished)[0] >= bound:
            break
    return sorted(finished, reverse=True)


def clipped_matches(translation, reference, n):
    """Counts the n-grams of a translation, each at most as often as in the reference.

    Lists of words -> matches, n-grams of the translation
    """
    # blank: clipped_matches
    ours, theirs = (
        collections.Counter(zip(*(words[i:] for i in range(n))))
        for words in (translation, reference)
    )
    return (ours & theirs).total(), ours.total()
    # end


def bleu(translations, references):
    """BLEU = 100 BP (p_1 p_2 p_3 p_4)^(1/4) of all sentences together (Papineni et al. 2002),

    p_n = matches / n-grams, BP = min(1, exp(1 - words of the references / our words));
    0 where our texts have no n-gram for one of the four n
    """
    ours, theirs = (
        [re.findall(r"\w+|[^\w\s]", text) for text in texts] for texts in (translations, references)
    )
    # blank: bleu
    precisions = []
    for n in range(1, 5):
        counts = [clipped_matches(*pair, n) for pair in zip(ours, theirs)]
        matches, total = np.sum(counts, axis=0)
        precisions.append(matches / max(1, total))
    ratio = sum(map(len, theirs)) / max(1, sum(map(len, ours)))
    brevity_penalty = min(1.0, np.exp(1 - ratio))
    return 100 * brevity_penalty * np.prod(precisions) ** 0.25
    # end


# ---------------------------------------------------------------- graduation


def translate(model, source, target, text):
    """Translates a text by beam search. source, target: SentencePiece vocabularies."""
    inp = np.array([[*source.encode(text), END]], np.int32)  # (1, S)
    hypotheses = beam_search(model, inp)
    return target.decode(hypotheses[0][1]) if hypotheses else ""


def main():
    """Trains, translates, loads weights of everyday language, and prints a certificate."""
    sys.path.append(".")  # for `course`, which reads the files of the package
    from course import graduation

    graduation.require_all_blanks(__file__)
    pairs, test = graduation.corpus()  # pairs of texts
    source, target = graduation.vocabularies("pocket-en-de")
    ids = [
        ([*source.encode(english), END], [START, *target.encode(german), END])
        for english, german in pairs
    ]
    keras.utils.set_random_seed(1)
    model = Transformer(2, 128, 4, 512, vocab_size=2000, rate=0.0)
    schedule = CustomSchedule(128, warmup_steps=300, scale=0.8)
    checkpoints = {}
    losses = train(model, make_batches(ids, 1024), 1200, schedule, checkpoints, every=25)
    model.set_weights(average([checkpoints[step] for step in sorted(checkpoints)[-5:]]))

    inp = pad([[*source.encode(english), END] for english, _ in test])  # (B, S)
    written = [target.decode(ids) for ids in greedy_search(model, inp)]
    score = bleu(written, [german for _, german in test])
    example = translate(model, source, target, graduation.SENTENCE)
    print(f"BLEU of {len(test)} test sentences: {score:.1f}\n{example}")

    source, target = graduation.vocabularies("tatoeba-en-de")
    big = Transformer((6, 2), 320, 5, 1280, vocab_size=8000, norm="pre")
    difference = graduation.load_and_compare(big, "tatoeba-en-de")
    text = graduation.ask("Your own English sentence: ")
    own = text, translate(big, source, target, text)
    graduation.certificate(losses, score, example, difference, own)


if __name__ == "__main__":
    main()
