"""How the C library keeps memory. Nothing here needs TensorFlow."""

import os
import sys

# With these settings of glibc's allocator the large tensors of a step lie in huge pages that are kept from step to step. By default
# each is fetched from the kernel anew, page by page.
SETTINGS = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "MALLOC_ARENA_MAX": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


def use_allocator():
    """Starts the running program anew with `SETTINGS` in its environment, once, on Linux with glibc, where the user has set none of it.

    glibc reads them when a process starts, so this must come before any work, and a plain `python -m tf_transformer` has them too.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in SETTINGS):
        return
    if "CS_GNU_LIBC_VERSION" in os.confstr_names and os.confstr("CS_GNU_LIBC_VERSION"):
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **SETTINGS})
