"""The whole GPU check, on logical devices of the CPU."""

import re

import pytest
from gpu_check.__main__ import main

from tf_transformer.cli import main as command_line

SMALL = ("--scale=small", "--logical_devices=2")
SECTIONS = ["Checks", "Losses", "Training", "Search", "Published figures", "Installation"]


@pytest.mark.slow
def test_the_whole_report(tmp_path, monkeypatch, capsys):
    # The doctor has tests of its own.
    monkeypatch.setattr(command_line, "main", lambda _: print("Versions of everything") or 0)
    path = tmp_path / "folder" / "report.md"
    code = main([*SMALL, f"--output={path}"])
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
