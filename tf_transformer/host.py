"""The CPU and the memory of this host, with the limits of its container.

Linux describes them in /proc and /sys; on other systems, less is known. This module does
not need TensorFlow.
"""

import math
import os
import pathlib
from collections.abc import Iterator

CPU_INFO = pathlib.Path("/proc/cpuinfo")
CGROUP_OF_PROCESS = pathlib.Path("/proc/self/cgroup")
CGROUP_ROOT = pathlib.Path("/sys/fs/cgroup")
NO_LIMIT = 2**60  # bytes; version 1 of cgroups writes a larger number where there is no limit


def cpu_flags() -> set[str]:
    """The flags of the CPU, such as "avx2"; an empty set where they are unknown."""
    return set(cpu_info("flags").split())


def cpu_info(name: str) -> str:
    """The value of a line of /proc/cpuinfo; "" where there is none."""
    for line in _read(CPU_INFO).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def number_of_cores() -> int:
    """The number of cores that this process may use.

    It is that of the CPU affinity, or the limit of the container where that is lower, rounded up.
    More threads than that would wait for each other.
    """
    cores = affinity() or os.cpu_count() or 1
    limit = core_limit()
    return cores if limit is None else max(1, min(cores, math.ceil(limit)))


def affinity() -> int | None:
    """The number of cores of the CPU affinity; None where it is unknown, as on macOS."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def core_limit() -> float | None:
    """The limit of the cgroup, in cores; None where there is none."""
    limits = []
    for folder in _cgroup_folders("cpu"):
        quota, _, period = _read(folder / "cpu.max").partition(" ")  # version 2
        if not quota:
            quota = _read(folder / "cpu.cfs_quota_us")  # version 1
            period = _read(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal():  # no limit is "max" or -1
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def memory_limit() -> int | None:
    """The limit of the cgroup, in bytes; None where there is none."""
    limits = []
    for folder in _cgroup_folders("memory"):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        if limit.isdecimal() and int(limit) < NO_LIMIT:  # no limit is "max" in version 2
            limits.append(int(limit))
    return min(limits, default=None)


def _cgroup_folders(controller: str) -> Iterator[pathlib.Path]:
    """The folders with the limits of this process, from its own cgroup to the root.

    Inside a container, the path of the cgroup may be that of the host, and only the root exists.

    Args:
      controller: "cpu" or "memory".
    """
    for line in _read(CGROUP_OF_PROCESS).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = CGROUP_ROOT / controller if controllers else CGROUP_ROOT  # version 1, version 2
        folder = root / path.lstrip("/")
        yield from (parent for parent in (folder, *folder.parents) if parent.is_relative_to(root))


def _read(path: pathlib.Path) -> str:
    """The content of a file; "" where it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
