"""Where the time of a training step goes: each part of the model `base` alone, forwards and backwards, against its floor.

    python benchmarks/parts.py                     # some minutes on two cores
    python benchmarks/parts.py --vocabulary=37000

A batch of 64 x 32 tokens a side, float32, all cores. The floor of a part is the larger of two times: its matrix products at the best rate
of a single product, and the values that it must read and write at the rate of a copy. The parts take turns, and medians are printed.
What the whole step takes beyond their sum is what adds up residuals and gradients, and memory that is no longer in the caches.
"""

import argparse
import os
import statistics
import time

ROWS, LENGTH = 64, 32


def make_parts(model, optimizer, vocab_size):
    """For each part: its name, how often it is in a step, a function that runs it once, its operations, and the values it moves."""
    import tensorflow as tf

    from tf_transformer.model.attention import scaled_dot_product_attention
    from tf_transformer.model.dropout import dropout_key
    from tf_transformer.training.loss import loss_gradients_in_parts

    tokens, d, f, h = ROWS * LENGTH, 512, 2048, 8
    layer = model.encoder.stack[0]
    x = tf.random.normal((ROWS, LENGTH, d))
    heads = tf.random.normal((ROWS, h, LENGTH, d // h))
    mask, key, words = (
        tf.zeros((ROWS, 1, 1, LENGTH)),
        tf.constant([1, 2]),
        tf.fill((ROWS, LENGTH), 7),
    )

    def both_ways(run, x, weights=()):
        def backwards():
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = run(x)
            return tape.gradient(y, [x, *weights], output_gradients=x)

        return tf.function(backwards)

    def projections(x):
        mha = layer.mha
        return mha.dense(
            mha.wv(mha.wk(mha.wq(x)))
        )  # of one input and one gradient, TensorFlow would compute some only once

    def dropped(x):
        with dropout_key(key):
            return layer.dropout1(x, training=True)

    def loss(logits_of=model.logits):
        return loss_gradients_in_parts(logits_of, model.logits_weights, x, words, 0.1, 1.0)

    gradients = [tf.ones(weight.shape) for weight in model.trainable_variables]
    adam = tf.function(
        lambda: optimizer.apply_where(
            tf.linalg.global_norm(gradients) > 0, gradients, model.trainable_variables
        )
    )
    parameters, values = model.count_params(), tokens * d
    norm = layer.layernorm1
    return [
        (
            "feed-forward",
            12,
            both_ways(layer.ffn, x, layer.ffn.trainable_variables),
            12 * tokens * d * f,
            0,
        ),
        (
            "attention, W^Q to W^O",
            18,
            both_ways(projections, x, layer.mha.trainable_variables),
            24 * tokens * d * d,
            0,
        ),
        (
            "attention, softmax(QK)V",
            18,
            both_ways(lambda q: scaled_dot_product_attention(q, q, q, mask)[0], heads),
            12 * tokens * LENGTH * d,
            8 * values,
        ),
        ("layer norm", 30, both_ways(norm, x, norm.trainable_variables), 0, 5 * values),
        ("dropout", 32, both_ways(dropped, x), 0, 4 * values),
        (
            "logits and loss",
            1,
            tf.function(loss),
            6 * tokens * d * vocab_size,
            5 * tokens * vocab_size,
        ),
        ("gradient norm and Adam", 1, adam, 0, 8 * parameters),
    ]


def measure(functions, rounds):
    """Median seconds of each function, in turns; the first two turns warm up."""
    import tensorflow as tf

    times = [[] for _ in functions]
    for _ in range(rounds + 2):
        for function, found in zip(functions, times):
            start = time.perf_counter()
            results = [leaf for leaf in tf.nest.flatten(function()) if leaf is not None]
            if results:
                results[0].numpy()
            found.append(time.perf_counter() - start)
    return [statistics.median(found[2:]) for found in times]


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=9, help="turns, of which the median is taken")
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from tf_transformer.cli.allocator import use_allocator

    use_allocator()
    import functools

    import tensorflow as tf

    from tf_transformer.checkpoints.loading import build_model
    from tf_transformer.presets import preset
    from tf_transformer.training.distribution import make_strategy, on_all_replicas, split_cpu
    from tf_transformer.training.optimizer import make_optimizer
    from tf_transformer.training.train_step import train_step

    split_cpu(1)
    settings = preset("base").replace(
        input_vocab_size=args.vocabulary, target_vocab_size=args.vocabulary
    )
    strategy = make_strategy(on_processor=True)
    with strategy.scope():
        model = build_model(settings.model)
        optimizer = make_optimizer(settings.model, settings.train)
        optimizer.build(model.trainable_variables)
    update = functools.partial(train_step, model, optimizer, settings.train, accumulate=False)
    step = on_all_replicas(strategy, update, [tf.TensorSpec([None, None], tf.int32)] * 2)
    random = tf.random.Generator.from_seed(1)
    batch = [
        random.uniform((ROWS, width), 4, args.vocabulary, tf.int32)
        for width in (LENGTH, LENGTH + 1)
    ]
    a, b, large = tf.random.normal((4096, 512)), tf.random.normal((512, 2048)), tf.zeros(2**26)
    product, copy = tf.function(lambda: tf.matmul(a, b)[0]), tf.function(lambda: (large + 1.0)[:1])
    parts = make_parts(model, optimizer, args.vocabulary)
    *times, product_time, copy_time, whole = measure(
        [part[2] for part in parts] + [product, copy, lambda: step(*batch)], args.rounds
    )
    rate, values_a_second = 2 * 4096 * 512 * 2048 / product_time, 2 * 2**26 / copy_time

    print(
        f"base, {args.vocabulary:,} words, {os.cpu_count()} cores: {rate / 1e9:,.0f} GFLOP/s, {4 * values_a_second / 1e9:.0f} GB/s"
    )
    print(
        f"{'part':<24} {'times':>5} {'ms each':>8} {'ms a step':>10} {'floor, ms':>10} {'of floor':>9}"
    )
    sums = [0.0, 0.0]
    for (name, count, _, operations, values), seconds in zip(parts, times):
        floor = max(operations / rate, values / values_a_second)
        sums = [sums[0] + count * seconds, sums[1] + count * floor]
        in_a_step = (
            f"{count * seconds * 1e3:>10.0f} {count * floor * 1e3:>10.0f} {seconds / floor:>9.2f}"
        )
        print(f"{name:<24} {count:>5} {seconds * 1e3:>8.2f} {in_a_step}")
    for name, seconds in (("all of these", sums[0]), ("the step", whole)):
        print(
            f"{name:<24} {'':>5} {'':>8} {seconds * 1e3:>10.0f} {sums[1] * 1e3:>10.0f} {seconds / sums[1]:>9.2f}"
        )


if __name__ == "__main__":
    main()
