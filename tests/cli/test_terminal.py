"""Starting TensorFlow."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from tf_transformer.cli.terminal import start_tensorflow

START = """
import os, sys
from tf_transformer.cli.terminal import start_tensorflow
before = os.listdir("/proc/self/fd")
start_tensorflow()
assert sorted(os.listdir("/proc/self/fd")) == sorted(before)
assert "matplotlib" not in sys.modules  # Keras has not imported it
import matplotlib.pyplot
os.write(2, b"end of messages")
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_the_start_is_silent_and_leaks_no_file_descriptor():
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "0"}
    command = [sys.executable, "-c", START]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == "end of messages"


@pytest.mark.parametrize(("devices", "warnings"), [(None, 1), ("-1", 0), ("", 0)])
def test_a_missing_gpu(nvidia_device, monkeypatch, caplog, devices, warnings):
    """No visible device is a choice of the user: no warning."""
    if devices is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", devices)
    start_tensorflow()
    assert sum("tf-transformer doctor" in message for message in caplog.messages) == warnings


def test_variables_for_gpus(nvidia_device, monkeypatch, tmp_path):
    """Those of the user stay."""
    names = ("TF_FORCE_GPU_ALLOW_GROWTH", "XLA_FLAGS", "TF_XLA_FLAGS")
    start_tensorflow(model_dir=str(tmp_path / "a model"))
    growth, flags, cache = (os.environ[name] for name in names)
    assert growth == "true"
    assert flags.split() == [
        "--xla_gpu_enable_triton_gemm=false", "--xla_gpu_experimental_enable_fusion_autotuner=false"
    ]  # fmt: skip
    folder = f"{tmp_path}/a model/cache/xla-{tf.__version__}-9.0"
    assert cache == f"--tf_xla_persistent_cache_directory='{folder}'"
    own_flags = (
        "--xla_gpu_enable_triton_gemm=true --xla_gpu_experimental_enable_fusion_autotuner=true"
    )
    own = ["false", own_flags, "--tf_xla_persistent_cache_directory=/x"]
    for name, value in zip(names, own):
        monkeypatch.setenv(name, value)
    start_tensorflow(model_dir=str(tmp_path))
    assert [os.environ[name] for name in names] == own
