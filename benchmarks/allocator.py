"""The settings of the C library's memory allocator with which `make` runs the trainings."""

import os
import sys

# With these settings of glibc's allocator, the large tensors of a step are in huge pages that are
# kept from step to step. By default each is fetched from the kernel again, page by page.
SETTINGS = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "MALLOC_ARENA_MAX": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


def use_allocator():
    """Restarts the program with `SETTINGS`, which glibc reads when a process starts."""
    if not any(name in os.environ for name in SETTINGS):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **SETTINGS})
