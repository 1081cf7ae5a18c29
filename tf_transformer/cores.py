"""The cores of the CPU."""

import os


def number_of_cores() -> int:
    """Returns the number of cores that this process may use."""
    affinity = hasattr(os, "sched_getaffinity")  # macOS does not have it
    return len(os.sched_getaffinity(0)) if affinity else os.cpu_count() or 1
