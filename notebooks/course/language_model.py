"""Text, training loop and sampling of the language models of notebook G."""

import keras
import numpy as np
import tensorflow as tf

from tf_transformer import MultiHeadAttention, point_wise_feed_forward_network
from tf_transformer.model.keras_compat import ReferenceLayer
from tf_transformer.model.layer_norm import LayerNormalization

PAD, MASK, END = 0, 1, 3  # id 1 is the unknown token, which this text does not need


def windows(tokenizer, texts, length=33):
    """Texts, one after the other, each with its end token, cut into windows `[number, length]`."""
    stream = tokenizer.encode(list(texts)).flat_values.numpy()
    number = len(stream) // length
    return stream[: number * length].reshape(number, length)


def letter_windows(splits, length=33):
    """The same with letters as tokens.

    Args:
      splits: lists of texts, such as those of the training and of the test.
    Returns: the letters, sorted; windows `[number, length]` of each list.
    """
    joined = ["\n".join(texts) for texts in splits]
    letters = sorted(set("".join(joined)))
    streams = [np.searchsorted(letters, list(text)).astype("int32") for text in joined]
    cut = [stream[: len(stream) // length * length].reshape(-1, length) for stream in streams]
    return letters, cut


def next_token(ids):
    """Windows `[B, T + 1]` -> inputs `[B, T]` and labels `[B, T]`."""
    return ids[:, :-1], ids[:, 1:]


def mean_loss(model, inputs, labels, few_labels=False):
    """Cross-entropy in nats, the mean over the positions with a label.

    Args:
      model: a language model.
      inputs: ids `[B, T]`.
      labels: `[B, T]`; `PAD` where a position has no label.
      few_labels: whether some have none. Logits are then computed only where there is a label.
    """
    x = model.features(inputs)  # (B, T, D)
    if few_labels:
        has_label = labels != PAD  # (B, T)
        x = tf.boolean_mask(x, has_label)  # (number of labels, D)
        labels = tf.boolean_mask(labels, has_label)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model.logits(x))
    return tf.reduce_mean(losses)


def perplexity(model, ids):
    """Perplexity of the next token, on windows `[B, T + 1]`."""
    return float(tf.exp(mean_loss(model, *map(tf.constant, next_token(ids)))))


class PartOfALayer(ReferenceLayer):
    """The encoder layer without some of its parts.

    Args:
      num_heads: 0 for a matrix instead of the attention: each position then sees only itself.
      dff: the inner width of the feed-forward network; 0 for none.
      residual, norm: whether x is added to each sub-layer, and whether the sum is normalized.
    """

    def __init__(self, d_model, num_heads, dff=0, residual=False, norm=False):
        super().__init__()
        self.mha = MultiHeadAttention(d_model, num_heads) if num_heads else None
        first = [] if num_heads else [keras.layers.Dense(d_model)]
        rest = [point_wise_feed_forward_network(d_model, dff)] if dff else []
        self.networks, self.residual = first + rest, residual
        count = bool(num_heads) + len(self.networks)
        self.norms = [LayerNormalization() for _ in range(count)] if norm else []

    def call(self, x, mask=None):
        """x [B, T, D] -> [B, T, D]."""
        attention = [lambda x: self.mha(x, x, x, mask)[0]] if self.mha else []
        for i, sub_layer in enumerate([*attention, *self.networks]):
            x = x + sub_layer(x) if self.residual else sub_layer(x)
            x = self.norms[i](x) if self.norms else x
        return x


class Training:
    """The loop of notebook 05 for one architecture: each run starts from new random weights.

    Fields:
      model: the model, after a run with its trained weights.
    """

    def __init__(self, make_model, ids, few_labels=False):
        """Creates the model and its update.

        Args:
          make_model: a function that makes a model.
          ids: windows `[number, T + 1]` of training text.
          few_labels: as of `mean_loss`.
        """
        self._make_model, self._ids = make_model, ids
        self.model = self._new_model()
        self._optimizer = keras.optimizers.Adam(0.0, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
        self._optimizer.build(self.model.trainable_variables)

        # XLA saves a fifth to a third of the time. It needs a fixed number of labels.
        @tf.function(jit_compile=not few_labels)
        def update(inputs, labels, rate):
            with tf.GradientTape() as tape:
                loss = mean_loss(self.model, inputs, labels, few_labels)
            gradients = tape.gradient(loss, self.model.trainable_variables)
            self._optimizer.learning_rate.assign(rate)
            self._optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
            return loss

        self._update = update

    def _new_model(self):
        model = self._make_model()
        model(self._ids[:1, :-1])  # creates the weights
        return model

    def restart(self, seed):
        """Gives the model new random weights, and the optimizer a new state."""
        keras.utils.set_random_seed(seed)
        self.model.set_weights(self._new_model().get_weights())
        for variable in self._optimizer.variables:
            variable.assign(tf.zeros_like(variable))

    def run(self, seed, rates, batch=32, make_example=next_token):
        """Makes an update for each learning rate. Returns the losses."""
        self.restart(seed)
        order = np.random.default_rng(0).permutation(len(self._ids))
        losses = []
        for i, rate in enumerate(rates):
            # After the last window, again from the first one.
            rows = np.arange(i * batch, (i + 1) * batch) % len(order)
            inputs, labels = make_example(self._ids[order[rows]])
            loss = self._update(*map(tf.constant, (inputs, labels, np.float32(rate))))
            losses.append(float(loss))
        return losses


def sampler(model, tokenizer, next_probabilities):
    """Returns a function that draws sentences of a language model.

    Args:
      model: a language model.
      tokenizer: its tokenizer.
      next_probabilities: a function of logits `[V]` and settings, which returns probabilities.
    """

    @tf.function
    def next_logits(ids, position):
        return model.logits(model.features(ids)[:, position])  # (B, V)

    def sample(count, prompt="", length=32, seed=0, **settings):
        """Draws sentences. Returns a list of strings."""
        rng = np.random.default_rng(seed)
        start = [END, *tokenizer.encode([prompt]).numpy()[0, :-1]] if prompt else [END]
        ids = np.zeros((count, length), np.int32)
        ids[:, : len(start)] = start
        finished = np.zeros(count, bool)
        for position in range(len(start), length):
            logits = next_logits(tf.constant(ids), tf.constant(position - 1)).numpy()
            for row in np.flatnonzero(~finished):
                probabilities = next_probabilities(logits[row], **settings)
                ids[row, position] = rng.choice(len(probabilities), p=probabilities)
                finished[row] = ids[row, position] == END
        return [text.decode() for text in tokenizer.decode(tf.constant(ids)).numpy()]

    return sample
