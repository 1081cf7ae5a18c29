"""The whole GPU check, on logical devices of the CPU."""

import re
import types

import pytest
from gpu_check import __main__ as gpu_check
from gpu_check import checks
from gpu_check.results import Report
from gpu_check.sizes import SIZES

SMALL = ("--scale=small", "--logical_devices=2")
SECTIONS = ["Checks", "Losses", "Training", "Search", "Published figures", "Installation"]


@pytest.mark.slow
def test_the_whole_report(tmp_path, monkeypatch, capsys):
    # The doctor has tests of its own.
    monkeypatch.setattr(gpu_check, "doctor", lambda _: print("Versions of everything") or 0)
    path = tmp_path / "folder" / "report.md"
    code = gpu_check.main([*SMALL, f"--output={path}"])
    text = path.read_text("utf-8")
    assert code == 0, text
    assert str(path) in capsys.readouterr().out
    assert re.findall(r"^## (.+)$", text, re.M) == SECTIONS
    found = dict(re.findall(r"^\| ([\w -]+) \| (passed|\*\*FAILED\*\*|not checked) \|", text, re.M))
    names = ["doctor", "padding", "causality", "2 replicas", "2 micro-batches", "float16", "resume"]
    assert found == dict.fromkeys(names, "passed")
    # On a CPU, a resumed run equals the uninterrupted one to the last bit.
    assert re.search(r"resumed after update 2 of 4: .* by 0 \(.* (\d+) of \1 arrays equal", text)
    assert re.findall(r"^\| tiny \| (\d) \| 32 \| ", text, re.M) == ["1", "2"]
    assert re.findall(r"^\| beam 4 \| 2 \| float32 \| (\w+) \|", text, re.M) == ["off", "on"]
    assert "Versions of everything" in text


def test_ctrl_c_keeps_the_results_so_far(tmp_path, monkeypatch, capsys):
    """In the doctor, and in a training run, which handles signals itself."""

    def interrupt(_):
        raise KeyboardInterrupt

    path = tmp_path / "report.md"
    monkeypatch.setattr(gpu_check, "doctor", interrupt)
    assert gpu_check.main([*SMALL, f"--output={path}"]) == 130
    assert capsys.readouterr().out == f"stopped; the report so far is in {path}\n"
    assert "The check was stopped" in path.read_text("utf-8")

    stopped = types.SimpleNamespace(run=lambda: False)
    monkeypatch.setattr(checks, "build_trainer", lambda *_: stopped)
    sizes, report = SIZES["small"]()._replace(variants={}), Report(str(path), "CPU")
    with pytest.raises(KeyboardInterrupt):
        checks.check_training(None, sizes, 1, str(tmp_path), report)
    assert "| replicas | not checked |" in path.read_text("utf-8")
