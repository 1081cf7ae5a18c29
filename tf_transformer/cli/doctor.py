"""The command doctor: describes the installation and the host, and checks that training works."""

import ctypes
import importlib.util
import itertools
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
from importlib import import_module, metadata

from absl import flags

from tf_transformer import __version__, host
from tf_transformer.cli.command import command
from tf_transformer.cli.terminal import has_nvidia_device, set_environment, silent_stderr
from tf_transformer.errors import UserError

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


@command("doctor")
def doctor(values: flags.FlagValues) -> int:
    """Describe the installation and the hardware, and check that training works here.

    Returns: the exit code: 0 where training works, else 1.
    """
    try:
        versions()
        devices()
        short_training()
    except UserError as error:
        print(f"problem: {error}\ntraining does not work here")
        return 1
    print("OK: training works here")
    return 0


def _show(name: str, text: object) -> None:
    print(f"{name:18} {text}", flush=True)


def versions() -> None:
    """Imports the packages and prints their versions. Raises: UserError where one is broken."""
    _show("tf_transformer", f"{__version__} ({pathlib.Path(__file__).resolve().parents[1]})")
    _show("Python", f"{platform.python_version()} ({sys.executable}), {platform.platform()}")
    set_environment()
    for name in MODULES:
        try:
            with silent_stderr():
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


def devices() -> None:
    """Prints the hardware that TensorFlow uses. Raises: UserError for a GPU that cannot compute."""
    import tensorflow as tf

    from tf_transformer.gpus import check_products, missing_machine_code
    from tf_transformer.training.precision import choose_precision

    _show("CPU", host.cpu_info("model name") or platform.machine())
    _show("cores", f"{host.number_of_cores()} of {os.cpu_count()}")
    _show("memory", f"{host.memory() / 1e9:.1f} GB")
    with silent_stderr():
        gpus = tf.config.list_physical_devices("GPU")
    _show("GPUs of TensorFlow", ", ".join(gpu.name for gpu in gpus) or "none")
    if has_nvidia_device():
        rows = host.nvidia_smi("name", "compute_cap", "driver_version")
        _show("GPUs of NVIDIA", "; ".join(map(", ".join, rows)) or "nvidia-smi fails")
        if not gpus:
            _show("warning", f"training uses the CPU: {_missing_gpu()}")
    if missing := missing_machine_code(gpus):
        _show("warning", f"{missing}: training works, without XLA (docs/guides/devices.md)")
    check_products()
    _show("precision", f"--precision=auto means {choose_precision('auto', gpus)}")


def _missing_gpu() -> str:
    """Why TensorFlow does not use an NVIDIA device, and what to do."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides the GPUs, unset it"
    # TensorFlow also looks into the `nvidia` packages, which the extra `gpu` installs.
    nvidia = importlib.util.find_spec("nvidia")
    folders = [*map(pathlib.Path, (nvidia.submodule_search_locations if nvidia else None) or ())]
    missing = []
    for name in LIBRARIES:
        try:
            ctypes.CDLL(name)
        except OSError:
            if not any(any(folder.glob(f"*/lib/{name}")) for folder in folders):
                missing.append(name)
    if DRIVER in missing:
        return f"there is no {DRIVER}: install the NVIDIA driver; containers need --gpus=all"
    if missing:
        return f"{', '.join(missing)} cannot be loaded: pip install 'tf_transformer[gpu]'"
    return "look for the reason in the output of nvidia-smi and of `python -c 'import tensorflow'`"


def short_training() -> None:
    """Trains a small model for one update as `train` does. Raises: UserError where that fails."""
    from tf_transformer.data.readers import open_corpus

    pairs = itertools.islice(open_corpus("pocket", "en", "de").read("validation"), 200)
    alone = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder, "train.tsv")
        data.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
        command = [sys.executable, "-m", "tf_transformer", "train", f"--data={data}"]
        command += [f"--model_dir={folder}/model", *SMALL]
        done = subprocess.run(command, capture_output=True, text=True, env=alone)
    lines = done.stderr.splitlines()
    if done.returncode:
        raise UserError(
            f"{lines[-1] if lines else f'exit code {done.returncode}'}: update the NVIDIA driver, "
            "train on the CPU with CUDA_VISIBLE_DEVICES=-1, or install into a new environment"
        )
    for line in lines:
        if " replica" in line or " | loss " in line:
            _show("training", line.partition(" INFO ")[2][:100])
