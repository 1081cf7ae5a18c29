"""The command doctor, here and in broken installations."""

import ctypes.util
import os
import sys

import pytest

from tf_transformer.cli import doctor


@pytest.mark.slow
def test_training_works_here(succeed, monkeypatch, tmp_path):
    """The whole report; it leaves nothing in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["host1:1", "host2:2"]}}')
    out, _ = succeed("doctor")
    lines = out.splitlines()
    assert lines[-1] == "OK: training works here"
    sections = [line for line in lines if line and line[0] != " "]
    assert sections[:4] == ["Versions", "Host", "Devices", "One update of a small model"]
    text = " ".join(out.split())
    assert "tensorflow 2.21." in text
    assert "parameters; 2 replicas (CPU:0, CPU:1), " in text
    assert " | loss 6." in text  # about log(500)
    assert os.listdir(tmp_path) == []


def problem_in(findings):
    """The only problem that a part of the report has found."""
    (problem,) = [found for found in findings if isinstance(found, doctor.Problem)]
    return problem


def test_a_missing_package(run, monkeypatch):
    """The report goes on where a part of it fails, and nothing is trained."""
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    monkeypatch.setattr(doctor.host, "core_limit", lambda: 1 / 0)
    code, out, err = run("doctor")
    assert (code, err) == (1, "")
    problem, remedy, warning, _, last = out.splitlines()[-5:]
    assert problem.startswith("problem: sentencepiece cannot be imported: ")
    assert "pip install --force-reinstall --no-deps 'sentencepiece>=" in remedy
    assert warning == "warning: host: ZeroDivisionError: division by zero"
    assert last == "training does not work here"


def test_wrong_version(monkeypatch):
    """A package of another version does not prevent training."""
    original = doctor.metadata.version
    changed = {"tensorflow-text": "2.20.0"}
    monkeypatch.setattr(
        doctor.metadata, "version", lambda name: changed.get(name) or original(name)
    )
    problem = problem_in(doctor.versions())
    assert problem.text.endswith("is required, and the installed version is 2.20.0")
    assert problem.remedy == "pip install 'tensorflow-text<2.22,>=2.21.1'"
    assert not problem.prevents_training


@pytest.mark.parametrize(("variables", "problem", "remedy"), [
    ({}, "'torch' in KERAS_HOME/keras.json", "change it to tensorflow"),
    ({"KERAS_BACKEND": "jax"}, "'jax' in KERAS_BACKEND", "unset it"),
    ({"KERAS_BACKEND": "tensorflow", "TF_USE_LEGACY_KERAS": "1"}, "TF_USE_LEGACY_KERAS", "unset"),
])  # fmt: skip
def test_keras(refused, monkeypatch, tmp_path, variables, problem, remedy):
    """Another backend, or Keras 2; the variable, or else Keras' file, decides."""
    (tmp_path / "keras.json").write_text('{"backend": "torch"}')
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    for name, value in {"KERAS_HOME": str(tmp_path), **variables}.items():
        monkeypatch.setenv(name, value)
    problem = problem.replace("KERAS_HOME", str(tmp_path))
    found = problem_in(doctor.versions())
    assert problem in found.text and remedy in found.remedy
    message = refused("translate")
    assert problem in message and remedy in message


def test_missing_gpu(nvidia_device, monkeypatch):
    """An NVIDIA device without libraries: their names; training works on the CPU."""
    found = ctypes.util.find_library("c")
    monkeypatch.setattr(doctor, "LIBRARIES", (found, "libmissing.so.9"))
    problem = problem_in(doctor.devices())
    assert problem.text == "TensorFlow finds no GPU; libmissing.so.9 cannot be loaded"
    assert "pip install 'tf_transformer[gpu]'" in problem.remedy
    assert not problem.prevents_training
    monkeypatch.setattr(doctor, "DRIVER", "libmissing.so.9")
    assert "install the NVIDIA driver" in problem_in(doctor.devices()).remedy
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert problem_in(doctor.devices()).text == "CUDA_VISIBLE_DEVICES hides the GPUs"
