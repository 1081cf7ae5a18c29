"""Times a training step of the model `base`, and that of other libraries that do the same work.

    python benchmarks/training_step.py                                 # some minutes on two cores
    python benchmarks/training_step.py --vocabularies=8000 --rounds=3  # quicker and noisier
    python benchmarks/training_step.py --precisions=mixed_bfloat16
    python benchmarks/training_step.py --memory                        # memory instead of time

A batch has 64 x 32 source tokens and as many target tokens, without padding. Each contender is a
process that uses all cores and the allocator settings that are best for it. All processes are
started and warmed up by two steps. Then they run in turns, one step at a time, so that other load
on the host affects all of them. Medians of the time and of the ratios are printed.

Other libraries are measured where they are installed (`benchmarks/requirements.txt`;
`--peers=PYTHON` is the interpreter that has them). `torch.nn.Transformer` is measured twice: with
its defaults, which have dropout on attention weights and inside the feed-forward network and a
layer norm after each stack, and without these.

The fraction of peak is the number of floating-point operations of the matrix products in a step
(the backward pass has twice those of the forward pass), divided by the time and by the best rate of
a product of 4096 x 512 by 512 x 2048 in the same precision and the same turns.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from training_update import make_update, random_batch

ROWS = 64
LENGTH = 32
MEMORY_TOKENS = 4096  # target tokens of the batch whose memory is measured
MEMORY_MICRO_BATCHES = (4096, 2048, 1024)  # values of micro_batch_tokens
WARM_UP = 2  # steps that are not measured
PRODUCT = (4096, 512, 2048)  # rows, inner dimension, columns of the reference product
PEERS = pathlib.Path(__file__).parent / "peers"
# The best allocator settings for torch.
TORCH_ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "100000000000",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
}
# With these settings freed memory goes back to the kernel, so it is not counted.
RETURN_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}


def make_base_update(vocab_size, precision, micro_batch_tokens):
    """Our training update of `base`, on one replica with all cores."""
    from tf_transformer.presets import preset
    from tf_transformer.training.distribution import split_cpu

    split_cpu(1)
    config = preset("base").replace(
        input_vocab_size=vocab_size,
        target_vocab_size=vocab_size,
        micro_batch_tokens=micro_batch_tokens,
    )
    accumulate = micro_batch_tokens < MEMORY_TOKENS
    update, _, _ = make_update(config, precision, accumulate)
    return update


def run_ours(vocab_size, rows, length, precision):
    """Yields the seconds of our steps."""
    update = make_base_update(vocab_size, precision, MEMORY_TOKENS)
    batch = random_batch(vocab_size, rows, length)
    while True:
        start = time.perf_counter()
        update(*batch)["sums"].numpy()
        yield time.perf_counter() - start


def run_matrix(vocab_size, rows, length, precision):
    """Yields the operations a second of the best of 30 matrix products."""
    import tensorflow as tf

    from tf_transformer.training.distribution import split_cpu

    split_cpu(1)
    m, k, n = PRODUCT
    dtype = tf.float32 if precision == "float32" else tf.bfloat16
    a = tf.cast(tf.random.normal((m, k)), dtype)
    b = tf.cast(tf.random.normal((k, n)), dtype)
    product = tf.function(lambda: tf.matmul(a, b)[0, 0])
    while True:
        times = []
        for _ in range(30):
            start = time.perf_counter()
            product().numpy()
            times.append(time.perf_counter() - start)
        yield 2 * m * k * n / min(times)


def run_memory(vocab_size, rows, length, micro_batch_tokens):
    """Bytes that a step needs above what is resident before it: weights and Adam's moments."""
    update = make_base_update(vocab_size, "float32", micro_batch_tokens)
    update(*random_batch(vocab_size, 8, 4))["sums"].numpy()  # builds the graph
    batch = random_batch(vocab_size, rows, length)
    before = _resident("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    update(*batch)["sums"].numpy()
    return _resident("VmHWM") - before


def _resident(name):
    """A field of /proc/self/status, in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


RUNS = {"ours": run_ours, "matrix": run_matrix}


class Contender:
    """A process that makes one step for each line that it reads, and prints a number for it.

    Args:
      name: for messages.
      command: of the process; its last argument is `arguments` as JSON.
      environment: variables to set.
      arguments: vocabulary size, rows, length, precision.
    """

    def __init__(self, name, command, environment, arguments):
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [*command, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **environment},
        )

    def step(self):
        """Returns the number that the process prints, or None where it fails."""
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            return float(self._process.stdout.readline())
        except (OSError, ValueError):
            return None

    def close(self):
        """Ends the process. Returns: the last line of its standard error."""
        self._process.kill()
        self._process.communicate()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return lines[-1] if lines else "no message"


def make_contenders(vocab_size, precision, peers):
    """Starts the processes. `peers` is the Python interpreter of the other libraries."""
    from allocator import SETTINGS

    this = [sys.executable, __file__]
    torch = [peers, str(PEERS / "torch_step.py")]
    keras_hub = [peers, str(PEERS / "keras_hub_step.py")]
    arguments = [vocab_size, ROWS, LENGTH, precision]
    return [
        Contender("ours", [*this, "--run=ours"], SETTINGS, arguments),
        Contender("torch.nn.Transformer", [*torch, "defaults"], TORCH_ALLOCATOR, arguments),
        Contender("  with our dropout", torch, TORCH_ALLOCATOR, arguments),
        Contender("KerasHub", keras_hub, SETTINGS, arguments),
        Contender("matrix", [*this, "--run=matrix"], SETTINGS, arguments),
    ]


def measure(contenders, rounds):
    """Runs contenders in turns; one that fails is left out with a message.

    Returns: name -> the number of each round after the warm-up.
    """
    running = list(contenders)
    results = {}
    try:
        for _ in range(WARM_UP + rounds):
            for contender in list(running):
                number = contender.step()
                if number is not None:
                    results.setdefault(contender.name, []).append(number)
                    continue
                running.remove(contender)
                results.pop(contender.name, None)
                print(f"(left out: {contender.name}: {contender.close()})", file=sys.stderr)
                if contender.name in RUNS:
                    sys.exit(1)
    finally:
        for contender in running:
            contender.close()
    return {name: numbers[WARM_UP:] for name, numbers in results.items()}


def compare_times(vocab_size, precision, rounds, peers):
    """Prints the table of contenders."""
    from tf_transformer.paper.flops import matrix_operations
    from tf_transformer.presets import preset

    results = measure(make_contenders(vocab_size, precision, peers), rounds)
    rates = results.pop("matrix")
    ours = results["ours"]
    config = preset("base").replace(input_vocab_size=vocab_size, target_vocab_size=vocab_size)
    operations = matrix_operations(config.model, ROWS, LENGTH, LENGTH)
    print(
        f"\nbase, {vocab_size:,} sub-words, {precision}, {os.cpu_count()} cores; "
        f"best product {max(rates) / 1e9:,.0f} GFLOP/s"
    )
    print(
        f"{'':<22} {'s/step':>7} {'target tokens/s':>16} {'ours is faster by':>18} "
        f"{'fraction of peak':>17}"
    )
    for name, times in results.items():
        seconds = statistics.median(times)
        ratio = statistics.median([theirs / our for theirs, our in zip(times, ours)])
        fraction = statistics.median(
            [operations / step_time / rate for step_time, rate in zip(times, rates)]
        )
        print(
            f"{name:<22} {seconds:>7.2f} {ROWS * LENGTH / seconds:>16,.0f} {ratio:>18.2f} "
            f"{fraction:>17.0%}",
            flush=True,
        )


def compare_memory(vocab_size):
    """Prints the memory of a step with 4,096 target tokens, for several micro-batch sizes."""
    from tf_transformer.presets import preset

    rows = MEMORY_TOKENS // LENGTH
    logits = 4 * MEMORY_TOKENS * vocab_size
    config = preset("base").replace(input_vocab_size=vocab_size, target_vocab_size=vocab_size)
    state = 4 * 4 * config.model.parameters()  # weights, gradients, Adam's moments: float32
    gradients = state // 4
    print(
        f"\nbase, {vocab_size:,} sub-words, float32, {rows} x {LENGTH} tokens; "
        f"weights, gradients and Adam {state / 1e9:.2f} GB"
    )
    print(
        f"{'micro_batch_tokens':>18} {'GB above weights and Adam':>26} "
        f"{'above the gradients too':>24} {'in logits tensors':>18}"
    )
    for micro_batch_tokens in MEMORY_MICRO_BATCHES:
        arguments = json.dumps([vocab_size, rows, LENGTH, micro_batch_tokens])
        command = [sys.executable, __file__, "--run=memory", arguments]
        environment = {**os.environ, **RETURN_FREED_MEMORY}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            sys.exit(done.stderr)
        peak = int(done.stdout.splitlines()[-1])
        above = peak - gradients
        print(
            f"{micro_batch_tokens:>18,} {peak / 1e9:>26.2f} {above / 1e9:>24.2f} "
            f"{above / logits:>18.2f}",
            flush=True,
        )


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9, help="turns; medians are printed")
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[8000, 37000])
    parser.add_argument(
        "--precisions", nargs="+", default=["float32"], choices=["float32", "mixed_bfloat16"]
    )
    parser.add_argument(
        "--peers", default=sys.executable, help="Python interpreter of the other libraries"
    )
    parser.add_argument("--memory", action="store_true", help="memory instead of time")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs="?", help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    if args.run == "memory":
        print(run_memory(*json.loads(args.arguments)), flush=True)
        os._exit(0)
    if args.run:
        numbers = RUNS[args.run](*json.loads(args.arguments))
        for _, number in zip(sys.stdin, numbers):
            print(number, flush=True)
        os._exit(0)
    for vocab_size in args.vocabularies:
        if args.memory:
            compare_memory(vocab_size)
            continue
        for precision in args.precisions:
            compare_times(vocab_size, precision, args.rounds, args.peers)


if __name__ == "__main__":
    main()
