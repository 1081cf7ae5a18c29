"""The Transformer of "Attention Is All You Need", written from scratch.

The complete solution of notebook 04_build_a_transformer: plain TensorFlow and Keras,
nothing from the package. The comments "Blank 1" to "Blank 7" mark what the reader
of the notebook writes. The rest is given there.

Shapes: B batch, S source, T target, H heads, D d_model, K depth of a head's queries
and keys, Kv of its values, V vocabulary. A mask is a float tensor in which 1 hides
a position.
"""

import keras
import numpy as np
import tensorflow as tf

PAD, START, END = 0, 2, 3  # ids of the special tokens


class Layer(keras.layers.Layer):
    """A layer that does not hand its mask on to the next one, as Keras would."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def compute_mask(self, *inputs):
        """No mask for the next layer."""
        return None


# Blank 1
def scaled_dot_product_attention(q, k, v, mask):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (Equation 1)."""
    matmul_qk = tf.matmul(q, k, transpose_b=True)  # (..., T, S)
    dk = tf.cast(tf.shape(k)[-1], tf.float32)
    scaled_attention_logits = matmul_qk / tf.sqrt(dk)
    if mask is not None:
        scaled_attention_logits += mask * -1e9
    attention_weights = tf.nn.softmax(scaled_attention_logits, axis=-1)  # (..., T, S)
    output = tf.matmul(attention_weights, v)  # (..., T, Kv)
    return output, attention_weights


