"""The command doctor: describes the installation and the host, and checks that training works."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time
from importlib import import_module, metadata
from typing import TYPE_CHECKING

from tf_transformer import __version__, host
from tf_transformer.cli.command import command
from tf_transformer.cli.terminal import (
    captured_stderr,
    check_keras,
    check_temporary_folder,
    has_nvidia_device,
    set_environment,
)
from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from absl import flags

# Packages that training needs, each after those that it imports.
MODULES = ("numpy", "sentencepiece", "sacrebleu", "tensorflow", "keras", "tensorflow_text")
SMALL = (  # the settings of a short training; XLA would take longer than all the rest
    "--num_layers=1", "--d_model=32", "--num_heads=2", "--dff=64", "--vocab_size=500",
    "--train_steps=1", "--log_steps=1", "--max_skipped_steps=1", "--bleu_sentences=0",
    "--jit_compile=off",
)  # fmt: skip
DRIVER = "libcuda.so.1"
# The libraries of CUDA 12 and cuDNN 9, for which TensorFlow 2.21 is built. It uses no GPU where one
# of them is missing, and its messages do not say which.
LIBRARIES = (
    DRIVER, "libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11",
    "libcusolver.so.11", "libcusparse.so.12", "libcudnn.so.9",
)  # fmt: skip


@command("doctor", "describe the installation and the hardware, and check that training works here")
def doctor(values: flags.FlagValues) -> int:
    """Prints the report. Returns: the exit code: 0 where training works, else 1."""
    try:
        for part in (versions, describe_host, devices, short_training):
            part()
    except UserError as error:
        print(f"problem: {error}\ntraining does not work here")
        return 1
    print("OK: training works here")
    return 0


def _show(name: str, text: object) -> None:
    print(f"{name:18} {text}", flush=True)


def versions() -> None:
    """Imports the packages and prints their versions. Raises: UserError where one is broken."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    _show("tf_transformer", f"{__version__} ({package})")
    _show("Python", f"{platform.python_version()} ({sys.executable}), {platform.platform()}")
    check_temporary_folder()
    check_keras()
    set_environment()
    for name in MODULES:
        try:
            with captured_stderr():
                import_module(name)
        except Exception as error:  # a broken package can raise anything
            raise UserError(
                f"{name} cannot be imported ({type(error).__name__}: {error}): "
                f"pip install --force-reinstall --no-deps {name.replace('_', '-')}"
            ) from None
        _show(name, metadata.version(name))
    pip = [sys.executable, "-m", "pip", "check"]
    for line in subprocess.run(pip, capture_output=True, text=True).stdout.splitlines():
        if line.startswith("tf-transformer "):  # which other version it requires
            _show("warning", line)


def describe_host() -> None:
    """Prints the CPU, and the cores and the memory that this process may use."""
    _show("CPU", host.cpu_info("model name") or platform.machine())
    _show("cores", f"{host.number_of_cores()} of {os.cpu_count()}")
    _show("memory", f"{host.memory() / 1e9:.1f} GB")


def devices() -> None:
    """Prints the devices that TensorFlow uses. Raises: UserError for a GPU that cannot compute."""
    import tensorflow as tf

    from tf_transformer.gpus import check_products, missing_machine_code
    from tf_transformer.training.precision import choose_precision

    with captured_stderr():
        gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        details = tf.config.experimental.get_device_details(gpu)
        capability = ".".join(map(str, details.get("compute_capability", ())))
        _show(gpu.name.split(":", 1)[1], f"{details.get('device_name')}, capability {capability}")
    if has_nvidia_device():
        rows = host.nvidia_smi("name", "driver_version")
        _show("NVIDIA driver", "; ".join(map(", ".join, rows)) or "nvidia-smi fails")
    if has_nvidia_device() and not gpus:
        _show("warning", f"training uses the CPU: {_missing_gpu()}")
    if missing := missing_machine_code(gpus):
        _show("warning", f"{missing}: training works, without XLA (docs/guides/devices.md)")
    check_products(gpus)
    _show("precision", f"--precision=auto means {choose_precision('auto', gpus)}")


def _missing_gpu() -> str:
    """Why TensorFlow does not use an NVIDIA device, and what to do."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides the GPUs, unset it"
    missing = [name for name in LIBRARIES if not _is_found(name)]
    if DRIVER in missing:
        return f"there is no {DRIVER}: install the NVIDIA driver; containers need --gpus=all"
    if missing:
        return f"{', '.join(missing)} cannot be loaded: pip install 'tf_transformer[gpu]'"
    return "look for the reason in the output of nvidia-smi and of `python -c 'import tensorflow'`"


def _is_found(name: str) -> bool:
    """Whether the system's loader finds a library, or pip has installed it.

    TensorFlow also looks into the `nvidia` packages, which the extra `gpu` installs.
    """
    try:
        ctypes.CDLL(name)
        return True
    except OSError:
        nvidia = importlib.util.find_spec("nvidia")
    folders = (nvidia.submodule_search_locations if nvidia else None) or ()
    return any(any(pathlib.Path(folder).glob(f"*/lib/{name}")) for folder in folders)


def short_training() -> None:
    """Trains a small model for one update as `train` does. Raises: UserError where that fails."""
    from tf_transformer.data.readers import open_corpus

    pairs = itertools.islice(open_corpus("pocket", "en", "de").read("validation"), 200)
    # The other workers of a cluster are not needed.
    environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder, "train.tsv")
        data.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
        command = [sys.executable, "-m", "tf_transformer", "train", f"--data={data}"]
        command += [f"--model_dir={folder}/model", *SMALL]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = done.stderr.splitlines()
    if done.returncode:
        raise UserError(
            f"{lines[-1] if lines else f'exit code {done.returncode}'}: update the NVIDIA driver, "
            "train on the CPU with CUDA_VISIBLE_DEVICES=-1, or install into a new environment"
        )
    for line in lines:
        if " replica" in line or " | loss " in line:
            _show("training", line.partition(" INFO ")[2][:100])
    _show("one update", f"{time.monotonic() - started:.0f} s, mostly to start")
