"""Functions for all commands: starting TensorFlow, and output files."""

import contextlib
import glob
import importlib.metadata
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

from tf_transformer.checkpoints.model_folder import CACHE
from tf_transformer.errors import UserError
from tf_transformer.files import atomic_write
from tf_transformer.host import core_limit, keras_mistake, number_of_cores, nvidia_smi

logger = logging.getLogger(__name__)

# Keras imports these where they are installed, for functions that no command uses.
UNUSED_BY_COMMANDS = ("IPython", "matplotlib", "pandas")


def start_tensorflow(for_search: bool = False, model_dir: str = "") -> None:
    """Imports TensorFlow without its start-up messages.

    Args:
      for_search: whether most of the work is search. oneDNN is off then, unless the user has set
        `TF_ENABLE_ONEDNN_OPTS`: it compiles kernels for the shapes of each step. On two cores,
        beam search without it takes 0.46, 0.63 and 0.79 of the time for one sentence with
        `pocket`, `small` and `base`, and 0.86, 0.94 and 1.06 of it for 32 sentences.
      model_dir: of a run, which keeps what XLA compiles for its GPUs there; "" for none.
    Raises: UserError, as `set_environment` does.
    """
    set_environment()
    if model_dir and has_nvidia_device():
        # The key of a file there has neither the version of XLA nor the kind of GPU.
        kinds = {kind for (kind,) in nvidia_smi("compute_cap")}
        version = "-".join([importlib.metadata.version("tensorflow"), *kinds])
        folder = os.path.abspath(os.path.join(model_dir, CACHE, f"xla-{version}"))
        if len(kinds) == 1:
            _add_flag("TF_XLA_FLAGS", f"--tf_xla_persistent_cache_directory='{folder}'")
    if for_search:
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    with silent_stderr(), _without_unused_packages():
        from absl import logging as absl_logging

        absl_logging.set_verbosity(absl_logging.ERROR)
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        tf.get_logger().setLevel("ERROR")
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("-1", "")
    if has_nvidia_device() and not gpus and not hidden:
        problem = "this computer has an NVIDIA device, but TensorFlow finds no GPU"
        logger.warning("%s: `tf-transformer doctor` says why", problem)


def set_environment() -> None:
    """Sets the variables that TensorFlow reads at its start, except those that the user has set.

    They are the level of its messages and, in a container that has a limit of cores, the number of
    its threads. TensorFlow would start one for each core of the CPU affinity, which that limit does
    not change. On GPUs, memory is taken as it is needed, so that `train` and `evaluate` can share
    one, and cuBLAS computes all products (`benchmarks/run_stablehlo.py`). XLA does not compare
    ways to compile a reduction: it rejects those that spill registers, and fails where none is
    left, as for the bias gradient of base with 2,224 x 11 tokens on an H200.

    Raises: UserError where TensorFlow cannot work: without a folder for temporary files, or with
      another backend of Keras.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        raise UserError(
            "no folder for temporary files can be written to: mount one at /tmp, such as a tmpfs, "
            "or name one in TMPDIR"
        ) from None
    if mistake := keras_mistake():
        raise UserError(mistake)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if has_nvidia_device() else "3")
    if has_nvidia_device():
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
        _add_flag("XLA_FLAGS", "--xla_gpu_enable_triton_gemm=false")
        _add_flag("XLA_FLAGS", "--xla_gpu_experimental_enable_fusion_autotuner=false")
    if core_limit() is not None:
        for pool in ("INTRAOP", "INTEROP"):
            os.environ.setdefault(f"TF_NUM_{pool}_THREADS", str(number_of_cores()))


def _add_flag(variable: str, flag: str) -> None:
    """Adds a flag to those in an environment variable, unless it has one of that name."""
    flags = os.environ.get(variable, "")
    if flag.partition("=")[0] not in flags:
        os.environ[variable] = f"{flags} {flag}".strip()


def has_nvidia_device() -> bool:
    """Whether there is an NVIDIA device or driver."""
    return bool(glob.glob("/dev/nvidia[0-9]*")) or shutil.which("nvidia-smi") is not None


@contextlib.contextmanager
def _without_unused_packages() -> Iterator[None]:
    """The packages in `UNUSED_BY_COMMANDS` seem not to be installed, unless they are imported."""
    new = [name for name in UNUSED_BY_COMMANDS if name not in sys.modules]
    sys.modules.update(dict.fromkeys(new))  # type: ignore[arg-type]  # None: not installed
    try:
        yield
    finally:
        for name in new:
            del sys.modules[name]


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Discards what is written to file descriptor 2, such as the messages of TensorFlow's C++."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)


@contextlib.contextmanager
def open_output(path: str | None) -> Iterator[IO[str]]:
    """Opens a file to write to, or standard output where there is no path; UTF-8 in any locale.

    The file takes its name when it is complete (see `atomic_write`). Its folder is created.
    """
    if not path:
        yield sys.stdout
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with atomic_write(path) as file:
        yield file
