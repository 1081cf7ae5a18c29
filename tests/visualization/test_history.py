"""The history of a run as a table and as a plot."""

import json

import matplotlib.image
import pytest

from tf_transformer.config import Config
from tf_transformer.errors import UserError
from tf_transformer.visualization import history


def write_metrics(folder, lines):
    lines = [{"time": 1e9 + 60 * i, **line} for i, line in enumerate(lines)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)


def train_line(step):
    return {
        "step": step, "kind": "train", "loss": 9 - step / 100, "learning_rate": 1e-3,
        "skipped_steps": 2, "target_tokens_per_second": 1234.5, "non_padding_fraction": 0.9,
        "tokens_per_replica": [410.0, 390.0],
    }  # fmt: skip


def validation_line(step, kind, bleu):
    line = {"step": step, "kind": kind, "loss": 8 - step / 100, "BLEU": bleu}
    return line | {"perplexity": 100.0, "accuracy": 0.5}


def test_the_table_has_evenly_spaced_rows(tmp_path):
    lines = []
    for step in range(10, 401, 10):
        lines += [train_line(step), validation_line(step, "validation", step / 20)]
    lines.append(validation_line(400, "average", 21.5))
    write_metrics(tmp_path, lines)
    rows = history.describe_history(str(tmp_path)).splitlines()
    assert "400 updates, 2001-09-" in rows[0]
    assert rows[0].endswith("2 skipped because gradients were not finite")
    table = [row.split() for row in rows[2:]]
    assert len(table) == history.ROWS + 1
    assert table[0][0] == "10"
    assert table[-2] == ["400", "5.000", "1.00e-03", "1,234", "4.000", "100.00", "20.00"]
    assert table[-1] == ["average", "4.000", "100.00", "21.50"]
    write_metrics(tmp_path, [{**line, "news/loss": 3.0, "news/BLEU": 9.5} for line in lines])
    last = history.describe_history(str(tmp_path)).splitlines()[-1]
    assert last.split() == ["news", "3.000", "nan", "9.50"]


def test_a_run_without_validations(tmp_path):
    path = tmp_path / "run.png"
    with pytest.raises(UserError, match="has no history"):
        history.plot_history(str(tmp_path), str(path))
    write_metrics(tmp_path, [train_line(10), train_line(20)])
    rows = history.describe_history(str(tmp_path)).splitlines()
    assert [row.split()[0] for row in rows[2:]] == ["10", "20"]
    Config().save(str(tmp_path / "config.json"))
    history.plot_history(str(tmp_path), str(path))
    assert matplotlib.image.imread(path).shape[0] > 500
