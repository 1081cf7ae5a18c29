"""The command doctor, here and in broken installations."""

import os
import subprocess
import sys
import tempfile

from tf_transformer.cli import doctor


def test_training_works_here(run, monkeypatch, tmp_path):
    """The whole report; it leaves nothing in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["host1:1", "host2:2"]}}')
    code, out, _ = run("doctor")
    assert code == 0, out
    lines = out.splitlines()
    assert lines[-1] == "OK: training works here"
    sections = [line for line in lines if line and line[0] != " "]
    assert sections[:4] == ["Versions", "Host", "Devices", "One update of a small model"]
    text = " ".join(out.split())
    assert "tensorflow 2.21." in text
    assert "parameters; 2 replicas (CPU:0, CPU:1), " in text
    assert " | loss 6." in text  # about log(500)
    assert os.listdir(tmp_path) == []


# Runs the program in a process in which a package is not installed: MODULE, ARGUMENTS.
WITHOUT = """
import importlib.metadata, sys
module = sys.argv.pop(1)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Finder())
version = importlib.metadata.version
def installed(name):
    if name == module:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = installed
from tf_transformer.__main__ import run
run()
"""


def run_without(module, *arguments, cwd):
    """Runs the program in a folder."""
    command = [sys.executable, "-c", WITHOUT, module, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def test_a_missing_package(tmp_path):
    done = run_without("sentencepiece", "doctor", cwd=tmp_path)
    assert done.returncode == 1, done
    assert done.stderr == ""
    problem, remedy, last = done.stdout.splitlines()[-3:]
    assert problem == "problem: sentencepiece is not installed"
    assert remedy.startswith("    pip install 'sentencepiece>=")
    assert last == "training does not work here"


def test_without_the_package_that_parses_flags(tmp_path):
    """The command line itself needs it."""
    done = run_without("absl", "doctor", cwd=tmp_path)
    assert done.returncode == 2
    message = "the package absl is not installed: pip install tf_transformer"
    assert done.stderr == f"tf-transformer: error: {message}\n"


def problems_of(findings):
    return [found for found in findings if isinstance(found, doctor.Problem)]


def texts(findings):
    return [problem.text for problem in problems_of(findings)]


def test_wrong_version(monkeypatch):
    """A package of the wrong version prevents training where it cannot be imported."""

    def broken_import(name):
        if name == "tensorflow_text":
            raise ImportError("text.so: undefined symbol: abc\nat line 2")

    def version(name):
        return "2.20.0" if name == "tensorflow-text" else original(name)

    original = doctor.metadata.version
    monkeypatch.setattr(doctor.metadata, "version", version)
    (problem,) = problems_of(doctor.versions())
    assert problem.text == "tensorflow-text 2.20.0 is installed, but <2.22,>=2.21.1 is required"
    assert problem.remedy == "pip install 'tensorflow-text<2.22,>=2.21.1'"
    assert not problem.prevents_training
    monkeypatch.setattr(doctor, "import_module", broken_import)
    assert [each.prevents_training for each in problems_of(doctor.versions())] == [False, True]
    monkeypatch.setattr(doctor.metadata, "version", original)
    (problem,) = problems_of(doctor.versions())
    expected = "tensorflow-text cannot be imported: ImportError: text.so: undefined symbol: abc"
    assert problem.text.startswith(expected) and problem.prevents_training
    assert "--force-reinstall" in problem.remedy


def test_keras(refused, monkeypatch, tmp_path):
    """Another backend, or Keras 2; the variable, or else Keras' file, decides."""
    (tmp_path / "keras.json").write_text('{"backend": "torch"}')
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    reason = f"the backend of Keras is 'torch' in {tmp_path}/keras.json"
    assert texts(doctor.versions()) == [reason]
    assert refused("translate").endswith(f"{reason}: change it to tensorflow")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert "'jax' in KERAS_BACKEND: unset it" in refused("train", f"--model_dir={tmp_path}/m")
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    assert texts(doctor.versions()) == []
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    assert "TF_USE_LEGACY_KERAS selects Keras 2" in refused("translate")
    (problem,) = problems_of(doctor.versions())
    assert "TF_USE_LEGACY_KERAS" in problem.text and problem.remedy == "unset it"


def test_no_folder_for_temporary_files(monkeypatch):
    def fail():
        raise FileNotFoundError("No usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", fail)
    (problem,) = problems_of(doctor.versions())
    assert "no folder for temporary files can be written to" in problem.text
    assert "name one in TMPDIR" in problem.remedy and "pip" not in problem.remedy


def test_a_failing_part_of_the_report_is_a_problem(capsys):
    def fail():
        yield "name", "text"
        raise KeyError("x")

    (problem,) = doctor._show("Host", fail())
    assert problem.text == "host: KeyError: 'x'"
    assert "  name   " in capsys.readouterr().out


def test_missing_gpu(monkeypatch):
    """An NVIDIA device without libraries: their names; training works on the CPU."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(doctor, "has_nvidia_device", lambda: True)
    monkeypatch.setattr(doctor, "_is_found", lambda name: "cudnn" not in name)
    (problem,) = problems_of(doctor.devices())
    assert problem.text == "TensorFlow finds no GPU; libcudnn.so.9 cannot be loaded"
    assert problem.remedy.startswith("pip install 'tf_transformer[gpu]'")
    assert not problem.prevents_training
    monkeypatch.setattr(doctor, "_is_found", lambda name: name != doctor.DRIVER)
    (problem,) = problems_of(doctor.devices())
    assert "install the NVIDIA driver" in problem.remedy
    assert "pip install" not in problem.remedy
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    (problem,) = problems_of(doctor.devices())
    assert problem.text == "CUDA_VISIBLE_DEVICES hides the GPUs"


def test_a_library_that_the_loader_finds():
    assert not doctor._is_found("libmissing.so.9")
    if sys.platform.startswith("linux"):
        assert doctor._is_found("libc.so.6")
