"""The CPU, the memory and the GPUs of this host, with the limits of its container; its Keras.

Linux describes the first two in /proc and /sys; on other systems, less is known. This module does
not need TensorFlow.
"""

import contextlib
import json
import math
import os
import pathlib
import subprocess

CPU_INFO = pathlib.Path("/proc/cpuinfo")
CGROUP_OF_PROCESS = pathlib.Path("/proc/self/cgroup")
CGROUP_ROOT = pathlib.Path("/sys/fs/cgroup")


def cpu_info(name: str) -> str:
    """The value of a line of /proc/cpuinfo, such as "flags"; "" where there is none."""
    for line in _read(CPU_INFO).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def number_of_cores() -> int:
    """The cores of the CPU affinity, or the container's limit, rounded up, where that is lower."""
    cores = affinity() or os.cpu_count() or 1
    limit = core_limit()
    return cores if limit is None else max(1, min(cores, math.ceil(limit)))


def affinity() -> int | None:
    """The number of cores of the CPU affinity; None where it is unknown, as on macOS."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def core_limit() -> float | None:
    """The limit of the cgroup, in cores; None where there is none."""
    limits = [text.split() for text in _limits("cpu.max")]  # such as "150000 100000"
    return min((int(quota) / int(period) for quota, period in limits), default=None)


def memory_limit() -> int | None:
    """The limit of the cgroup, in bytes; None where there is none."""
    return min(map(int, _limits("memory.max")), default=None)


def memory() -> int:
    """The bytes of memory that this process can use."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(physical, memory_limit() or physical)


def nvidia_smi(*fields: str) -> list[list[str]]:
    """Fields of nvidia-smi's `--query-gpu` of each GPU, also a hidden one; [] where it fails."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL).splitlines()
    except (OSError, subprocess.SubprocessError):
        return []
    return [[value.strip() for value in line.split(",")] for line in lines]


def keras_mistake() -> str:
    """Why Keras cannot be used: another backend, or another version; "" where it can."""
    place, remedy, backend = "KERAS_BACKEND", "unset it", os.environ.get("KERAS_BACKEND")
    if not backend:  # Keras too takes an empty one for none
        home = os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")
        place, remedy, backend = f"{home}/keras.json", "change it to tensorflow", "tensorflow"
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            backend = json.loads(pathlib.Path(place).read_text("utf-8"))["backend"]
    if backend != "tensorflow":
        return f"the backend of Keras is {backend!r} in {place}: {remedy}"
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        return "TF_USE_LEGACY_KERAS selects Keras 2, and Keras 3 is needed: unset it"
    return ""


def _limits(name: str) -> list[str]:
    """The limits of this process in files of version 2 of cgroups, from its own to the root.

    Inside a container, the path of the cgroup may be the host's, and only the root exists.
    """
    path = _read(CGROUP_OF_PROCESS).partition("::/")[2]
    folders = [CGROUP_ROOT / path, *(CGROUP_ROOT / path).parents]
    texts = [_read(folder / name) for folder in folders if folder.is_relative_to(CGROUP_ROOT)]
    return [text for text in texts if text and not text.startswith("max")]


def _read(path: pathlib.Path) -> str:
    """The content of a file; "" where it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
