"""The command doctor: describes the installation and the host, and checks that training works.

It must work in a broken installation. So packages are imported inside functions, and every failure
becomes a `Problem`, which says what to do.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import itertools
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any, NamedTuple

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

# The main packages that training needs, with their modules, each after those that it imports.
MODULES = {
    "numpy": "numpy",
    "tqdm": "tqdm",
    "sentencepiece": "sentencepiece",
    "sacrebleu": "sacrebleu",
    "tensorflow": "tensorflow",
    "keras": "keras",
    "tensorflow-text": "tensorflow_text",
}
PAIRS = 200  # of the short training
SMALL = (  # its settings
    "--num_layers=1", "--d_model=32", "--num_heads=2", "--dff=64", "--vocab_size=500",
    "--train_steps=1", "--log_steps=1", "--max_skipped_steps=1", "--bleu_sentences=0",
)  # fmt: skip
DRIVER = "libcuda.so.1"
# The libraries of CUDA 12 and cuDNN 9, for which TensorFlow 2.21 is built. It uses no GPU where one
# of them is missing, and its messages do not say which.
LIBRARIES = (
    DRIVER, "libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11",
    "libcusolver.so.11", "libcusparse.so.12", "libcudnn.so.9",
)  # fmt: skip


class Problem(NamedTuple):
    """Something that is wrong."""

    text: str
    remedy: str
    prevents_training: bool = True


# What the parts of the report yield: rows with a name and a text, and problems.
Findings = Iterator[tuple[str, str] | Problem]


@command(
    "doctor",
    "describe the installation and the hardware, and check that training works here",
)
def doctor(values: flags.FlagValues) -> int:
    """Prints the report, and the problems with their remedies.

    Returns: the exit code: 0 where training works, else 1.
    """
    problems = _show("Versions", versions())
    imported = not any(problem.prevents_training for problem in problems)
    problems += _show("Host", describe_host())
    if imported:
        problems += _show("Devices", devices())
        problems += _show("One update of a small model", short_training())
    for problem in sorted(problems, key=lambda problem: not problem.prevents_training):
        print(f"{'problem' if problem.prevents_training else 'warning'}: {problem.text}")
        print(textwrap.indent(problem.remedy, "    "))
    works = not any(problem.prevents_training for problem in problems)
    print("OK: training works here" if works else "training does not work here")
    return 0 if works else 1


def _show(title: str, findings: Iterable[tuple[str, str] | Problem]) -> list[Problem]:
    """Prints a part of the report. Returns: its problems."""
    print(title, flush=True)
    problems = []
    try:
        for found in findings:
            if isinstance(found, Problem):
                problems.append(found)
            else:
                print(f"  {found[0]:22} {found[1]}".rstrip(), flush=True)
    except Exception as error:  # the report goes on, whatever is broken
        remedy = "report this output: the command doctor has no explanation"
        problems.append(Problem(f"{title.lower()}: {_summary(error)}", remedy, False))
    print()
    return problems


def _summary(error: Exception) -> str:
    """The kind and the text of an error, shortened."""
    return textwrap.shorten(f"{type(error).__name__}: {error}", 200)


def versions() -> Findings:
    """The versions of Python and of the packages, which are imported."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    yield "Python", f"{platform.python_version()} ({sys.executable})"
    yield "platform", platform.platform()
    yield "tf_transformer", f"{__version__} ({package})"
    try:
        check_temporary_folder()
        check_keras()
    except UserError as error:
        reason, _, remedy = str(error).partition(": ")
        yield Problem(reason, remedy)
        return
    set_environment()
    needed = required_packages()
    for name, module in MODULES.items():
        try:
            with captured_stderr():
                import_module(module)
            yield name, metadata.version(name)
        except Exception as error:  # a broken package can raise anything
            again = f"pip install --force-reinstall --no-deps '{name}{needed.get(name, '')}'"
            yield Problem(f"{name} cannot be imported: {_summary(error)}", again)
            return  # others may fail only because of it
    for name, specifier in needed.items():
        version = "none"
        with contextlib.suppress(metadata.PackageNotFoundError):
            version = metadata.version(name)
            if specifier.contains(version, prereleases=True):
                continue
        text = f"{name}{specifier} is required, and the installed version is {version}"
        yield Problem(text, f"pip install '{name}{specifier}'", prevents_training=False)


