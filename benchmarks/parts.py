"""Times each part of a training step of the model `base`, and compares it with its lower bound.

    python benchmarks/parts.py                     # some minutes on two cores
    python benchmarks/parts.py --vocabulary=37000

The batch has 64 x 32 source tokens and as many target tokens, float32, on all cores. Each part runs
alone, forward and backward. Its lower bound is the larger of two times: its matrix products at the
best rate of a single product, and the values that it reads and writes at the rate of a copy. The
parts run in turns, and medians are printed. The whole step takes longer than the sum of its parts:
it also adds residuals and gradients, and its data is no longer in the caches.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from training_update import make_update, random_batch

ROWS = 64
LENGTH = 32
COPIED_VALUES = 2**26  # values of the copy that measures the memory bandwidth
PRODUCT = (4096, 512, 2048)  # rows, inner dimension, columns of the reference product


class Part(NamedTuple):
    """A part of the step."""

    name: str
    count: int  # how often it occurs in a step
    run: Callable  # runs it once
    operations: int  # floating-point operations of its matrix products
    values: int  # values that it reads and writes


def make_parts(model, optimizer, vocab_size):
    """Makes the parts of a training step of `base`.

    Args:
      model: a `Transformer` of `base`.
      optimizer: its `FusedAdam`.
      vocab_size: V.
    Returns: a list of `Part`s.
    """
    import tensorflow as tf

    d_model = 512
    dff = 2048
    num_heads = 8
    tokens = ROWS * LENGTH
    values = tokens * d_model
    layer = model.encoder.enc_layers[0]
    norm = layer.layernorm1
    x = tf.random.normal((ROWS, LENGTH, d_model))
    heads = tf.random.normal((ROWS, num_heads, LENGTH, d_model // num_heads))
    parameters = model.count_params()

    feed_forward = _forward_and_backward(layer.ffn, x, layer.ffn.trainable_variables)
    projections = _forward_and_backward(_projections(layer.mha), x, layer.mha.trainable_variables)
    attention = _forward_and_backward(_self_attention, heads)
    layer_norm = _forward_and_backward(norm, x, norm.trainable_variables)
    dropout = _forward_and_backward(_dropout(layer.dropout1), x)
    loss = _loss(model, x)
    adam = _adam(model, optimizer)
    return [
        Part("feed-forward", 12, feed_forward, 12 * tokens * d_model * dff, 0),
        Part("attention, W^Q to W^O", 18, projections, 24 * tokens * d_model * d_model, 0),
        Part("attention, softmax(QK)V", 18, attention, 12 * tokens * LENGTH * d_model, 8 * values),
        Part("layer norm", 30, layer_norm, 0, 5 * values),
        Part("dropout", 32, dropout, 0, 4 * values),
        Part(
            "logits and loss", 1, loss, 6 * tokens * d_model * vocab_size, 5 * tokens * vocab_size
        ),
        Part("gradient norm and Adam", 1, adam, 0, 8 * parameters),
    ]


def _forward_and_backward(run, x, weights=()):
    """A function that computes `run(x)` and its gradients by `x` and the weights."""
    import tensorflow as tf

    def gradients():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = run(x)
        return tape.gradient(y, [x, *weights], output_gradients=x)

    return tf.function(gradients)


def _projections(mha):
    """The four projections in a chain: for one common input TensorFlow would share work."""

    def run(x):
        return mha.dense(mha.wv(mha.wk(mha.wq(x))))

    return run


def _self_attention(q):
    """q `[B, H, T, K]`, also as keys and values -> `[B, H, T, K]`."""
    import tensorflow as tf

    from tf_transformer.model.attention import scaled_dot_product_attention

    output, _ = scaled_dot_product_attention(q, q, q, tf.zeros((ROWS, 1, 1, LENGTH)))
    return output


def _dropout(layer):
    """The layer in training, with a fixed key."""
    import tensorflow as tf

    from tf_transformer.model.dropout import dropout_key

    key = tf.constant([1, 2])

    def run(x):
        with dropout_key(key):
            return layer(x, training=True)

    return run


def _loss(model, x):
    """Logits, loss and their gradients, from the decoder's output x `[B, T, D]`."""
    import tensorflow as tf

    from tf_transformer.training.loss import chunked_gradients

    tar_real = tf.fill((ROWS, LENGTH), 7)

    def gradients():
        return chunked_gradients(*model.output_projection(), x, tar_real, 0.1, 1.0)

    return tf.function(gradients)


