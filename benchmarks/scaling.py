"""What an update costs: with 1, 2, 4 and 8 replicas on this processor, against tokens in a batch, against sentence length.

    python benchmarks/scaling.py             # both tables, a quarter of an hour on two cores
    python benchmarks/scaling.py --rounds=1  # quicker and noisier

All replicas of a processor share its cores, so the ideal cost of N of them at one batch is that of 1: what is more is overhead. Each
number of replicas needs a process of its own; they are run in turns, and medians are printed. The model is the preset `small`, with
dropout, Adam and label smoothing; the batches are full, without padding.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

REPLICAS = (1, 2, 4, 8)
BATCH = 64, 64  # rows, length: 4,096 tokens a side
TOKENS = [(tokens // 32, 32) for tokens in (1024, 2048, 4096, 8192, 16384)]
LENGTHS = [(4096 // length, length) for length in (16, 32, 64, 128, 256)]


def measure(replicas, shapes, rounds):
    """Median seconds of an update for each shape (rows, length), taken in turns. Runs in a process of its own."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import functools

    import numpy as np
    import tensorflow as tf

    from tf_transformer.checkpoints.loading import build_model
    from tf_transformer.presets import preset
    from tf_transformer.training.distribution import make_strategy, on_all_replicas, split_cpu
    from tf_transformer.training.optimizer import make_optimizer
    from tf_transformer.training.train_step import train_step

    split_cpu(replicas)
    strategy = make_strategy(on_processor=True)
    assert strategy.num_replicas_in_sync == replicas
    settings = preset("small").replace(input_vocab_size=4000, target_vocab_size=4000)
    with strategy.scope():
        model = build_model(settings.model)
        optimizer = make_optimizer(settings.model, settings.train)
        optimizer.build(model.trainable_variables)
    accumulate = (
        max(rows * length for rows, length in shapes) > replicas * settings.train.micro_batch_tokens
    )
    update = functools.partial(train_step, model, optimizer, settings.train, accumulate=accumulate)
    step = on_all_replicas(strategy, update, [tf.TensorSpec([None, None], tf.int32)] * 2)
    random, batches = np.random.default_rng(0), []
    for rows, length in shapes:
        batches.append(
            [
                tf.constant(random.integers(4, 4000, (rows, width)), tf.int32)
                for width in (length, length + 1)
            ]
        )
    times = [[] for _ in shapes]
    for turn in range(rounds + 1):
        for batch, found in zip(batches, times):
            start = time.perf_counter()
            step(*batch)["sums"].numpy()
            if turn:  # the first one builds the graph and warms up
                found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in times]


def _in_a_process(replicas, shapes, rounds):
    command = [sys.executable, __file__, f"--measure={json.dumps([replicas, shapes, rounds])}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns, of which the median is taken")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(*json.loads(args.measure))))
        sys.stdout.flush()
        os._exit(0)

    found = {replicas: [] for replicas in REPLICAS}
    for _ in range(args.rounds):
        for replicas in REPLICAS:
            found[replicas] += _in_a_process(replicas, [BATCH], 10)
    one = statistics.median(found[1])
    print(
        f"one batch of {BATCH[0]} x {BATCH[1]} on {os.cpu_count()} cores\n{'replicas':>9} {'seconds':>8} {'of 1 replica':>13}"
    )
    for replicas, times in found.items():
        print(
            f"{replicas:>9} {statistics.median(times):>8.3f} {statistics.median(times) / one:>13.2f}"
        )

    shapes = TOKENS + LENGTHS
    times = _in_a_process(2, shapes, 4 * args.rounds)
    for name, part, seconds in (
        ("tokens", TOKENS, times[: len(TOKENS)]),
        ("length", LENGTHS, times[len(TOKENS) :]),
    ):
        print(
            f"\nagainst {name}, 2 replicas\n{'rows x length':>14} {'tokens':>7} {'seconds':>8} {'us a token':>11}"
        )
        for (rows, length), one in zip(part, seconds):
            print(
                f"{f'{rows} x {length}':>14} {rows * length:>7,} {one:>8.3f} {one / rows / length * 1e6:>11.1f}"
            )


if __name__ == "__main__":
    main()
