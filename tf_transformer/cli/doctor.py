"""The command doctor: describes the installation and the host, and checks that training works.

It must work in a broken installation. So packages are imported inside functions, and every failure
becomes a `Problem`, which says what to do.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import locale
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from typing import TYPE_CHECKING, NamedTuple

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
from tf_transformer.presets import preset

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
# CPU features that matter for matrix products: name -> the flag in /proc/cpuinfo.
FEATURES = {
    "AVX2": "avx2", "AVX-512": "avx512f", "AVX512_BF16": "avx512_bf16", "AMX": "amx_bf16",
}  # fmt: skip
ENOUGH_DISK = 1e9  # bytes
PAIRS = 200  # of the short training
SMALL = {  # its settings
    "num_layers": 1,
    "d_model": 32,
    "num_heads": 2,
    "dff": 64,
    "vocab_size": 500,
    "train_steps": 1,
    "log_steps": 1,
    "max_skipped_steps": 1,
    "bleu_sentences": 0,
}
VARIABLES = (  # beginnings of the names of environment variables
    "CUDA_VISIBLE_DEVICES", "GLIBC_TUNABLES", "KERAS_", "LC_", "LANG", "LD_LIBRARY_PATH", "MALLOC_",
    "OMP_", "PYTHONPATH", "PYTHONUTF8", "TF_", "XLA_",
)  # fmt: skip
SECRET = re.compile("KEY|TOKEN|SECRET|PASSWORD")  # in the name of a variable whose value is hidden


PACKAGE = "tf_transformer"
EXTRAS_OF_DEVELOPERS = ("dev", "docs")
DRIVER = "libcuda.so.1"
# The libraries of CUDA 12 and cuDNN 9, for which TensorFlow 2.21 is built. It uses no GPU where one
# of them is missing, and its messages do not say which.
LIBRARIES = (
    DRIVER,
    "libcudart.so.12",
    "libcublas.so.12",
    "libcublasLt.so.12",
    "libcufft.so.11",
    "libcusolver.so.11",
    "libcusparse.so.12",
    "libcudnn.so.9",
)


class Problem(NamedTuple):
    """Something that is wrong."""

    text: str
    remedy: str
    prevents_training: bool = True


class Section(NamedTuple):
    """A part of the report."""

    rows: list[tuple[str, str]]  # name and text
    problems: list[Problem]


@command(
    "doctor",
    "describe the installation and the hardware, and check that training works here",
)
def doctor(values: flags.FlagValues) -> int:
    """Prints the report, and the problems with their remedies.

    Returns: the exit code: 0 where training works, else 1.
    """
    environment = dict(os.environ)  # TensorFlow's start adds to it
    problems = _show("Versions", versions)
    imported = not any(problem.prevents_training for problem in problems)
    problems += _show("Host", describe_host)
    problems += _show("Working directory", working_directory)
    problems += _show("Extras", describe_extras)
    problems += _show("Environment", lambda: describe_environment(environment))
    if imported:
        problems += _show("Devices", devices)
        problems += _show("One update of a small model", short_training)
    return _conclude(problems)


def _show(title: str, describe: Callable[[], Section]) -> list[Problem]:
    """Prints a section. Returns: its problems."""
    print(title, flush=True)
    try:
        section = describe()
    except Exception as error:  # the report goes on, whatever is broken
        text = f"{title.lower()}: {summary(error)}"
        remedy = "report this output: the command doctor has no explanation"
        return [Problem(text, remedy, prevents_training=False)]
    for name, text in section.rows:
        print(f"  {name:22} {text}".rstrip())
    print(flush=True)
    return section.problems


def _conclude(problems: list[Problem]) -> int:
    """Prints the problems and the last line. Returns: the exit code."""
    for problem in sorted(problems, key=lambda problem: not problem.prevents_training):
        kind = "problem" if problem.prevents_training else "warning"
        print(f"{kind}: {problem.text}")
        print(textwrap.indent(problem.remedy, "    "))
    count = sum(problem.prevents_training for problem in problems)
    if count:
        print(f"{count} problem{'s' * (count > 1)}: training does not work here")
        return 1
    print("OK: training works here")
    return 0


def summary(error: Exception) -> str:
    """The kind and the first line of an error, shortened."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


