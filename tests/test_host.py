"""What the host's files in /proc and /sys say."""

import os

import pytest

from tf_transformer import host
from tf_transformer.cli.terminal import set_environment


@pytest.fixture
def files(monkeypatch, tmp_path):
    """A function that writes a file in place of one of the system's."""
    for name in ("CPU_INFO", "CGROUP_OF_PROCESS", "CGROUP_ROOT"):
        monkeypatch.setattr(host, name, tmp_path / name)

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


def test_limits_of_a_cgroup(files):
    """The smallest limit of the cgroup and of those above it counts."""
    files("CGROUP_OF_PROCESS", "0::/outer/inner\n")
    # Only the root exists in a container.
    files("CGROUP_ROOT/cpu.max", "300000 100000\n")
    files("CGROUP_ROOT/memory.max", "5000000000\n")
    assert (host.core_limit(), host.memory_limit()) == (3, 5_000_000_000)
    files("CGROUP_ROOT/outer/cpu.max", "150000 100000\n")
    files("CGROUP_ROOT/outer/inner/cpu.max", "max 100000\n")
    files("CGROUP_ROOT/outer/inner/memory.max", "4000000000\n")
    files("CGROUP_ROOT/outer/memory.max", "max\n")
    assert (host.core_limit(), host.memory_limit()) == (1.5, 4_000_000_000)


def test_number_of_cores(files, monkeypatch):
    """The container's limit, rounded up, where it is lower than the CPU affinity."""
    monkeypatch.setattr(host, "affinity", lambda: 4)
    files("CGROUP_OF_PROCESS", "0::/\n")
    for quota, expected in ((20_000, 1), (200_000, 2), (210_000, 3), (10**9, 4), ("max", 4)):
        files("CGROUP_ROOT/cpu.max", f"{quota} 100000\n")
        assert host.number_of_cores() == expected


def test_threads_of_tensorflow(files, monkeypatch):
    """They are limited in a container with a limit, unless the user has set them."""
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    monkeypatch.setattr(os, "environ", {names[1]: "3"})
    set_environment()
    assert names[0] not in os.environ
    files("CGROUP_OF_PROCESS", "0::/\n")
    files("CGROUP_ROOT/cpu.max", "100000 100000\n")
    set_environment()
    assert [os.environ[name] for name in names] == ["1", "3"]
