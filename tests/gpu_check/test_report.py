"""The whole GPU check, on logical devices of the CPU."""

import re

import invariants
import pytest
from gpu_check import checks, measurements, report, results
from gpu_check.__main__ import main
from gpu_check.results import Result
from gpu_check.sizes import SIZES

from tf_transformer.cli import main as command_line

SMALL = ("--scale=small", "--logical_devices=2")
SECTIONS = ["Checks", "Losses", "Training", "Search", "Published figures", "Installation"]


@pytest.fixture
def without_doctor(monkeypatch):
    """Replaces the doctor, which has tests of its own."""

    def doctor(arguments):
        print("Versions of everything")
        return 0

    monkeypatch.setattr(command_line, "main", doctor)


def test_the_whole_report(tmp_path, without_doctor, capsys):
    path = tmp_path / "folder" / "report.md"
    code = main([*SMALL, f"--output={path}"])
    text = path.read_text("utf-8")
    assert code == 0, text
    assert capsys.readouterr().out.splitlines() == [f"OK; the report is in {path}"]
    assert re.findall(r"^## (.+)$", text, re.M) == SECTIONS
    found = dict(re.findall(r"^\| ([\w -]+) \| (passed|\*\*FAILED\*\*|not checked) \|", text, re.M))
    names = ["doctor", "padding", "causality", "2 replicas", "2 micro-batches", "float16", "resume"]
    assert found == dict.fromkeys(names, "passed")
    # On a CPU, a resumed run equals the uninterrupted one to the last bit.
    assert re.search(r"resumed after update 2 of 4: .* by 0 \(.* (\d+) of \1 arrays equal", text)
    training = re.findall(
        r"^\| tiny \| ([12]) \| 32 \| \w+ \| off \| [\d.]+ \| [\d,]+ \|", text, re.M
    )
    assert training == ["1", "2"]
    searches = re.findall(
        r"^\| beam 4 \| 2 \| float32 \| (on|off) \| [\d.]+ \| [\d,]+ \|$", text, re.M
    )
    assert searches == ["off", "on"]
    assert "| 3 |" in text.split("## Losses")[1]
    assert "Versions of everything" in text


def test_a_failed_check_and_too_little_memory(tmp_path, without_doctor, monkeypatch, capsys):
    """Every other part is still done. `|` is written so that it does not end a cell."""

    def failing(case, sizes):
        yield Result("padding", False, "logits differ by |1|")

    def nothing(*arguments):
        raise results.tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    monkeypatch.setattr(report, "check_invariants", failing)
    monkeypatch.setattr(checks, "_same_training", nothing)
    monkeypatch.setattr(checks, "_resume", lambda *arguments: (True, "same"))
    monkeypatch.setattr(measurements, "update_seconds", nothing)
    monkeypatch.setattr(measurements, "_search_row", lambda *arguments: ("1", "2"))
    path = tmp_path / "report.md"
    code = main([*SMALL, f"--output={path}"])
    text = path.read_text("utf-8")
    assert code == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "failed: padding: logits differ by |1|"
    assert lines[1] == "failed: 2 replicas: out of memory"
    assert lines[-1] == f"failed; the report is in {path}"
    assert "Failed: padding, 2 replicas, 2 micro-batches, float16." in text
    assert "| padding | **FAILED** | logits differ by \\|1\\| |" in text
    assert "| resume | passed | same |" in text
    assert "| tiny | 2 | 32 | float32 | off | out of memory |" in text
    assert "| beam 4 | 2 | float32 | off | 1 | 2 |" in text


def test_where_training_does_not_work(tmp_path, monkeypatch, capsys):
    """The report has the doctor's remedy, and nothing else is tried."""

    def doctor(arguments):
        print("no kernel image: install another version")
        return 1

    monkeypatch.setattr(command_line, "main", doctor)
    monkeypatch.setattr(report, "check_gpus", None)
    path = tmp_path / "report.md"
    code = main([*SMALL, f"--output={path}"])
    assert code == 1
    assert capsys.readouterr().out.splitlines()[0] == "failed: doctor: see Installation"
    assert "no kernel image: install another version" in path.read_text("utf-8")


def test_without_the_built_in_model_the_speed_is_still_measured(monkeypatch):
    def nothing(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(report, "make_case", nothing)
    for name in ("measure_training", "measure_search"):
        table = results.Table(name, "", (), [])
        monkeypatch.setattr(report, name, lambda *arguments, table=table: (table, []))
    found = report.check_gpus(SIZES["small"]())
    assert found.results == [Result("built-in model", False, "OSError: disk full")]
    titles = ["measure_training", "measure_search", "Published figures"]
    assert [table.title for table in found.tables] == titles


def test_the_planned_memory_is_that_of_the_rows_of_a_micro_batch(monkeypatch):
    """1,000 rows of 25 tokens: 7 micro-batches of 143 rows where 4,096 tokens are 163 rows."""
    planned = []
    monkeypatch.setattr(measurements, "update_seconds", lambda *arguments: 1.0)
    monkeypatch.setattr(
        measurements, "activation_bytes", lambda *arguments: planned.append(arguments[1:]) or 1
    )
    sizes = SIZES["full"]()
    for replicas in (1, 8):
        measurements._training_row(sizes.speeds[0], sizes, replicas, "float32", 1.0)
    assert planned == [(143, 25, "float32")] * 2


def test_an_invariant_that_cannot_be_computed_has_failed(monkeypatch):
    monkeypatch.setattr(invariants, "check", lambda *arguments: (1, "export", None, "disk full"))
    sizes = SIZES["small"]()
    assert [result.passed for result in checks.check_invariants(None, sizes)] == [False] * len(
        sizes.invariants
    )


def test_mistakes(tmp_path, monkeypatch, capsys):
    def refused(*arguments):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
        return capsys.readouterr().err

    assert "TensorFlow finds no GPU" in refused()
    assert str(tmp_path) in refused(*SMALL, f"--output={tmp_path}")
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert "unset TF_CONFIG" in refused(*SMALL)