def versions() -> Section:
    """The versions of Python and of the packages, which are imported."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rows = [
        ("Python", f"{platform.python_version()} ({sys.executable})"),
        ("platform", platform.platform()),
        ("tf_transformer", f"{__version__} ({package})"),
    ]
    rows += [(name, installed_version(name) or "not installed") for name in MODULES]
    broken, reason, other_remedy = _first_broken_import()
    needed = {requirement.name: requirement for requirement in required_packages()}
    problems = []
    for name in {**MODULES, **needed}:
        version = installed_version(name)
        specifier = needed[name].specifier if name in needed else ""
        remedy = f"pip install '{name}{specifier}'"
        if not version:
            problems.append(Problem(f"{name} is not installed", remedy, name in MODULES))
        elif name in needed and not needed[name].satisfied:
            text = f"{name} {version} is installed, but {specifier} is required"
            problems.append(Problem(text, remedy, name == broken))
        elif name == broken:
            remedy = f"pip install --force-reinstall --no-deps '{name}{specifier}'"
            text = f"{name} cannot be imported: {reason}"
            problems.append(Problem(text, other_remedy or remedy))
    return Section(rows, problems)


def _first_broken_import() -> tuple[str, str, str]:
    """Imports `MODULES`.

    Returns: the first package that fails, why, and what to do, where to install it again does not
      help; "" where none fails. The packages after it may fail only because of it.
    """
    for package, check in (("tensorflow", check_temporary_folder), ("keras", check_keras)):
        try:
            check()
        except UserError as error:
            reason, _, remedy = str(error).partition(": ")
            return package, reason, remedy
    cpu = host.cpu_flags()
    set_environment()
    for name, module in MODULES.items():
        if name == "tensorflow" and cpu and "avx" not in cpu:
            return name, "this CPU has no AVX", "use another computer: TensorFlow needs AVX"
        try:
            with captured_stderr():
                import_module(module)
        except Exception as error:  # a broken package can raise anything
            return name, summary(error), ""
    return "", "", ""


def describe_host() -> Section:
    """The CPU and the memory."""
    flags = host.cpu_flags()
    features = [name for name, flag in FEATURES.items() if flag in flags]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cores = f"{os.cpu_count()}; CPU affinity allows {host.affinity() or 'all'}"
    core_limit, memory_limit = host.core_limit(), host.memory_limit()
    rows = [
        ("CPU", host.cpu_info("model name") or platform.machine()),
        ("cores", f"{cores}; the container's limit is {core_limit:g}" if core_limit else cores),
        ("CPU features", ", ".join(features) or f"none of {', '.join(FEATURES)}"),
        ("memory", f"{memory / 1e9:.1f} GB"),
    ]
    if memory_limit:
        rows.append(("", f"{memory_limit / 1e9:.1f} GB is the container's limit"))
    return Section(rows, [])


def working_directory() -> Section:
    """Whether a model folder can be written here."""
    try:
        folder = os.getcwd()
    except OSError:
        return Section([], [Problem("the working directory does not exist", "cd to another one")])
    free = shutil.disk_usage(folder).free
    problems = []
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
        writable = True
    except OSError as error:
        writable = False
        problems.append(
            Problem(
                f"{folder} cannot be written to: {error.strerror}",
                "cd to a folder of yours, or give train --model_dir=FOLDER",
            )
        )
    if writable and free < ENOUGH_DISK:
        text = f"{folder} has {free / 1e9:.2f} GB of free space"
        remedy = "free some space; checkpoints of the preset base need 4 GB, of pocket 0.1 GB"
        problems.append(Problem(text, remedy, prevents_training=False))
    state = "writable" if writable else "not writable"
    return Section([("path", folder), ("disk", f"{free / 1e9:.1f} GB free, {state}")], problems)


def describe_extras() -> Section:
    """The optional packages."""
    rows = []
    for extra in extras():
        missing = missing_packages(extra)
        text = "installed"
        if extra == "gpu" and not has_nvidia_device():
            text = "not needed: this computer has no NVIDIA device"
        elif missing:
            listed = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            text = f"missing {listed}: pip install 'tf_transformer[{extra}]'"
        rows.append((extra, text))
    return Section(rows, [])


def describe_environment(environment: dict[str, str]) -> Section:
    """The locale, and the environment variables that change what TensorFlow does."""
    encoding = locale.getpreferredencoding(False)
    name = locale.setlocale(locale.LC_CTYPE)
    rows = [("locale", f"{name} ({encoding}); standard output {sys.stdout.encoding}")]
    for name, value in sorted(environment.items()):
        if name.startswith(VARIABLES):
            rows.append((name, "(set)" if SECRET.search(name) else value))
    problems = []
    if encoding.lower().replace("-", "") != "utf8":
        text = f"the encoding of the locale is {encoding}, but the program writes UTF-8"
        problems.append(Problem(text, "export LC_ALL=C.UTF-8", prevents_training=False))
    return Section(rows, problems)


def devices() -> Section:
    """The devices that TensorFlow sees, and the precision that it chooses for them."""
    import tensorflow as tf

    from tf_transformer.training.precision import choose_precision

    problems = []
    with captured_stderr() as messages:
        gpus = tf.config.list_physical_devices("GPU")
    rows = [(device.name.split(":", 1)[1], "") for device in tf.config.list_physical_devices("CPU")]
    capabilities = []
    for gpu in gpus:
        details = tf.config.experimental.get_device_details(gpu)
        major, minor = details.get("compute_capability", (0, 0))
        capabilities.append(f"{major}.{minor}")
        name = details.get("device_name", "unknown name")
        rows.append((gpu.name.split(":", 1)[1], f"{name}, compute capability {major}.{minor}"))
    if has_nvidia_device():
        rows.append(("NVIDIA driver", describe_driver()))
        if not gpus:
            problems.append(_missing_gpu(messages()))
    reason = f"compute capability {', '.join(capabilities)}; 8.0 and higher have bfloat16 units"
    if not gpus:
        amx = "amx_bf16" in host.cpu_flags()
        reason = "the CPU has AMX" if amx else "the CPU has no AMX, so its bfloat16 is slower"
    rows.append(("--precision=auto", f"{choose_precision('auto', gpus)}: {reason}"))
    return Section(rows, problems)


def _missing_gpu(messages: str) -> Problem:
    """Why TensorFlow does not use an NVIDIA device."""
    import tensorflow as tf

    build = tf.sysconfig.get_build_info()
    missing = missing_libraries()
    text = f"TensorFlow finds no GPU; {', '.join(missing)} cannot be loaded"
    remedies = []
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        text = "CUDA_VISIBLE_DEVICES hides the GPUs"
        remedies.append("unset CUDA_VISIBLE_DEVICES")
    elif not build["is_cuda_build"]:
        text = "this build of TensorFlow does not use GPUs"
        remedies.append("pip install 'tf_transformer[gpu]'")
    elif not missing:
        text = f"TensorFlow finds no GPU, and says:\n{messages}"
        remedies.append("look for the reason in these messages and in the output of nvidia-smi")
    else:
        if DRIVER in missing:
            remedies.append(
                f"install the NVIDIA driver, which has {DRIVER}; start a container with --gpus=all"
            )
        if missing != [DRIVER]:
            remedies.append(
                f"pip install 'tf_transformer[gpu]', for CUDA {build['cuda_version']} "
                f"and cuDNN {build['cudnn_version']}"
            )
    remedies.append("until then, training uses the CPU")
    return Problem(text, "\n".join(remedies), prevents_training=False)


def short_training() -> Section:
    """Trains a small model for one update on all devices that `train` uses, and saves it."""
    import tensorflow as tf

    os.environ.pop("TF_CONFIG", None)  # the other workers of a cluster are not needed
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder, captured_stderr():
            names, loss = _train_one_update(folder)
    except Exception as error:  # whatever TensorFlow raises
        text = f"an update fails: {summary(error)}"
        remedy = "install into a new environment; if an update fails there too, report this output"
        if isinstance(error, tf.errors.ResourceExhaustedError):
            remedy = "free some memory; nvidia-smi lists the processes that use a GPU"
        elif tf.config.list_physical_devices("GPU"):
            remedy = "update the NVIDIA driver, or train on the CPU: CUDA_VISIBLE_DEVICES=-1"
        return Section([], [Problem(text, remedy)])
    seconds = time.monotonic() - started
    return Section([(names, f"loss {loss:.2f}; {seconds:.0f} s, mostly for compilation")], [])


def _train_one_update(folder: str) -> tuple[str, float]:
    """Trains for one update.

    Args:
      folder: an empty folder, for the text and the model.
    Returns: the names of the devices; the loss, nats per token.
    Raises: UserError, as `Trainer` does; what TensorFlow raises.
    """
    from tf_transformer.data.readers import open_corpus
    from tf_transformer.training.distribution import split_cpu
    from tf_transformer.training.trainer import build_trainer
    from tf_transformer.visualization.history import read_history

    pairs = list(itertools.islice(open_corpus("pocket", "en", "de").read("validation"), PAIRS))
    for side, language in enumerate(("en", "de")):
        path = os.path.join(folder, f"train.{language}")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{pair[side]}\n" for pair in pairs)
    model_dir = os.path.join(folder, "model")
    split_cpu()
    trainer = build_trainer(preset("pocket").replace(data=folder, **SMALL), model_dir)
    trainer.run()
    devices = trainer.workers.strategy.extended.worker_devices
    names = ", ".join(device.split("device:")[-1] for device in devices)
    return names, read_history(model_dir)["train"][-1]["loss"]


class Requirement(NamedTuple):
    """A required package."""

    name: str
    specifier: str  # such as "==2.21.*"
    installed: str  # its version; "" where it is not installed
    satisfied: bool


def installed_version(name: str) -> str:
    """The installed version of a package; "" where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def required_packages() -> list[Requirement]:
    """The packages that are always required; none where that cannot be known."""
    return list(_requirements(PACKAGE, ""))


