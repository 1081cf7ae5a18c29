"""Starting TensorFlow, and output files."""

import os
import subprocess
import sys
import tempfile

import pytest

from tf_transformer.cli.terminal import open_output, start_tensorflow
from tf_transformer.errors import UserError


def run_python(code, **environment):
    """Runs code in a process in which TensorFlow sees no GPU."""
    names = {"TF_CPP_MIN_LOG_LEVEL", "CUDA_VISIBLE_DEVICES"}
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    inherited["CUDA_VISIBLE_DEVICES"] = "99"  # which no host has
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=inherited | environment,
    )


START = """
import os
from tf_transformer.cli import terminal
terminal.has_nvidia_device = lambda: {nvidia}
before = sorted(os.listdir("/proc/self/fd"))
terminal.start_tensorflow()
after = sorted(os.listdir("/proc/self/fd"))
print(before == after, before, after)
os.write(2, b"end of messages")
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("nvidia", [False, True])
def test_start_tensorflow_leaks_no_file_descriptor(nvidia):
    """Standard error works again afterwards."""
    done = run_python(START.format(nvidia=nvidia))
    assert done.stdout.startswith("True "), done.stdout
    assert done.stderr.endswith("end of messages")


def test_start_tensorflow_is_silent_without_an_nvidia_device():
    assert run_python(START.format(nvidia=False)).stderr == "end of messages"


def test_start_tensorflow_warns_of_a_missing_gpu():
    assert run_python(START.format(nvidia=True)).stderr == (
        "this computer has an NVIDIA device, but TensorFlow finds no GPU: `tf-transformer doctor` "
        "says why\nend of messages"
    )


@pytest.mark.parametrize("devices", ["-1", ""])
def test_start_tensorflow_without_gpus_on_purpose(devices):
    """No visible device is a choice of the user: no warning."""
    done = run_python(START.format(nvidia=True), CUDA_VISIBLE_DEVICES=devices)
    assert done.stderr == "end of messages"


def test_a_search_switches_onednn_off(monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "")
    del os.environ["TF_ENABLE_ONEDNN_OPTS"]
    start_tensorflow()
    assert "TF_ENABLE_ONEDNN_OPTS" not in os.environ
    start_tensorflow(for_search=True)
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == "0"
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"  # of the user
    start_tensorflow(for_search=True)
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == "1"


def test_a_container_without_a_folder_for_temporary_files(monkeypatch):
    def find_none():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", find_none)
    with pytest.raises(UserError, match="no folder for temporary files .* TMPDIR"):
        start_tensorflow()


def test_output_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "folder" / "out.txt"
    with open_output(str(path)) as file:
        file.write("Häuser\n")
        assert not path.exists()
    assert path.read_text("utf-8") == "Häuser\n"
