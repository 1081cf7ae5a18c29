"""Functions for all commands: starting TensorFlow, and output files."""

import contextlib
import glob
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

from absl import flags

from tf_transformer.errors import UserError
from tf_transformer.files import atomic_write
from tf_transformer.host import core_limit, number_of_cores


def start_tensorflow() -> None:
    """Imports TensorFlow without its start-up messages, except those that explain a missing GPU.

    TensorFlow's C++ part writes some messages without asking for a level, so file descriptor 2 is
    redirected meanwhile. Where there is an NVIDIA device and TensorFlow finds no GPU, the messages
    are shown: they name the CUDA library that is missing or does not match.

    Raises: UserError where it cannot work: without a folder for temporary files, or with another
      backend of Keras.
    """
    check_temporary_folder()
    check_keras()
    nvidia = has_nvidia_device()
    set_environment()
    with captured_stderr() as messages:
        from absl import logging as absl_logging

        absl_logging.set_verbosity(absl_logging.ERROR)
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        tf.get_logger().setLevel("ERROR")
    if nvidia and not gpus and os.environ.get("CUDA_VISIBLE_DEVICES") not in ("-1", ""):
        print(messages(), file=sys.stderr)
        print(
            "tf-transformer: warning: this computer has an NVIDIA device, but TensorFlow finds no "
            "GPU; the messages above say why",
            file=sys.stderr,
        )


def set_environment() -> None:
    """Sets the variables that TensorFlow reads at its start, except those that the user has set.

    They are the level of its messages and, in a container that has a limit of cores, the number of
    its threads. TensorFlow would start one for each core of the CPU affinity, which that limit does
    not change.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if has_nvidia_device() else "3")
    if core_limit() is not None:
        for pool in ("INTRAOP", "INTEROP"):
            os.environ.setdefault(f"TF_NUM_{pool}_THREADS", str(number_of_cores()))


def check_temporary_folder() -> None:
    """Raises: UserError where no folder for temporary files can be written to."""
    import tempfile

    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        raise UserError(
            "no folder for temporary files can be written to: mount one at /tmp, such as a tmpfs, "
            "or name one in TMPDIR"
        ) from None


def check_keras() -> None:
    """Raises: UserError where the user has chosen another backend, or another version, of Keras."""
    variable, backend = "KERAS_BACKEND", os.environ.get("KERAS_BACKEND")
    home = os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")
    path = os.path.join(home, "keras.json")
    if backend is None:
        variable, backend = path, "tensorflow"
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            with open(path, encoding="utf-8") as file:
                backend = json.load(file)["backend"]
    if backend != "tensorflow":
        remedy = "unset it" if variable == "KERAS_BACKEND" else "change it to tensorflow"
        raise UserError(f"the backend of Keras is {backend!r} in {variable}: {remedy}")
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        raise UserError("TF_USE_LEGACY_KERAS selects Keras 2, and Keras 3 is needed: unset it")


def has_nvidia_device() -> bool:
    """Whether there is an NVIDIA device or driver."""
    return bool(glob.glob("/dev/nvidia[0-9]*")) or shutil.which("nvidia-smi") is not None


@contextlib.contextmanager
def captured_stderr() -> Iterator[Callable[[], str]]:
    """Redirects file descriptor 2. Yields: a function that returns what was written to it."""
    import tempfile

    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        written: list[str] = []
        stderr = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield lambda: written[0]
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            file.seek(0)
            written.append(file.read().decode("utf-8", "replace").strip())


def required(values: flags.FlagValues, name: str) -> Any:
    """Returns the value of a flag. Raises: UserError when it was not given."""
    if not values[name].value:
        raise UserError(f"--{name} is missing")
    return values[name].value


@contextlib.contextmanager
def explain_out_of_memory(micro_batch_tokens: int) -> Iterator[None]:
    """Turns a device's out-of-memory error into a `UserError` with the flag that helps."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise UserError(
            f"out of memory: give a smaller --micro_batch_tokens than {micro_batch_tokens} "
            "(the update stays the same)"
        ) from error


@contextlib.contextmanager
def open_output(path: str | None) -> Iterator[IO[str]]:
    """Opens a file to write to, or standard output where there is no path; UTF-8 in any locale.

    The file takes its name when it is complete, so a failure does not destroy an earlier one. Its
    folder is created where it does not exist.
    """
    if not path:
        yield sys.stdout
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with atomic_write(path) as file:
        yield file
