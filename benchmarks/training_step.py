"""What an update of the model `base` costs, against peers that do the same work, against the machine, and in memory.

    python benchmarks/training_step.py                                     # some minutes on two cores
    python benchmarks/training_step.py --vocabularies=8000 --rounds=3      # quicker and noisier
    python benchmarks/training_step.py --precisions=mixed_bfloat16
    python benchmarks/training_step.py --memory                            # the memory instead of the time

A batch has 64 x 32 source and as many target tokens, without padding. Each contender is a process of its own, with all cores and the
allocator's best settings. All are started, and make two steps to warm up; then they take turns, one step each, so that they share what
else the machine does. The medians of time, of ratio and of share are printed. Peers are measured where they are installed
(`benchmarks/requirements.txt`; `--peers=PYTHON` names the interpreter that has them); that of torch is measured as it comes, with dropout
on attention weights and inside the feed-forward network too and a layer norm after each stack, and without these.

The share of the machine: floating-point operations of the matrix products of a step (backward twice forward), over its time, over the
best rate of a single product of 4096 x 512 by 512 x 2048 in the same precision in the same turns.
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

ROWS, LENGTH = 64, 32
WARM_UP = 2  # steps that do not count
FOR_TORCH = {
    "MALLOC_MMAP_THRESHOLD_": "100000000000",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
}  # the best allocator settings for it
PEERS = pathlib.Path(__file__).parent / "peers"


def _make_step(vocab_size, precision, most):
    """Our step, on one replica with all cores: a function of source and target ids; and the model."""
    import functools

    import tensorflow as tf

    from tf_transformer.checkpoints.loading import build_model
    from tf_transformer.presets import preset
    from tf_transformer.training.distribution import make_strategy, on_all_replicas, split_cpu
    from tf_transformer.training.optimizer import make_optimizer
    from tf_transformer.training.train_step import train_step

    split_cpu(1)
    strategy = make_strategy(on_processor=True)
    settings = preset("base").replace(
        input_vocab_size=vocab_size, target_vocab_size=vocab_size, micro_batch_tokens=most
    )
    with strategy.scope():
        model = build_model(settings.model, precision)
        optimizer = make_optimizer(settings.model, settings.train)
        optimizer.build(model.trainable_variables)
    update = functools.partial(train_step, model, optimizer, settings.train, accumulate=most < 4096)
    return on_all_replicas(
        strategy, update, [tf.TensorSpec([None, None], tf.int32)] * 2
    ), settings.model


def _batch(vocab_size, rows, length):
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(0)
    return [
        tf.constant(random.integers(4, vocab_size, (rows, width)), tf.int32)
        for width in (length, length + 1)
    ]


def run_ours(vocab_size, rows, length, precision):
    """Seconds of one of our steps, again and again."""
    step, _ = _make_step(vocab_size, precision, 4096)
    batch = _batch(vocab_size, rows, length)
    while True:
        start = time.perf_counter()
        step(*batch)["sums"].numpy()
        yield time.perf_counter() - start


def run_matrix(vocab_size, rows, length, precision):
    """Operations a second of the best of some matrix products, again and again."""
    import tensorflow as tf

    from tf_transformer.training.distribution import split_cpu

    split_cpu(1)
    m, k, n = 4096, 512, 2048
    dtype = tf.float32 if precision == "float32" else tf.bfloat16
    a, b = (tf.cast(tf.random.normal(shape), dtype) for shape in ((m, k), (k, n)))
    product = tf.function(lambda: tf.matmul(a, b)[0, 0])
    while True:
        times = []
        for _ in range(30):
            start = time.perf_counter()
            product().numpy()
            times.append(time.perf_counter() - start)
        yield 2 * m * k * n / min(times)


def run_memory(vocab_size, rows, length, most):
    """Bytes of the largest resident memory of a step above what is resident before it, which holds weights and Adam's means."""
    step, _ = _make_step(vocab_size, "float32", most)
    step(*_batch(vocab_size, 8, 4))["sums"].numpy()  # builds the graph
    batch = _batch(vocab_size, rows, length)
    before = _resident("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    step(*batch)["sums"].numpy()
    return _resident("VmHWM") - before


def _resident(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


RUNS = {"ours": run_ours, "matrix": run_matrix}


class Contender:
    """A process that makes a step, and writes what it took, whenever it reads a line.

    Args:
      name: for messages.
      command: of the process; it gets the arguments as JSON.
      environment: variables to set.
      arguments: vocabulary, rows, length, precision.
    """

    def __init__(self, name, command, environment, arguments):
        self.name, pipe, self._errors = name, subprocess.PIPE, tempfile.TemporaryFile("w+")
        command, environment = [*command, json.dumps(arguments)], {**os.environ, **environment}
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=self._errors, text=True, env=environment
        )

    def step(self):
        """What the step took, or None where it cannot be made."""
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            return float(self._process.stdout.readline())
        except (OSError, ValueError):
            return None

    def close(self):
        """Ends the process. Returns: the last line that it wrote for people."""
        self._process.kill()
        self._process.communicate()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return lines[-1] if lines else "no message"


def compare(vocab_size, precision, rounds, peers):
    """Prints the table of contenders."""
    from tf_transformer.cli.allocator import SETTINGS
    from tf_transformer.paper.flops import matrix_operations
    from tf_transformer.presets import preset

    contenders = {
        "ours": ([sys.executable, __file__, "--run=ours"], SETTINGS),
        "torch.nn.Transformer": ([peers, str(PEERS / "torch_step.py"), "as_it_is"], FOR_TORCH),
        "  with our dropout": ([peers, str(PEERS / "torch_step.py")], FOR_TORCH),
        "KerasHub": ([peers, str(PEERS / "keras_hub_step.py")], SETTINGS),
        "matrix": ([sys.executable, __file__, "--run=matrix"], SETTINGS),
    }
    found = {}  # the figure of each turn
    running = [
        Contender(name, *how, [vocab_size, ROWS, LENGTH, precision])
        for name, how in contenders.items()
    ]
    try:
        for _ in range(WARM_UP + rounds):
            for contender in list(running):
                if (figure := contender.step()) is not None:
                    found.setdefault(contender.name, []).append(figure)
                    continue
                running.remove(contender)
                found.pop(contender.name, None)
                print(f"(left out: {contender.name}: {contender.close()})", file=sys.stderr)
                if contender.name in RUNS:
                    sys.exit(1)
    finally:
        for contender in running:
            contender.close()
    found = {name: figures[WARM_UP:] for name, figures in found.items()}
    rates, ours = found.pop("matrix"), found["ours"]
    model = preset("base").replace(input_vocab_size=vocab_size, target_vocab_size=vocab_size).model
    operations = matrix_operations(model, ROWS, LENGTH, LENGTH)
    print(
        f"\nbase, {vocab_size:,} words, {precision}, {os.cpu_count()} cores; best product {max(rates) / 1e9:,.0f} GFLOP/s"
    )
    print(
        f"{'':<22} {'s/step':>7} {'target tokens/s':>16} {'ours is faster by':>18} {'share of machine':>17}"
    )
    for name, times in found.items():
        median, ratio = (
            statistics.median(times),
            statistics.median([other / one for other, one in zip(times, ours)]),
        )
        share = statistics.median([operations / one / rate for one, rate in zip(times, rates)])
        print(
            f"{name:<22} {median:>7.2f} {ROWS * LENGTH / median:>16,.0f} {ratio:>18.2f} {share:>17.0%}",
            flush=True,
        )


def memory(vocab_size):
    """Prints the memory of a step with 4,096 target tokens, in one go and in micro-steps."""
    from tf_transformer.presets import preset
    from tf_transformer.training.memory_plan import state_bytes

    rows, logits = 4096 // LENGTH, 4 * 4096 * vocab_size
    sizes = preset("base").replace(input_vocab_size=vocab_size, target_vocab_size=vocab_size).model
    gradients = state_bytes(sizes, 1) // 4
    print(
        f"\nbase, {vocab_size:,} words, float32, {rows} x {LENGTH} tokens; weights, gradients and Adam {4 * gradients / 1e9:.2f} GB"
    )
    print(
        f"{'tokens at a time':>16} {'GB above weights and Adam':>26} {'above the gradients too':>24} {'in logits tensors':>18}"
    )
    returned = {
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "65536",
    }  # what is freed is given back, and so not counted
    for most in (4096, 2048, 1024):
        command = [
            sys.executable,
            __file__,
            "--run=memory",
            json.dumps([vocab_size, rows, LENGTH, most]),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **returned}
        )
        if done.returncode:
            sys.exit(done.stderr)
        peak = int(done.stdout.splitlines()[-1])
        above = peak - gradients
        print(
            f"{most:>16,} {peak / 1e9:>26.2f} {above / 1e9:>24.2f} {above / logits:>18.2f}",
            flush=True,
        )


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9, help="turns, of which the median is taken")
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[8000, 37000])
    parser.add_argument(
        "--precisions", nargs="+", default=["float32"], choices=["float32", "mixed_bfloat16"]
    )
    parser.add_argument(
        "--peers", default=sys.executable, help="the Python interpreter that has the peers"
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
        for _, figure in zip(sys.stdin, RUNS[args.run](*json.loads(args.arguments))):
            print(figure, flush=True)
        os._exit(0)
    for vocab_size in args.vocabularies:
        if args.memory:
            memory(vocab_size)
            continue
        for precision in args.precisions:
            compare(vocab_size, precision, args.rounds, args.peers)


if __name__ == "__main__":
    main()
