"""Settings of the C library's memory allocator. This module does not need TensorFlow."""

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


def use_allocator() -> None:
    """Restarts the program once with `SETTINGS` in its environment.

    glibc reads them when a process starts. Nothing happens on other systems, where the user has set
    one of the settings, or where `TF_TRANSFORMER_NO_REEXEC` is set (see `plain_process`).
    """
    if plain_process() or not sys.platform.startswith("linux"):
        return
    if any(name in os.environ for name in SETTINGS):
        return
    if "CS_GNU_LIBC_VERSION" in os.confstr_names and os.confstr("CS_GNU_LIBC_VERSION"):
        sys.stdout.flush()
        arguments = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, **SETTINGS})


def plain_process() -> bool:
    """Whether `TF_TRANSFORMER_NO_REEXEC` is set to anything but 0.

    The program then neither restarts itself nor ends by `os._exit`, so that debuggers and profilers
    can follow it.
    """
    return os.environ.get("TF_TRANSFORMER_NO_REEXEC", "0") not in ("", "0")