def extras() -> list[str]:
    """The names of the extras for users."""
    try:
        names = metadata.metadata(PACKAGE).get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return []
    return [name for name in names if name not in EXTRAS_OF_DEVELOPERS]


def missing_packages(extra: str) -> list[str]:
    """The names of the packages of an extra that are not installed."""
    found = _requirements(PACKAGE, extra)
    return [requirement.name for requirement in found if not requirement.satisfied]


def _requirements(package: str, extra: str) -> Iterator[Requirement]:
    """The requirements of a package: of one extra, or with "" those without an extra.

    A requirement of an extra may itself be given with extras; their requirements are included.
    """
    try:
        from packaging.requirements import Requirement as Parser

        lines = metadata.requires(package) or []
    except (ImportError, metadata.PackageNotFoundError):  # the latter: in the path, not installed
        return
    for line in lines:
        parsed = Parser(line)
        marker = parsed.marker
        if bool(extra) != ("extra ==" in line) or (
            marker and not marker.evaluate({"extra": extra})
        ):
            continue
        version = installed_version(parsed.name)
        satisfied = bool(version) and parsed.specifier.contains(version, prereleases=True)
        yield Requirement(parsed.name, str(parsed.specifier), version, satisfied)
        for inner in parsed.extras:
            yield from _requirements(parsed.name, inner)


def missing_libraries() -> list[str]:
    """The names of `LIBRARIES` that cannot be loaded."""
    return [name for name in LIBRARIES if not _is_found(name)]


def _is_found(name: str) -> bool:
    """Whether the system's loader finds a library, or pip has installed it.

    TensorFlow also looks into the `nvidia` packages, which the extra `gpu` installs.
    """
    try:
        ctypes.CDLL(name)
        return True
    except OSError:
        pass
    nvidia = importlib.util.find_spec("nvidia")
    folders = nvidia.submodule_search_locations if nvidia else None
    return any(
        next(pathlib.Path(folder).glob(f"*/lib/{name}"), None) is not None
        for folder in folders or ()
    )


def describe_driver() -> str:
    """What nvidia-smi says about the GPUs and their driver, on one line."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"nvidia-smi fails: {error}"
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return "; ".join(line.strip() for line in lines) or "nvidia-smi finds no GPU"
