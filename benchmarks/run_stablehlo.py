"""Times the updates that `benchmarks/step_stablehlo.py` wrote, on a GPU with JAX.

    python benchmarks/run_stablehlo.py /tmp/stablehlo

JAX is used for its compiler and its runtime only: the computation is TensorFlow's. With the file
of `step_stablehlo.py --curve`, it also repeats that training, and compares the losses.
"""

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.lib import xla_client

WARM_UP = 20  # updates that are not timed
PRODUCT = 8192  # n of the products of two [n, n] matrices, the peak
COLUMNS = (
    "model", "rows x length", "precision", "compilation, s", "s an update", "target tokens/s",
    "TFLOP/s", "share of peak", "temporary GB", "loss, first and last",
)  # fmt: skip


def main() -> None:
    """Prints a row for each file, and the comparison of the losses."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--updates", type=int, default=50, help="timed updates")
    parser.add_argument("--product", type=int, default=PRODUCT, help="size of the peak's matrices")
    args = parser.parse_args()
    device = jax.devices()[0]
    print(f"{device.device_kind}; JAX {jax.__version__}")
    peaks = {name: peak_rate(args.product, name) for name in ("float32", "tf32", "bfloat16")}
    rates = ", ".join(f"{rate / 1e12:,.1f} TFLOP/s {name}" for name, rate in peaks.items())
    print(f"Peak, {args.product:,} x {args.product:,}: {rates}")
    curve = args.folder / "curve.npz"
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for path in sorted(set(args.folder.glob("*.mlir")) - {curve.with_suffix(".mlir")}):
        facts = json.loads(path.with_suffix(".json").read_text("utf-8"))
        peak = peaks[facts["precision"].removeprefix("mixed_")]
        print(f"| {' | '.join(measure(path, facts, args.updates, peak))} |", flush=True)
    if curve.exists():
        compare(curve)


def measure(
    path: pathlib.Path, facts: dict[str, Any], updates: int, peak: float
) -> tuple[str, ...]:
    """The cells of a case, whose ids are random and without padding."""
    executable, seconds = load(path)
    rows, length = facts["shape"]
    random = np.random.default_rng(0)
    ids = [
        jax.device_put(random.integers(4, facts["vocabulary"], (rows, n)).astype(np.int32))
        for n in (length, length + 1)
    ]
    state = initial_state(
        mean + std * random.standard_normal(shape, np.float32)
        for shape, mean, std in facts["weights"]
    )
    times, losses = [], []
    for _ in range(WARM_UP + updates):
        started = time.perf_counter()
        *state, sums = executable.execute([*state, *ids])
        sums = np.asarray(sums)  # waits for the update
        times.append(time.perf_counter() - started)
        losses.append(sums[0] / sums[1])
    median = statistics.median(times[WARM_UP:])
    rate = facts["matrix_operations"] / median
    memory = executable.get_compiled_memory_stats().temp_size_in_bytes
    return (
        facts["model"],
        f"{rows:,} x {length}",
        facts["precision"],
        f"{seconds:.0f}",
        f"{median:.4f}",
        f"{rows * length / median:,.0f}",
        f"{rate / 1e12:,.1f}",
        f"{rate / peak:.0%}",
        f"{memory / 1e9:.2f}",
        f"{losses[0]:.3f}, {losses[-1]:.3f}",
    )


def compare(path: pathlib.Path) -> None:
    """Repeats a training, and prints its losses beside those of the CPU."""
    executable, _ = load(path.with_suffix(".mlir"))
    with np.load(path) as data:
        arrays = dict(data)
    names = sorted(name for name in arrays if name.startswith("weight"))
    state = initial_state(arrays[name] for name in names)
    expected, losses = arrays["losses"], []
    started = time.perf_counter()
    for inp, tar in zip(arrays["inp"].astype(np.int32), arrays["tar"].astype(np.int32)):
        arguments = jax.device_put(inp), jax.device_put(tar)
        *state, sums = executable.execute([*state, *arguments])
        losses.append(sums)
    losses = np.array([sums[0] / sums[1] for sums in map(np.asarray, losses)])
    seconds = time.perf_counter() - started
    print(f"\n{len(losses):,} updates of pocket in {seconds:.1f} s\n\n| updates | CPU | here |")
    print("|---|---|---|")
    marks = [1, *(10**k * n for k in range(1, 6) for n in (1, 2, 5))]
    for number in [mark for mark in marks if mark < len(losses)] + [len(losses)]:
        print(f"| {number:,} | {expected[number - 1]:.4f} | {losses[number - 1]:.4f} |")
    last = slice(-min(100, len(losses)), None)
    print(
        f"Largest difference of the first 100: {np.abs(losses - expected)[:100].max():.2g}; "
        f"mean of the last 100: {expected[last].mean():.4f} and {losses[last].mean():.4f}"
    )


def load(path: pathlib.Path) -> tuple[Any, float]:
    """The executable of a file, and the seconds of its compilation."""
    device = jax.devices()[0]
    started = time.perf_counter()
    executable = device.client.compile_and_load(
        path.read_text("utf-8"),
        xla_client.DeviceList((device,)),
        xla_client.CompileOptions(),
    )
    return executable, time.perf_counter() - started


def initial_state(weights: Iterable[np.ndarray]) -> list[jax.Array]:
    """Weights, moments of zeros, and the step 0, on the device."""
    weights = [jax.device_put(weight.astype(np.float32)) for weight in weights]
    moments = [jax.device_put(np.zeros(weight.shape, np.float32)) for weight in weights * 2]
    return [*weights, *moments, jax.device_put(np.int32(0))]


def peak_rate(n: int, name: str) -> float:
    """Operations a second of the best of ten products of two `[n, n]` matrices."""
    dtype = jnp.bfloat16 if name == "bfloat16" else jnp.float32
    precision = "highest" if name == "float32" else "default"
    product = jax.jit(lambda a, b: jnp.matmul(a, b, precision=precision))
    a, b = (jax.random.normal(jax.random.key(i), (n, n), dtype) for i in range(2))
    times = []
    for _ in range(10):
        started = time.perf_counter()
        product(a, b).block_until_ready()
        times.append(time.perf_counter() - started)
    return 2 * n**3 / min(times)


if __name__ == "__main__":
    main()