# Blank 2
class MultiHeadAttention(Layer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (Section 3.2.2)."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.depth = d_model // num_heads  # K
        self.wq = keras.layers.Dense(d_model)  # W_1^Q to W_h^Q, side by side
        self.wk = keras.layers.Dense(d_model)
        self.wv = keras.layers.Dense(d_model)
        self.dense = keras.layers.Dense(d_model)  # W^O

    def split_heads(self, x):
        """(B, S, D) -> (B, H, S, K)."""
        batch_size, length = tf.shape(x)[0], tf.shape(x)[1]
        x = tf.reshape(x, (batch_size, length, self.num_heads, self.depth))
        return tf.transpose(x, perm=[0, 2, 1, 3])

    def merge_heads(self, x):
        """(B, H, T, K) -> (B, T, D)."""
        batch_size, length = tf.shape(x)[0], tf.shape(x)[2]
        x = tf.transpose(x, perm=[0, 2, 1, 3])  # (B, T, H, K)
        return tf.reshape(x, (batch_size, length, self.d_model))

    def call(self, v, k, q, mask=None):
        """v, k (B, S, D), q (B, T, D) -> output (B, T, D), weights (B, H, T, S)."""
        q = self.split_heads(self.wq(q))  # (B, H, T, K)
        k = self.split_heads(self.wk(k))  # (B, H, S, K)
        v = self.split_heads(self.wv(v))  # (B, H, S, K)
        heads, attention_weights = scaled_dot_product_attention(q, k, v, mask)
        output = self.dense(self.merge_heads(heads))  # (B, T, D)
        return output, attention_weights


def point_wise_feed_forward_network(d_model, dff):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (Equation 2)."""
    return keras.Sequential(
        [
            keras.layers.Dense(dff, activation="relu"),  # (B, S, dff)
            keras.layers.Dense(d_model),  # (B, S, D)
        ]
    )


# Blank 3
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
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)  # (..., 1)
        variance = tf.reduce_mean(tf.square(x - mean), axis=-1, keepdims=True)
        normalized = (x - mean) / tf.sqrt(variance + self.epsilon)  # (..., D)
        return self.gamma * normalized + self.beta


# Blank 4
class EncoderLayer(Layer):
    """Self-attention, then the feed-forward network (Section 3.1)."""

    def __init__(self, d_model, num_heads, dff, rate=0.1):
        super().__init__()
        self.mha = MultiHeadAttention(d_model, num_heads)
        self.ffn = point_wise_feed_forward_network(d_model, dff)
        self.layernorm1 = LayerNormalization()
        self.layernorm2 = LayerNormalization()
        self.dropout1 = keras.layers.Dropout(rate)
        self.dropout2 = keras.layers.Dropout(rate)

    def call(self, x, training=False, mask=None):
        """x (B, S, D) -> (B, S, D)."""
        attn_output, _ = self.mha(x, x, x, mask=mask)  # (B, S, D)
        attn_output = self.dropout1(attn_output, training=training)
        out1 = self.layernorm1(x + attn_output)  # (B, S, D)

        ffn_output = self.ffn(out1)  # (B, S, D)
        ffn_output = self.dropout2(ffn_output, training=training)
        return self.layernorm2(out1 + ffn_output)  # (B, S, D)


# Blank 5
class DecoderLayer(Layer):
    """Masked self-attention, attention over the encoder output, feed-forward."""

    def __init__(self, d_model, num_heads, dff, rate=0.1):
        super().__init__()
        self.mha1 = MultiHeadAttention(d_model, num_heads)
        self.mha2 = MultiHeadAttention(d_model, num_heads)
        self.ffn = point_wise_feed_forward_network(d_model, dff)
        self.layernorm1 = LayerNormalization()
        self.layernorm2 = LayerNormalization()
        self.layernorm3 = LayerNormalization()
        self.dropout1 = keras.layers.Dropout(rate)
        self.dropout2 = keras.layers.Dropout(rate)
        self.dropout3 = keras.layers.Dropout(rate)

    def call(
        self, x, enc_output, training=False, look_ahead_mask=None, padding_mask=None
    ):
        """x (B, T, D), enc_output (B, S, D) -> (B, T, D), weights of both blocks."""
        attn1, weights_block1 = self.mha1(x, x, x, mask=look_ahead_mask)  # (B, T, D)
        attn1 = self.dropout1(attn1, training=training)
        out1 = self.layernorm1(x + attn1)  # (B, T, D)

        attn2, weights_block2 = self.mha2(
            enc_output, enc_output, out1, mask=padding_mask
        )
        attn2 = self.dropout2(attn2, training=training)
        out2 = self.layernorm2(out1 + attn2)  # (B, T, D)

        ffn_output = self.ffn(out2)  # (B, T, D)
        ffn_output = self.dropout3(ffn_output, training=training)
        out3 = self.layernorm3(out2 + ffn_output)  # (B, T, D)
        return out3, weights_block1, weights_block2


# Blank 6
def positional_encoding(position, d_model):
    """Sines in the even columns, cosines in the odd ones (Section 3.5)."""
    pos = np.arange(position)[:, np.newaxis]  # (position, 1)
    two_i = np.arange(0, d_model, 2)[np.newaxis, :]  # (1, D/2)
    angles = pos / np.power(10000.0, two_i / d_model)  # (position, D/2)
    table = np.zeros((1, position, d_model))
    table[0, :, 0::2] = np.sin(angles)
    table[0, :, 1::2] = np.cos(angles)
    return tf.constant(table, tf.float32)  # (1, position, D)


def create_padding_mask(seq):
    """Ids (B, S) -> (B, 1, 1, S), 1 where there is padding."""
    mask = tf.cast(tf.equal(seq, PAD), tf.float32)
    return mask[:, tf.newaxis, tf.newaxis, :]


def create_look_ahead_mask(size):
    """(T, T), 1 in the columns after the row's own position."""
    return 1 - tf.linalg.band_part(tf.ones((size, size)), -1, 0)


def create_masks(inp, tar):
    """The masks of the encoder, of the decoder's first block, of its second block."""
    enc_padding_mask = create_padding_mask(inp)  # (B, 1, 1, S)
    dec_padding_mask = create_padding_mask(inp)  # (B, 1, 1, S)
    look_ahead_mask = create_look_ahead_mask(tf.shape(tar)[1])  # (T, T)
    look_ahead_mask = tf.maximum(create_padding_mask(tar), look_ahead_mask)
    return enc_padding_mask, look_ahead_mask, dec_padding_mask


class Encoder(Layer):
    """The left half of Figure 1; its embedding is shared with the decoder."""

    def __init__(
        self, num_layers, d_model, num_heads, dff, embedding, max_position, rate=0.1
    ):
        super().__init__()
        self.d_model = d_model
        self.embedding = embedding
        self.pos_encoding = positional_encoding(max_position, d_model)
        self.enc_layers = [
            EncoderLayer(d_model, num_heads, dff, rate) for _ in range(num_layers)
        ]
        self.dropout = keras.layers.Dropout(rate)

    def call(self, x, training=False, mask=None):
        """Ids (B, S) -> (B, S, D)."""
        x = self.embedding(x) * self.d_model**0.5  # (B, S, D)
        x += self.pos_encoding[:, : tf.shape(x)[1]]
        x = self.dropout(x, training=training)
        for layer in self.enc_layers:
            x = layer(x, training=training, mask=mask)
        return x


class Decoder(Layer):
    """The right half of Figure 1, without the last linear layer."""

    def __init__(
        self, num_layers, d_model, num_heads, dff, embedding, max_position, rate=0.1
    ):
        super().__init__()
        self.d_model = d_model
        self.embedding = embedding
        self.pos_encoding = positional_encoding(max_position, d_model)
        self.dec_layers = [
            DecoderLayer(d_model, num_heads, dff, rate) for _ in range(num_layers)
        ]
        self.dropout = keras.layers.Dropout(rate)

    def call(
        self, x, enc_output, training=False, look_ahead_mask=None, padding_mask=None
    ):
        """Ids (B, T), enc_output (B, S, D) -> (B, T, D), attention weights by name."""
        attention_weights = {}
        x = self.embedding(x) * self.d_model**0.5  # (B, T, D)
        x += self.pos_encoding[:, : tf.shape(x)[1]]
        x = self.dropout(x, training=training)
        for i, layer in enumerate(self.dec_layers):
            x, block1, block2 = layer(
                x,
                enc_output,
                training=training,
                look_ahead_mask=look_ahead_mask,
                padding_mask=padding_mask,
            )
            attention_weights[f"decoder_layer{i + 1}_block1"] = block1  # (B, H, T, T)
            attention_weights[f"decoder_layer{i + 1}_block2"] = block2  # (B, H, T, S)
        return x, attention_weights


class Transformer(keras.Model):
    """Figure 1, with one table for both embeddings and the output (Section 3.4)."""

    def __init__(
        self, num_layers, d_model, num_heads, dff, vocab_size, max_position, rate=0.1
    ):
        super().__init__()
        initializer = keras.initializers.RandomNormal(stddev=d_model**-0.5)
        self.embedding = keras.layers.Embedding(vocab_size, d_model, initializer)
        sizes = num_layers, d_model, num_heads, dff, self.embedding, max_position, rate
        self.encoder = Encoder(*sizes)
        self.decoder = Decoder(*sizes)

    def call(self, inp, tar, training=False):
        """Ids (B, S) and (B, T) -> logits (B, T, V), attention weights."""
        enc_padding_mask, look_ahead_mask, dec_padding_mask = create_masks(inp, tar)
        enc_output = self.encoder(inp, training=training, mask=enc_padding_mask)
        dec_output, attention_weights = self.decoder(
            tar,
            enc_output,
            training=training,
            look_ahead_mask=look_ahead_mask,
            padding_mask=dec_padding_mask,
        )
        table = self.embedding.embeddings  # (V, D)
        logits = tf.matmul(dec_output, table, transpose_b=True)  # (B, T, V)
        return logits, attention_weights


def greedy_translation(model, inp, max_length=40):
    """Ids (1, S) -> the list of the target ids, the most probable one each time."""
    tar = [START]
    while tar[-1] != END and len(tar) < max_length:
        logits, _ = model(inp, tf.constant([tar]))  # (1, T, V)
        tar.append(int(tf.argmax(logits[0, -1])))
    return tar[1:]


# Blank 7
def label_smoothed_cross_entropy(tar_real, logits, label_smoothing=0.1):
    """-sum_k q(k) log p(k): its sum over the real tokens, and their number."""
    vocab_size = tf.cast(tf.shape(logits)[-1], tf.float32)
    one_hot = tf.one_hot(tar_real, tf.shape(logits)[-1])  # (B, T, V)
    q = (1 - label_smoothing) * one_hot + label_smoothing / vocab_size
    log_p = tf.nn.log_softmax(logits)  # (B, T, V)
    loss = -tf.reduce_sum(q * log_p, axis=-1)  # (B, T)
    mask = tf.cast(tf.not_equal(tar_real, PAD), tf.float32)  # (B, T)
    return tf.reduce_sum(loss * mask), tf.reduce_sum(mask)


def named_parts(layer):
    """The parts of an encoder or decoder layer, by their names in a checkpoint."""
    parts = {"ffn/inner": layer.ffn.layers[0], "ffn/outer": layer.ffn.layers[1]}
    for name in ("mha", "mha1", "mha2"):
        if hasattr(layer, name):
            mha = getattr(layer, name)
            parts[f"{name}/wq"], parts[f"{name}/wk"] = mha.wq, mha.wk
            parts[f"{name}/wv"], parts[f"{name}/dense"] = mha.wv, mha.dense
    for name in ("layernorm1", "layernorm2", "layernorm3"):
        if hasattr(layer, name):
            parts[name] = getattr(layer, name)
    return parts


def load_weights(model, path):
    """Copies the arrays of a checkpoint into the model, and returns their number."""
    arrays = np.load(path)
    model(tf.constant([[END]]), tf.constant([[START]]))  # creates the variables
    targets = {"embedding/table": model.embedding.embeddings}
    stacks = {"encoder": model.encoder.enc_layers, "decoder": model.decoder.dec_layers}
    for stack, layers in stacks.items():
        for i, layer in enumerate(layers):
            for part, module in named_parts(layer).items():
                for variable in module.weights:  # kernel and bias, or gamma and beta
                    name = f"{stack}/layer{i + 1}/{part}/{variable.name}"
                    targets[name] = variable
    for name, variable in targets.items():
        variable.assign(arrays[f"model/{name}"])  # an error if the shapes differ
    return len(targets)
