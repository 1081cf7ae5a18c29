"""The CUDA libraries that TensorFlow needs for a GPU, and which of them are missing."""

import ctypes
import importlib.util
import pathlib
import subprocess

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