def _adam(model, optimizer):
    """The norm of all gradients, and the update of all weights."""
    import tensorflow as tf

    variables = model.trainable_variables
    gradients = [tf.ones(variable.shape) for variable in variables]

    def update():
        norm = tf.linalg.global_norm(gradients)
        optimizer.apply_if(norm > 0, gradients, variables)

    return tf.function(update)


def measure(functions, rounds):
    """Times functions in turns; the first two turns warm up.

    Returns: the median seconds of each.
    """
    import tensorflow as tf

    times = [[] for _ in functions]
    for _ in range(rounds + 2):
        for function, seconds in zip(functions, times):
            start = time.perf_counter()
            results = [leaf for leaf in tf.nest.flatten(function()) if leaf is not None]
            if results:
                results[0].numpy()
            seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds[2:]) for seconds in times]


def print_table(parts, times, step_time, operation_rate, value_rate):
    """Prints the parts, their sum and the whole step.

    Args:
      parts: a list of `Part`s.
      times: seconds of each.
      step_time: seconds of the whole step.
      operation_rate: operations a second of a matrix product.
      value_rate: values a second of a copy.
    """
    print(
        f"{'part':<24} {'count':>5} {'ms each':>8} {'ms a step':>10} {'bound, ms':>10} "
        f"{'of bound':>9}"
    )
    total = 0.0
    total_bound = 0.0
    for part, seconds in zip(parts, times):
        bound = max(part.operations / operation_rate, part.values / value_rate)
        in_step = part.count * seconds
        bound_in_step = part.count * bound
        total += in_step
        total_bound += bound_in_step
        print(
            f"{part.name:<24} {part.count:>5} {seconds * 1e3:>8.2f} {in_step * 1e3:>10.0f} "
            f"{bound_in_step * 1e3:>10.0f} {seconds / bound:>9.2f}"
        )
    for name, seconds in (("sum of the parts", total), ("the step", step_time)):
        print(
            f"{name:<24} {'':>5} {'':>8} {seconds * 1e3:>10.0f} {total_bound * 1e3:>10.0f} "
            f"{seconds / total_bound:>9.2f}"
        )


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vocabulary", type=int, default=8000, help="sub-words")
    parser.add_argument("--rounds", type=int, default=9, help="turns; medians are printed")
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from allocator import use_allocator

    use_allocator()
    import tensorflow as tf

    from tf_transformer.presets import preset
    from tf_transformer.training.distribution import split_cpu

    tf.get_logger().setLevel("ERROR")  # it would warn of the graph that each part has
    split_cpu(1)
    config = preset("base").replace(
        input_vocab_size=args.vocabulary, target_vocab_size=args.vocabulary
    )
    update, model, optimizer = make_update(config)
    batch = random_batch(args.vocabulary, ROWS, LENGTH)
    parts = make_parts(model, optimizer, args.vocabulary)

    rows, inner, columns = PRODUCT
    a = tf.random.normal((rows, inner))
    b = tf.random.normal((inner, columns))
    large = tf.zeros(COPIED_VALUES)
    functions = [part.run for part in parts]
    functions.append(tf.function(lambda: tf.matmul(a, b)[0]))
    functions.append(tf.function(lambda: (large + 1.0)[:1]))
    functions.append(lambda: update(*batch))
    *times, product_time, copy_time, step_time = measure(functions, args.rounds)
    operation_rate = 2 * rows * inner * columns / product_time
    value_rate = 2 * COPIED_VALUES / copy_time

    print(
        f"base, {args.vocabulary:,} sub-words, {os.cpu_count()} cores: "
        f"{operation_rate / 1e9:,.0f} GFLOP/s, {4 * value_rate / 1e9:.0f} GB/s"
    )
    print_table(parts, times, step_time, operation_rate, value_rate)


if __name__ == "__main__":
    main()
