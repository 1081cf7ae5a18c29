"""What is told of a run afterwards: a table and a picture."""

import json

import pytest

from tf_transformer.errors import UserError
from tf_transformer.visualization import history


def write(folder, lines):
    text = "".join(
        json.dumps({"time": 1e9 + 60 * i, **line}) + "\n" for i, line in enumerate(lines)
    )
    (folder / "metrics.jsonl").write_text(text)


def train(step):
    return {"step": step, "kind": "train", "loss": 9 - step / 100, "learning_rate": 1e-3, "target_tokens_per_second": 1234.5,
            "skipped_updates": 2}  # fmt: skip


def validation(step, kind="validation", **more):
    return {
        "step": step,
        "kind": kind,
        "loss": 8 - step / 100,
        "perplexity": 100.0,
        "accuracy": 0.5,
        **more,
    }


def test_the_table_tells_a_run_at_a_glance(tmp_path):
    lines = [
        line
        for step in range(10, 401, 10)
        for line in (train(step), validation(step, BLEU=step / 20))
    ]
    write(tmp_path, [*lines, validation(400, "average", BLEU=21.5)])
    rows = history.describe_history(str(tmp_path)).splitlines()
    assert "400 updates, 2001-09-" in rows[0] and rows[0].endswith(
        "2 skipped for gradients that are not finite"
    )
    table = [row.split() for row in rows[2:]]
    assert len(table) == history.ROWS + 1 and table[0][0] == "10" and table[-2][0] == "400"
    assert table[-2] == ["400", "5.000", "1.00e-03", "1,234", "4.000", "100.00", "20.00"]
    assert table[-1] == ["average", "4.000", "100.00", "21.50"]


def test_a_run_without_validations_has_a_table_too(tmp_path):
    write(tmp_path, [train(10), train(20)])
    assert [row.split()[0] for row in history.describe_history(str(tmp_path)).splitlines()[2:]] == [
        "10",
        "20",
    ]


def test_the_picture(tmp_path, model_dir):
    import matplotlib.image

    path = tmp_path / "deep" / "run.png"
    path.parent.mkdir()
    history.plot_history(str(model_dir), str(path))
    picture = matplotlib.image.imread(path)
    assert picture.shape[0] > 500 and len(set(map(tuple, picture.reshape(-1, 4)[:, :3]))) > 10
    write(tmp_path, [train(10)])  # without validations
    history.plot_history(str(tmp_path), str(path))


def test_no_history(tmp_path):
    with pytest.raises(UserError, match="has no history"):
        history.plot_history(str(tmp_path), str(tmp_path / "x.png"))
