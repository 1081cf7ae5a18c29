"""The peer KerasHub: training steps by `fit` that do the work of ours. Run by `training_step.py`.

Post-norm, ReLU, sinusoidal positions, embedding x sqrt(d), one table for embeddings and logits, dropout 0.1, label smoothing 0.1 (Keras
has it for one-hot labels only), Adam, padding and causal masks. KerasHub's layers drop attention weights too, which cannot be turned off
alone: at 32 tokens a sentence those are a quarter as many values again.
"""

import json
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import keras_hub
import numpy as np

WIDTH, INNER, LAYERS, HEADS, RATE = 512, 2048, 6, 8, 0.1
BATCHES, EPOCHS = 8, 1000  # more than anyone asks for


def make_model(vocab_size):
    """Source and target ids `[B, S]`, `[B, T]` -> logits `[B, T, V]`."""
    layers = keras_hub.layers
    table = layers.ReversibleEmbedding(vocab_size, WIDTH, tie_weights=True)

    def embed(ids):
        scaled = table(ids) * WIDTH**0.5
        return keras.layers.Dropout(RATE)(scaled + layers.SinePositionEncoding()(scaled))

    inp, tar = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    x, y, inp_real, tar_real = (
        embed(inp),
        embed(tar),
        keras.ops.not_equal(inp, 0),
        keras.ops.not_equal(tar, 0),
    )
    for _ in range(LAYERS):
        x = layers.TransformerEncoder(INNER, HEADS, dropout=RATE)(x, padding_mask=inp_real)
    for _ in range(LAYERS):
        y = layers.TransformerDecoder(INNER, HEADS, dropout=RATE)(
            y, x, decoder_padding_mask=tar_real, encoder_padding_mask=inp_real
        )
    return keras.Model([inp, tar], table(y, reverse=True))


class Turns(keras.callbacks.Callback):
    """Waits for a line before each step, and prints the seconds of the step after it."""

    def on_train_batch_begin(self, batch, logs=None):
        """Waits for its turn."""
        if not sys.stdin.readline():
            os._exit(0)
        self.start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        """Tells the time."""
        print(time.perf_counter() - self.start, flush=True)


def main(vocab_size, rows, length, precision):
    """Makes a step for each line that it reads, and prints its seconds."""
    keras.mixed_precision.set_global_policy(precision)
    model = make_model(vocab_size)
    smoothed = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=0.1, reduction="sum_over_batch_size"
    )
    model.compile(
        optimizer=keras.optimizers.Adam(1e-4, beta_2=0.98, epsilon=1e-9),
        loss=lambda real, logits: smoothed(keras.ops.one_hot(real, vocab_size), logits),
        jit_compile=False,
    )
    random = np.random.default_rng(0)
    inp = random.integers(4, vocab_size, (rows * BATCHES, length)).astype("int32")
    tar = random.integers(4, vocab_size, (rows * BATCHES, length + 1)).astype("int32")
    model.fit(
        [inp, tar[:, :-1]],
        tar[:, 1:],
        batch_size=rows,
        verbose=0,
        epochs=EPOCHS,
        callbacks=[Turns()],
    )


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
