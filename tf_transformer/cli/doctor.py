"""The command doctor: describes the installation and the host, and checks that training works.

It must work in a broken installation. So packages are imported inside functions, and every failure
becomes a `Problem`, which says what to do.
"""

from __future__ import annotations

import itertools
import json
import locale
import os
import platform
import re
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from tf_transformer import __version__, host
from tf_transformer.cli import cuda_libraries, requirements
from tf_transformer.cli.allocator import SETTINGS
from tf_transformer.cli.terminal import (
    captured_stderr,
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


class Problem(NamedTuple):
    """Something that is wrong."""

    text: str
    remedy: str
    prevents_training: bool = True


class Section(NamedTuple):
    """A part of the report."""

    rows: list[tuple[str, str]]  # name and text
    problems: list[Problem]


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
    rows += [(name, requirements.installed_version(name) or "not installed") for name in MODULES]
    broken, reason, other_remedy = _first_broken_import()
    needed = {requirement.name: requirement for requirement in requirements.required()}
    problems = []
    for name in {**MODULES, **needed}:
        version = requirements.installed_version(name)
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
    try:
        check_temporary_folder()
    except UserError as error:
        reason, _, remedy = str(error).partition(": ")
        return "tensorflow", reason, remedy
    cpu = host.cpu_flags()
    set_environment()
    for name, module in MODULES.items():
        if name == "tensorflow" and cpu and "avx" not in cpu:
            return name, "this CPU has no AVX", "use another computer: TensorFlow needs AVX"
        if name == "keras" and keras_backend() != "tensorflow":
            remedy = "unset KERAS_BACKEND, and set the backend in ~/.keras/keras.json to tensorflow"
            return name, f"its backend is set to {keras_backend()}", remedy
        try:
            with captured_stderr():
                import_module(module)
        except Exception as error:  # a broken package can raise anything
            return name, summary(error), ""
    return "", "", ""


def keras_backend() -> str:
    """The backend that the user has set for Keras."""
    if "KERAS_BACKEND" in os.environ:
        return os.environ["KERAS_BACKEND"]
    home = os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")
    try:
        with open(os.path.join(home, "keras.json"), encoding="utf-8") as file:
            return json.load(file)["backend"]
    except (OSError, ValueError, KeyError, TypeError):
        return "tensorflow"


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
    for extra in requirements.extras():
        missing = requirements.missing(extra)
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
            ours = " (set by tf-transformer)" if SETTINGS.get(name) == value else ""
            rows.append((name, "(set)" if SECRET.search(name) else value + ours))
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
        rows.append(("NVIDIA driver", cuda_libraries.describe_driver()))
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
    missing = cuda_libraries.missing_libraries()
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
        if cuda_libraries.DRIVER in missing:
            remedies.append(
                f"install the NVIDIA driver, which has {cuda_libraries.DRIVER}; start a container "
                "with --gpus=all"
            )
        if missing != [cuda_libraries.DRIVER]:
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
