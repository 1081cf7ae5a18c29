"""The command doctor, here and in broken installations."""

import ctypes.util
import os
import subprocess
import sys

import pytest

from tf_transformer import gpus
from tf_transformer.cli import doctor


@pytest.mark.slow
def test_training_works_here(succeed, monkeypatch, tmp_path):
    """The whole report; it leaves nothing in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["host1:1", "host2:2"]}}')
    out, _ = succeed("doctor")
    assert out.splitlines()[-1] == "OK: training works here"
    text = " ".join(out.split())
    assert "tensorflow 2.21." in text
    assert "parameters; 2 replicas (CPU:0, CPU:1), " in text and "XLA off" in text
    assert " | loss 6." in text  # about log(500)
    assert "warning" not in text
    assert os.listdir(tmp_path) == []


def test_a_missing_package(run, monkeypatch):
    """Nothing is trained, and the packages before it are listed."""
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    code, out, err = run("doctor")
    assert (code, err) == (1, "")
    *_, numpy, problem, last = out.splitlines()
    assert numpy.startswith("numpy ") and problem.startswith("problem: sentencepiece cannot be")
    assert "pip install --force-reinstall --no-deps sentencepiece" in problem
    assert last == "training does not work here"


def test_wrong_version(monkeypatch, capsys):
    """A package of another version does not prevent training; other packages do not matter."""
    report = (
        "tf-transformer 0.3.0 has requirement keras<3.16, but you have keras 3.99.\n"
        "another 1.0 requires something, which is not installed.\n"
    )
    done = subprocess.CompletedProcess([], 1, report, "")
    monkeypatch.setattr(doctor.subprocess, "run", lambda *_, **__: done)
    doctor.versions()
    warnings = [line for line in capsys.readouterr().out.splitlines() if line[:7] == "warning"]
    assert len(warnings) == 1 and "but you have keras 3.99" in warnings[0]


@pytest.mark.parametrize(("variables", "problem", "remedy"), [
    ({}, "'torch' in KERAS_HOME/keras.json", "change it to tensorflow"),
    ({"KERAS_BACKEND": "jax"}, "'jax' in KERAS_BACKEND", "unset it"),
    ({"KERAS_BACKEND": "tensorflow", "TF_USE_LEGACY_KERAS": "1"}, "TF_USE_LEGACY_KERAS", "unset"),
])  # fmt: skip
def test_keras(run, refused, monkeypatch, tmp_path, variables, problem, remedy):
    """Another backend, or Keras 2; the variable, or else Keras' file, decides."""
    (tmp_path / "keras.json").write_text('{"backend": "torch"}')
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    for name, value in {"KERAS_HOME": str(tmp_path), **variables}.items():
        monkeypatch.setenv(name, value)
    problem = problem.replace("KERAS_HOME", str(tmp_path))
    code, out, _ = run("doctor")
    for message in (out, refused("translate")):
        assert problem in message and remedy in message
    assert code == 1


def test_missing_gpu(nvidia_device, monkeypatch, capsys):
    """An NVIDIA device without libraries: their names; training works on the CPU."""

    def warning():
        doctor.devices()
        out = capsys.readouterr().out
        return next(line for line in out.splitlines() if line.startswith("warning"))

    found = ctypes.util.find_library("c")
    monkeypatch.setattr(doctor, "LIBRARIES", (found, "libmissing.so.9"))
    text = warning()
    assert "training uses the CPU: libmissing.so.9 cannot be loaded" in text
    assert "pip install 'tf_transformer[gpu]'" in text
    monkeypatch.setattr(doctor, "DRIVER", "libmissing.so.9")
    assert "install the NVIDIA driver" in warning()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert "CUDA_VISIBLE_DEVICES hides the GPUs" in warning()


def test_a_gpu_without_machine_code(monkeypatch, capsys):
    """It is said; a product that fails is a problem."""
    reason = "RTX 5090 has compute capability 12.0, and TensorFlow 2.21.0 has machine code for 9.0"
    monkeypatch.setattr(gpus, "missing_machine_code", lambda _: reason)
    doctor.devices()
    assert f"{reason}: training works, without XLA" in capsys.readouterr().out