def required_packages() -> dict[str, Any]:
    """The packages that are always required, with their versions; {} where these are not known."""
    try:
        from packaging.requirements import Requirement

        parsed = [Requirement(line) for line in metadata.requires("tf_transformer") or []]
    except (ImportError, metadata.PackageNotFoundError):  # the latter: in the path, not installed
        return {}
    without_extra = [x for x in parsed if not x.marker or x.marker.evaluate({"extra": ""})]
    return {each.name: each.specifier for each in without_extra}


def describe_host() -> Findings:
    """The CPU and the memory."""
    cores = f"{os.cpu_count()}; CPU affinity allows {host.affinity() or 'all'}"
    if core_limit := host.core_limit():
        cores += f"; the container's limit is {core_limit:g}"
    yield "CPU", host.cpu_info("model name") or platform.machine()
    yield "cores", cores
    yield "memory", f"{host.memory() / 1e9:.1f} GB"


def devices() -> Findings:
    """The devices that TensorFlow sees, and the precision that it chooses for them."""
    import tensorflow as tf

    from tf_transformer.training.precision import choose_precision

    with captured_stderr() as messages:
        gpus = tf.config.list_physical_devices("GPU")
    for device in tf.config.list_physical_devices("CPU"):
        yield device.name.split(":", 1)[1], ""
    for gpu in gpus:
        details = tf.config.experimental.get_device_details(gpu)
        capability = ".".join(map(str, details.get("compute_capability", ())))
        text = f"{details.get('device_name', 'unknown name')}, compute capability {capability}"
        yield gpu.name.split(":", 1)[1], text
    if has_nvidia_device():
        rows = host.nvidia_smi("name", "driver_version", "compute_cap")
        yield "NVIDIA driver", "; ".join(map(", ".join, rows)) or "nvidia-smi fails"
        if not gpus:
            yield _missing_gpu(messages())
    reason = "compute capability 8.0 and higher have bfloat16 units"
    if not gpus:
        amx = "amx_bf16" in host.cpu_flags()
        reason = "the CPU has AMX" if amx else "the CPU has no AMX, so its bfloat16 is slower"
    yield "--precision=auto", f"{choose_precision('auto', gpus)}: {reason}"


def _missing_gpu(messages: str) -> Problem:
    """Why TensorFlow does not use an NVIDIA device."""
    missing = [name for name in LIBRARIES if not _is_found(name)]
    text = f"TensorFlow finds no GPU; {', '.join(missing)} cannot be loaded"
    remedy = "pip install 'tf_transformer[gpu]'"
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        text, remedy = "CUDA_VISIBLE_DEVICES hides the GPUs", "unset CUDA_VISIBLE_DEVICES"
    elif DRIVER in missing:
        remedy = f"install the NVIDIA driver, which has {DRIVER}; start a container with --gpus=all"
    elif not missing:
        text = f"TensorFlow finds no GPU, and says:\n{messages}"
        remedy = "look for the reason in these messages and in the output of nvidia-smi"
    return Problem(text, f"{remedy}\nuntil then, training uses the CPU", False)


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


def short_training() -> Findings:
    """Trains a small model for one update on all devices that `train` uses, and saves it."""
    from tf_transformer.data.readers import open_corpus

    pairs = itertools.islice(open_corpus("pocket", "en", "de").read("validation"), PAIRS)
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    # The other workers of a cluster are not needed.
    environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder, "train.tsv")
        data.write_text(text, "utf-8")
        command = [sys.executable, "-m", "tf_transformer", "train", f"--data={data}"]
        command += [f"--model_dir={folder}/model", *SMALL]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = done.stderr.splitlines()
    if done.returncode:
        remedy = "install into a new environment; if it fails there too, report this output"
        if has_nvidia_device():
            remedy += "\nupdate the NVIDIA driver, or train on the CPU: CUDA_VISIBLE_DEVICES=-1"
        yield Problem(lines[-1] if lines else f"exit code {done.returncode}", remedy)
        return
    yield "seconds", f"{time.monotonic() - started:.0f}, mostly for compilation"
    for line in lines:
        if " replica" in line or " | loss " in line:
            yield "training", textwrap.shorten(line.partition(" INFO ")[2], 100)
