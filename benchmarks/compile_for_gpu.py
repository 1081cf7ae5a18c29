"""Compiles StableHLO for an H200 on a machine without a GPU, and prints a table of what XLA says.

    python -m venv /tmp/jax && /tmp/jax/bin/pip install 'jax[cuda12]'
    /tmp/jax/bin/python benchmarks/compile_for_gpu.py /tmp/stablehlo

The files are those of `benchmarks/step_stablehlo.py`. JAX is used for its compiler only: it takes
the description of a GPU in place of one. What needs a GPU is left out: the choice of the fastest
matrix products by measurement.
"""

import argparse
import json
import math
import os
import pathlib
import re
import time
from typing import Any

os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"  # there is no CUDA driver to ask

from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir
from jax.experimental import topologies

# NVIDIA H200 SXM: 132 multiprocessors, 141 GB, 4.8 TB/s; CUDA's limits for compute capability 9.0.
H200 = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 141000000000
  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 7 }
runtime_version { major: 12 minor: 9 }
device_description_str: "NVIDIA H200"
"""
COLUMNS = (
    "model", "rows x length", "precision", "compilation, s", "kernels", "GB read and written",
    "temporary GB",
)  # fmt: skip
NO_TRAFFIC = {
    "parameter", "constant", "get-tuple-element", "tuple", "bitcast", "while", "call", "conditional"
}  # fmt: skip


def main() -> None:
    """Prints a row for each file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    topology = topologies.get_topology_desc(platform="cuda", target_config=H200, topology="1x1x1")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for path in sorted(folder.glob("*.mlir")):
        facts = json.loads(path.with_suffix(".json").read_text("utf-8"))
        started = time.perf_counter()
        executable = compile_for(topology.devices[0], path.read_text("utf-8"))
        seconds = time.perf_counter() - started
        memory = executable.get_compiled_memory_stats().temp_size_in_bytes
        rows, length = facts["shape"]
        cells = (
            facts["model"], f"{rows} x {length}", facts["precision"], f"{seconds:.0f}",
            f"{kernels(executable):,}", f"{traffic(executable) / 1e9:.1f}", f"{memory / 1e9:.2f}",
        )  # fmt: skip
        print(f"| {' | '.join(cells)} |", flush=True)


def compile_for(device: Any, stablehlo: str) -> Any:
    """The executable of a module, for a described device."""
    with mlir.make_ir_context():
        module = ir.Module.parse(stablehlo)
        devices = xla_client.DeviceList((device,))
        return device.client.compile(module, devices, xla_client.CompileOptions())


def kernels(executable: Any) -> int:
    """The operations outside fused computations: one kernel or library call each.

    The body of a loop counts once.
    """
    launched = [text for text in computations(executable) if not text.startswith("%fused")]
    return sum(
        len(re.findall(r" = \S+ (?:fusion|custom-call|sort|copy)\(", text)) for text in launched
    )


def traffic(executable: Any) -> float:
    """The bytes of the operands and results of all operations, those of loops times their turns."""
    texts = computations(executable)
    turns = {}
    for loop in re.findall(r" while\(.*", "\n".join(texts)):
        count = re.search(r'"known_trip_count":\{"n":"(\d+)"', loop)
        turns[re.search(r"body=%([\w.-]+)", loop)[1]] = int(count[1]) if count else 1
    total = 0.0
    for text in texts:
        name = re.match(r"(?:ENTRY )?%?([\w.-]+)", text)[1]
        if not text.startswith("ENTRY") and name not in turns:
            continue  # fused into an operation, or the condition of a loop
        sizes = {}
        for result, shape, operation, operands in re.findall(
            r"%([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\(([^)]*)", text
        ):
            sizes[result] = bytes_of(shape)
            if operation not in NO_TRAFFIC:
                read = sum(sizes.get(each, 0) for each in re.findall(r"%([\w.-]+)", operands))
                total += turns.get(name, 1) * (sizes[result] + read)
    return total


def bytes_of(shape: str) -> float:
    """The size of "bf16[25000,512]{1,0}", or of a tuple of such arrays."""
    arrays = re.findall(r"(pred|[a-z]+(\d+))\[([\d,]*)\]", shape)
    return sum(
        int(bits or 8) / 8 * math.prod(int(size) for size in sizes.split(",") if size)
        for _, bits, sizes in arrays
    )


def computations(executable: Any) -> list[str]:
    """The texts of the computations of a module: its entry, bodies of loops, fused ones."""
    (module,) = executable.hlo_modules()
    texts = re.split(r"\n\n", module.to_string())
    return [text for text in texts if re.match(r"(ENTRY )?%[\w.-]+ \(", text)]


if __name__ == "__main__":
    main()
