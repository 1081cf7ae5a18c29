"""The experiment of notebooks 01 and A: recurrent translators that copy a list and move a word.

Shapes: B batch, S source, T target, U units of the LSTM, V vocabulary.
"""

import time

import keras
import numpy as np
import tensorflow as tf

BAR, START, END, FIRST_WORD = 1, 2, 3, 4
WORDS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn"  # 40 "words", the ids from 4 on
VOCABULARY = FIRST_WORD + len(WORDS)
LONGEST = 10  # words of a list in training
ROWS = 32  # lists of a batch
IDS = tf.TensorSpec([None, None], tf.int32)


def move_verb(generator, n, rows):
    """Makes random lists, and copies with the second word at the end, behind a bar.

    The bar tells the decoder that the moved word is next.

    Args:
      generator: of NumPy.
      n: words of a list.
      rows: the number of lists.
    Returns: the lists `(rows, n + 1)` with END; the copies `(rows, n + 3)` with START, BAR and
      END.
    """
    words = generator.integers(FIRST_WORD, VOCABULARY, (rows, n))
    start, bar, end = (np.full((rows, 1), i) for i in (START, BAR, END))
    moved = [words[:, :1], words[:, 2:], bar, words[:, 1:2]]
    source = np.concatenate([words, end], axis=1)
    target = np.concatenate([start, *moved, end], axis=1)
    return source.astype(np.int32), target.astype(np.int32)


def names(ids):
    """The words of some ids; "[START]" and "[END]" for the ends, "|" for the bar."""
    others = {BAR: "|", START: "[START]", END: "[END]"}
    return [others.get(int(i)) or WORDS[int(i) - FIRST_WORD] for i in ids]


class AdditiveAttention(keras.layers.Layer):
    """Scores v^T tanh(W s + U h + b), their softmax, the weighted sum of the states."""

    def __init__(self, units):
        super().__init__()
        self.w = keras.layers.Dense(units, use_bias=False)
        self.u = keras.layers.Dense(units)  # with a bias, which the formula leaves out
        self.v = keras.layers.Dense(1, use_bias=False)

    def call(self, queries, states):
        """queries (B, T, U), states (B, S, U) -> context (B, T, U), weights (B, T, S)."""
        from_queries = self.w(queries)[:, :, tf.newaxis]  # (B, T, 1, units)
        from_states = self.u(states)[:, tf.newaxis]  # (B, 1, S, units)
        hidden = tf.tanh(from_queries + from_states)  # (B, T, S, units)
        weights = tf.nn.softmax(self.v(hidden)[..., 0])  # (B, T, S)
        return weights @ states, weights


class RecurrentTranslator(keras.Model):
    """A bidirectional LSTM encoder and an LSTM decoder.

    The lists of a batch have the same length, so there is no padding and no mask. A combining
    layer, tanh(W [s_t; c_t]), comes before the logits (Luong et al. 2015).
    """

    def __init__(self, units, attention):
        super().__init__()
        lstm = keras.layers.LSTM
        self.embedding = keras.layers.Embedding(VOCABULARY, 64)
        self.encoder = keras.layers.Bidirectional(
            lstm(units // 2, return_sequences=True, return_state=True)
        )
        self.decoder = lstm(units, return_sequences=True)
        self.attention = AdditiveAttention(64) if attention else None
        self.combine = keras.layers.Dense(64, activation="tanh")
        self.logits = keras.layers.Dense(VOCABULARY)

    def call(self, inp, tar, training=False):
        """inp ids (B, S), tar ids (B, T) -> logits (B, T, V), weights (B, T, S) or None."""
        states, h_right, c_right, h_left, c_left = self.encoder(self.embedding(inp))
        h = tf.concat([h_right, h_left], axis=-1)  # (B, U), the fixed vector
        c = tf.concat([c_right, c_left], axis=-1)  # (B, U), its memory cell
        x = self.decoder(self.embedding(tar), initial_state=[h, c])  # (B, T, U)
        weights = None
        if self.attention:
            context, weights = self.attention(x, states)  # (B, T, U), (B, T, S)
            x = tf.concat([x, context], axis=-1)
        return self.logits(self.combine(x)), weights


def train(new_model, updates, seeds):
    """Trains a model with each seed, always with the same graph.

    The learning rate rises during the first tenth of the updates, then falls along a cosine.

    Args:
      new_model: a function that returns an untrained model.
      updates: their number.
      seeds: of the weights and the lists.
    Yields: the model; a function that marks the words to which it gives the largest logit; rows
      (update, CPU seconds, fraction of the words of the longest lists that are right).
    """
    model = new_model()
    rate = keras.optimizers.schedules.CosineDecay(
        1e-5, updates * 9 // 10, warmup_target=0.004, warmup_steps=updates // 10
    )
    optimizer = keras.optimizers.Adam(rate, beta_2=0.98, epsilon=1e-9)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(input_signature=[IDS, IDS])
    def update(inp, tar):
        with tf.GradientTape() as tape:
            logits, _ = model(inp, tar[:, :-1], training=True)
            loss = loss_of(tar[:, 1:], logits)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        optimizer.apply(gradients, model.trainable_variables)

    @tf.function(input_signature=[IDS, IDS])
    def correct_words(inp, tar):
        logits, _ = model(inp, tar[:, :-1])
        right = tf.argmax(logits, axis=-1, output_type=tf.int32) == tar[:, 1:]  # (B, T)
        return tf.reshape(right[tar[:, 1:] >= FIRST_WORD], [tf.shape(tar)[0], -1])  # (B, n)

    validation = move_verb(np.random.default_rng(1000), LONGEST, 200)
    update(*validation)  # builds the graph, and the weights
    for seed in seeds:
        keras.utils.set_random_seed(seed)
        fresh = new_model()
        fresh(validation[0][:1], validation[1][:1, :-1])  # creates the weights
        model.set_weights(fresh.get_weights())
        for variable in optimizer.variables:
            variable.assign(tf.zeros_like(variable))
        generator = np.random.default_rng(seed)
        seconds, log = 0.0, []
        for i in range(1, updates + 1):
            batch = move_verb(generator, generator.integers(2, LONGEST + 1), ROWS)
            start = time.process_time()  # CPU time of all cores
            update(*batch)
            seconds += time.process_time() - start
            if i % 100 == 0:
                right = correct_words(*validation).numpy().mean()
                log.append((i, seconds, right))
        yield model, correct_words, log
