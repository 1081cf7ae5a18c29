"""Times a training update against the number of replicas, the batch size, and sentence length.

    python benchmarks/scaling.py             # a quarter of an hour on two cores
    python benchmarks/scaling.py --rounds=1  # quicker and noisier

The first table has 1, 2, 4 and 8 replicas on this CPU with the same batch. They share its cores, so
the ideal time is that of 1 replica, and what exceeds it is overhead. Each number of replicas needs
its own process; the processes run in turns, and medians are printed. The model is the preset
`small` with dropout, Adam and label smoothing. The batches have no padding.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from training_update import make_update, random_batch

REPLICAS = (1, 2, 4, 8)
BATCH = (64, 64)  # rows, length: 4,096 tokens a side
TOKENS = [(tokens // 32, 32) for tokens in (1024, 2048, 4096, 8192, 16384)]
LENGTHS = [(4096 // length, length) for length in (16, 32, 64, 128, 256)]
VOCABULARY = 4000
UPDATES = 10  # updates that a process times in each round


def measure(replicas, shapes, rounds):
    """Times updates of several batch shapes in turns; needs its own process.

    Args:
      replicas: how many.
      shapes: of the batches, (rows, length).
      rounds: turns, after one that builds the graph.
    Returns: the median seconds of an update of each shape.
    """
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from tf_transformer.config import MICRO_BATCH_TOKENS
    from tf_transformer.presets import preset
    from tf_transformer.training.distribution import make_strategy, split_cpu

    split_cpu(replicas)
    assert make_strategy(replicas).num_replicas_in_sync == replicas
    config = preset("small").replace(
        input_vocab_size=VOCABULARY,
        target_vocab_size=VOCABULARY,
        micro_batch_tokens=MICRO_BATCH_TOKENS,
    )
    most_tokens = max(rows * length for rows, length in shapes)
    accumulate = most_tokens > replicas * config.train.micro_batch_tokens
    update, _, _ = make_update(config, accumulate=accumulate)
    batches = [random_batch(VOCABULARY, rows, length) for rows, length in shapes]
    times = [[] for _ in shapes]
    for turn in range(rounds + 1):
        for batch, seconds in zip(batches, times):
            start = time.perf_counter()
            update(*batch)["sums"].numpy()
            if turn:
                seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in times]


def measure_in_process(replicas, shapes, rounds):
    """Calls `measure` in a new process."""
    command = [sys.executable, __file__, f"--measure={json.dumps([replicas, shapes, rounds])}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def compare_replicas(rounds):
    """Prints the table against the number of replicas."""
    times = {replicas: [] for replicas in REPLICAS}
    for _ in range(rounds):
        for replicas in REPLICAS:
            times[replicas] += measure_in_process(replicas, [BATCH], UPDATES)
    medians = {replicas: statistics.median(seconds) for replicas, seconds in times.items()}
    print(f"one batch of {BATCH[0]} x {BATCH[1]} on {os.cpu_count()} cores")
    print(f"{'replicas':>9} {'seconds':>8} {'of 1 replica':>13}")
    for replicas, seconds in medians.items():
        print(f"{replicas:>9} {seconds:>8.3f} {seconds / medians[1]:>13.2f}")


def compare_shapes(rounds):
    """Prints the tables against tokens in a batch and against sentence length."""
    times = measure_in_process(2, TOKENS + LENGTHS, 4 * rounds)
    tables = [
        ("tokens", TOKENS, times[: len(TOKENS)]),
        ("length", LENGTHS, times[len(TOKENS) :]),
    ]
    for name, shapes, table_times in tables:
        print(f"\nagainst {name}, 2 replicas")
        print(f"{'rows x length':>14} {'tokens':>7} {'seconds':>8} {'us a token':>11}")
        for (rows, length), seconds in zip(shapes, table_times):
            tokens = rows * length
            shape = f"{rows} x {length}"
            print(f"{shape:>14} {tokens:>7,} {seconds:>8.3f} {seconds / tokens * 1e6:>11.1f}")


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns; medians are printed")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(*json.loads(args.measure))))
        sys.stdout.flush()
        os._exit(0)
    compare_replicas(args.rounds)
    compare_shapes(args.rounds)


if __name__ == "__main__":
    main()
