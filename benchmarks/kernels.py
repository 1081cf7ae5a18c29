"""The gain of each fused variant: an update with it and with the plain definition.

    python benchmarks/kernels.py                 # base sizes; 10 minutes on two cores
    python benchmarks/kernels.py --preset=small --vocabulary=4000 --rows=32 --rounds=41

In each round the variants take turns, one step each. The gain is the median over the rounds of the
ratio of two neighbouring steps, definition over kernel, minus 1.
"""

import argparse
import os
import statistics
import time
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.model import dropout as keyed
from tf_transformer.model.layer_norm import layer_normalization
from tf_transformer.presets import preset
from tf_transformer.special_tokens import END, START
from tf_transformer.training.loss import label_smoothed_cross_entropy
from tf_transformer.training.optimizer import FusedAdam
from tf_transformer.training.update import Update

WARM_UP = 2  # steps that do not count


def plain_dropout(x, rate):
    """TensorFlow's own keyed dropout, from 32-bit random numbers."""
    state = keyed._scope.state
    state["calls"] += 1
    seed = state["key"] + tf.constant([0, state["calls"] << 16])
    return tf.nn.experimental.stateless_dropout(x, rate, seed)


def plain_gradients(project, weights, x, tar_real, label_smoothing, scale):
    """The logits of all tokens at once, differentiated by TensorFlow."""
    with tf.GradientTape() as tape:
        tape.watch([x, *weights])
        logits = project(x, *weights)
        loss, tokens = label_smoothed_cross_entropy(tar_real, logits, label_smoothing)
        scaled = tf.reduce_mean(scale) * loss
    return tape.gradient(scaled, [x, *weights]), tf.stack([loss, tokens, 0.0, loss])


class PlainAdam(keras.optimizers.Adam):
    """Keras' Adam with the interface of `FusedAdam`."""

    def apply_if(self, finite, gradients, variables):
        """Applies one update."""
        del finite
        self.apply(gradients, variables)


KERNELS = {
    "none replaced": {},
    "layer norm": {
        "tf_transformer.model.layer_norm.fused_layer_normalization": layer_normalization
    },
    "dropout": {"tf_transformer.model.dropout.keyed_dropout": plain_dropout},
    "Adam": {"adam": PlainAdam},
    "cross-entropy": {"tf_transformer.training.update.chunked_gradients": plain_gradients},
}


def ids(rows, length, vocabulary):
    """Random sentences int32 `[rows, length]`, ending with the end token."""
    tokens = np.random.default_rng(0).integers(4, vocabulary, (rows, length))
    tokens[:, -1] = END
    return tf.constant(tokens, tf.int32)


def trace(function, replacements):
    """Calls a function `WARM_UP` times while functions are replaced, so that it is traced so."""
    contexts = [mock.patch(name, new) for name, new in replacements.items() if "." in name]
    for context in contexts:
        context.start()
    for _ in range(WARM_UP):
        function()
    for context in contexts:
        context.stop()


def training(config, args, replacements):
    """A function that makes an update."""
    keras.utils.set_random_seed(1)
    adam = replacements.get("adam", FusedAdam)
    update = Update(
        config,
        args.precision,
        tf.distribute.get_strategy(),
        accumulate=False,
        optimizer=lambda *_: adam(1e-4, 0.9, 0.98, 1e-9),
    )
    inp = ids(args.rows, args.length, args.vocabulary)
    tar = tf.concat([tf.fill([args.rows, 1], START), inp], axis=1)
    stop_flags = tf.zeros([2])

    def run():
        update(inp, tar, stop_flags)["sums"].numpy()

    trace(run, replacements)
    return run


def main():
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="base")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    config = preset(args.preset).with_vocabularies(args.vocabulary, args.vocabulary)
    runs = {name: training(config, args, replaced) for name, replaced in KERNELS.items()}
    seconds = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    shape = f"{args.rows} x {args.length}, {args.vocabulary:,} sub-words, {args.precision}"
    print(f"{args.preset}, {shape}, {args.rounds} rounds\n")
    print("| replaced by its definition | ms | gain of the kernel |\n|---|---:|---:|")
    base = seconds["none replaced"]
    for name, times in seconds.items():
        gain = statistics.median(time / kernel for time, kernel in zip(times, base)) - 1
        shown = "" if name == "none replaced" else f"{gain:+.1%}"
        print(f"| {name} | {1e3 * statistics.median(times):,.1f} | {shown} |")


if __name__ == "__main__":
    main()
