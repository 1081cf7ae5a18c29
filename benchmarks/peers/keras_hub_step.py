"""Training steps of KerasHub by `fit` that do the work of ours. Run by `training_step.py`.

Post-norm, ReLU, sinusoidal positions, embedding x sqrt(d), one table for embeddings and logits,
dropout 0.1, label smoothing 0.1 (Keras has it for one-hot labels only), Adam, padding and causal
masks. KerasHub's layers also have dropout on the attention weights, which cannot be turned off
separately: with 32 tokens a sentence that is a quarter more values.
"""

import json
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import keras_hub
import numpy as np

D_MODEL = 512
DFF = 2048
NUM_LAYERS = 6
NUM_HEADS = 8
RATE = 0.1
BATCHES = 8  # batches of an epoch
EPOCHS = 1000  # more than are ever asked for


def make_model(vocab_size):
    """Source and target ids `[B, S]`, `[B, T]` -> logits `[B, T, V]`."""
    layers = keras_hub.layers
    table = layers.ReversibleEmbedding(vocab_size, D_MODEL, tie_weights=True)

    def embed(ids):
        scaled = table(ids) * D_MODEL**0.5
        return keras.layers.Dropout(RATE)(scaled + layers.SinePositionEncoding()(scaled))

    inp = keras.Input((None,), dtype="int32")
    tar = keras.Input((None,), dtype="int32")
    x = embed(inp)
    y = embed(tar)
    inp_mask = keras.ops.not_equal(inp, 0)
    tar_mask = keras.ops.not_equal(tar, 0)
    for _ in range(NUM_LAYERS):
        x = layers.TransformerEncoder(DFF, NUM_HEADS, dropout=RATE)(x, padding_mask=inp_mask)
    for _ in range(NUM_LAYERS):
        y = layers.TransformerDecoder(DFF, NUM_HEADS, dropout=RATE)(
            y, x, decoder_padding_mask=tar_mask, encoder_padding_mask=inp_mask
        )
    return keras.Model([inp, tar], table(y, reverse=True))


class StepOnRequest(keras.callbacks.Callback):
    """Waits for a line before each step, and prints the seconds of the step after it."""

    def on_train_batch_begin(self, batch, logs=None):
        """Waits for a line; ends the process at the end of standard input."""
        if not sys.stdin.readline():
            os._exit(0)
        self.start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        """Prints the seconds of the step."""
        print(time.perf_counter() - self.start, flush=True)


def main(vocab_size, rows, length, precision):
    """Makes a step for each line of standard input, and prints its seconds."""
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
        callbacks=[StepOnRequest()],
    )


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
