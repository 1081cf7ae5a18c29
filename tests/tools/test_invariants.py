"""tools/invariants.py: all nine hold for a sound model, and each is broken by a bug."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import invariants
import pytest

import tf_transformer
from tf_transformer.errors import UserError


@pytest.mark.slow
def test_all_nine_hold(model_dir, monkeypatch, capsys):
    times = {path: path.stat().st_mtime_ns for path in model_dir.rglob("*")}
    monkeypatch.setattr("sys.argv", ["invariants.py", str(model_dir)])
    invariants.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line[:35].split("  ")[0] for line in lines] == [str(n) for n in range(1, 10)]
    assert all("  holds  " in line for line in lines), lines
    assert lines[1].endswith("; 12 of 12 translations are the same")
    assert re.search(r"update \d+, resumed until \d+: (\d+) of \1 arrays", lines[6])
    # The model folder is not changed.
    assert {path: path.stat().st_mtime_ns for path in model_dir.rglob("*")} == times


def test_users_texts(model_dir, tmp_path):
    texts = ["Anna sleeps.", "  ", "The dog sees the cat."]
    case = invariants.make_case(str(model_dir), texts, str(tmp_path))
    assert case.texts == ["Anna sleeps.", "The dog sees the cat."]
    assert case.inp.shape[0] == 2
    with pytest.raises(UserError, match="no text"):
        invariants.make_case(str(model_dir), [" "], str(tmp_path))
    with pytest.raises(UserError, match="more than 95 sub-words"):
        invariants.make_case(str(model_dir), ["x " * 200], str(tmp_path))


# File -> code, and the code with a bug. Together they break all nine.
BUGS = {
    "model/masks.py": {
        "tf.cast(tf.math.equal(seq, PAD), tf.float32)": "tf.zeros_like(seq, tf.float32)",
        "1 - tf.linalg.band_part(tf.ones((size, size)), -1, 0)": "tf.zeros((size, size))",
    },
    "decoding/beam_search.py": {"=beam_indices,": "=0 * beam_indices,"},
    "training/update.py": {  # gradients grow with the number of replicas
        "gradients = self.loss_scale.unscale(gradients)": (
            "gradients = [g * tf.cast(tf.size(replica_tokens), g.dtype) for g in gradients]"
        ),
    },
    "checkpoints/checkpoint.py": {"{name: variable.numpy()": "{name: 2 * variable.numpy()"},
    "export/signatures.py": {"_translate(text, 1)": "_translate(text + 'x', 1)"},
}


@pytest.mark.slow
def test_bugs_break_all_nine(model_dir, tmp_path):
    """In a copy of the package. An error counts as broken too, so there must be none."""
    shutil.copytree(pathlib.Path(tf_transformer.__file__).parent, tmp_path / "tf_transformer")
    for name, changes in BUGS.items():
        path = tmp_path / "tf_transformer" / name
        code = path.read_text("utf-8")
        for correct, wrong in changes.items():
            assert code.count(correct) == 1, correct
            code = code.replace(correct, wrong)
        path.write_text(code, "utf-8")
    command = [sys.executable, invariants.__file__, str(model_dir)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    out = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True).stdout
    assert out.count("  BROKEN  ") == out.count("\n") == 9 and "Error" not in out, out
